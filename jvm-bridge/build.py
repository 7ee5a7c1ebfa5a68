"""Compiles the bridge into python/tidemill/jars with the Scala compiler that PySpark ships.

Nothing is done if the jar was made from the same sources. The jar is reproducible (sorted entries, one fixed date)
and replaced in one step, so that a build beside a running session cannot show half a jar.

Usage: python jvm-bridge/build.py [--force] [--jar FILE]
"""

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from dependencies import DELTA, PYSPARK, SPARK_MINOR, delta_classpath, java_program, spark_jars

HERE = Path(__file__).resolve().parent
JAR = HERE.parent / "python" / "tidemill" / "jars" / f"tidemill-spark_{SPARK_MINOR}_2.13.jar"
STAMP = "META-INF/tidemill-sources"  # inside the jar: hash of what it was made from
OPTIONS = ["-nobootcp", "-deprecation", "-feature", "-unchecked", "-Werror", "-encoding", "utf8"]
PACKAGE = HERE.parent / "python" / "tidemill"
SHARED = ("errors.json", "isolated.py")  # files of the package that both sides read: conditions, the start of a process


def version() -> str:
    """The distribution's version, read from its text: the package need not be importable yet."""
    text = (HERE.parent / "python" / "tidemill" / "version.py").read_text()
    return next(line.split('"')[1] for line in text.splitlines() if line.startswith("__version__"))


def entries(root: Path) -> list[tuple[str, bytes]]:
    """Relative name and content of every file under `root`, sorted."""
    return [(p.relative_to(root).as_posix(), p.read_bytes()) for p in sorted(root.rglob("*")) if p.is_file()]


def fingerprint() -> str:
    """Hash of all that goes into the jar: sources, resources, compiler, options, version."""
    digest = hashlib.sha256(repr((PYSPARK, version(), OPTIONS, DELTA)).encode())
    for name in SHARED:
        digest.update((PACKAGE / name).read_bytes())
    for name, content in entries(HERE / "src" / "main"):
        digest.update(name.encode() + b"\0" + content + b"\0")
    return digest.hexdigest()


def current(jar_file: Path) -> bool:
    """Whether the jar that is there was made from these sources."""
    if not jar_file.exists():
        return False
    with zipfile.ZipFile(jar_file) as jar:
        return STAMP in jar.namelist() and jar.read(STAMP).decode() == fingerprint()


def java(*arguments: str) -> None:
    """Run a main class from PySpark's jars; its messages go to our stderr, its failure ends this program."""
    command = [java_program(), "-Xss8m", "-Xmx1g", "-cp", f"{spark_jars()}/*", *arguments]
    done = subprocess.run(command, check=False, stdout=sys.stderr)
    if done.returncode:
        sys.exit(done.returncode)


def compile_to(folder: Path) -> None:
    """Run scalac over all sources."""
    sources = sorted(str(p) for p in (HERE / "src" / "main" / "scala").rglob("*.scala"))
    if not sources:
        sys.exit("jvm-bridge: no Scala sources")
    classpath = os.pathsep.join(str(p) for p in [*sorted(spark_jars().glob("*.jar")), *delta_classpath()])
    java("scala.tools.nsc.Main", *OPTIONS, "-classpath", classpath, "-d", str(folder), *sources)


def pack(classes: Path, stamp: str, jar_file: Path) -> None:
    """Write classes, resources and manifest into the jar."""
    manifest = f"Manifest-Version: 1.0\r\nImplementation-Title: tidemill\r\nImplementation-Version: {version()}\r\n\r\n"
    content = [("META-INF/MANIFEST.MF", manifest.encode()), (STAMP, stamp.encode()), *entries(classes)]
    content += [("tidemill/version", version().encode())]
    content += [(f"tidemill/{name}", (PACKAGE / name).read_bytes()) for name in SHARED]
    resources = HERE / "src" / "main" / "resources"
    content += entries(resources) if resources.exists() else []
    jar_file.parent.mkdir(parents=True, exist_ok=True)
    temporary = jar_file.with_suffix(f".{os.getpid()}.tmp")
    with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as jar:
        for name, data in content:
            jar.writestr(zipfile.ZipInfo(name, (2000, 1, 1, 0, 0, 0)), data, zipfile.ZIP_DEFLATED)
    temporary.replace(jar_file)


def main() -> None:
    parser = argparse.ArgumentParser(description="Compile the bridge into its jar.")
    parser.add_argument("--force", action="store_true", help="even if nothing has changed")
    parser.add_argument("--jar", type=Path, default=JAR, help="the jar to make")
    arguments = parser.parse_args()
    if current(arguments.jar) and not arguments.force:
        return
    stamp = fingerprint()
    with tempfile.TemporaryDirectory() as classes:
        compile_to(Path(classes))
        pack(Path(classes), stamp, arguments.jar)
    print(f"jvm-bridge: {arguments.jar}", file=sys.stderr)


if __name__ == "__main__":
    main()
