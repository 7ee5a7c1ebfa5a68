"""Steps of a run that do not wait for each other work side by side; costs, errors, cancelling are as of one thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from tests.conftest import Oracle, confs, location_of, newest_entry
from tidemill.bridge.jvm import JobCost, Jvm
from tidemill.bridge.walls import Walls
from tidemill.errors import TidemillError
from tidemill.runtime.content.jobs import SparkJobs, Written
from tidemill.runtime.run.side_by_side import Task, carry_out
from tidemill.runtime.run.steps import waits_for
from tidemill.runtime.view.record import RunRecord
from tidemill.search.contract.run_plan import Step, Volume
from tidemill.wire import nodes
from tidemill.wire.nodes import Among

LONG = 30.0
"""Seconds that nothing here takes."""
Jobs = Callable[[Callable[[], Any]], int]


@dataclass
class Session:
    """Stands for a session of the JVM."""

    threads: bool = True
    cancelled: bool = False
    clones: list[Session] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)
    spent: JobCost = field(default_factory=JobCost)
    interrupted: Callable[[], bool] = lambda: False

    @property
    def has_threads(self) -> bool:
        return self.threads

    @property
    def walls(self) -> Walls:
        return self.spent.walls

    def clone(self, settings: object) -> Session:
        self.clones.append(Session(ended=self.ended))
        return self.clones[-1]

    def apart(self, interrupted: Callable[[], bool]) -> Session:
        return Session(ended=self.ended, interrupted=interrupted)

    def thread_properties(self) -> None:
        return None

    @contextmanager
    def in_thread(self, properties: object, tag: str) -> Iterator[None]:
        yield

    def cancel(self, tag: str) -> None:
        """Ends what waits for it."""
        self.ended.set()


def carried_out(
    session: Session, waits: Sequence[set[int]], work: Callable[[int, Session], Any], most: int = 4
) -> list[int]:
    """Does tasks; the order in which they ended."""
    ended: list[int] = []
    tasks = [
        Task(frozenset(w), partial(partial, cast(Callable[[Jvm], Any], work), n), ended.append)  # type: ignore[arg-type]
        for n, w in enumerate(waits)
    ]
    carry_out(cast(Jvm, session), tasks, most)
    return ended


def test_a_task_begins_when_those_that_it_waits_for_have_ended() -> None:
    meeting, done = threading.Barrier(2, timeout=LONG), set[int]()
    waits: list[set[int]] = [set(), set(), {0, 1}, {2}, {1}]

    def work(number: int, session: Session) -> int:
        assert waits[number] <= done
        if number < 2:
            meeting.wait()
        session.spent.jobs += 1
        done.add(number)
        return number

    session = Session()
    assert sorted(carried_out(session, waits, work)) == [0, 1, 2, 3, 4]
    assert session.spent.jobs == 5
    assert len(session.clones) <= 2, "a session is used again, and the run's own first"


@pytest.mark.parametrize(("threads", "most"), [(True, 1), (False, 4)])
def test_one_after_the_other(threads: bool, most: int) -> None:
    seen: list[tuple[Any, int]] = []

    def work(number: int, session: Session) -> int:
        seen.append((threading.get_ident(), number))
        return number

    session = Session(threads)
    ended = carried_out(session, [set(), set(), set()], work, most)
    assert ended == [0, 1, 2]
    assert seen == [(threading.get_ident(), n) for n in range(3)]
    assert not session.clones


def test_parts_add_up_to_the_time_that_went_by() -> None:
    meeting = threading.Barrier(2, timeout=LONG)

    def work(number: int, session: Session) -> int:
        with session.walls.part("jobs" if number else "catalyst"):
            meeting.wait()
            time.sleep(0.1)
        return number

    session, began = Session(), time.perf_counter()
    carried_out(session, [set(), set()], work)
    passed = (time.perf_counter() - began) * 1000
    parts = session.walls.since({})
    assert set(parts) == {"catalyst", "jobs"}
    assert 90 <= sum(parts.values()) <= passed


def test_an_error_ends_the_others() -> None:
    waiting = threading.Event()

    def work(number: int, session: Session) -> int:
        session.spent.jobs += 1
        if number == 0:
            waiting.wait(LONG)
            raise ValueError("of the first")
        waiting.set()
        assert session.ended.wait(LONG)
        assert session.interrupted()
        raise RuntimeError("cancelled")

    session = Session()
    with pytest.raises(ValueError, match="of the first"):
        carried_out(session, [set(), set(), {0}], work)
    assert session.spent.jobs == 2, "no other task begins, and what both took is known"


@pytest.mark.parametrize("fails", [True, False])
def test_cancelled_while_tasks_work(fails: bool) -> None:
    """The error of a cancelled job is told, if there is one."""

    def work(number: int, session: Session) -> int:
        assert session.ended.wait(LONG)
        if fails:
            raise ValueError("the job was cancelled")
        return number

    expected = pytest.raises(ValueError, match="job") if fails else pytest.raises(TidemillError, match="OPERATION")
    with expected:
        carried_out(Session(cancelled=True), [set(), set()], work)


def step(name: str, *plans: Any, state: str | None = None, mode: Any = None) -> Step:
    plan = nodes.join("inner", [], *plans) if len(plans) > 1 else plans[0]
    return Step(name, "shared" if state is None else "state", state, mode, plan, (), Volume())


def test_what_steps_wait_for() -> None:
    """For steps that they read, also in look-ups; and for those before them that count pieces of the same state."""
    empty, column = nodes.empty([]), [(1, "a", "long")]
    looked_up = nodes.looked_up(nodes.state("s", column), Among(1, "first", "a", False))
    steps = [
        step("first", empty),
        step("reads s", nodes.state("s", column)),
        step("reads t", nodes.state("t", column)),
        step("compact s", nodes.state("s", column), state="s", mode="compact"),
        step("looks up", looked_up),
        step("grow s", nodes.staged("first", column), state="s", mode="segment"),
        step("grow t", nodes.staged("reads t", column), state="t", mode="segment"),
        step("last", nodes.staged("looks up", column), nodes.staged("first", column)),
    ]
    found = [{steps[n].name for n in numbers} for numbers in waits_for(steps)]
    assert found == [
        set(),
        set(),
        set(),
        {"reads s"},
        {"first", "compact s"},
        {"first", "compact s"},
        {"reads t"},
        {"first", "looks up"},
    ]


QUERY = """SELECT 't' AS of, g, sum(v) AS value, count(*) AS n FROM t GROUP BY g
           UNION ALL SELECT 'u', g, max(v), count(*) FROM u GROUP BY g"""


@pytest.fixture
def view(spark: SparkSession, db: str) -> str:
    """`v` keeps a state of each of two Delta tables, which have both changed."""
    for table in ("t", "u"):
        spark.sql(f"CREATE TABLE {table} (g INT, v BIGINT) USING delta")
        spark.sql(f"INSERT INTO {table} SELECT id % 5000, id FROM range(100000)")
    spark.sql(f"CREATE INCREMENTAL VIEW v REFRESH POLICY INCREMENTAL AS {QUERY}")
    for table in ("t", "u"):
        spark.sql(f"INSERT INTO {table} VALUES (1, 7), (6000, 8)")
    return "v"


class Writes:
    """Watches the writes of steps: how many are under way at most. The first two of a run wait for each other."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, fails: str = "") -> None:
        self.most, self.names = 0, list[str]()
        self.meeting = threading.Barrier(2, timeout=LONG)
        self._fails, self._under_way, self._lock = fails, 0, threading.Lock()
        self._write = SparkJobs.write
        monkeypatch.setattr(SparkJobs, "write", lambda jobs, *args, **named: self.write(jobs, *args, **named))

    def write(self, jobs: SparkJobs, *args: Any, step: str, **named: Any) -> Written:
        with self._lock:
            self._under_way += 1
            self.most = max(self.most, self._under_way)
            first = len(self.names) < 2
            self.names.append(step)
        try:
            if first:
                with suppress(threading.BrokenBarrierError):
                    self.meeting.wait()
                if self._fails and step == self.names[0]:
                    raise ValueError(self._fails)
            return self._write(jobs, *args, step=step, **named)
        finally:
            with self._lock:
                self._under_way -= 1


