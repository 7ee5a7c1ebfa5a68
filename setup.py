"""Lists the packages of three folders, and makes the jar before anything is built; the rest is in pyproject.toml."""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from setuptools import find_namespace_packages, setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

FOLDERS = {"tidemill": "python/tidemill", "tidemill.rules": "rules", "tidemill.cost_model": "cost_model"}


def make_jar() -> None:
    """Compiles the jar unless it is up to date. A build without it would make a package that does not work."""
    made = subprocess.run([sys.executable, str(Path("jvm-bridge", "build.py"))], check=False)
    if made.returncode:
        raise SystemExit(
            "tidemill: the jar could not be made, so nothing is built; the lines above say what is missing. It needs"
            " Java 17, and Maven Central in reach."
        )


class BuildWithJar(build_py):
    """Copies the packages with their jar."""

    def run(self) -> None:
        make_jar()
        self.data_files = self._get_data_files()  # listed before the jar was there
        super().run()


class SourcesWithJar(sdist):
    """Packs the sources with their jar, so that Java is not needed where they are installed."""

    def run(self) -> None:
        make_jar()
        super().run()


# Not in build/: modules that an earlier build left there would become part of this one.
with TemporaryDirectory(prefix="tidemill-build-") as base:
    setup(
        cmdclass={"build_py": BuildWithJar, "sdist": SourcesWithJar},
        options={"build": {"build_base": base}},
        packages=[
            name
            for package, folder in FOLDERS.items()
            for name in [
                package,
                *(f"{package}.{sub}" for sub in find_namespace_packages(folder, exclude=["*__pycache__*", "jars"])),
            ]
        ],
    )
