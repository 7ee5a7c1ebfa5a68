"""An incremental view that feeds another one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from tests.conftest import Oracle, files_under, location_of, newest_entry, packs
from tests.runtime.conftest import SUMMARY

Refresh = Callable[..., Row]
Fails = Callable[[str, str], PySparkException]

ABOVE = "SELECT count(*) AS categories, sum(gross) AS total FROM summary"


def test_the_upstream_delta_is_read(spark: SparkSession, sales: str, oracle: Oracle, refresh: Refresh) -> None:
    spark.sql(f"CREATE INCREMENTAL VIEW summary SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {SUMMARY}")
    spark.sql(f"CREATE INCREMENTAL VIEW above SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {ABOVE}")
    oracle("above", ABOVE)
    for change in (
        "INSERT INTO sales VALUES ('o5','c3',300), ('o6','c1',1)",
        "DELETE FROM sales WHERE cat = 'c2'",
        "INSERT INTO returns VALUES ('o3', 5)",
    ):
        spark.sql(change)
        assert refresh("above").kind == "NO_DATA", "an upstream that was not refreshed is as it was"
        refresh("summary")
        row = refresh("above")
        assert row.kind == "INCREMENTAL"
        assert row.rows_in is not None
        assert row.rows_in.inserts + row.rows_in.deletes > 0
        oracle("above", ABOVE)
        for view in ("summary", "above"):
            assert newest_entry(location_of(spark, view))["rows"] == spark.table(view).count()


def test_several_upstream_runs_at_once(spark: SparkSession, sales: str, oracle: Oracle, refresh: Refresh) -> None:
    query = "SELECT cat, price FROM sales"
    spark.sql(f"CREATE INCREMENTAL VIEW lines SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {query}")
    above = "SELECT cat, count(*) AS n, sum(price) AS price FROM lines GROUP BY cat"
    spark.sql(f"CREATE INCREMENTAL VIEW above SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {above}")
    spark.sql("INSERT INTO sales VALUES ('o5','c3',300), ('o6','c3',300)")
    refresh("lines")
    spark.sql("DELETE FROM sales WHERE o_id = 'o6'")
    refresh("lines")
    row = refresh("above")
    assert (row.rows_in, row.kind) == (Row(inserts=2, deletes=1), "INCREMENTAL")
    oracle("above", above)


def test_an_upstream_run_without_output_is_not_seen(spark: SparkSession, sales: str, refresh: Refresh) -> None:
    spark.sql("CREATE INCREMENTAL VIEW summary SCHEDULE (AT '14:00' NO OUTPUT, AT '24:00') AS " + SUMMARY)
    spark.sql(f"CREATE INCREMENTAL VIEW above SCHEDULE (ON DEMAND) AS {ABOVE}")
    spark.sql("INSERT INTO sales VALUES ('o5','c3',300)")
    assert refresh("summary", "AT 1").kind == "PARTIAL"
    assert refresh("above").kind == "NO_DATA"


BY_K = "SELECT k, sum(v) AS s, count(*) AS n FROM events GROUP BY k"
OVER_N = "SELECT n, sum(s) AS s, count(*) AS m FROM low GROUP BY n"
"""Over a view `low`."""


def create(spark: SparkSession, name: str, query: str, policy: str = "AUTO", clauses: str = "") -> None:
    spark.sql(f"CREATE INCREMENTAL VIEW {name} {clauses} SCHEDULE (ON DEMAND) REFRESH POLICY {policy} AS {query}")


def change(spark: SparkSession, n: int) -> None:
    spark.sql(f"INSERT INTO events VALUES ({n}, {n}, 'x'), (1, {n}, 'y')")


def code(row: Row) -> str | None:
    return None if row.reason is None else str(row.reason).partition(":")[0]


def leases(spark: SparkSession, view: str) -> list[str]:
    return [f for f in files_under(location_of(spark, view)) if "/leases/" in f]


@contextmanager
def content_away(spark: SparkSession, view: str) -> Iterator[None]:
    """Takes the view's result files away while the block lasts: whoever reads one fails."""
    found = list(location_of(spark, view).glob("*.parquet"))
    assert found
    for path in found:
        path.rename(path.with_suffix(".away"))
    try:
        yield
    finally:
        for path in found:
            path.with_suffix(".away").rename(path)


