"""Ticks over views in Spark, by a clock that the tests set: what is fired, in which order, and what failures do."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from tests.conftest import Oracle, confs
from tests.scheduler.conftest import BY_K, HOUR, MIDNIGHT, Rehearse, create
from tidemill.runtime.run import perform
from tidemill.runtime.scheduler import holder, ticks

Jobs = Callable[[Callable[[], Any]], int]
History = Callable[[str], list[Row]]


def test_every_fires_by_its_interval(
    spark: SparkSession, t: str, rehearse: Rehearse, history: History, jobs: Jobs, oracle: Oracle
) -> None:
    create(spark, "v", "EVERY 5 MINUTES")
    scheduler = rehearse("v")
    spark.sql("INSERT INTO t VALUES (3, 1)")
    assert scheduler.at(MIDNIGHT + 299) == []
    assert [(row.kind, row.trigger, row.point) for row in scheduler.at(MIDNIGHT + 300)] == [
        ("INCREMENTAL", "SCHEDULE", 1)
    ]
    assert jobs(lambda: scheduler.at(MIDNIGHT + 301)) == 0
    assert jobs(lambda: scheduler.at(MIDNIGHT + 301)) == 0
    # Nothing came: nothing is written, and the point is dealt with all the same.
    assert [row.kind for row in scheduler.at(MIDNIGHT + 600)] == ["NO_DATA"]
    spark.sql("INSERT INTO t VALUES (4, 1)")
    assert scheduler.at(MIDNIGHT + 601) == []
    # The points at 900, 1200 and 1500 make one run.
    assert [row.kind for row in scheduler.at(MIDNIGHT + 1501)] == ["INCREMENTAL"]
    assert scheduler.at(MIDNIGHT + 1502) == []
    assert [(r.run, r.trigger) for r in history("v")] == [(0, "CREATE"), (1, "SCHEDULE"), (2, "SCHEDULE")]
    oracle("v", BY_K)


def test_a_cycle_of_times(spark: SparkSession, t: str, rehearse: Rehearse, history: History, oracle: Oracle) -> None:
    create(spark, "v", "AT '14:00' COST 0.2 NO OUTPUT, AT '24:00'")
    scheduler = rehearse("v")
    for day in range(2):
        spark.sql(f"INSERT INTO t VALUES ({day}, 7)")
        for hour in range(1, 25):
            scheduler.at(MIDNIGHT + (24 * day + hour) * HOUR)
    # A restart goes on where it was.
    assert rehearse("v").at(MIDNIGHT + 48 * HOUR + 1) == []
    runs = [(r.point, r.kind, r.started_at.astimezone(UTC)) for r in history("v")][1:]
    assert [(point, kind) for point, kind, _ in runs] == [(1, "PARTIAL"), (2, "INCREMENTAL")] * 2
    first = datetime(2026, 3, 28, tzinfo=UTC)
    assert [round((at - first).total_seconds() / HOUR) for _, _, at in runs] == [14, 24, 38, 48]
    oracle("v", BY_K)


def test_a_missed_day_makes_one_run(spark: SparkSession, t: str, rehearse: Rehearse, history: History) -> None:
    create(spark, "v", "AT '10:00' NO OUTPUT, AT '20:00'")
    scheduler = rehearse("v", start=MIDNIGHT + 12 * HOUR)
    spark.sql("INSERT INTO t VALUES (9, 9)")
    # 20:00 and the next day's 10:00 were missed: the run ends the cycle.
    assert [row.point for row in scheduler.at(MIDNIGHT + 35 * HOUR)] == [2]
    assert scheduler.at(MIDNIGHT + 43 * HOUR) == []
    assert len(history("v")) == 2


def test_runs_by_hand_shift_nothing(spark: SparkSession, t: str, rehearse: Rehearse, refresh: Any) -> None:
    create(spark, "v", "AT '10:00'")
    scheduler = rehearse("v")
    spark.sql("INSERT INTO t VALUES (9, 9)")
    refresh("v")
    spark.sql("INSERT INTO t VALUES (9, 9)")
    assert [row.kind for row in scheduler.at(MIDNIGHT + 10 * HOUR)] == ["INCREMENTAL"]


def test_on_change_asks_for_positions_only(
    spark: SparkSession, t: str, rehearse: Rehearse, jobs: Jobs, history: History, oracle: Oracle
) -> None:
    create(spark, "v", "ON CHANGE")
    scheduler = rehearse("v")
    assert scheduler.at(MIDNIGHT + 1) == []
    assert jobs(lambda: scheduler.at(MIDNIGHT + 2)) == 0
    spark.sql("INSERT INTO t VALUES (3, 1)")
    assert [(row.kind, row.trigger) for row in scheduler.at(MIDNIGHT + 3)] == [("INCREMENTAL", "CHANGE")]
    assert scheduler.at(MIDNIGHT + 4) == []
    spark.sql("OPTIMIZE t")
    assert scheduler.at(MIDNIGHT + 5) == []
    oracle("v", BY_K)


def test_on_change_counts(spark: SparkSession, t: str, rehearse: Rehearse, db: str) -> None:
    spark.sql("CREATE TABLE u (k INT) USING parquet")
    create(spark, "v", "ON CHANGE OF t AFTER 3 ROWS", "SELECT t.k FROM t JOIN u ON t.k = u.k")
    create(spark, "w", "ON CHANGE AFTER 2 FILES", "SELECT k FROM u")
    scheduler = rehearse("v", "w")
    spark.sql("INSERT INTO u VALUES (1)")
    assert scheduler.at(MIDNIGHT + 1) == []
    spark.sql("INSERT INTO t VALUES (1, 1), (2, 1)")
    spark.sql("INSERT INTO u VALUES (2)")
    assert [row.view for row in scheduler.at(MIDNIGHT + 2)] == [f"spark_catalog.{db}.w"]
    spark.sql("DELETE FROM t WHERE x = 50")
    assert [row.view for row in scheduler.at(MIDNIGHT + 3)] == [f"spark_catalog.{db}.v"]
    assert scheduler.at(MIDNIGHT + 4) == []


def test_a_change_without_early_work_fires_once(spark: SparkSession, t: str, rehearse: Rehearse) -> None:
    """The content stays where it is, so the source goes on being ahead of it."""
    create(spark, "v", "ON CHANGE NO OUTPUT, AT '24:00'")
    scheduler = rehearse("v")
    spark.sql("INSERT INTO t VALUES (3, 1)")
    assert [row.kind for row in scheduler.at(MIDNIGHT + 1)] == ["PARTIAL"]
    assert scheduler.at(MIDNIGHT + 2) == []
    spark.sql("INSERT INTO t VALUES (4, 1)")
    assert [row.kind for row in scheduler.at(MIDNIGHT + 3)] == ["PARTIAL"]
    assert [row.kind for row in scheduler.at(MIDNIGHT + 24 * HOUR)] == ["INCREMENTAL"]


def test_progress_fires_once_in_a_cycle(spark: SparkSession, t: str, rehearse: Rehearse, db: str) -> None:
    create(spark, "v", "AT PROGRESS 50 PERCENT NO OUTPUT, AT '24:00'", clauses="EXPECT (t 10 ROWS)")
    create(spark, "unknown", "AT PROGRESS 50 PERCENT NO OUTPUT, AT '24:00'")
    scheduler = rehearse("v", "unknown")
    for day in range(2):
        spark.sql("INSERT INTO t SELECT id, 1 FROM range(3)")
        assert scheduler.at(MIDNIGHT + 24 * HOUR * day + 10) == []
        spark.sql("INSERT INTO t SELECT id, 1 FROM range(2)")
        fired = scheduler.at(MIDNIGHT + 24 * HOUR * day + 20)
        # After one cycle of eight rows the other view knows what to expect.
        expected = {f"spark_catalog.{db}.v"} | ({f"spark_catalog.{db}.unknown"} if day else set())
        assert {(row.view, row.kind) for row in fired} == {(view, "PARTIAL") for view in expected}
        spark.sql("INSERT INTO t SELECT id, 1 FROM range(3)")
        assert scheduler.at(MIDNIGHT + 24 * HOUR * day + 30) == []
        assert len(scheduler.at(MIDNIGHT + 24 * HOUR * (day + 1))) == 2
        lines = {(r.col_name, r.data_type) for r in spark.sql("DESCRIBE INCREMENTAL VIEW unknown").collect()}
        assert ("AT PROGRESS", "not in effect") not in lines


def test_describe_says_that_progress_is_not_known(spark: SparkSession, t: str) -> None:
    create(spark, "v", "AT PROGRESS 50 PERCENT NO OUTPUT, AT '24:00'")
    assert ("AT PROGRESS", "not in effect") in {
        (r.col_name, r.data_type) for r in spark.sql("DESCRIBE INCREMENTAL VIEW v").collect()
    }


def test_upstream_views_first_at_one_pin(
    spark: SparkSession, t: str, rehearse: Rehearse, oracle: Oracle, db: str
) -> None:
    create(spark, "below", "AT '10:00'")
    create(spark, "above", "AT '10:00'", "SELECT count(*) AS n, sum(s) AS s FROM below")
    create(spark, "follower", "ON CHANGE OF above", "SELECT n FROM above")
    scheduler = rehearse("above", "below", "follower")
    spark.sql("INSERT INTO t VALUES (9, 9)")
    rows = scheduler.at(MIDNIGHT + 10 * HOUR)
    assert [row.view.rsplit(".", 1)[1] for row in rows] == ["below", "above"]
    rows = scheduler.at(MIDNIGHT + 10 * HOUR + 1)
    assert [(row.view.rsplit(".", 1)[1], row.trigger) for row in rows] == [("follower", "CHANGE")]
    oracle("above", f"SELECT count(*) AS n, sum(s) AS s FROM ({BY_K})")
    oracle("follower", f"SELECT count(*) AS n FROM ({BY_K})")


def test_a_suspended_view_is_left_alone(spark: SparkSession, t: str, rehearse: Rehearse, refresh: Any) -> None:
    create(spark, "v", "EVERY 1 MINUTES")
    create(spark, "above", "EVERY 1 MINUTES", "SELECT sum(s) AS s FROM v")
    scheduler = rehearse("v", "above")
    spark.sql("ALTER INCREMENTAL VIEW v SUSPEND")
    spark.sql("INSERT INTO t VALUES (7, 1)")
    assert [row.kind for row in scheduler.at(MIDNIGHT + 60)] == ["NO_DATA"]
    refresh("v")
    rows = scheduler.at(MIDNIGHT + 120)
    assert [(row.view.rsplit(".", 1)[1], row.kind) for row in rows] == [("above", "INCREMENTAL")]


def test_another_schedule_while_a_run_is_under_way(
    spark: SparkSession, t: str, rehearse: Rehearse, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(spark, "v", "AT '10:00' NO OUTPUT, AT '12:00'")
    scheduler = rehearse("v")
    spark.sql("INSERT INTO t VALUES (7, 1)")
    original = perform.perform
    altered: list[object] = []

    def slow(*args: Any) -> perform.RunOutcome:
        if not altered:
            altered.append(spark.sql("ALTER INCREMENTAL VIEW v SET SCHEDULE (AT '11:00', AT '12:00')"))
        return original(*args)

    monkeypatch.setattr(perform, "perform", slow)
    assert [row.kind for row in scheduler.at(MIDNIGHT + 10 * HOUR)] == ["PARTIAL"]
    spark.sql("INSERT INTO t VALUES (8, 1)")
    assert [(row.point, row.kind) for row in scheduler.at(MIDNIGHT + 11 * HOUR)] == [(1, "INCREMENTAL")]
    spark.sql("INSERT INTO t VALUES (9, 1)")
    assert [(row.point, row.kind) for row in scheduler.at(MIDNIGHT + 12 * HOUR)] == [(2, "INCREMENTAL")]
    assert [r.run for r in history("v")] == [0, 1, 2, 3]


def test_points_that_another_schedule_takes_over(
    spark: SparkSession, t: str, rehearse: Rehearse, history: History
) -> None:
    """Whatever comes before them in it, they have fired."""
    create(spark, "v", "AT PROGRESS 50 PERCENT NO OUTPUT, EVERY 2 HOURS", clauses="EXPECT (t 4 ROWS)")
    scheduler = rehearse("v", real=True)
    spark.sql("INSERT INTO t VALUES (7, 1), (8, 1)")
    assert [(row.point, row.kind) for row in scheduler.at(MIDNIGHT + HOUR)] == [(1, "PARTIAL")]
    others = "AT '23:00' NO OUTPUT, AT PROGRESS 60 PERCENT NO OUTPUT, AT PROGRESS 50 PERCENT NO OUTPUT, EVERY 2 HOURS"
    spark.sql(f"ALTER INCREMENTAL VIEW v SET SCHEDULE ({others})")
    assert scheduler.at(MIDNIGHT + HOUR + 1) == []
    spark.sql("INSERT INTO t VALUES (9, 1)")
    assert [(row.point, row.kind) for row in scheduler.at(MIDNIGHT + HOUR + 2)] == [(2, "PARTIAL")]
    assert [(row.point, row.kind) for row in scheduler.at(MIDNIGHT + 2 * HOUR)] == [(4, "INCREMENTAL")]
    assert [r.run for r in history("v")] == [0, 1, 2, 3]


def test_a_table_that_becomes_one_of_another_kind(
    spark: SparkSession, db: str, rehearse: Rehearse, history: History, oracle: Oracle
) -> None:
    """A run that finds it so is the last one that looks at what the table was."""
    spark.sql("CREATE TABLE p (k INT) USING parquet")
    spark.sql("INSERT INTO p VALUES (1)")
    create(spark, "v", "ON CHANGE AFTER 3 FILES", "SELECT k FROM p")
    create(spark, "early", "ON CHANGE NO OUTPUT, ON DEMAND", "SELECT k FROM p")
    scheduler = rehearse("v", "early")
    spark.sql("CONVERT TO DELTA p")

    def ran() -> list[tuple[str, str]]:
        return sorted((row.view.rsplit(".", 1)[1], row.kind) for row in scheduler.at(scheduler.clock.now() + 1))

    for k in range(3):
        assert ran() == []
        spark.sql(f"INSERT INTO p VALUES ({k})")
        if k < 2:
            assert ran() == [("early", "PARTIAL")]
    assert ran() == [("early", "PARTIAL"), ("v", "FULL")]
    assert history("v")[-1].reason.startswith("SOURCE_REPLACED")
    for k in range(3):
        assert ran() == []
        spark.sql(f"INSERT INTO p VALUES ({k})")
        if k < 2:
            assert ran() == [("early", "PARTIAL")]
    assert ran() == [("early", "PARTIAL"), ("v", "INCREMENTAL")]
    assert ran() == []
    oracle("v", "SELECT k FROM p")
    shown = {row.viewName: row.lagSeconds for row in spark.sql(f"SHOW INCREMENTAL VIEWS IN {db}").collect()}
    assert shown["v"] == 0


def test_two_schedulers_share_the_work(spark: SparkSession, t: str, rehearse: Rehearse, history: History) -> None:
    create(spark, "v", "EVERY 1 MINUTES")
    one, two = rehearse("v"), rehearse("v")
    for minute in range(1, 4):
        spark.sql(f"INSERT INTO t VALUES ({minute}, 1)")
        kinds = [row.kind for each in (one, two) for row in each.at(MIDNIGHT + 60 * minute)]
        assert kinds == ["INCREMENTAL"]
    assert [r.run for r in history("v")] == [0, 1, 2, 3]


def test_who_comes_second_at_the_log_folds(
    spark: SparkSession, t: str, rehearse: Rehearse, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease is no fence: here there is none."""
    create(spark, "v", "EVERY 1 MINUTES")
    spark.sql("INSERT INTO t VALUES (7, 1)")
    monkeypatch.setattr(holder, "_taken", lambda *_: True)
    one, two = rehearse("v"), rehearse("v")
    original = perform.perform
    begun: list[bool] = []
    won: list[str] = []

    def late(*args: Any) -> perform.RunOutcome:
        if not begun:
            begun.append(True)
            won.extend(row.kind for row in two.at(MIDNIGHT + 60))
        return original(*args)

    monkeypatch.setattr(perform, "perform", late)
    assert one.at(MIDNIGHT + 60) == []
    assert won == ["INCREMENTAL"]
    assert one.at(MIDNIGHT + 61) == []
    assert [r.run for r in history("v")] == [0, 1]
    assert one.noted.failed == []


