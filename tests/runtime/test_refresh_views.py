"""REFRESH INCREMENTAL VIEWS: all views of a database at one pin, side by side; a failure stops only who reads it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

import tidemill
from tests.conftest import Oracle, confs
from tidemill.runtime.run import perform

Refresh = Callable[..., Row]
Fails = Callable[[str, str], PySparkException]
Jobs = Callable[[Callable[[], Any]], int]

BY_K = "SELECT k, sum(x) AS s FROM t GROUP BY k"
BIG = "SELECT k, x FROM t WHERE x > 10"
BOTH = "SELECT by_k.k, by_k.s, big.x FROM by_k JOIN big ON by_k.k = big.k"
EXPANDED = f"SELECT a.k, a.s, b.x FROM ({BY_K}) a JOIN ({BIG}) b ON a.k = b.k"


def create(spark: SparkSession, name: str, query: str, policy: str = "INCREMENTAL") -> None:
    spark.sql(f"CREATE INCREMENTAL VIEW {name} REFRESH POLICY {policy} AS {query}")


def refreshed(spark: SparkSession, which: str = "") -> dict[str, Row]:
    """The row of each view, by its name without database, in the order of the rows."""
    rows = spark.sql(f"REFRESH INCREMENTAL VIEWS {which}").collect()
    return {row.view.rsplit(".", 1)[1]: row for row in rows}


@pytest.fixture
def diamond(spark: SparkSession, db: str) -> str:
    """`both` reads `by_k` and `big`, which both read the Delta table `t(k, x)`."""
    spark.sql("CREATE TABLE t (k INT, x BIGINT) USING delta")
    spark.sql("INSERT INTO t VALUES (1, 5), (1, 50), (2, 20), (3, 1)")
    create(spark, "by_k", BY_K)
    create(spark, "big", BIG)
    create(spark, "both", BOTH)
    return db


def test_a_diamond_at_one_pin(
    spark: SparkSession, diamond: str, oracle: Oracle, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two views run at the same time, `t` changes meanwhile, and each job is counted for one view."""
    both_run, changed, original = threading.Barrier(2, timeout=60), threading.Lock(), perform.perform

    def together(*args: Any) -> perform.RunOutcome:
        if args[2].definition.name[-1] != "both" and not both_run.broken:
            if both_run.wait() == 0:
                spark.sql("UPDATE t SET x = x + 100")
                changed.release()
            with changed:
                pass
        return original(*args)

    spark.sql("INSERT INTO t VALUES (1, 7), (2, 70)")
    spark.sql("CREATE TABLE pinned AS SELECT * FROM t")
    changed.acquire()
    with monkeypatch.context() as patched:
        patched.setattr(perform, "perform", together)
        rows = refreshed(spark)
    assert list(rows) == ["big", "by_k", "both"], "upstream first"
    assert {(row.kind, row.run, row.trigger) for row in rows.values()} == {("INCREMENTAL", 1, "MANUAL")}
    oracle("both", EXPANDED.replace("FROM t", "FROM pinned"))

    counted: list[int] = []
    spark.sparkContext.addJobTag("ours")
    try:
        all_jobs = jobs(lambda: counted.extend(row.jobs for row in refreshed(spark).values()))
    finally:
        spark.sparkContext.removeJobTag("ours")
    oracle("both", EXPANDED)
    assert sum(counted) == all_jobs
    assert min(counted[:2]) > 0
    assert counted[2] == 0, "what the view above reads is in memory"
    tracker = spark.sparkContext._jsc.sc().statusTracker()
    assert len(tracker.getJobIdsForTag("ours")) == all_jobs, "who cancels the caller's jobs cancels all of them"
    again = refreshed(spark, f"IN {diamond}")
    assert {(row.kind, row.run, row.jobs) for row in again.values()} == {("NO_DATA", 2, 0)}


def test_which_views(spark: SparkSession, diamond: str, oracle: Oracle, fails: Fails) -> None:
    spark.sql("INSERT INTO t VALUES (1, 7), (2, 70)")
    rows = tidemill.refresh_incremental_views(spark, diamond, "bo*|nothing")
    assert [(row.view, row.kind) for row in rows] == [(f"spark_catalog.{diamond}.both", "NO_DATA")]
    assert list(refreshed(spark, "'b*g'")) == ["big"]
    spark.sql("USE default")
    with confs(spark, {"spark.tidemill.refresh.sideBySide": "1"}):
        rows_by_name = refreshed(spark, f"FROM spark_catalog.{diamond} LIKE 'b*'")
    assert [row.kind for row in rows_by_name.values()] == ["NO_DATA", "INCREMENTAL", "INCREMENTAL"]
    spark.sql(f"USE {diamond}")
    oracle("both", EXPANDED)
    assert refreshed(spark, "LIKE 'none'") == {}
    fails("REFRESH INCREMENTAL VIEWS IN nowhere", "SCHEMA_NOT_FOUND")
    fails("REFRESH INCREMENTAL VIEWS IN elsewhere.d", "TIDEMILL_CATALOG_UNSUPPORTED")


def test_a_view_that_fails_stops_those_that_read_it(
    spark: SparkSession, diamond: str, oracle: Oracle, fails: Fails
) -> None:
    """One fails in a job, one before it is analysed, one reads the first; the others are refreshed."""
    spark.sql("CREATE TABLE u (a INT) USING parquet")
    create(spark, "gone", "SELECT a FROM u")
    create(spark, "inverse", "SELECT k, 100 div (x - 77) AS q FROM big")
    create(spark, "top", "SELECT k, count(*) AS n FROM inverse GROUP BY k")
    spark.sql("DROP TABLE u")
    spark.sql("INSERT INTO t VALUES (1, 77)")
    error = fails("REFRESH INCREMENTAL VIEWS", "TIDEMILL_REFRESHES_FAILED")
    told = error.getMessageParameters() or {}
    failed = [f"spark_catalog.{diamond}.{view}" for view in ("gone", "inverse", "top")]
    assert (told["failed"], told["all"]) == ("3", "6")
    assert sorted(told["views"].split(", ")) == sorted(failed)
    lines = {line.split()[0].rsplit(".", 1)[1]: line.split()[1:] for line in told["rows"].splitlines()[1:7]}
    assert lines["big"][:3] == lines["by_k"][:3] == lines["both"][:3] == ["1", "INCREMENTAL", "-"]
    assert lines["inverse"][:3] == ["-", "FAILED", "DIVIDE_BY_ZERO"]
    assert lines["gone"][:3] == ["-", "FAILED", "TABLE_OR_VIEW_NOT_FOUND"]
    assert lines["top"][:4] == ["-", "FAILED", "TIDEMILL_UPSTREAM_FAILED:", failed[1]]
    oracle("both", EXPANDED)
    spark.sql("DELETE FROM t WHERE x = 77")
    rows = refreshed(spark, "'big|inverse|top'")
    assert [rows[view].kind for view in ("big", "inverse")] == ["INCREMENTAL", "INCREMENTAL"]
    oracle("top", "SELECT k, count(*) AS n FROM t WHERE x > 10 GROUP BY k")
