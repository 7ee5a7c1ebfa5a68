"""Finds the jar that belongs to this package."""

from __future__ import annotations

from pathlib import Path

SCALA = "2.13"


def jar_path() -> Path:
    """Returns the path of the jar for the installed PySpark.

    Raises FileNotFoundError, which says what to do, if this package has none.
    """
    import pyspark

    minor = ".".join(pyspark.__version__.split(".")[:2])
    folder = Path(__file__).parents[1] / "jars"
    path = folder / f"tidemill-spark_{minor}_{SCALA}.jar"
    if path.exists():
        return path
    if others := sorted(folder.glob("tidemill-spark_*.jar")):
        versions = ", ".join(jar.name.split("_")[1] for jar in others)
        raise FileNotFoundError(
            f"this Tidemill is for PySpark {versions}, but PySpark {pyspark.__version__} is installed:"
            " install the other one, or a Tidemill for it"
        )
    raise FileNotFoundError(
        f"this installation of Tidemill is not complete: {path} is missing. In a checkout, run `./build.sh jar`;"
        " elsewhere, install Tidemill again"
    )
