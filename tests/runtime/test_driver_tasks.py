"""Few rows are worked on in the driver, by one task and without a Spark job."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import Row, SparkSession

from tests.conftest import Oracle
from tidemill.runtime.before import sessions

FED = "USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)"
SMALL = 256 << 10
"""Bytes of files that the driver reads."""


@pytest.fixture(autouse=True)
def in_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Off by default."""
    monkeypatch.setattr(sessions, "DRIVER_BYTES", SMALL)


@pytest.fixture
def sales(spark: SparkSession, db: str) -> None:
    """A table of facts that no driver reads whole, and two small ones that they refer to."""
    spark.sql(f"CREATE TABLE sales (k INT, g INT, x DOUBLE) {FED}")
    spark.sql("INSERT INTO sales SELECT id, id % 100, id * 0.5 FROM range(300000)")
    for table in ("kinds", "places"):
        spark.sql(f"CREATE TABLE {table} (g INT, name STRING) {FED}")
        spark.sql(f"INSERT INTO {table} SELECT id, concat('{table}', id) FROM range(100)")


@pytest.mark.parametrize(
    ("query", "most"),
    [
        ("SELECT k, 2 * x AS y FROM sales WHERE g < 90", 0),
        ("SELECT g, count(*) AS n, sum(x) AS s FROM sales GROUP BY g", 1),
        ("SELECT k, kinds.name AS kind, places.name AS place FROM sales JOIN kinds USING (g) JOIN places USING (g)", 1),
    ],
    ids=["projection", "aggregate", "join of three"],
)
@pytest.mark.parametrize("using", ["parquet", "delta"])
def test_a_row_that_comes_takes_hardly_a_job(
    spark: SparkSession, sales: None, oracle: Oracle, refresh: Callable[..., Row], query: str, most: int, using: str
) -> None:
    """What the driver does counts all the same: its rows are rows that were read."""
    spark.sql(f"CREATE INCREMENTAL VIEW v USING {using} SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {query}")
    for key in (-1, -2):
        spark.sql(f"INSERT INTO sales VALUES ({key}, 7, 1.5)")
        row = refresh("v")
        assert row.kind == "INCREMENTAL"
        assert row.rows_read >= 1
        oracle("v", query)
    assert row.jobs <= most


def test_larger_files_are_read_by_jobs(
    spark: SparkSession, sales: None, oracle: Oracle, refresh: Callable[..., Row]
) -> None:
    query = "SELECT k, 2 * x AS y FROM sales"
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {query}")
    spark.sql("INSERT INTO sales SELECT id, 7, rand() FROM range(1000000, 1100000)")
    assert spark.sql("DESCRIBE DETAIL sales").collect()[0].sizeInBytes > 2 * SMALL
    assert refresh("v").jobs > 0
    oracle("v", query)


def test_marked_rows_of_a_small_table_are_left_out(
    spark: SparkSession, db: str, oracle: Oracle, refresh: Callable[..., Row]
) -> None:
    """Delta plans reads of files with deletion vectors in a way of its own."""
    spark.sql("CREATE TABLE small (k INT, x INT) USING delta TBLPROPERTIES (delta.enableDeletionVectors = true)")
    spark.sql("INSERT INTO small SELECT id, id FROM range(1000)")
    spark.sql(f"CREATE TABLE keys (k INT) {FED}")
    spark.sql("INSERT INTO keys SELECT id FROM range(10)")
    spark.sql("DELETE FROM small WHERE k % 3 = 0")
    query = "SELECT k, sum(x) AS s FROM keys JOIN small USING (k) GROUP BY k"
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {query}")
    spark.sql("INSERT INTO keys VALUES (999), (998), (5)")
    assert refresh("v").jobs == 0
    oracle("v", query)
    spark.sql("DELETE FROM small WHERE k = 998")
    spark.sql("UPDATE small SET x = -1 WHERE k = 5")
    refresh("v")
    oracle("v", query)


@pytest.mark.parametrize("source", ["delta", "parquet"])
def test_sums_over_no_file_are_a_row(
    spark: SparkSession, db: str, oracle: Oracle, refresh: Callable[..., Row], source: str
) -> None:
    """All files of a small table are pruned."""
    spark.sql(f"CREATE TABLE t (x INT, p INT) USING {source} PARTITIONED BY (p)")
    spark.sql("INSERT INTO t SELECT id, id % 3 FROM range(30)")
    query = "SELECT count(*) AS n, sum(x) AS s, max(x) AS m FROM t WHERE p = 7"
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {query}")
    oracle("v", query)
    for value in (1, 7, 7):
        spark.sql(f"INSERT INTO t VALUES (5, {value})")
        refresh("v")
        oracle("v", query)
    refresh("v", "FULL")
    oracle("v", query)


def test_a_failure_is_the_one_of_spark_and_leaves_nothing(
    spark: SparkSession, db: str, oracle: Oracle, refresh: Callable[..., Row]
) -> None:
    spark.sql(f"CREATE TABLE t (k INT, d INT) {FED}")
    spark.sql("INSERT INTO t VALUES (1, 1)")
    query = "SELECT k, count(*) AS n, sum(10 / d) AS s FROM t GROUP BY k"
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {query}")
    spark.sql("INSERT INTO t VALUES (1, 0)")
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        refresh("v")
    spark.sql("DELETE FROM t WHERE d = 0")
    spark.sql("INSERT INTO t VALUES (1, 2)")
    refresh("v")
    oracle("v", query)
    memory = spark._jvm.org.apache.spark.SparkEnv.get().memoryManager()  # type: ignore[union-attr]
    assert memory.executionMemoryUsed() == 0
