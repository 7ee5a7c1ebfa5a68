"""The table and the view that the statements are about whose points fail."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.faults.points import BY_KEY


@pytest.fixture
def events(spark: SparkSession, db: str) -> str:
    spark.sql("CREATE TABLE events (k INT, v BIGINT) USING parquet")
    spark.sql("INSERT INTO events VALUES (1, 10), (1, 10), (2, 20), (NULL, 5)")
    return db


@pytest.fixture
def view(spark: SparkSession, events: str) -> str:
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) REFRESH POLICY INCREMENTAL AS {BY_KEY}")
    return "v"
