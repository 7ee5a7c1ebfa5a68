"""Schedules fired by a thread of the session, and once, from Python; two services at once over one catalog."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

import tidemill
from tests.conftest import Oracle, confs
from tests.scheduler.conftest import BY_K, HOUR, MIDNIGHT, PATIENCE, Noted, create, until
from tidemill.driver import serve
from tidemill.driver.attach import jvm_of
from tidemill.errors import TidemillError
from tidemill.runtime.run import perform
from tidemill.runtime.scheduler import service as service_module
from tidemill.runtime.scheduler.clock import RealClock, SimulatedClock
from tidemill.runtime.scheduler.roster import Roster, Seen
from tidemill.runtime.scheduler.service import Service, Span

History = Callable[[str], list[Row]]
Jobs = Callable[[Callable[[], Any]], int]


@contextmanager
def service(spark: SparkSession, db: str, *views: str) -> Iterator[Service]:
    """A service by the real clock over views of a database, for the length of the block."""
    names = {("spark_catalog", db, view) for view in views} or None
    running = Service(jvm_of(spark), Span(RealClock(), names))
    running.start()
    try:
        yield running
    finally:
        running.stop(60.0)
    assert running.failure is None


@pytest.fixture(autouse=True)
def soon(spark: SparkSession) -> Iterator[None]:
    with confs(spark, {"spark.tidemill.scheduler.interval": "200ms"}):
        yield


def test_run_once_and_once_more(spark: SparkSession, t: str, db: str, jobs: Jobs, oracle: Oracle) -> None:
    create(spark, "v", "ON CHANGE")
    create(spark, "above", "ON CHANGE", "SELECT sum(s) AS s FROM v")
    create(spark, "by_hand", "ON DEMAND")
    spark.sql("INSERT INTO t VALUES (3, 1)")
    rows = tidemill.run_once(spark)
    assert [(row.view, row.kind, row.trigger) for row in rows] == [
        (f"spark_catalog.{db}.v", "INCREMENTAL", "CHANGE"),
        (f"spark_catalog.{db}.above", "INCREMENTAL", "CHANGE"),
    ]
    shown = spark.sql("SHOW REFRESHES IN above LIMIT 1").first()
    assert rows[1] == shown
    assert tidemill.run_once(spark) == []
    assert jobs(lambda: tidemill.run_once(spark)) == 0
    oracle("above", f"SELECT sum(s) AS s FROM ({BY_K})")
    spark.sql("INSERT INTO t VALUES (3, 1)")
    assert [row.view for row in tidemill.run_once(spark, ["above", f"{db}.by_hand"])] == []
    assert [row.view for row in tidemill.run_once(spark, [f"{db}.v"])] == [f"spark_catalog.{db}.v"]
    with pytest.raises(Exception, match="TIDEMILL_NOT_FOUND"):
        tidemill.run_once(spark, ["nowhere"])


def test_points_in_python(spark: SparkSession, t: str) -> None:
    points = [
        tidemill.on_change("t", rows=5),
        tidemill.at_progress(50, output=False),
        tidemill.cron("0 9 * * *", "Europe/Berlin", cost=2),
        tidemill.every(5),
    ]
    view = tidemill.create_incremental_view(spark, "v", BY_K, points)
    assert (
        "SCHEDULE (ON CHANGE OF t AFTER 5 ROWS, AT PROGRESS 50 PERCENT NO OUTPUT,"
        " CRON '0 9 * * *' AT TIME ZONE 'Europe/Berlin' COST 2, EVERY 5 MINUTES)"
    ) in view.showCreate()
    with pytest.raises(ValueError, match="rows or in files"):
        tidemill.on_change(rows=5, files=5)


def test_while_a_service_runs_statements_work(
    spark: SparkSession, t: str, db: str, history: History, oracle: Oracle
) -> None:
    create(spark, "v", "EVERY 1 SECONDS")
    with service(spark, db):
        for k in range(3):
            before = len(history("v"))
            spark.sql(f"INSERT INTO t VALUES ({k}, 1)")
            until(lambda before=before: len(history("v")) > before)  # type: ignore[misc]  # bound at once
        runs = len(history("v"))
        create(spark, "w", "ON CHANGE", "SELECT k FROM t")
        spark.sql("INSERT INTO t VALUES (7, 1)")
        until(lambda: len(history("w")) == 2 and len(history("v")) > runs)
        assert history("w")[1].trigger == "CHANGE"
        spark.sql("DROP INCREMENTAL VIEW w")
    oracle("v", BY_K)
    found = history("v")
    assert [r.run for r in found] == list(range(len(found)))
    assert {r.trigger for r in found} == {"CREATE", "SCHEDULE"}


def test_a_run_that_is_stopped_leaves_nothing(
    spark: SparkSession, t: str, db: str, history: History, monkeypatch: pytest.MonkeyPatch, oracle: Oracle
) -> None:
    create(spark, "v", "EVERY 1 SECONDS")
    spark.sql("INSERT INTO t VALUES (7, 1)")
    original, begun = perform.perform, []

    def slow(*args: Any) -> perform.RunOutcome:
        begun.append(True)
        time.sleep(2.0)
        return original(*args)

    with monkeypatch.context() as patched:
        patched.setattr(perform, "perform", slow)
        running = Service(jvm_of(spark), Span(RealClock(), [(db, "v")]))
        running.start()
        until(lambda: bool(begun))
        running.stop(0.1)
    assert (running.ended.is_set(), running.failure) == (True, None)
    assert len(history("v")) == 1
    with service(spark, db, "v"):
        until(lambda: len(history("v")) == 2)
    oracle("v", BY_K)


def test_two_services_at_once(
    spark: SparkSession,
    t: str,
    db: str,
    history: History,
    oracle: Oracle,
    noted: Noted,
    caplog: pytest.LogCaptureFixture,
) -> None:
    create(spark, "v", "EVERY 1 SECONDS")
    create(spark, "above", "ON CHANGE", "SELECT sum(s) AS s FROM v")
    with service(spark, db), service(spark, db):
        for k in range(5):
            before = len(history("above"))
            spark.sql(f"INSERT INTO t VALUES ({k}, {k + 1})")
            until(lambda before=before: len(history("above")) > before)  # type: ignore[misc]  # bound at once
    assert noted.failed == []
    assert [r.getMessage() for r in caplog.records if r.levelname in ("WARNING", "ERROR")] == []
    for view in ("v", "above"):
        found = history(view)
        assert [r.run for r in found] == list(range(len(found)))
        verified = spark.sql(f"VERIFY INCREMENTAL VIEW {view}").first()
        assert verified is not None
        assert verified.matches
    # As many runs as there was new data, whoever did them.
    assert len(history("above")) == 6
    oracle("above", f"SELECT sum(s) AS s FROM ({BY_K})")


def test_a_simulated_clock_jumps_from_point_to_point(
    spark: SparkSession, t: str, db: str, history: History, noted: Noted
) -> None:
    create(spark, "v", "AT '14:00' NO OUTPUT, AT '24:00'")
    spark.sql("INSERT INTO t VALUES (7, 1)")
    rehearsal = Service(jvm_of(spark), Span(SimulatedClock(MIDNIGHT), [(db, "v")], MIDNIGHT + 30 * 24 * HOUR))
    rehearsal.start()
    assert rehearsal.ended.wait(PATIENCE)
    assert rehearsal.failure is None
    begun = [e[4] for e in noted.events if e[0] == "begun"]
    assert begun == [MIDNIGHT + 24 * HOUR * day + hour * HOUR for day in range(30) for hour in (14, 24)]
    assert [r.kind for r in history("v")] == ["FULL", "PARTIAL", "INCREMENTAL"]


def test_a_service_goes_on_after_any_error(
    spark: SparkSession, t: str, db: str, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_module, "AGAIN_SECONDS", 0.2)
    create(spark, "v", "EVERY 1 SECONDS")
    spark.sql("INSERT INTO t VALUES (7, 1)")
    look, looks = Roster.look, []

    def confused(self: Roster) -> list[Seen]:
        looks.append(True)
        if len(looks) <= 3:
            raise KeyError("of no condition")
        return look(self)

    monkeypatch.setattr(Roster, "look", confused)
    with service(spark, db, "v"):
        until(lambda: len(history("v")) == 2)
    assert len(looks) > 3


def test_a_clock_that_jumps_does_not_try_for_ever(
    spark: SparkSession, t: str, db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(spark, "v", "EVERY 1 SECONDS")
    rehearsal = Service(jvm_of(spark), Span(SimulatedClock(MIDNIGHT), [(db, "v")], MIDNIGHT + HOUR))

    def broken(_: Roster) -> list[Seen]:
        raise TidemillError("TIDEMILL_SOURCE_MOVED", {"view": "v", "source": "t"})

    monkeypatch.setattr(Roster, "look", broken)
    rehearsal.start()
    assert rehearsal.ended.wait(30)
    assert isinstance(rehearsal.failure, TidemillError)


@pytest.mark.parametrize("grace", [30.0, 0.3])
def test_once_is_told_to_end(
    spark: SparkSession, t: str, db: str, history: History, monkeypatch: pytest.MonkeyPatch, grace: float
) -> None:
    """The run under way has its time to end, and no other one begins."""
    create(spark, "v", "EVERY 1 SECONDS")
    create(spark, "above", "EVERY 1 SECONDS", "SELECT sum(s) AS s FROM v")
    spark.sql("INSERT INTO t VALUES (7, 1)")
    time.sleep(1.1)
    original, stop = perform.perform, threading.Event()

    def slow(*args: Any) -> perform.RunOutcome:
        stop.set()
        time.sleep(1.5)
        return original(*args)

    monkeypatch.setattr(perform, "perform", slow)
    monkeypatch.setattr(serve, "GRACE", grace)
    names = [(db, "v"), (db, "above")]

    def once() -> int:
        return serve._once(spark, jvm_of(spark), names, RealClock(), stop)

    if grace > 1.0:
        assert once() == 0
    else:
        with pytest.raises(TidemillError, match="OPERATION_CANCELED"):
            once()
    assert [r.kind for r in history("v")] == ["FULL", "INCREMENTAL"][: 2 if grace > 1.0 else 1]
    assert len(history("above")) == 1


def test_what_is_shown_of_time(spark: SparkSession, t: str, db: str) -> None:
    create(spark, "v", "AT '14:00', EVERY 1 HOUR")
    create(spark, "w", "ON CHANGE", "SELECT sum(s) AS s FROM v")
    spark.sql("CREATE TABLE p (k INT) USING parquet")
    create(spark, "x", "ON DEMAND", "SELECT k FROM p")

    def shown() -> dict[str, Row]:
        return {row.viewName: row for row in spark.sql(f"SHOW INCREMENTAL VIEWS IN {db}").collect()}

    rows = shown()
    assert {name: row.lagSeconds for name, row in rows.items()} == {"v": 0, "w": 0, "x": 0}
    assert (rows["w"].nextPointAt, rows["x"].nextPointAt) == (None, None)
    assert 0 < (rows["v"].nextPointAt.timestamp() - time.time()) <= HOUR
    assert (rows["v"].lastKind, rows["v"].lastReason) == ("FULL", "FIRST")
    spark.sql("INSERT INTO t VALUES (7, 1)")
    spark.sql("INSERT INTO p VALUES (1)")
    time.sleep(2.0)
    spark.sql("INSERT INTO t VALUES (8, 1)")
    rows = shown()
    assert 2 <= rows["v"].lagSeconds < 300
    assert 2 <= rows["x"].lagSeconds < 300
    assert rows["w"].lagSeconds == 0
    spark.sql("REFRESH INCREMENTAL VIEW v")
    time.sleep(1.1)
    rows = shown()
    assert rows["v"].lagSeconds == 0
    assert 1 <= rows["w"].lagSeconds < 300