def test_an_upstream_that_is_always_full_is_warned_of(
    spark: SparkSession,
    events: str,
    refresh: Refresh,
    fails: Fails,
    warned: list[str],
    request: pytest.FixtureRequest,
) -> None:
    create(spark, "low", BY_K, "FULL")
    create(spark, "other", BY_K)
    create(spark, "told", OVER_N)
    assert not [text for text in warned if "SOURCE_REWRITTEN" in text]
    spark.conf.set("spark.tidemill.fullRuns.tellChanges", "false")
    request.addfinalizer(lambda: spark.conf.unset("spark.tidemill.fullRuns.tellChanges"))
    queries = {"above": OVER_N, "strict": OVER_N, "full": OVER_N, "over_other": OVER_N.replace("low", "other")}
    policies = {"strict": "STRICT", "full": "FULL"}
    said = {}
    for name, query in queries.items():
        warned.clear()
        create(spark, name, query, policies.get(name, "AUTO"))
        said[name] = [text for text in warned if "SOURCE_REWRITTEN" in text]
    assert {name: len(texts) for name, texts in said.items()} == {"above": 1, "strict": 1, "full": 0, "over_other": 0}
    assert f"{events}.low has REFRESH POLICY FULL" in said["above"][0]
    assert "follows is full" in said["above"][0]
    assert "follows fails" in said["strict"][0]
    warned.clear()
    spark.sql("ALTER INCREMENTAL VIEW above SET REFRESH POLICY STRICT")
    spark.sql("ALTER INCREMENTAL VIEW full SET REFRESH POLICY AUTO")
    assert ["follows fails" in text for text in warned] == [True, False]
    change(spark, 1)
    refresh("low")
    fails("REFRESH INCREMENTAL VIEW strict", "TIDEMILL_NOT_INCREMENTAL")
    assert code(refresh("full")) == "SOURCE_REWRITTEN"


def test_two_views_that_both_changed(spark: SparkSession, events: str, oracle: Oracle, refresh: Refresh) -> None:
    """The old content of the one and the new content of the other are read in one run."""
    create(spark, "low", BY_K, "STRICT")
    create(spark, "lines", "SELECT k, v FROM events WHERE v > 5", "STRICT")
    query = "SELECT low.k, low.s, lines.v FROM low JOIN lines ON low.k = lines.k"
    create(spark, "above", query, "STRICT")
    for n in (7, 1):
        change(spark, n)
        refresh("low")
        refresh("lines")
        assert spark.sql("VERIFY INCREMENTAL VIEW above").collect()[0].matches
        assert refresh("above").kind == "INCREMENTAL"
        oracle("above", query)


@pytest.mark.slow
def test_a_chain_reads_only_what_changed(spark: SparkSession, sales: str, oracle: Oracle, refresh: Refresh) -> None:
    """Deltas of several upstream runs, one without output among them; the upstream's content is not even there."""
    schedule = "SCHEDULE (AT '10:00' NO OUTPUT, AT '12:00') REFRESH POLICY STRICT"
    spark.sql(f"CREATE INCREMENTAL VIEW low {schedule} AS SELECT o_id, cat, price FROM sales WHERE price > 10")
    middle = "SELECT cat, sum(price) AS s, count(*) AS n FROM low GROUP BY cat"
    create(spark, "middle", middle, "STRICT")
    create(spark, "top", "SELECT n, sum(s) AS s, count(*) AS cats FROM middle GROUP BY n", "STRICT")
    changes = (
        ("AT 2", "INSERT INTO sales VALUES ('o5','c1',30), ('o6','c3',40), ('o7','c3',5)"),
        ("AT 1", "DELETE FROM sales WHERE o_id = 'o5'"),
        ("AT 2", "UPDATE sales SET price = price + 1 WHERE cat = 'c3'"),
    )
    out = [0, 0]
    for point, sql in changes:
        spark.sql(sql)
        row = refresh("low", point)
        out = [out[0] + row.rows_out.inserts, out[1] + row.rows_out.deletes]
    assert out == [3, 2]
    with packs(spark, "delta", ["affected"]), content_away(spark, "low"):
        row = refresh("middle")
    assert (row.kind, [*row.rows_in]) == ("INCREMENTAL", out)
    oracle("middle", middle)
    with packs(spark, "delta", ["affected"]), content_away(spark, "middle"):
        above = refresh("top")
    assert (above.kind, above.rows_in) == ("INCREMENTAL", row.rows_out)
    oracle("top", "SELECT n, sum(s) AS s, count(*) AS cats FROM middle GROUP BY n")


