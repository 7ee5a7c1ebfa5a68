"""Views that fail, in every way: what is noted, who goes on, what is tried again; and leases."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

import tidemill
from tests.conftest import Oracle, location_of
from tests.scheduler.conftest import HOUR, MIDNIGHT, Noted, Rehearsal, Rehearse, create, until
from tidemill.driver.attach import jvm_of
from tidemill.errors import TidemillError
from tidemill.runtime.before import analysis
from tidemill.runtime.run import perform, pins
from tidemill.runtime.scheduler import holder, watch
from tidemill.runtime.scheduler.roster import Roster
from tidemill.runtime.scheduler.ticks import Ticks
from tidemill.runtime.storage.files import Files
from tidemill.runtime.view import notes, views
from tidemill.runtime.view.definition import Definition
from tidemill.runtime.view.fired import Fired
from tidemill.runtime.view.history import RunRow
from tidemill.runtime.view.notes import NO_NOTE, Failing, Note
from tidemill.runtime.view.views import View

History = Callable[[str], list[Row]]
MINUTE = 60


def test_a_view_that_fails_waits_and_is_suspended(
    spark: SparkSession, t: str, rehearse: Rehearse, oracle: Oracle, db: str, caplog: pytest.LogCaptureFixture
) -> None:
    query = "SELECT k, 100 DIV sum(x) AS s FROM t GROUP BY k"
    create(spark, "v", "EVERY 1 MINUTES", query)
    create(spark, "above", "EVERY 1 MINUTES", "SELECT sum(s) AS s FROM v")
    create(spark, "other", "EVERY 1 MINUTES")
    scheduler = rehearse("v", "above", "other", most=3, real=True)
    spark.sql("INSERT INTO t VALUES (7, 0)")
    rows = {row.view.rsplit(".", 1)[1]: row for row in scheduler.at(MIDNIGHT + 60)}
    assert (rows["v"].kind, rows["v"].reason, rows["v"].run) == ("FAILED", "DIVIDE_BY_ZERO", None)
    # Who reads it reads its last output; the others do not mind.
    assert (rows["above"].kind, rows["other"].kind) == ("NO_DATA", "INCREMENTAL")
    shown = spark.sql(f"SHOW INCREMENTAL VIEWS IN {db} LIKE 'v'").first()
    assert shown is not None
    assert (shown.status, shown.lastKind) == ("ACTIVE", "FAILED")
    assert shown.lastReason.startswith("DIVIDE_BY_ZERO: ")
    tried = [at for at in range(61, 600) if any(row.kind == "FAILED" for row in scheduler.at(MIDNIGHT + at))]
    assert tried == [120, 240]
    shown = spark.sql(f"SHOW INCREMENTAL VIEWS IN {db} LIKE 'v'").first()
    assert shown is not None
    assert (shown.status, shown.nextPointAt) == ("SUSPENDED", None)
    lines = {r.col_name: r.data_type for r in spark.sql("DESCRIBE INCREMENTAL VIEW v").collect()}
    assert "3 times" in lines["Suspended"]
    assert "DIVIDE_BY_ZERO" in lines["Suspended"]
    assert len(scheduler.noted.failed) == 3
    told = [r.getMessage() for r in caplog.records if r.name == "tidemill.scheduler" and r.levelname == "WARNING"]
    assert [text.partition(" failed, ")[2].partition(":")[0] for text in told] == [
        *("it is tried again in 60 s", "it is tried again in 120 s", "it is suspended"),
    ]
    spark.sql("DELETE FROM t WHERE k = 7")
    assert "v" not in {row.view.rsplit(".", 1)[1] for row in scheduler.at(MIDNIGHT + 700)}
    spark.sql("ALTER INCREMENTAL VIEW v RESUME")
    rows = {row.view.rsplit(".", 1)[1]: row for row in scheduler.at(MIDNIGHT + 701)}
    assert rows["v"].kind == "INCREMENTAL"
    assert "Suspended" not in {r.col_name for r in spark.sql("DESCRIBE INCREMENTAL VIEW v").collect()}
    oracle("v", query)


def test_a_run_that_succeeds_ends_the_failures(spark: SparkSession, t: str, rehearse: Rehearse, refresh: Any) -> None:
    create(spark, "v", "EVERY 1 MINUTES", "SELECT k, 100 DIV sum(x) AS s FROM t GROUP BY k")
    scheduler = rehearse("v", most=2, real=True)
    spark.sql("INSERT INTO t VALUES (7, 0)")
    assert [row.kind for row in scheduler.at(MIDNIGHT + 60)] == ["FAILED"]
    spark.sql("INSERT INTO t VALUES (7, 1)")
    refresh("v")
    spark.sql("INSERT INTO t VALUES (7, -1)")
    assert [row.kind for row in scheduler.at(MIDNIGHT + 61)] == ["FAILED"]
    status = spark.sql("SHOW INCREMENTAL VIEWS LIKE 'v'").first()
    assert status is not None
    assert status.status == "ACTIVE"


def test_early_work_that_fails_is_no_failure(
    spark: SparkSession, t: str, rehearse: Rehearse, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(spark, "v", "EVERY 1 MINUTES NO OUTPUT, AT '24:00'")
    scheduler = rehearse("v", most=1)
    spark.sql("INSERT INTO t VALUES (7, 1)")

    def failing(*_: Any) -> None:
        raise ValueError("at positions that nobody asked for")

    with monkeypatch.context() as broken:
        broken.setattr(perform, "_early", failing)
        assert [row.kind for row in scheduler.at(MIDNIGHT + 60)] == ["FAILED"]
        assert scheduler.at(MIDNIGHT + 61) == []
        lines = {r.col_name: r.data_type for r in spark.sql("DESCRIBE INCREMENTAL VIEW v").collect()}
        assert "nobody asked for" in lines["Nothing Done Early"]
        assert [row.kind for row in scheduler.at(MIDNIGHT + 120)] == ["FAILED"]
    assert [row.kind for row in scheduler.at(MIDNIGHT + 24 * HOUR)] == ["INCREMENTAL"]
    assert "Nothing Done Early" not in {r.col_name for r in spark.sql("DESCRIBE INCREMENTAL VIEW v").collect()}


def test_a_view_that_another_holds_is_left_to_it(
    spark: SparkSession, t: str, rehearse: Rehearse, history: History
) -> None:
    create(spark, "v", "EVERY 1 MINUTES")
    spark.sql("INSERT INTO t VALUES (7, 1)")
    lease = location_of(spark, "v") / holder.FILE
    lease.parent.mkdir(parents=True)
    lease.write_text('{"token": "0123", "id": "of another machine"}')
    scheduler = rehearse("v")
    assert scheduler.at(MIDNIGHT + 60) == []
    assert lease.exists()
    lease.write_text("")  # damaged, and written just now
    assert scheduler.at(MIDNIGHT + 61) == []
    lease.unlink()
    assert [row.kind for row in scheduler.at(MIDNIGHT + 62)] == ["INCREMENTAL"]
    assert not lease.exists()


def opened(spark: SparkSession, name: str) -> View:
    return views.open_entry(jvm_of(spark), views.entry(jvm_of(spark), (name,)))


def short(rows: Sequence[RunRow]) -> list[tuple[str, str, str | None]]:
    """Name without database, kind and reason of rows."""
    return [(row.view.rsplit(".", 1)[1], row.kind, row.reason) for row in rows]


@pytest.mark.parametrize("broken", ["looked at", "opened", "analysed"])
def test_an_error_that_nobody_expects_is_one_views_own(
    spark: SparkSession,
    t: str,
    rehearse: Rehearse,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    history: History,
    broken: str,
) -> None:
    create(spark, "bad", "ON CHANGE NO OUTPUT, AT '10:00' NO OUTPUT, EVERY 9 HOURS NO OUTPUT, ON DEMAND")
    create(spark, "good", "AT '10:00'")
    spark.sql("INSERT INTO t VALUES (7, 1)")
    module, name = {
        "looked at": (watch, "look"),
        "opened": (views, "newest_amendment"),
        "analysed": (analysis, "analysed_again"),
    }[broken]
    original = getattr(module, name)

    def confused(*args: Any) -> Any:
        found = [a for a in args if isinstance(a, View | Definition)]
        names = [(a if isinstance(a, Definition) else a.definition).name[-1] for a in found]
        if names == ["bad"]:
            raise KeyError("of no condition")
        return original(*args)

    with monkeypatch.context() as patched:
        patched.setattr(module, name, confused)
        rows = rehearse("bad", "good").at(MIDNIGHT + 10 * HOUR)
    failed = [] if broken == "opened" else [("bad", "FAILED", "TIDEMILL_PLANNER_FAILED")]
    assert sorted(short(rows)) == [*failed, ("good", "INCREMENTAL", None)]
    assert len([r for r in caplog.records if r.exc_info and isinstance(r.exc_info[1], KeyError)]) == 1
    told = [(r.point, r.trigger) for r in history("bad") if r.kind == "FAILED"]
    # Of what could not be looked at, nobody knows the point.
    assert told == {"looked at": [(4, "CHANGE")], "opened": [], "analysed": [(2, "SCHEDULE")]}[broken]


def test_sources_that_cannot_be_looked_at(
    spark: SparkSession, t: str, history: History, noted: Noted, db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asks once is told, and so is the history."""
    create(spark, "v", "AT PROGRESS 50 PERCENT NO OUTPUT, ON CHANGE", "SELECT k FROM t")
    create(spark, "other", "EVERY 1 SECONDS")
    spark.sql("INSERT INTO t VALUES (7, 1)")
    time.sleep(1.1)

    def damaged(*_: Any) -> None:
        raise TidemillError("TIDEMILL_FILE_DAMAGED", {"file": "f", "reason": "it is empty, or no text"})

    with monkeypatch.context() as patched:
        patched.setattr(watch, "look", damaged)
        rows = tidemill.run_once(spark, [f"{db}.v", f"{db}.other"])
        assert [(row.view.rsplit(".", 1)[1], row.kind) for row in rows] == [("v", "FAILED"), ("other", "INCREMENTAL")]
    (failed,) = [row for row in history("v") if row.kind == "FAILED"]
    assert (failed.point, failed.trigger, failed.reason) == (2, "CHANGE", "TIDEMILL_FILE_DAMAGED")
    assert failed == rows[0]
    assert noted.failed == [("failed", f"spark_catalog.{db}.v", "TIDEMILL_FILE_DAMAGED", 2, "CHANGE")]
    assert tidemill.run_once(spark, [f"{db}.v"]) == [], "it waits"
    spark.sql("ALTER INCREMENTAL VIEW v RESUME")
    assert [row.kind for row in tidemill.run_once(spark, [f"{db}.v"])] == ["INCREMENTAL"]


