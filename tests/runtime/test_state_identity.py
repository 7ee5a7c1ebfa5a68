"""Which state is which: what a name stands for, and what becomes of states that no run can find, follow or read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from pyspark.sql import Row, SparkSession

from tests.conftest import difference
from tests.runtime.test_damage import flipped, forget, gone
from tests.runtime.test_states import entry
from tidemill.text import canon

pytestmark = pytest.mark.slow

Refresh = Callable[..., Row]
BY_KEY = "SELECT k, sum(v) AS s, count(*) AS n FROM events GROUP BY k"
DAYS = "SELECT CAST(at AS DATE) AS d, count(*) AS n FROM visits GROUP BY 1"
SIZES = "SELECT k, sum(size(split(s, ','))) AS t, count(*) AS n FROM events GROUP BY k"
"""The size of NULL is -1 without ANSI."""


def states(spark: SparkSession, view: str = "v") -> dict[str, list[str]]:
    """The paths of each state's files, by its name."""
    found: dict[str, Any] = entry(spark, view)["states"]
    return {name: [f["path"] for p in s["pieces"] for f in p["files"]] for name, s in found.items()}


def bases(spark: SparkSession, view: str = "v") -> dict[str, str]:
    """The path of the first file of each state, by its name."""
    return {name: paths[0] for name, paths in states(spark, view).items()}


@pytest.fixture
def many(spark: SparkSession, events: str) -> str:
    """`events` with rows enough for states to be cheaper to read; the database."""
    spark.sql("INSERT INTO events SELECT 2, id, 'many' FROM range(100000)")
    return events


@pytest.fixture
def other(spark: SparkSession, db: str) -> SparkSession:
    """Another session of the same application."""
    session = spark.newSession()
    session.sql(f"USE {db}")
    return session


def switched(session: SparkSession, how: str, query: str) -> None:
    if how == "alter":
        session.sql(f"ALTER INCREMENTAL VIEW v AS {query}")
    else:
        session.sql(f"CREATE OR REPLACE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS {query}")


def holds(session: SparkSession, query: str) -> None:
    """The view is its query as the session means it, and says so itself."""
    assert difference(session, "v", query) == (0, 0)
    assert session.sql("VERIFY INCREMENTAL VIEW v").collect()[0].matches


# -- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["alter", "replace"])
def test_a_query_in_another_time_zone_reads_no_state_of_the_first(
    spark: SparkSession, db: str, other: SparkSession, how: str
) -> None:
    spark.sql("CREATE TABLE visits (at TIMESTAMP) USING parquet")
    spark.sql("INSERT INTO visits SELECT TIMESTAMP '2026-01-01 00:00:00' + make_dt_interval(0, id) FROM range(1000)")
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS {DAYS}")
    other.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    assert difference(other, "v", DAYS) != (0, 0)
    before = set(states(spark))
    assert before
    switched(other, how, DAYS)
    holds(other, DAYS)
    assert not before & set(states(spark))
    spark.sql("INSERT INTO visits VALUES (TIMESTAMP '2026-01-01 20:00:00')")
    assert spark.sql("REFRESH INCREMENTAL VIEW v").collect()[0].kind == "INCREMENTAL"  # it means what Tokyo said
    for table in ("visits", "v"):
        other.catalog.refreshTable(table)  # each session keeps listings of its own
    holds(other, DAYS)


@pytest.mark.parametrize("how", ["alter", "replace"])
@pytest.mark.parametrize("ansi", ["true", "false"])
def test_a_query_under_ansi_reads_no_state_without(
    spark: SparkSession, many: str, other: SparkSession, how: str, ansi: str
) -> None:
    first = spark.newSession()
    first.sql(f"USE {many}")
    first.conf.set("spark.sql.ansi.enabled", ansi)
    first.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS {SIZES}")
    other.conf.set("spark.sql.ansi.enabled", "false" if ansi == "true" else "true")
    assert difference(other, "v", SIZES) != (0, 0)
    before = set(states(spark))
    assert before
    switched(other, how, SIZES)
    holds(other, SIZES)
    assert not before & set(states(spark))


@pytest.mark.parametrize("how", ["alter", "replace"])
def test_states_are_read_under_the_same_settings(spark: SparkSession, many: str, other: SparkSession, how: str) -> None:
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS {BY_KEY}")
    before = bases(spark)
    # how the session writes its own output is no part of what a query means
    other.conf.set("spark.sql.shuffle.partitions", "7")
    other.conf.set("spark.sql.files.maxRecordsPerFile", "9")
    switched(other, how, f"SELECT k, s + n AS more FROM ({BY_KEY})")
    assert bases(spark) == before


# -- states that no run can find, or follow ---------------------------------------------------------------------------


