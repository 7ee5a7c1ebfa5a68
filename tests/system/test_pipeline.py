"""The pipeline of the benchmark, small: fifty views in three layers follow two batches, and no run makes one anew."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from benchmarks.pipeline import Data, views
from tests.conftest import confs

SCALE = 0.01


def test_each_view_comes_after_those_that_it_reads() -> None:
    known: set[str] = set()
    names = {view.name for view in views()}
    layers = [view.layer for view in views()]
    assert layers == sorted(layers, key=["bronze", "silver", "gold"].index)
    assert len(names) == len(layers) >= 50
    for view in views():
        read = set(re.findall(r"\b(?:FROM|JOIN) (\w+)\b(?!\.)", view.query))
        assert read & names <= known, view.name
        assert bool(re.search(r"\braw\.", view.query)) == (view.layer == "bronze")
        known.add(view.name)


@pytest.fixture
def pipeline(spark: SparkSession) -> Iterator[Data]:
    """The first batch in a database `raw`, all views over it in `pipeline`, which is current."""
    databases = ("pipeline", "raw")
    for database in databases:
        spark.sql(f"CREATE DATABASE {database}")
    data = Data(SCALE)
    data.load(spark)
    spark.sql("USE pipeline")
    for view in views():
        spark.sql(f"CREATE INCREMENTAL VIEW {view.name} REFRESH POLICY INCREMENTAL AS {view.query}")
    yield data
    spark.sql("USE default")
    for view in reversed(views()):
        spark.sql(f"DROP INCREMENTAL VIEW pipeline.{view.name}")
    for database in databases:
        spark.sql(f"DROP DATABASE {database} CASCADE")


@pytest.mark.slow
def test_two_batches(spark: SparkSession, pipeline: Data) -> None:
    for batch, most in ((2, "1"), (3, "4")):
        pipeline.apply(spark, batch)
        with confs(spark, {"spark.tidemill.refresh.sideBySide": most}):
            rows = spark.sql("REFRESH INCREMENTAL VIEWS").collect()
        kinds = Counter(row.kind for row in rows)
        assert kinds["INCREMENTAL"] > 30, kinds
        assert kinds["NO_DATA"] > 5, kinds
        assert set(kinds) == {"INCREMENTAL", "NO_DATA"}, [row for row in rows if row.kind == "FULL"]
    for view in views():
        row = spark.sql(f"VERIFY INCREMENTAL VIEW {view.name}").collect()[0]
        assert row.matches, f"{view.name}: {row.missing} rows missing, {row.unexpected} unexpected"
