"""A database for tests that run without the rest of Tidemill."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession


@pytest.fixture
def schema(spark: SparkSession) -> Iterator[str]:
    """A database of its own, current while the test runs; dropped without asking Tidemill what is in it."""
    spark.sql("CREATE DATABASE front")
    spark.sql("USE front")
    yield "front"
    spark.catalog.clearCache()
    spark.sql("USE default")
    spark.sql("DROP DATABASE front CASCADE")
