"""Jars from Maven Central, fetched by the Ivy that PySpark ships into folders of Ivy's cache.

Delta's are what the bridge is compiled against besides PySpark's own. They are not part of our jar: the files
`Delta*.scala` are loaded only where a session has Delta.

Usage: python jvm-bridge/dependencies.py      prints Delta's jars, one per line
"""

import os
import re
import shutil
import subprocess
import tempfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ATTACH = ROOT / "python" / "tidemill" / "driver" / "attach.py"
NEEDED = ("delta-", "unitycatalog-")  # what PySpark does not bring itself


def pyspark_version() -> str:
    """The PySpark that the jar is for, read from pyproject.toml: it need not be installed yet."""
    found = re.search(r'^ *"pyspark==([0-9.]+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    if found is None:
        raise SystemExit("jvm-bridge: pyproject.toml pins no PySpark")
    return found[1]


PYSPARK = pyspark_version()
SPARK_MINOR = ".".join(PYSPARK.split(".")[:2])


def spark_jars() -> Path:
    """The folder of the jars of the installed PySpark: Spark, the Scala compiler, Ivy."""
    try:
        installed = distribution("pyspark")
    except PackageNotFoundError:
        raise SystemExit(f"jvm-bridge: PySpark {PYSPARK} is needed to make the jar, and is not installed") from None
    if installed.version != PYSPARK:
        raise SystemExit(f"jvm-bridge: PySpark {PYSPARK} is needed to make the jar; {installed.version} is installed")
    return Path(str(installed.locate_file("pyspark/jars")))


def delta_version() -> str:
    """Delta's version as sessions get it, read from the Python text: the package need not be importable yet.

    PyPI's delta-spark 4.4.1 names a jar that Maven Central does not have (404, seen in November 2026): the newest there
    is 4.4.0.
    """
    found = re.search(r'^DELTA_VERSION = "(.+)"$', ATTACH.read_text(), re.MULTILINE)
    if found is None:
        raise SystemExit(f"jvm-bridge: no DELTA_VERSION in {ATTACH}")
    return found[1]


DELTA = ("io.delta", f"delta-spark_{SPARK_MINOR}_2.13", delta_version())


def java_program() -> str:
    """The `java` of JAVA_HOME where that is set, else the one on the path. Ends the program if there is none."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(str(Path(home) / "bin" / "java") if home else "java")
    if found is None:
        where = f"{home}/bin/java (JAVA_HOME) does not exist" if home else "there is no java on the path"
        raise SystemExit(f"jvm-bridge: Java 17 is needed to make the jar: {where}")
    return found


def delta_classpath() -> list[Path]:
    """Delta's jars; also what `spark.jars` needs to run Delta."""
    return [p for p in jars_of(DELTA) if p.name.startswith(NEEDED)]


def jars_of(module: tuple[str, str, str]) -> list[Path]:
    """The jars of a module (organisation, name, version) and of all that it needs; fetched when they are not there."""
    _, name, version = module
    cache = Path.home() / ".ivy2" / "tidemill" / f"{name}-{version}"
    if not (cache / "complete").exists():
        _retrieve(module, cache)
        (cache / "complete").touch()
    return sorted(cache.glob("*.jar"))


def _retrieve(module: tuple[str, str, str], folder: Path) -> None:
    jars = spark_jars()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:  # Ivy leaves files in its working folder
        command = [java_program(), "-cp", f"{jars}/*", "org.apache.ivy.Main", "-confs", "default", "-mode", "dynamic"]
        command += ["-dependency", *module, "-retrieve", f"{folder}/[artifact]-[revision].[ext]"]
        done = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
    if done.returncode or not any(folder.glob(f"{module[1]}-*.jar")):
        raise SystemExit(f"jvm-bridge: could not fetch {':'.join(module)}\n{done.stdout[-3000:]}{done.stderr[-2000:]}")


if __name__ == "__main__":
    print(*delta_classpath(), sep="\n")
