"""Finds the jar that belongs to this package."""

from __future__ import annotations

from pathlib import Path

SCALA = "2.13"


def jar_path() -> Path:
    """Returns the path of the jar for the installed PySpark. Raises FileNotFoundError if this package has none."""
    import pyspark

    minor = ".".join(pyspark.__version__.split(".")[:2])
    path = Path(__file__).parents[1] / "jars" / f"tidemill-spark_{minor}_{SCALA}.jar"
    if not path.exists():
        raise FileNotFoundError(f"Tidemill has no jar for PySpark {pyspark.__version__}: {path} does not exist")
    return path