def test_an_error_of_the_whole_tick_ends_what_is_done_once(
    spark: SparkSession, t: str, rehearse: Rehearse, monkeypatch: pytest.MonkeyPatch, db: str
) -> None:
    create(spark, "v", "AT '10:00'")
    scheduler = rehearse("v")
    lasting = Ticks(jvm_of(spark), Roster(jvm_of(spark), {("spark_catalog", db, "v")}), scheduler.clock, lasting=True)
    spark.sql("INSERT INTO t VALUES (7, 1)")
    with monkeypatch.context() as patched:
        patched.setattr(pins, "pinned", lambda *_: ({}, "t"))
        with pytest.raises(TidemillError, match="TIDEMILL_SOURCE_MOVED"):
            scheduler.at(MIDNIGHT + 10 * HOUR)
        assert lasting.tick() == []
    assert [row.kind for _, row in lasting.tick()] == ["INCREMENTAL"]


def test_what_fails_before_it_begins_has_its_point(
    spark: SparkSession, t: str, rehearse: Rehearse, history: History
) -> None:
    spark.sql("CREATE TABLE u (k INT) USING parquet")
    create(spark, "v", "AT '10:00', AT '24:00'", "SELECT k FROM u")
    spark.sql("DROP TABLE u")
    scheduler = rehearse("v")
    (row,) = scheduler.at(MIDNIGHT + 10 * HOUR)
    assert (row.point, row.trigger, row.reason) == (1, "SCHEDULE", "TABLE_OR_VIEW_NOT_FOUND")
    (failed,) = [row for row in history("v") if row.kind == "FAILED"]
    assert (failed.point, failed.trigger, failed.reason) == (1, "SCHEDULE", "TABLE_OR_VIEW_NOT_FOUND")
    assert failed.started_at.timestamp() == row.started_at / 1e6 == MIDNIGHT + 10 * HOUR