def anew(spark: SparkSession, refresh: Refresh, lost: set[str], query: str = BY_KEY) -> set[str]:
    """After a change, a run says that these states are lost and leaves others; the one after reads those."""
    spark.sql("INSERT INTO events VALUES (1, 1, 'n')")
    row = refresh("v")
    assert (row.kind, row.reason) == ("INCREMENTAL", f"STATE_LOST: {', '.join(sorted(lost))}")
    holds(spark, query)
    made = bases(spark)
    spark.sql("INSERT INTO events VALUES (1, 2, 'n')")
    row = refresh("v")
    assert (row.kind, row.reason, row.methods) == ("INCREMENTAL", None, ["delta"])
    assert row.rows_in.asDict() == {"inserts": 1, "deletes": 0}
    holds(spark, query)
    assert bases(spark) == made
    return set(made)


@pytest.mark.parametrize("policy", ["AUTO", "STRICT"])
def test_a_state_under_a_name_of_another_version_is_lost(
    spark: SparkSession, many: str, refresh: Refresh, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) REFRESH POLICY {policy} AS {BY_KEY}")
    before = set(states(spark))
    assert before
    monkeypatch.setattr(canon, "CANON_VERSION", canon.CANON_VERSION + 1)
    assert refresh("v").kind == "NO_DATA"
    assert len(anew(spark, refresh, before) - before) == len(before)


def test_a_run_without_output_leaves_a_state_that_no_name_fits(
    spark: SparkSession, many: str, refresh: Refresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it is in place of is made by the run with output, which says so."""
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (AT '10:00' NO OUTPUT, AT '12:00') AS {BY_KEY}")
    before = states(spark)
    monkeypatch.setattr(canon, "CANON_VERSION", canon.CANON_VERSION + 1)
    spark.sql("INSERT INTO events VALUES (1, 1, 'n')")
    assert refresh("v", "AT 1").kind == "PARTIAL"
    assert states(spark) == before
    assert len(anew(spark, refresh, set(before)) - set(before)) == len(before)


def test_states_under_a_limit_that_no_name_fits_are_made_anew(
    spark: SparkSession, many: str, refresh: Refresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is under a limit is read from where it was kept, or the answers to ties would differ."""
    query = f"SELECT * FROM ({BY_KEY}) ORDER BY s DESC, k LIMIT 2"
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {query}")
    before = set(states(spark))
    assert before
    monkeypatch.setattr(canon, "CANON_VERSION", canon.CANON_VERSION + 1)
    spark.sql("INSERT INTO events VALUES (1, 1, 'n')")
    row = refresh("v")
    assert (row.kind, row.reason) == ("INCREMENTAL", f"STATE_LOST: {', '.join(sorted(before))}")
    holds(spark, query)
    made = bases(spark)
    assert made
    spark.sql("INSERT INTO events VALUES (1, 2, 'n')")
    row = refresh("v")
    assert (row.kind, row.reason) == ("INCREMENTAL", None)
    holds(spark, query)
    assert bases(spark) == made


@pytest.mark.parametrize("full", ["", "FULL"])
def test_a_run_without_the_pack_that_follows_states(
    spark: SparkSession, many: str, refresh: Refresh, full: str
) -> None:
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS {BY_KEY}")
    before = set(states(spark))
    assert before
    try:
        spark.conf.set("spark.tidemill.method.delta.enabled", "false")
        for _ in range(2):
            spark.sql("INSERT INTO events VALUES (1, 1, 'n')")
            assert refresh("v", full).kind == "FULL"
            holds(spark, BY_KEY)
            assert states(spark) == {}
    finally:
        spark.conf.unset("spark.tidemill.method.delta.enabled")
    assert anew(spark, refresh, before) == before


def test_a_period_under_the_policy_full(spark: SparkSession, many: str, refresh: Refresh) -> None:
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS {BY_KEY}")
    before = set(states(spark))
    spark.sql("ALTER INCREMENTAL VIEW v SET REFRESH POLICY FULL")
    for _ in range(2):
        spark.sql("INSERT INTO events VALUES (1, 1, 'n')")
        row = refresh("v")
        assert (row.kind, row.reason) == ("FULL", "POLICY")
        assert states(spark) == {}
    spark.sql("ALTER INCREMENTAL VIEW v SET REFRESH POLICY INCREMENTAL")
    assert anew(spark, refresh, before) == before


def test_a_view_that_begins_under_the_policy_full(spark: SparkSession, many: str, refresh: Refresh) -> None:
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) REFRESH POLICY FULL AS {BY_KEY}")
    spark.sql("ALTER INCREMENTAL VIEW v SET REFRESH POLICY AUTO")
    spark.sql("INSERT INTO events VALUES (1, 1, 'n')")
    row = refresh("v")
    (made,) = states(spark)
    assert (row.kind, row.reason) == ("INCREMENTAL", f"STATE_LOST: {made}")
    holds(spark, BY_KEY)
    spark.sql("INSERT INTO events VALUES (1, 1, 'n')")
    row = refresh("v")
    assert (row.kind, row.reason, set(states(spark))) == ("INCREMENTAL", None, {made})
    holds(spark, BY_KEY)