def test_a_view_that_was_not_filled_yet(
    spark: SparkSession, t: str, rehearse: Rehearse, history: History, oracle: Oracle
) -> None:
    create(spark, "v", "AT '10:00'", clauses="INITIALIZE DEFERRED")
    scheduler = rehearse("v")
    assert [(row.kind, row.reason) for row in scheduler.at(MIDNIGHT + 10 * HOUR)] == [("FULL", "FIRST")]
    oracle("v", BY_K)


def test_a_view_waits_for_one_that_was_not_filled_yet(
    spark: SparkSession, t: str, rehearse: Rehearse, monkeypatch: pytest.MonkeyPatch, oracle: Oracle
) -> None:
    monkeypatch.setattr(ticks, "WAIT_SECONDS", 0.0)
    create(spark, "below", "AT '10:00'")
    create(spark, "above", "EVERY 1 HOUR", "SELECT sum(s) AS s FROM below")
    spark.sql("DROP INCREMENTAL VIEW below")
    create(spark, "below", "AT '10:00'", clauses="INITIALIZE DEFERRED")
    scheduler = rehearse("below", "above", most=1)
    assert scheduler.at(MIDNIGHT + HOUR) == []
    assert [row.view.rsplit(".", 1)[1] for row in scheduler.at(MIDNIGHT + 10 * HOUR)] == ["below"]
    assert [row.view.rsplit(".", 1)[1] for row in scheduler.at(MIDNIGHT + 10 * HOUR + 1)] == ["above"]
    assert scheduler.noted.failed == []
    oracle("above", f"SELECT sum(s) AS s FROM ({BY_K})")


