"""Where the jar is that belongs to this package."""

from __future__ import annotations

from pathlib import Path

SCALA = "2.13"


def jar_path() -> Path:
    """The jar for the installed PySpark; FileNotFoundError if this package brings none for it."""
    import pyspark

    minor = ".".join(pyspark.__version__.split(".")[:2])
    path = Path(__file__).parents[1] / "jars" / f"tidemill-spark_{minor}_{SCALA}.jar"
    if not path.exists():
        raise FileNotFoundError(f"Tidemill has no jar for PySpark {pyspark.__version__}: {path} does not exist")
    return path
