"""Incremental views for Spark SQL.

    import tidemill
    spark = tidemill.configure(SparkSession.builder, formats=["delta"]).getOrCreate()

All names are loaded when first used, so that `import tidemill` costs nothing and the parts that need no Spark
(the planner, the settings, the command line) can be imported without it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from tidemill.version import __version__ as __version__

if TYPE_CHECKING:
    from tidemill.driver.attach import configure as configure
    from tidemill.monitor.server import Monitor as Monitor
    from tidemill.view import IncrementalView as IncrementalView
    from tidemill.view import at as at
    from tidemill.view import complete as complete
    from tidemill.view import create_incremental_view as create_incremental_view
    from tidemill.view import expected as expected
    from tidemill.view import on_demand as on_demand
    from tidemill.view import refresh_incremental_views as refresh_incremental_views

__all__ = [
    "IncrementalView",
    "Monitor",
    "__version__",
    "at",
    "complete",
    "configure",
    "create_incremental_view",
    "expected",
    "on_demand",
    "refresh_incremental_views",
]

_MODULES = {
    "configure": "tidemill.driver.attach",
    "IncrementalView": "tidemill.view",
    "Monitor": "tidemill.monitor.server",
    "at": "tidemill.view",
    "complete": "tidemill.view",
    "create_incremental_view": "tidemill.view",
    "expected": "tidemill.view",
    "on_demand": "tidemill.view",
    "refresh_incremental_views": "tidemill.view",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'tidemill' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
