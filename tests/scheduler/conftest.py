"""A scheduler whose clock the tests set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Event

import pytest
from pyspark.sql import Row, SparkSession

from tidemill.driver.attach import jvm_of
from tidemill.runtime.scheduler.clock import SimulatedClock
from tidemill.runtime.scheduler.roster import Roster
from tidemill.runtime.scheduler.ticks import Patience, Ticks
from tidemill.runtime.view.history import RunRow

MIDNIGHT = 1_774_656_000.0
"""2026-03-28 00:00:00 UTC."""
HOUR = 3600.0


@dataclass
class Noted:
    """An observer that keeps what it is told."""

    events: list[tuple[object, ...]] = field(default_factory=list)

    def tick_begun(self, at: float, views: Sequence[str]) -> None:
        self.events.append(("tick begun", at, *views))

    def tick_ended(self, at: float, rows: Sequence[RunRow]) -> None:
        self.events.append(("tick ended", at, len(rows)))

    def run_begun(self, view: str, point: int, trigger: str) -> None:
        self.events.append(("begun", view, point, trigger))

    def run_ended(self, row: RunRow) -> None:
        self.events.append(("ended", row.view, row.kind))

    def run_failed(
        self, view: str, point: int, trigger: str, condition: str, message: str, retry_at: float | None, suspended: bool
    ) -> None:
        self.events.append(("failed", view, condition, retry_at, suspended))

    def unreadable(self, view: str, message: str) -> None:
        self.events.append(("unreadable", view))


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


Rehearse = Callable[..., Rehearsal]


@pytest.fixture
def rehearse(spark: SparkSession, db: str) -> Rehearse:
    """`rehearse(*views, start=MIDNIGHT, most=3)`: a new scheduler over these views of the test's database."""

    def begin(*views: str, start: float = MIDNIGHT, most: int = 3) -> Rehearsal:
        jvm, noted, clock = jvm_of(spark), Noted(), SimulatedClock(start)
        roster = Roster(jvm, noted, {("spark_catalog", db, view) for view in views})
        return Rehearsal(Ticks(jvm, roster, clock, noted, Patience(60.0, most), lasting=False), clock, noted)

    return begin


@pytest.fixture
def history(spark: SparkSession) -> Callable[[str], list[Row]]:
    """`history(view)`: the rows of SHOW REFRESHES, oldest first."""
    return lambda view: spark.sql(f"SHOW REFRESHES IN {view}").collect()[::-1]
