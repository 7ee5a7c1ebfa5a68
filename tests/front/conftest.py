"""What the tests of the front doors share: a database without Tidemill's help, and a server."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.front.servers import Server, started

ROOT = Path(__file__).parents[2]


@pytest.fixture
def schema(spark: SparkSession) -> Iterator[str]:
    """A database of its own, current while the test runs; dropped without asking Tidemill what is in it."""
    spark.sql("CREATE DATABASE front")
    spark.sql("USE front")
    yield "front"
    spark.catalog.clearCache()
    spark.sql("USE default")
    spark.sql("DROP DATABASE front CASCADE")


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for all tests that need one: it takes half a minute to start."""
    dependencies = runpy.run_path(str(ROOT / "jvm-bridge" / "dependencies.py"))
    with started(tmp_path_factory.mktemp("server"), sys.executable, dependencies["delta_classpath"]()) as running:
        yield running
