"""Tells the run that is due of a view: a pure function of its schedule, of what was dealt with, and of the time.

All points of a view that are due make one run, however many instants have passed since the last one: a run that comes
late reads all that has come, so a second one would have nothing to do. It counts as a run of the point that promises
most: the schedule's last point, which ends the cycle, if it is among them; else the latest with output; else the
latest. It deals with all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, tzinfo

from tidemill.runtime.scheduler.triggers import by_clock, last_instant, next_instant
from tidemill.runtime.view.arrivals import place
from tidemill.runtime.view.fired import Fired
from tidemill.sql.statements import AtProgress, OnChange, Point

SCHEDULE = "SCHEDULE"
CHANGE = "CHANGE"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a point's time begins (epoch seconds): EVERY counts from `anchor`; no instant before `floor` is missed."""

    anchor: float
    floor: float


@dataclass(frozen=True, slots=True)
class Agenda:
    """Everything that decides when a view is due.

    `clock`: the name of the clock. `origins`: by the place of a point. `dealt`: of that clock, the last instant that
    was dealt with, by place. `arrived`: numbers of ON CHANGE and AT PROGRESS points whose sources have what they wait
    for. `cycle`: the run that ended the last cycle (-1: none). `held`: until when the view waits after a failure.
    """

    schedule: Sequence[Point]
    zone: tzinfo = UTC
    clock: str = ""
    origins: Mapping[str, Origin] = field(default_factory=dict)
    dealt: Mapping[str, float] = field(default_factory=dict)
    arrived: Collection[int] = ()
    cycle: int = -1
    held: float | None = None
    suspended: bool = False

    def places(self) -> Iterator[tuple[int, Point, str]]:
        """Yields the number of each point, the point, and its place."""
        for number, point in enumerate(self.schedule, 1):
            yield number, point, place(self.schedule, number)

    def origin(self, name: str) -> tuple[float, float]:
        """Returns the anchor of a point, and the instant after which its next one counts."""
        own = self.origins.get(name, Origin(0.0, 0.0))
        return own.anchor, max(own.floor, self.dealt.get(name, own.floor))


@dataclass(frozen=True, slots=True)
class Firing:
    """One run that is due.

    `point`: its number. `trigger`: as in SHOW REFRESHES. `deals`: with what the run deals.
    """

    point: int
    trigger: str
    deals: Fired


def due(agenda: Agenda, now: float) -> Firing | None:
    """Returns the run that is due at `now`; None if none is.

    >>> from tidemill.sql.statements import AtTime, OnDemand
    >>> day = Agenda([Point(AtTime(3600), output=False), Point(AtTime(7200)), Point(OnDemand())], clock="real")
    >>> due(day, 3599.0), due(day, 3600.0).point, due(day, 9000.0).point
    (None, 1, 2)
    """
    if agenda.suspended or (agenda.held is not None and now < agenda.held):
        return None
    found: list[tuple[bool, bool, float, int]] = []
    instants: dict[str, float] = {}
    cycles: dict[str, int] = {}
    for number, point, name in agenda.places():
        if by_clock(point.trigger):
            anchor, after = agenda.origin(name)
            at = last_instant(point.trigger, after, now, agenda.zone, anchor)
            if at is None:
                continue
            instants[name] = at
        elif isinstance(point.trigger, OnChange | AtProgress) and number in agenda.arrived:
            at = now
            if isinstance(point.trigger, AtProgress):
                cycles[name] = agenda.cycle
        else:
            continue
        found.append((number == len(agenda.schedule), point.output, at, number))
    if not found:
        return None
    *_, number = max(found)
    trigger = CHANGE if isinstance(agenda.schedule[number - 1].trigger, OnChange) else SCHEDULE
    return Firing(number, trigger, Fired({agenda.clock: instants} if instants else {}, cycles))


def next_after(agenda: Agenda, now: float) -> float | None:
    """Returns the first instant later than `now` at which the clock makes the view due; None if it never does.

    >>> from tidemill.sql.statements import AtTime, OnDemand
    >>> next_after(Agenda([Point(AtTime(3600))]), 4000.0), next_after(Agenda([Point(OnDemand())]), 4000.0)
    (90000.0, None)
    """
    if agenda.suspended:
        return None
    if agenda.held is not None and agenda.held > now:
        return agenda.held
    instants = []
    for _, point, name in agenda.places():
        anchor, after = agenda.origin(name)
        if (at := next_instant(point.trigger, max(after, now), agenda.zone, anchor)) is not None:
            instants.append(at)
    return min(instants, default=None)