@pytest.mark.slow
def test_an_upstream_that_is_not_what_it_was(
    spark: SparkSession, events: str, oracle: Oracle, refresh: Refresh
) -> None:
    create(spark, "low", BY_K)
    create(spark, "above", OVER_N, "INCREMENTAL")
    odd = "SELECT k, sum(v) AS s, count(v) AS n FROM events WHERE v <> 20 GROUP BY k"
    anew = f"CREATE INCREMENTAL VIEW low SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {BY_K}"
    cases = (
        (["REFRESH INCREMENTAL VIEW low FULL"], None),
        ([f"ALTER INCREMENTAL VIEW low AS {odd}"], None),  # the same columns: the run tells what the new query changes
        ([f"CREATE OR REPLACE INCREMENTAL VIEW low SCHEDULE (ON DEMAND) AS {BY_K}"], None),
        (["DROP INCREMENTAL VIEW low", anew], "SOURCE_REPLACED"),
    )
    for n, (statements, reason) in enumerate(cases):
        change(spark, n)
        for statement in statements:
            spark.sql(statement)
        row = refresh("above")
        assert (row.kind, code(row)) == ("INCREMENTAL" if reason is None else "FULL", reason)
        oracle("above", OVER_N)
    change(spark, 9)
    refresh("low")
    assert refresh("above").kind == "INCREMENTAL"
    oracle("above", OVER_N)


@pytest.mark.slow
def test_columns_of_an_upstream(
    spark: SparkSession, events: str, oracle: Oracle, refresh: Refresh, fails: Fails
) -> None:
    create(spark, "low", BY_K)
    above = "SELECT n, sum(s) AS s FROM low GROUP BY n"
    create(spark, "above", above)
    spark.sql("ALTER INCREMENTAL VIEW low AS SELECT sum(v) AS s, count(*) AS n FROM events GROUP BY k")
    fails("VERIFY INCREMENTAL VIEW above", "TIDEMILL_HISTORY_GONE")
    assert code(refresh("above")) == "SOURCE_REWRITTEN"
    oracle("above", above)
    for query in (
        "SELECT sum(v) AS t, count(*) AS n FROM events GROUP BY k",
        "SELECT CAST(sum(v) AS DOUBLE) AS s, count(*) AS n FROM events GROUP BY k",
    ):
        spark.sql(f"ALTER INCREMENTAL VIEW low AS {query}")
        before = files_under(location_of(spark, "above"))
        fails("REFRESH INCREMENTAL VIEW above", "TIDEMILL_SCHEMA_CHANGED")
        assert files_under(location_of(spark, "above")) == before
    spark.sql(f"ALTER INCREMENTAL VIEW low AS {BY_K}")
    refresh("above")
    oracle("above", above)


@pytest.mark.slow
def test_an_upstream_that_is_gone_for_a_while(
    spark: SparkSession, events: str, tmp_path: Path, oracle: Oracle, refresh: Refresh, fails: Fails
) -> None:
    """Renamed, or dropped and attached again by LOCATION under another policy: the view above goes on from there."""
    create(spark, "low", BY_K, clauses=f"LOCATION '{tmp_path}/low'")
    create(spark, "above", OVER_N, "STRICT", clauses=f"LOCATION '{tmp_path}/above'")
    change(spark, 3)
    refresh("low")
    spark.sql("ALTER INCREMENTAL VIEW low RENAME TO other")
    fails("REFRESH INCREMENTAL VIEW above", "TABLE_OR_VIEW_NOT_FOUND")
    spark.sql("ALTER INCREMENTAL VIEW other RENAME TO low")
    spark.sql("DROP INCREMENTAL VIEW low")
    fails("REFRESH INCREMENTAL VIEW above", "TABLE_OR_VIEW_NOT_FOUND")
    assert spark.table("above").count() > 0
    create(spark, "low", BY_K, "STRICT", clauses=f"LOCATION '{tmp_path}/low'")
    change(spark, 4)
    refresh("low")
    assert refresh("above").kind == "INCREMENTAL"
    oracle("above", OVER_N)
    # The lease goes with the view above, and comes back with it.
    assert len(leases(spark, "low")) == 1
    spark.sql("DROP INCREMENTAL VIEW above")
    assert leases(spark, "low") == []
    create(spark, "above", OVER_N, "STRICT", clauses=f"LOCATION '{tmp_path}/above'")
    assert len(leases(spark, "low")) == 1


def grow(spark: SparkSession, refresh: Refresh, times: int = 3) -> None:
    for n in range(times):
        change(spark, n)
        refresh("low")


def vacuum(spark: SparkSession) -> list[str]:
    return [r.path for r in spark.sql("VACUUM INCREMENTAL VIEW low RETAIN 0 HOURS").collect()]


@pytest.mark.slow
def test_leases_last_as_long_as_they_are_needed(
    spark: SparkSession, events: str, oracle: Oracle, refresh: Refresh
) -> None:
    create(spark, "low", BY_K)
    create(spark, "above", OVER_N, "STRICT")
    grow(spark, refresh)
    assert vacuum(spark) == []
    assert refresh("above").kind == "INCREMENTAL"
    oracle("above", OVER_N)
    # How far the view above has read is in its own log: an old lease holds nothing that has been read.
    [lease] = leases(spark, "low")
    path = location_of(spark, "low") / lease
    old = json.loads(path.read_text())
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    path.write_text(json.dumps({**old, "run": 0}))
    assert vacuum(spark) != []
    # Another query without `low` gives the lease up, and only that one's.
    spark.sql("ALTER INCREMENTAL VIEW above AS SELECT k FROM events")
    assert leases(spark, "low") == []
    spark.sql(f"ALTER INCREMENTAL VIEW above AS {OVER_N}")
    assert len(leases(spark, "low")) == 1


