"""What a run hands to views above while it is in memory: they read no file for it."""

from __future__ import annotations

import pytest
from pyspark.sql import Row, SparkSession


@pytest.fixture
def chain(spark: SparkSession, db: str) -> str:
    """A view over a table with equal rows, and a view over that view."""
    spark.sql("CREATE TABLE t (k BIGINT, x STRING, d STRUCT<a: INT, b: ARRAY<STRING>>) USING delta")
    spark.sql("INSERT INTO t SELECT id % 10, concat('v', id % 3), named_struct('a', 1, 'b', array('q')) FROM range(90)")
    spark.sql("CREATE INCREMENTAL VIEW lower REFRESH POLICY INCREMENTAL AS SELECT k, x, d FROM t WHERE k < 9")
    spark.sql(
        "CREATE INCREMENTAL VIEW upper REFRESH POLICY INCREMENTAL AS SELECT k + 1 AS l, upper(x) AS y, d FROM lower"
    )
    return db


def refreshed(spark: SparkSession, view: str) -> Row:
    (row,) = spark.sql(f"REFRESH INCREMENTAL VIEW {view}").collect()
    assert row.kind == "INCREMENTAL"
    return row


CHANGES = {
    "equal rows come": "INSERT INTO t SELECT 3, 'new', NULL FROM range(4)",
    "some of them leave, with others": "DELETE FROM t WHERE x = 'new' OR k = 5",
    "rows change": "UPDATE t SET x = concat(x, '!') WHERE k = 2",
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_view_above_reads_no_file_of_a_small_change(spark: SparkSession, chain: str, name: str) -> None:
    if name.startswith("some"):
        spark.sql(CHANGES["equal rows come"])
    spark.sql(CHANGES[name])
    refreshed(spark, "lower")
    before = spark.sql("SELECT count(*) AS n FROM upper").collect()[0].n
    row = refreshed(spark, "upper")
    if name == "equal rows come":
        assert row.rows_read == 0
    assert spark.sql("VERIFY INCREMENTAL VIEW upper").collect()[0].matches
    assert (spark.sql("SELECT count(*) AS n FROM upper").collect()[0].n != before) == (name != "rows change")


def test_very_many_equal_rows_are_not_made_in_the_driver(spark: SparkSession, chain: str) -> None:
    spark.sql("INSERT INTO t SELECT 3, 'new', NULL FROM range(30000)")
    refreshed(spark, "lower")
    assert refreshed(spark, "upper").rows_read == 0
    assert spark.sql("SELECT count(*) AS n FROM upper WHERE y = 'NEW'").collect()[0].n == 30_000
    assert spark.sql("VERIFY INCREMENTAL VIEW upper").collect()[0].matches


def test_changes_of_several_runs_are_read_together(spark: SparkSession, chain: str) -> None:
    for statement in CHANGES.values():
        spark.sql(statement)
        refreshed(spark, "lower")
    refreshed(spark, "upper")
    assert spark.sql("VERIFY INCREMENTAL VIEW upper").collect()[0].matches