def test_the_observer_is_told(spark: SparkSession, t: str, rehearse: Rehearse, db: str) -> None:
    create(spark, "v", "EVERY 1 MINUTES")
    spark.sql("INSERT INTO t VALUES (7, 1)")
    scheduler, name = rehearse("v"), f"spark_catalog.{db}.v"
    scheduler.at(MIDNIGHT + 60)
    assert scheduler.noted.events == [
        ("tick begun", MIDNIGHT + 60),
        ("begun", name, 1, "SCHEDULE", MIDNIGHT + 60),
        ("ended", name, "INCREMENTAL"),
        ("tick ended", MIDNIGHT + 60),
    ]


@pytest.mark.parametrize(
    ("schedule", "text"),
    [
        ("ON CHANGE AFTER 5 ROWS", "does not count the rows of its changes, which AFTER needs; write"),
        ("ON CHANGE OF nowhere", "does not read nowhere"),
    ],
)
def test_triggers_that_can_never_fire_are_refused(spark: SparkSession, db: str, schedule: str, text: str) -> None:
    spark.sql("CREATE TABLE p (k INT) USING parquet")
    with pytest.raises(Exception, match=text) as refused:
        create(spark, "v", schedule, "SELECT k FROM p")
    assert refused.value.getCondition() == "TIDEMILL_INVALID_SCHEDULE"  # type: ignore[attr-defined]  # of Spark
    create(spark, "v", "ON CHANGE AFTER 5 FILES", "SELECT k FROM p")
    with pytest.raises(Exception, match=text):
        spark.sql(f"ALTER INCREMENTAL VIEW v SET SCHEDULE ({schedule})")
    with confs(spark, {"spark.sql.session.timeZone": "Europe/Berlin"}):
        created = spark.sql("SHOW CREATE INCREMENTAL VIEW v").first()
    assert created is not None
    assert "AFTER 5 FILES" in created[0]