@pytest.mark.slow
def test_a_view_above_that_was_removed_by_hand_holds_nothing(
    spark: SparkSession, events: str, tmp_path: Path, refresh: Refresh
) -> None:
    create(spark, "low", BY_K)
    create(spark, "above", OVER_N, clauses=f"LOCATION '{tmp_path}/above'")
    grow(spark, refresh)
    assert vacuum(spark) == []
    (tmp_path / "above").rename(tmp_path / "elsewhere")
    gone = vacuum(spark)
    assert any("/leases/" in path for path in gone)
    assert any(path.endswith(".parquet") for path in gone)
    assert leases(spark, "low") == []
    (tmp_path / "elsewhere").rename(tmp_path / "above")


@pytest.mark.slow
def test_history_that_nobody_held(spark: SparkSession, events: str, oracle: Oracle, refresh: Refresh) -> None:
    create(spark, "low", BY_K)
    create(spark, "above", OVER_N)
    [lease] = leases(spark, "low")
    (location_of(spark, "low") / lease).unlink()
    grow(spark, refresh)
    assert vacuum(spark) != []
    row = refresh("above")
    assert (row.kind, code(row)) == ("FULL", "HISTORY_GONE")
    oracle("above", OVER_N)
    assert len(leases(spark, "low")) == 1


@pytest.mark.slow
def test_a_lease_is_where_the_upstream_is(
    spark: SparkSession, events: str, tmp_path: Path, oracle: Oracle, refresh: Refresh
) -> None:
    """Dropped and created anew elsewhere: nothing is written to the place that it left."""
    create(spark, "low", BY_K)
    create(spark, "above", OVER_N)
    left = location_of(spark, "low")
    spark.sql("DROP INCREMENTAL VIEW low")
    create(spark, "low", BY_K, clauses=f"LOCATION '{tmp_path}/low'")
    assert code(refresh("above")) == "SOURCE_REPLACED"
    oracle("above", OVER_N)
    assert not left.exists()
    assert len(leases(spark, "low")) == 1


def test_no_view_reads_itself(spark: SparkSession, events: str, oracle: Oracle, refresh: Refresh, fails: Fails) -> None:
    create(spark, "low", BY_K)
    create(spark, "middle", "SELECT n, s, k FROM low")
    spark.sql("CREATE VIEW plain AS SELECT * FROM middle")
    create(spark, "top", "SELECT k, s, n FROM plain")
    locations = {view: files_under(location_of(spark, view)) for view in ("low", "middle", "top")}
    for query in (
        "SELECT * FROM low",
        "SELECT k, s, n FROM middle",
        "SELECT * FROM top WHERE k IN (SELECT k FROM top)",
    ):
        fails(f"ALTER INCREMENTAL VIEW low AS {query}", "RECURSIVE_VIEW")
        fails(f"CREATE OR REPLACE INCREMENTAL VIEW low SCHEDULE (ON DEMAND) AS {query}", "RECURSIVE_VIEW")
    path = f"parquet.`{location_of(spark, 'low')}`"
    error = fails(f"ALTER INCREMENTAL VIEW low AS SELECT * FROM {path}", "RECURSIVE_VIEW")
    assert " -> " in (error.getMessageParameters() or {})["newPath"]
    assert {view: files_under(location_of(spark, view)) for view in locations} == locations
    # A name that is free but is read all the same.
    spark.sql("ALTER INCREMENTAL VIEW low RENAME TO lower")
    fails("CREATE INCREMENTAL VIEW low SCHEDULE (ON DEMAND) AS SELECT * FROM middle", "RECURSIVE_VIEW")
    fails("ALTER INCREMENTAL VIEW middle RENAME TO low", "RECURSIVE_VIEW")
    spark.sql("ALTER INCREMENTAL VIEW lower RENAME TO low")
    # What a plain view means may change behind the views' backs.
    spark.sql("CREATE OR REPLACE VIEW plain AS SELECT * FROM events")
    create(spark, "over", "SELECT k FROM top")
    spark.sql("CREATE OR REPLACE VIEW plain AS SELECT k, 1L AS s, 1L AS n FROM over")
    fails("REFRESH INCREMENTAL VIEW over CASCADE", "RECURSIVE_VIEW")
