"""REFRESH ... CASCADE: upstream views first, at one pin of the base tables, each only if it has something to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from tests.conftest import Oracle, files_under, location_of
from tidemill import IncrementalView
from tidemill.runtime.run import perform, pins

Refresh = Callable[..., Row]
Fails = Callable[[str, str], PySparkException]

BY_K = "SELECT k, sum(x) AS s, count(*) AS n FROM t GROUP BY k"
BIG = "SELECT k, x FROM t WHERE x > 10"
BOTH = "SELECT by_k.k, by_k.s, big.x FROM by_k JOIN big ON by_k.k = big.k"
EXPANDED = f"SELECT a.k, a.s, b.x FROM ({BY_K}) a JOIN ({BIG}) b ON a.k = b.k"


def create(spark: SparkSession, name: str, query: str, clauses: str = "SCHEDULE (ON DEMAND)") -> None:
    spark.sql(f"CREATE INCREMENTAL VIEW {name} {clauses} AS {query}")


def runs_of(spark: SparkSession, view: str) -> list[tuple[int, str, str]]:
    """Number, trigger and kind of all runs but the filling, oldest first; without refreshes that failed."""
    rows = [r for r in spark.sql(f"SHOW REFRESHES IN {view}").collect()[::-1] if r.kind != "FAILED"][1:]
    return [(r.run, r.trigger, r.kind) for r in rows]


def verified(spark: SparkSession, *views: str) -> bool:
    return all(spark.sql(f"VERIFY INCREMENTAL VIEW {view}").collect()[0].matches for view in views)


@pytest.fixture
def table(spark: SparkSession, db: str) -> str:
    """A Delta table `t(k, x)`."""
    spark.sql("CREATE TABLE t (k INT, x BIGINT) USING delta")
    spark.sql("INSERT INTO t VALUES (1, 5), (1, 50), (2, 20), (3, 1)")
    return "t"


@pytest.fixture
def diamond(spark: SparkSession, table: str) -> str:
    """`both` reads `by_k` and `big`, which both read `t`."""
    create(spark, "by_k", BY_K)
    create(spark, "big", BIG)
    create(spark, "both", BOTH)
    return "both"


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int, Callable[[], Any]], None]]:
    """`between(n, action)`: does something once, right after the n-th run of the next CASCADE."""
    plans: dict[int, Callable[[], Any]] = {}
    count = 0
    original = perform.perform

    def patched(*args: Any) -> perform.RunOutcome:
        nonlocal count
        done = original(*args)
        count += 1
        plans.pop(count, lambda: None)()
        return done

    monkeypatch.setattr(perform, "perform", patched)

    def plan(after: int, action: Callable[[], Any]) -> None:
        plans[count + after] = action

    yield plan
    assert not plans, "a planned action was never reached"


def test_a_diamond_reads_one_position(
    spark: SparkSession, diamond: str, oracle: Oracle, refresh: Refresh, between: Callable[..., None]
) -> None:
    spark.sql("INSERT INTO t VALUES (1, 7), (2, 70)")
    spark.sql("CREATE TABLE pinned AS SELECT * FROM t")
    between(1, lambda: spark.sql("UPDATE t SET x = x + 100"))
    between(2, lambda: spark.sql("DELETE FROM t WHERE k = 2"))
    row = refresh("both", "CASCADE")
    assert (row.kind, row.trigger) == ("INCREMENTAL", "MANUAL")
    assert row.view.endswith(".both")
    oracle("both", EXPANDED.replace("FROM t", "FROM pinned"))
    assert verified(spark, "by_k", "big", "both")
    refresh("both", "CASCADE")
    oracle("both", EXPANDED)
    assert [r[0] for r in runs_of(spark, "by_k")] == [r[0] for r in runs_of(spark, "big")] == [1, 2]


@pytest.mark.slow
def test_without_cascade_each_upstream_is_read_as_it_is(
    spark: SparkSession, diamond: str, oracle: Oracle, refresh: Refresh
) -> None:
    spark.sql("CREATE TABLE before AS SELECT * FROM t")
    spark.sql("INSERT INTO t VALUES (1, 70)")
    refresh("big")
    refresh("both")
    assert verified(spark, "both")
    old = BY_K.replace("FROM t", "FROM before")
    oracle("both", f"SELECT a.k, a.s, b.x FROM ({old}) a JOIN ({BIG}) b ON a.k = b.k")
    refresh("both", "CASCADE")
    oracle("both", EXPANDED)


@pytest.mark.slow
def test_another_refresh_of_an_upstream_in_between_is_not_seen(
    spark: SparkSession, diamond: str, oracle: Oracle, refresh: Refresh, between: Callable[..., None]
) -> None:
    spark.sql("INSERT INTO t VALUES (1, 7), (2, 70)")
    spark.sql("CREATE TABLE pinned AS SELECT * FROM t")

    def other() -> None:
        spark.sql("INSERT INTO t VALUES (3, 300), (1, 100)")
        refresh("by_k")
        refresh("big")

    between(2, other)
    refresh("both", "CASCADE")
    oracle("both", EXPANDED.replace("FROM t", "FROM pinned"))
    assert verified(spark, "both")
    assert refresh("both").kind == "INCREMENTAL"
    oracle("both", EXPANDED)


ANOTHER = "SELECT k, x FROM t WHERE x > 60"


@pytest.mark.slow
def test_an_upstream_gets_another_query_in_between(
    spark: SparkSession, diamond: str, oracle: Oracle, refresh: Refresh, between: Callable[..., None]
) -> None:
    spark.sql("INSERT INTO t VALUES (1, 70), (2, 70)")
    between(2, lambda: spark.sql(f"ALTER INCREMENTAL VIEW big AS {ANOTHER}"))
    refresh("both", "CASCADE")
    oracle("both", EXPANDED)
    assert verified(spark, "both")
    refresh("both")
    oracle("both", EXPANDED.replace(BIG, ANOTHER))


@pytest.mark.slow
@pytest.mark.parametrize("later", [0, 1, 2])
def test_an_upstream_is_made_anew_in_between(
    spark: SparkSession,
    diamond: str,
    oracle: Oracle,
    refresh: Refresh,
    fails: Fails,
    between: Callable[..., None],
    later: int,
) -> None:
    """What was pinned is gone, whatever lies there now."""

    def anew() -> None:
        spark.sql("DROP INCREMENTAL VIEW big")
        create(spark, "big", ANOTHER)
        for _ in range(later):
            refresh("big", "FULL")

    spark.sql("INSERT INTO t VALUES (1, 70), (2, 70)")
    between(2, anew)
    fails("REFRESH INCREMENTAL VIEW both CASCADE", "TIDEMILL_SOURCE_DISTURBED")
    assert len(runs_of(spark, "by_k")) == 1
    assert runs_of(spark, "both") == []
    row = refresh("both", "CASCADE")
    assert (row.kind, row.reason.split(":")[0]) == ("FULL", "SOURCE_REPLACED")
    oracle("both", EXPANDED.replace(BIG, ANOTHER))


@pytest.mark.slow
def test_a_base_table_read_along_two_ways(
    spark: SparkSession, table: str, oracle: Oracle, refresh: Refresh, between: Callable[..., None]
) -> None:
    create(spark, "by_k", BY_K)
    query = "SELECT t.k, t.x, s FROM t JOIN by_k ON t.k = by_k.k"
    create(spark, "v", query)
    spark.sql("INSERT INTO t VALUES (1, 9)")
    spark.sql("CREATE TABLE pinned AS SELECT * FROM t")
    between(1, lambda: spark.sql("INSERT INTO t VALUES (1, 1000)"))
    refresh("v", "CASCADE")
    oracle("v", f"SELECT t.k, t.x, s FROM pinned t JOIN ({BY_K.replace('FROM t', 'FROM pinned')}) b ON t.k = b.k")
    assert verified(spark, "v")


@pytest.mark.slow
def test_a_parquet_table_is_pinned_too(
    spark: SparkSession, db: str, oracle: Oracle, refresh: Refresh, between: Callable[..., None]
) -> None:
    spark.sql("CREATE TABLE t (k INT, x BIGINT) USING parquet")
    spark.sql("INSERT INTO t VALUES (1, 5), (1, 50), (2, 20)")
    for name, query in (("by_k", BY_K), ("big", BIG), ("both", BOTH)):
        create(spark, name, query)
    spark.sql("INSERT INTO t VALUES (2, 30)")
    spark.sql("CREATE TABLE pinned AS SELECT * FROM t")
    between(1, lambda: spark.sql("INSERT INTO t VALUES (1, 77)"))
    refresh("both", "CASCADE")
    oracle("both", EXPANDED.replace("FROM t", "FROM pinned"))


@pytest.mark.slow
def test_only_what_has_something_to_do_runs(
    spark: SparkSession,
    diamond: str,
    oracle: Oracle,
    refresh: Refresh,
    jobs: Callable[[Callable[[], Any]], int],
) -> None:
    spark.sql("CREATE TABLE u (k INT) USING delta")
    spark.sql("INSERT INTO u VALUES (1)")
    create(spark, "ks", "SELECT DISTINCT u.k FROM u JOIN VALUES (1), (2), (3) AS c(k) ON u.k = c.k")
    top = "SELECT both.k, sum(x) AS x FROM both JOIN ks ON both.k = ks.k GROUP BY both.k"
    create(spark, "top", top)
    assert refresh("top", "CASCADE").kind == "NO_DATA"
    assert jobs(lambda: refresh("top", "CASCADE")) == 0
    spark.sql("INSERT INTO u VALUES (2)")
    assert refresh("top", "CASCADE").kind == "INCREMENTAL"
    oracle("top", top)
    assert runs_of(spark, "ks") == [(1, "MANUAL", "INCREMENTAL")]
    assert runs_of(spark, "both") == runs_of(spark, "by_k") == runs_of(spark, "big") == []
    # `big` changes no row, so `both` is not run for it; `by_k` and with it `both` are.
    spark.sql("INSERT INTO t VALUES (2, 1)")
    refresh("top", "CASCADE")
    assert [len(runs_of(spark, v)) for v in ("by_k", "big", "both", "top")] == [1, 1, 1, 2]
    oracle("top", top)


@pytest.mark.slow
def test_an_upstream_run_that_changed_nothing_is_no_news(spark: SparkSession, table: str, refresh: Refresh) -> None:
    create(spark, "big", BIG)
    create(spark, "above", "SELECT count(*) AS n FROM big")
    spark.sql("INSERT INTO t VALUES (9, 1)")
    assert refresh("above", "CASCADE").kind == "NO_DATA"
    assert runs_of(spark, "big") == [(1, "MANUAL", "INCREMENTAL")]


@pytest.mark.slow
def test_full_and_the_point_are_for_the_named_view(
    spark: SparkSession, table: str, oracle: Oracle, refresh: Refresh
) -> None:
    schedule = "SCHEDULE (AT '10:00' NO OUTPUT, AT '12:00')"
    create(spark, "by_k", BY_K, schedule)
    above = "SELECT n, sum(s) AS s FROM by_k GROUP BY n"
    create(spark, "above", above, schedule)
    spark.sql("INSERT INTO t VALUES (9, 1)")
    row = refresh("above", "AT 1 CASCADE")
    assert (row.kind, row.point) == ("PARTIAL", 1)
    assert runs_of(spark, "by_k") == [(1, "MANUAL", "INCREMENTAL")]
    row = refresh("above", "CASCADE")
    assert (row.kind, row.point) == ("INCREMENTAL", 2)
    oracle("above", above)
    spark.sql("INSERT INTO t VALUES (9, 2)")
    row = refresh("above", "FULL CASCADE")
    assert (row.kind, row.reason) == ("FULL", "REQUESTED")
    oracle("above", above)
    assert runs_of(spark, "by_k")[-1] == (2, "MANUAL", "INCREMENTAL")


def test_a_dry_run_plans_and_writes_nothing(spark: SparkSession, diamond: str, refresh: Refresh) -> None:
    assert refresh("both", "DRY RUN CASCADE").kind == "NO_DATA"
    spark.sql("INSERT INTO t VALUES (1, 99)")
    assert refresh("both", "DRY RUN").kind == "NO_DATA"
    before = {view: files_under(location_of(spark, view)) for view in ("by_k", "big", "both")}
    row = IncrementalView.forName(spark, "both").refresh(dry_run=True, cascade=True)
    assert (row.run, row.kind, row.rows_in, row.rows_out) == (None, "INCREMENTAL", None, None)
    assert row.estimated_cost > 0
    assert row.positions == {}, "which runs will be read is not known yet"
    assert {view: files_under(location_of(spark, view)) for view in before} == before


@pytest.mark.slow
def test_a_dry_run_foresees_a_rewritten_upstream(spark: SparkSession, table: str, refresh: Refresh) -> None:
    create(spark, "by_k", BY_K, "SCHEDULE (ON DEMAND) REFRESH POLICY FULL")
    create(spark, "above", "SELECT n, sum(s) AS s FROM by_k GROUP BY n")
    spark.sql("INSERT INTO t VALUES (1, 99)")
    assert refresh("above", "DRY RUN CASCADE").kind == "INCREMENTAL", "the run is going to tell what it changes"
    spark.conf.set("spark.tidemill.fullRuns.tellChanges", "false")
    try:
        foreseen = refresh("above", "DRY RUN CASCADE")
        done = refresh("above", "CASCADE")
    finally:
        spark.conf.unset("spark.tidemill.fullRuns.tellChanges")
    assert (foreseen.kind, foreseen.reason.partition(":")[0]) == ("FULL", "SOURCE_REWRITTEN")
    assert (done.kind, done.reason.partition(":")[0]) == ("FULL", "SOURCE_REWRITTEN")


def test_a_failure_names_the_view_and_leaves_the_others(
    spark: SparkSession, table: str, oracle: Oracle, refresh: Refresh, fails: Fails
) -> None:
    create(spark, "by_k", BY_K)
    inverse = "SELECT n, 100 DIV s AS q FROM by_k"
    create(spark, "inverse", inverse)
    above = "SELECT sum(q) AS q FROM inverse"
    create(spark, "above", above)
    spark.sql("INSERT INTO t VALUES (7, 0)")
    before = {view: files_under(location_of(spark, view)) for view in ("inverse", "above")}
    error = fails("REFRESH INCREMENTAL VIEW above CASCADE", "TIDEMILL_UPSTREAM_FAILED")
    parameters = error.getMessageParameters() or {}
    assert parameters["upstream"].endswith(".inverse")
    assert parameters["view"].endswith(".above")
    assert "DIVIDE_BY_ZERO" in parameters["reason"]
    assert runs_of(spark, "by_k") == [(1, "MANUAL", "INCREMENTAL")]
    oracle("by_k", BY_K)
    assert {view: files_under(location_of(spark, view)) for view in before} == before
    fails("REFRESH INCREMENTAL VIEW inverse CASCADE", "DIVIDE_BY_ZERO")
    spark.sql("DELETE FROM t WHERE k = 7")
    refresh("above", "CASCADE")
    oracle("above", above)
    oracle("inverse", inverse)


@pytest.mark.slow
def test_a_suspended_upstream_is_refreshed(spark: SparkSession, diamond: str, oracle: Oracle, refresh: Refresh) -> None:
    spark.sql("ALTER INCREMENTAL VIEW by_k SUSPEND")
    spark.sql("INSERT INTO t VALUES (1, 99)")
    refresh("both", "CASCADE")
    oracle("both", EXPANDED)


@pytest.mark.slow
def test_an_upstream_that_another_writer_commits_first(
    spark: SparkSession, diamond: str, refresh: Refresh, fails: Fails, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark.sql("INSERT INTO t VALUES (1, 99)")
    pinned = pins.pinned

    def overtaken(*args: Any) -> Any:
        monkeypatch.setattr(pins, "pinned", pinned)
        found = pinned(*args)
        refresh("big")
        return found

    monkeypatch.setattr(pins, "pinned", overtaken)
    error = fails("REFRESH INCREMENTAL VIEW both CASCADE", "TIDEMILL_UPSTREAM_FAILED")
    assert "TIDEMILL_CONCURRENT_REFRESH" in str(error)
    assert refresh("both", "CASCADE").kind == "INCREMENTAL"
    assert verified(spark, "both")


@pytest.mark.slow
def test_a_table_made_anew_before_the_pin(
    spark: SparkSession, diamond: str, oracle: Oracle, refresh: Refresh, fails: Fails, monkeypatch: pytest.MonkeyPatch
) -> None:
    pinned = pins.pinned
    times = 1

    def replaced(*args: Any) -> Any:
        nonlocal times
        if times:
            times -= 1
            spark.sql("DROP TABLE t")
            spark.sql("CREATE TABLE t (k INT, x BIGINT) USING delta")
            spark.sql("INSERT INTO t VALUES (4, 40)")
        return pinned(*args)

    monkeypatch.setattr(pins, "pinned", replaced)
    refresh("both", "CASCADE")
    oracle("both", EXPANDED)
    assert runs_of(spark, "by_k") == [(1, "MANUAL", "FULL")]
    times = pins.ATTEMPTS
    error = fails("REFRESH INCREMENTAL VIEW both CASCADE", "TIDEMILL_SOURCE_MOVED")
    assert "both" in str(error)
    assert len(runs_of(spark, "by_k")) == 1


@pytest.mark.slow
def test_an_upstream_read_by_its_path(spark: SparkSession, table: str, oracle: Oracle, refresh: Refresh) -> None:
    create(spark, "by_k", BY_K)
    create(spark, "above", f"SELECT n, sum(s) AS s FROM parquet.`{location_of(spark, 'by_k')}` GROUP BY n")
    expected = f"SELECT n, sum(s) AS s FROM ({BY_K}) GROUP BY n"
    for statement in ("DELETE FROM t WHERE k = 9", "ALTER INCREMENTAL VIEW by_k RENAME TO another"):
        spark.sql(statement)
        spark.sql("INSERT INTO t VALUES (1, 99), (9, 9)")
        assert refresh("above", "CASCADE").kind == "INCREMENTAL"
        oracle("above", expected)
