"""The build backend: setuptools, with PySpark beside it where the jar has to be compiled.

setup.py compiles the jar. A source distribution has a jar that is up to date, and needs neither PySpark nor Java.
"""

from collections.abc import Mapping
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import build_editable as build_editable
from setuptools.build_meta import build_sdist as build_sdist
from setuptools.build_meta import build_wheel as build_wheel
from setuptools.build_meta import prepare_metadata_for_build_editable as prepare_metadata_for_build_editable
from setuptools.build_meta import prepare_metadata_for_build_wheel as prepare_metadata_for_build_wheel

from build import JAR, current
from dependencies import PYSPARK

Settings = Mapping[str, Any] | None


def _compiler() -> list[str]:
    return [] if current(JAR) else [f"pyspark=={PYSPARK}"]


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    """What setuptools needs, and what the jar is compiled with."""
    return [*build_meta.get_requires_for_build_wheel(config_settings), *_compiler()]


def get_requires_for_build_sdist(config_settings: Settings = None) -> list[str]:
    """As for a wheel: the jar is part of a source distribution."""
    return [*build_meta.get_requires_for_build_sdist(config_settings), *_compiler()]


def get_requires_for_build_editable(config_settings: Settings = None) -> list[str]:
    """As for a wheel: the jar is made where it lies."""
    return [*build_meta.get_requires_for_build_editable(config_settings), *_compiler()]