def test_rehearsals_suspend_nothing(spark: SparkSession, t: str, rehearse: Rehearse, db: str) -> None:
    """Nor do they end, begin or lengthen the failures by the real clock."""
    create(spark, "v", "EVERY 1 MINUTES", "SELECT k, 100 DIV sum(x) AS s FROM t GROUP BY k")
    spark.sql("INSERT INTO t VALUES (7, 0)")

    def shown() -> tuple[str, str]:
        row = spark.sql(f"SHOW INCREMENTAL VIEWS IN {db} LIKE 'v'").first()
        assert row is not None
        return row.status, row.lastKind

    def tried(scheduler: Rehearsal, stop: int) -> list[int]:
        found = range(MINUTE, stop, MINUTE)
        return [at for at in found if [r.kind for r in scheduler.at(MIDNIGHT + at)] == ["FAILED"]]

    assert tried(rehearse("v", most=2), 8 * MINUTE) == [MINUTE, 2 * MINUTE, 4 * MINUTE]
    assert shown() == ("ACTIVE", "FULL")
    real = rehearse("v", most=2, real=True)
    assert tried(real, 2 * MINUTE) == [MINUTE]
    assert shown() == ("ACTIVE", "FAILED")
    # Another start is another clock, which has not failed yet.
    assert tried(rehearse("v", most=2, start=MIDNIGHT - MINUTE), 2 * MINUTE) == [MINUTE]
    assert shown() == ("ACTIVE", "FAILED")
    assert [row.kind for row in real.at(MIDNIGHT + 2 * MINUTE)] == ["FAILED"]
    assert shown() == ("SUSPENDED", "FAILED")


