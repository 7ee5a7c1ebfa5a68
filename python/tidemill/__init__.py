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
    from tidemill.points import at as at
    from tidemill.points import at_progress as at_progress
    from tidemill.points import complete as complete
    from tidemill.points import cron as cron
    from tidemill.points import every as every
    from tidemill.points import expected as expected
    from tidemill.points import on_change as on_change
    from tidemill.points import on_demand as on_demand
    from tidemill.view import IncrementalView as IncrementalView
    from tidemill.view import create_incremental_view as create_incremental_view
    from tidemill.view import refresh_incremental_views as refresh_incremental_views
    from tidemill.view import run_once as run_once

__all__ = [
    "IncrementalView",
    "Monitor",
    "__version__",
    "at",
    "at_progress",
    "complete",
    "configure",
    "create_incremental_view",
    "cron",
    "every",
    "expected",
    "on_change",
    "on_demand",
    "refresh_incremental_views",
    "run_once",
]

_MODULES = {
    "configure": "tidemill.driver.attach",
    "IncrementalView": "tidemill.view",
    "Monitor": "tidemill.monitor.server",
    "at": "tidemill.points",
    "at_progress": "tidemill.points",
    "complete": "tidemill.points",
    "create_incremental_view": "tidemill.view",
    "cron": "tidemill.points",
    "every": "tidemill.points",
    "expected": "tidemill.points",
    "on_change": "tidemill.points",
    "on_demand": "tidemill.points",
    "refresh_incremental_views": "tidemill.view",
    "run_once": "tidemill.view",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'tidemill' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
