"""Jars that the bridge is compiled against besides PySpark's own: Delta's, fetched by the Ivy that PySpark ships.

They are not part of our jar: the files `Delta*.scala` are loaded only where a session has Delta.

Usage: python jvm-bridge/dependencies.py      prints the jars, one per line
"""

import os
import subprocess
import tempfile
from pathlib import Path

import pyspark

SPARK_MINOR = ".".join(pyspark.__version__.split(".")[:2])
# PyPI's delta-spark 4.4.1 names a jar that Maven Central does not have (404, seen in November 2026): the newest there
# is 4.4.0.
DELTA_VERSION = "4.4.0"
DELTA = ("io.delta", f"delta-spark_{SPARK_MINOR}_2.13", DELTA_VERSION)
NEEDED = ("delta-", "unitycatalog-")  # what PySpark does not bring itself


def java_program() -> str:
    """The `java` of JAVA_HOME where that is set, else the one on the path."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else "java"


def delta_classpath() -> list[Path]:
    """Delta's jars, in a folder of Ivy's cache; fetched when they are not there.

    Also what `spark.jars` needs to run Delta.
    """
    cache = Path.home() / ".ivy2" / "tidemill" / f"{DELTA[1]}-{DELTA_VERSION}"
    if not (cache / "complete").exists():
        _retrieve(cache)
        (cache / "complete").touch()
    return sorted(p for p in cache.glob("*.jar") if p.name.startswith(NEEDED))


def _retrieve(folder: Path) -> None:
    jars = Path(pyspark.__file__).parent / "jars"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:  # Ivy leaves files in its working folder
        command = [java_program(), "-cp", f"{jars}/*", "org.apache.ivy.Main", "-confs", "default", "-mode", "dynamic"]
        command += ["-dependency", *DELTA, "-retrieve", f"{folder}/[artifact]-[revision].[ext]"]
        done = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
    if done.returncode or not any(folder.glob("delta-spark_*.jar")):
        raise SystemExit(f"jvm-bridge: could not fetch {':'.join(DELTA)}\n{done.stdout[-3000:]}{done.stderr[-2000:]}")


if __name__ == "__main__":
    print(*delta_classpath(), sep="\n")
