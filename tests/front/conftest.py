"""What the tests of the front doors share: a database without Tidemill's help, and a server."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.conftest import delta_jars
from tests.front.servers import Server, started


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
    with started(tmp_path_factory.mktemp("server"), sys.executable, delta_jars()) as running:
        yield running