# -- states that stay what they are -----------------------------------------------------------------------------------

TWO = "SELECT k, sum(v) AS s FROM events GROUP BY k UNION ALL SELECT k, count(*) FROM others GROUP BY k"
TOP = "SELECT k, m FROM (SELECT k, max(v) AS m FROM events GROUP BY k) ORDER BY m DESC, k LIMIT {}"


@pytest.mark.parametrize("damage", [gone, flipped])
def test_of_two_states_the_damaged_one_alone_is_made_anew(
    spark: SparkSession, many: str, refresh: Refresh, damage: Callable[[Path], None]
) -> None:
    spark.sql("CREATE TABLE others USING parquet AS SELECT CAST(id % 5 AS INT) AS k FROM range(1000)")
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {TWO}")
    before = bases(spark)
    assert len(before) == 2
    for lost in sorted(before):
        spark.sql("INSERT INTO events VALUES (1, 1, 'n')")
        spark.sql("INSERT INTO others VALUES (1)")
        before = bases(spark)
        damage(Path(unquote(before[lost].removeprefix("file:"))))
        forget(spark)
        row = refresh("v")
        assert (row.kind, row.reason) == ("INCREMENTAL", f"STATE_LOST: {lost}")
        holds(spark, TWO)
        after = bases(spark)
        assert {name for name in before if after[name] != before[name]} == {lost}
        assert entry(spark)["states"][lost]["pieces"][1:] == []


@pytest.mark.parametrize("how", ["alter", "replace"])
@pytest.mark.parametrize(
    ("query", "another", "forms"),
    [
        (BY_KEY, f"SELECT k AS renamed, s + n AS more FROM ({BY_KEY})", ["attribute"]),
        (TOP.format(2), TOP.format(3), ["snapshot"]),
    ],
)
def test_another_query_reads_the_states_where_they_are(
    spark: SparkSession, many: str, how: str, query: str, another: str, forms: list[str]
) -> None:
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS {query}")
    before = states(spark)
    assert sorted(s["form"] for s in entry(spark)["states"].values()) == forms
    spark.sql("INSERT INTO events VALUES (2, 7000, 'x'), (4, 1, 'y'), (5, 2, 'z')")
    switched(spark, how, another)
    holds(spark, another)
    row = spark.sql("SHOW REFRESHES IN v LIMIT 1").collect()[0]
    assert (row.kind, row.reason, row.rows_in.asDict()) == ("INCREMENTAL", "FIRST", {"inserts": 3, "deletes": 0})
    after = states(spark)
    assert {name: paths[: len(before[name])] for name, paths in after.items()} == before
    assert all(len(paths) > len(before[name]) for name, paths in after.items())


@pytest.mark.parametrize("query", [BY_KEY, TOP.format(2)])
def test_a_location_is_attached_without_a_job(
    spark: SparkSession, many: str, tmp_path: Path, refresh: Refresh, jobs: Callable[..., int], query: str
) -> None:
    create = f"CREATE INCREMENTAL VIEW v LOCATION '{tmp_path}/v' SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {query}"
    spark.sql(create)
    before = entry(spark)
    spark.sql("DROP INCREMENTAL VIEW v")
    assert jobs(lambda: spark.sql(create)) == 0
    assert entry(spark) == before
    assert before["states"]
    spark.sql("INSERT INTO events VALUES (1, 9000, 'n')")
    row = refresh("v")
    assert (row.run, row.kind, row.reason, row.rows_in.inserts) == (1, "INCREMENTAL", None, 1)
    assert {n: paths[0] for n, paths in states(spark).items()} == {
        n: s["pieces"][0]["files"][0]["path"] for n, s in before["states"].items()
    }
    holds(spark, query)
    spark.sql("DROP INCREMENTAL VIEW v")


def test_amendments_leave_states_alone(spark: SparkSession, many: str, refresh: Refresh) -> None:
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS {BY_KEY}")
    before = bases(spark)
    for n, action in enumerate(
        (
            "SET SCHEDULE (AT '10:00' NO OUTPUT, AT '12:00')",
            "SET REFRESH POLICY STRICT",
            "SET COMMENT 'another'",
            "SET TBLPROPERTIES (a = 1)",
            "RENAME TO w",
            "RENAME TO v",
        )
    ):
        name = "w" if n == 5 else "v"
        spark.sql(f"ALTER INCREMENTAL VIEW {name} {action}")
        name = "w" if n == 4 else "v"
        assert bases(spark, name) == before, action
        spark.sql(f"INSERT INTO events VALUES (1, {n}, 'n')")
        row = refresh(name)
        assert (row.kind, row.reason, row.methods) == ("INCREMENTAL", None, ["delta"]), action
        assert row.rows_in.asDict() == {"inserts": 1, "deletes": 0}, action
        assert bases(spark, name) == before, action
    holds(spark, BY_KEY)