def test_steps_of_a_run_work_side_by_side(
    spark: SparkSession,
    view: str,
    refresh: Callable[..., Row],
    oracle: Oracle,
    jobs: Jobs,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patched:
        watched, rows = Writes(patched), list[Row]()
        all_jobs = jobs(lambda: rows.append(refresh(view)))
    assert not watched.meeting.broken
    assert watched.most >= 2
    (row,) = rows
    assert (row.kind, row.jobs) == ("INCREMENTAL", all_jobs)
    assert row.rows_in == (4, 0)
    oracle(view, QUERY)
    record = RunRecord.from_json(newest_entry(location_of(spark, view)))
    assert record.split is not None
    assert sum(record.split.wall_ms.values()) == row.duration_ms
    assert min(record.split.wall_ms.values()) >= 0, "no time is counted twice"
    assert set(watched.names) <= {told.step for told in record.steps}


def test_one_at_a_time_if_that_is_wanted(
    spark: SparkSession, view: str, refresh: Callable[..., Row], oracle: Oracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Writes(monkeypatch)
    watched.meeting.abort()
    with confs(spark, {"spark.tidemill.refresh.sideBySide": "1"}):
        assert refresh(view).kind == "INCREMENTAL"
    assert watched.most == 1
    oracle(view, QUERY)


def test_a_step_that_fails_leaves_nothing_of_the_others(
    spark: SparkSession, view: str, refresh: Callable[..., Row], oracle: Oracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    def files() -> set[Path]:
        return {path for path in location_of(spark, view).rglob("*") if path.is_file()}

    before = files()
    with monkeypatch.context() as patched:
        watched = Writes(patched, fails="of the first step")
        with pytest.raises(PySparkException, match="of the first step"):
            refresh(view)
    assert watched.most == 2
    assert files() == before
    assert not spark.sparkContext.statusTracker().getActiveJobsIds()
    assert refresh(view).kind == "INCREMENTAL"
    oracle(view, QUERY)