def test_a_note_that_comes_late_is_taken_back(spark: SparkSession, t: str) -> None:
    create(spark, "v", "EVERY 1 MINUTES")
    location = location_of(spark, "v")
    view = opened(spark, "v")
    note = Note(Fired({"real": {"x": 1.0}}), Failing(1, 9e9, "C", "m", 0))
    notes.write(view, note)
    assert notes.read(view) == note
    spark.sql("DROP INCREMENTAL VIEW v")
    notes.write(view, note)
    assert not location.exists()
    # Written right before its process died, it stands in the way of no CREATE, and does not count for that view.
    stale = location / notes.FILE
    stale.parent.mkdir(parents=True)
    text = json.dumps({"id": view.definition.id, **note.to_json()})
    stale.write_text(text)
    create(spark, "v", "EVERY 1 MINUTES")
    assert not stale.exists()
    stale.parent.mkdir(exist_ok=True)
    stale.write_text(text)
    again = opened(spark, "v")
    assert notes.read(again) == NO_NOTE
    stale.write_text(json.dumps({**json.loads(text), "id": again.definition.id, "failing": {"count": "many"}}))
    assert notes.read(again) == NO_NOTE
    stale.write_text(json.dumps({name: value for name, value in note.to_json().items() if name != "rehearsed"}))
    assert notes.read(again) == note, "as an earlier version wrote it"


def test_leases_are_renewed_until_they_are_given_back(
    spark: SparkSession, t: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holder, "RENEW_SECONDS", 0.05)
    create(spark, "v", "EVERY 1 MINUTES")
    jvm, place = jvm_of(spark), location_of(spark, "v")
    lease, location = place / holder.FILE, str(place)
    write, writing = Files.write, threading.Event()

    def slow(self: Files, path: str, text: str, *, lasting: bool = True) -> None:
        if path.endswith(holder.FILE):
            writing.set()
            time.sleep(0.5)
        write(self, path, text, lasting=lasting)

    with holder.holding(jvm, [location]) as mine:
        assert mine == {location}
        first = lease.stat().st_mtime_ns
        until(lambda: lease.stat().st_mtime_ns > first)
        with holder.holding(jvm, [location]) as other:
            assert other == set()
        monkeypatch.setattr(Files, "write", slow)
        writing.clear()
        assert writing.wait(30)
    time.sleep(0.7)
    assert not lease.exists()
    monkeypatch.setattr(Files, "write", write)
    with holder.holding(jvm, [location]):
        lease.write_text('{"token": "0123", "id": "of another machine"}')
        time.sleep(0.3)
    assert "another machine" in lease.read_text(), "neither written over nor removed"
    expired = time.time() - holder.LEASE_SECONDS - 1
    os.utime(lease, (expired, expired))
    with holder.holding(jvm, [location]) as mine:
        assert mine == {location}
    assert not lease.exists()
