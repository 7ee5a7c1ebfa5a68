"""REFRESH POLICY: what each allows, and the reason that it records."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from pyspark.sql import Row, SparkSession

from tests.conftest import Oracle
from tidemill.runtime.before import planning
from tidemill.search.contract import past
from tidemill.search.contract.request import PlanRequest
from tidemill.search.contract.run_plan import RunPlan
from tidemill.search.runs.explanation import ExplainedPlan
from tidemill.search.service import pool
from tidemill.search.service.planner import plan_run

Refresh = Callable[..., Row]

RECURSIVE = "WITH RECURSIVE r (n) AS (SELECT k FROM events UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT n FROM r"


@pytest.fixture
def no_past(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is: what runs took does not change what is planned next."""
    monkeypatch.setattr(past, "LEAST", float("inf"))
    monkeypatch.setattr(past, "SURE", float("inf"))


def test_auto_goes_full_where_no_rule_is_and_says_so(
    spark: SparkSession, events: str, oracle: Oracle, refresh: Refresh
) -> None:
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS {RECURSIVE}")
    spark.sql("INSERT INTO events VALUES (1, 11, 'a'), (8, 2, 'b')")
    row = refresh("v")
    oracle("v", RECURSIVE)
    assert (row.kind, row.reason, row.methods) == (
        "FULL",
        "NOT_INCREMENTAL: WITH RECURSIVE: it has no incremental form",
        ["recompute"],
    )
    assert row.cpu_ms > 0


def test_auto_goes_full_where_that_is_cheaper_and_says_so(
    spark: SparkSession, db: str, oracle: Oracle, refresh: Refresh
) -> None:
    spark.sql("CREATE TABLE numbers (k BIGINT, v BIGINT) USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    spark.sql("INSERT INTO numbers SELECT id % 5000, id FROM range(300000)")
    query = "SELECT k, min(v) AS low, max(v) AS high FROM numbers GROUP BY k"
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS {query}")
    spark.sql("UPDATE numbers SET v = -v WHERE k = 1")
    small = refresh("v")
    assert (small.kind, small.reason) == ("INCREMENTAL", None)
    assert "recompute" not in small.methods
    spark.sql("UPDATE numbers SET v = v + 1")
    large = refresh("v")
    assert (large.kind, large.methods) == ("FULL", ["recompute"])
    assert re.fullmatch(r"COST: full \d+ ms, incremental \d+ ms", large.reason or "")
    oracle("v", query)


def test_full_is_never_incremental(spark: SparkSession, events: str, oracle: Oracle, refresh: Refresh) -> None:
    spark.sql("CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) REFRESH POLICY FULL AS SELECT k, v FROM events")
    spark.sql("INSERT INTO events VALUES (1, 11, 'a')")
    row = refresh("v")
    assert (row.kind, row.reason, row.rows_in, row.rows_out) == ("FULL", "POLICY", None, None)
    oracle("v", "SELECT k, v FROM events")
    assert refresh("v").kind == "NO_DATA"


@pytest.mark.parametrize("policy", ["AUTO", "INCREMENTAL", "STRICT", "FULL"])
def test_requested_is_allowed_under_every_policy(
    spark: SparkSession, events: str, oracle: Oracle, refresh: Refresh, policy: str
) -> None:
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) REFRESH POLICY {policy} AS SELECT k, v FROM events")
    row = refresh("v", "FULL")
    assert (row.run, row.kind, row.reason) == (1, "FULL", "REQUESTED")
    oracle("v", "SELECT k, v FROM events")


def test_a_plain_view_that_is_redefined(spark: SparkSession, events: str, oracle: Oracle, refresh: Refresh) -> None:
    spark.sql("CREATE VIEW big AS SELECT k, v FROM events WHERE v > 9")
    query = "SELECT k, sum(v) AS v FROM big GROUP BY k"
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) REFRESH POLICY INCREMENTAL AS {query}")
    spark.sql("CREATE OR REPLACE VIEW big AS SELECT k, v FROM events WHERE v > 4")
    row = refresh("v")
    assert row.kind == "FULL"
    assert row.reason.split(":")[0] == "SCHEMA_CHANGED"
    oracle("v", query)
    spark.sql("DROP INCREMENTAL VIEW v")
    spark.sql("DROP VIEW big")


