"""A scheduler whose clock the tests set."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from threading import Event

import pytest
from pyspark.sql import Row, SparkSession

from tidemill.driver.attach import jvm_of
from tidemill.monitor.observer import OBSERVERS, Lags, RunReport
from tidemill.runtime.scheduler.clock import SimulatedClock
from tidemill.runtime.scheduler.roster import Roster
from tidemill.runtime.scheduler.ticks import Patience, Ticks
from tidemill.runtime.view.fired import REAL
from tidemill.runtime.view.history import RunRow

MIDNIGHT = 1_774_656_000.0
"""2026-03-28 00:00:00 UTC."""
HOUR = 3600.0
PATIENCE = 120.0
BY_K = "SELECT k, sum(x) AS s FROM t GROUP BY k"


@pytest.fixture
def t(spark: SparkSession, db: str) -> str:
    """The Delta table `t(k, x)`."""
    spark.sql("CREATE TABLE t (k INT, x BIGINT) USING delta")
    spark.sql("INSERT INTO t VALUES (1, 5), (1, 50), (2, 20)")
    return "t"


def create(spark: SparkSession, name: str, schedule: str, query: str = BY_K, clauses: str = "") -> None:
    spark.sql(f"CREATE INCREMENTAL VIEW {name} SCHEDULE ({schedule}) {clauses} AS {query}")


@dataclass
class Noted:
    """An observer that keeps what it is told of all runs of this process."""

    events: list[tuple[object, ...]] = field(default_factory=list)

    def run_begun(self, view: str, point: int | None, trigger: str, at: float) -> None:
        self.events.append(("begun", view, point, trigger, at))

    def run_ended(self, run: RunReport) -> None:
        self.events.append(("ended", run.view, run.kind))

    def run_failed(self, run: RunReport) -> None:
        self.events.append(("failed", run.view, run.code, run.point, run.trigger))

    def run_left(self, view: str) -> None:
        self.events.append(("left", view))

    def view_gone(self, view: str) -> None:
        self.events.append(("gone", view))

    def tick_begun(self, at: float) -> None:
        self.events.append(("tick begun", at))

    def tick_ended(self, at: float, lags: Lags) -> None:
        self.events.append(("tick ended", at))

    @property
    def failed(self) -> list[tuple[object, ...]]:
        return [event for event in self.events if event[0] == "failed"]


@dataclass
class Rehearsal:
    """A scheduler over the views of a database, with a clock that stands still unless it is set."""

    ticks: Ticks
    clock: SimulatedClock
    noted: Noted

    def at(self, time: float) -> list[RunRow]:
        """Sets the clock forward, and ticks once. Returns the rows."""
        self.clock.wait(time, Event())
        return [row for _, row in self.ticks.tick()]


def until(happened: Callable[[], bool]) -> None:
    """Waits until it has happened, at most `PATIENCE` seconds."""
    limit = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < limit
        time.sleep(0.1)


Rehearse = Callable[..., Rehearsal]


@pytest.fixture
def noted() -> Iterator[Noted]:
    """What happens from the start of the test on."""
    found = Noted()
    OBSERVERS.attach(found)
    yield found
    OBSERVERS.detach(found)


@pytest.fixture
def rehearse(spark: SparkSession, db: str, noted: Noted) -> Rehearse:
    """`rehearse(*views, start=MIDNIGHT, most=3, real=False)`: a new scheduler over these views of the test's database.
    With `real` its clock counts as the real one, though it is set."""

    def begin(*views: str, start: float = MIDNIGHT, most: int = 3, real: bool = False) -> Rehearsal:
        jvm, clock = jvm_of(spark), SimulatedClock(start)
        if real:
            clock.name = REAL
        roster = Roster(jvm, {("spark_catalog", db, view) for view in views})
        noted.events.clear()
        return Rehearsal(Ticks(jvm, roster, clock, Patience(60.0, most), lasting=False), clock, noted)

    return begin


@pytest.fixture
def history(spark: SparkSession) -> Callable[[str], list[Row]]:
    """`history(view)`: the rows of SHOW REFRESHES, oldest first."""
    return lambda view: spark.sql(f"SHOW REFRESHES IN {view}").collect()[::-1]