@pytest.mark.usefixtures("no_past")
def test_a_run_like_the_last_one_is_not_planned_again(
    spark: SparkSession, events: str, oracle: Oracle, refresh: Refresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search is called for a new kind of change only, and by EXPLAIN."""
    searched: list[PlanRequest] = []

    def counted(request: PlanRequest) -> ExplainedPlan:
        searched.append(request)
        return plan_run(request)

    query = "SELECT a.k, nullif(a.v + b.v, 20) AS n FROM events a JOIN events b ON a.k = b.k"
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {query}")
    monkeypatch.setattr(planning, "plan_run", counted)
    monkeypatch.setattr(pool, "plan_run", counted)
    for n in range(3):
        spark.sql(f"INSERT INTO events VALUES (1, {n}, 'x'), (NULL, {n}, 'y')")
        assert refresh("v").kind == "INCREMENTAL"
        oracle("v", query)
        assert len(searched) == 1
    spark.sql("SET spark.tidemill.method.prefer=delta")
    spark.sql("INSERT INTO events VALUES (1, 7, 'x')")
    refresh("v")
    spark.sql("RESET spark.tidemill.method.prefer")
    assert len(searched) == 2
    spark.sql("EXPLAIN INCREMENTAL VIEW v")
    assert len(searched) == 3
    oracle("v", query)


@pytest.mark.usefixtures("no_past")
def test_a_long_search_runs_in_a_process_of_its_own(
    spark: SparkSession, events: str, oracle: Oracle, refresh: Refresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The initial load and runs of a new kind; what is remembered is not searched for."""
    own = pool.SearchPool()
    monkeypatch.setattr(planning, "SEARCH_POOL", own)
    asked: list[PlanRequest] = []

    def noted(worker: pool.SearchWorker, request: PlanRequest) -> RunPlan | str:
        asked.append(request)
        return search(worker, request)

    search = pool.SearchWorker.search
    monkeypatch.setattr(pool.SearchWorker, "search", noted)
    monkeypatch.setattr(pool, "plan_run", lambda request: pytest.fail(f"searched here: {request}"))
    spark.conf.set("spark.tidemill.search.processes", "1")
    try:
        query = "SELECT a.k, b.v, c.s FROM events a LEFT JOIN events b ON a.k = b.v LEFT JOIN events c ON a.v = c.v"
        spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {query}")
        assert asked
        for n in range(2):
            spark.sql(f"INSERT INTO events VALUES (10, {n}, 'x'), (NULL, {n}, 'y')")
            before = len(asked)
            assert refresh("v").kind == "INCREMENTAL"
            assert len(asked) - before == (n == 0)
            oracle("v", query)
    finally:
        spark.conf.set("spark.tidemill.search.processes", "0")
        assert (own.busy, len(own.idle)) == (0, 1)
        own.end()


def test_names_that_spark_makes_up_mean_nothing(
    spark: SparkSession, events: str, oracle: Oracle, refresh: Refresh
) -> None:
    """NULLIF computes its first argument once, under a name that Spark numbers anew at every analysis."""
    query = "SELECT a.k, nullif(a.v + b.v, 20) AS n FROM events a JOIN events b ON a.k = b.k"
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {query}")
    spark.sql("INSERT INTO events VALUES (1, 10, 'x')")
    row = refresh("v")
    assert (row.kind, row.reason) == ("INCREMENTAL", None)
    oracle("v", query)


def test_states_that_are_lost(spark: SparkSession, events: str, oracle: Oracle, refresh: Refresh) -> None:
    import shutil

    from tests.conftest import location_of

    query = "SELECT k, sum(v) AS v, min(s) AS s FROM events GROUP BY k"
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) REFRESH POLICY INCREMENTAL AS {query}")
    shutil.rmtree(location_of(spark, "v") / "_tidemill" / "state", ignore_errors=True)
    for file in location_of(spark, "v").glob("part-*"):
        file.unlink()
    spark.sql("INSERT INTO events VALUES (1, 11, 'a')")
    row = refresh("v")
    assert row.kind == "FULL"
    assert row.reason.split(":")[0] == "STATE_LOST"
    oracle("v", query)
