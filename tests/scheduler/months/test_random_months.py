"""Hundreds of views through a month each of two services, which are killed and begun again, and whose clocks jump.

Only the logic runs: no Spark. Each look of a service at a view is judged by the almanac, and so are the runs that were
committed in the end.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count, pairwise

import pytest

from tests.scheduler.months.almanac import DAY, ZONES, Due, Timed, allowed, random_schedule, schedule_text
from tidemill.runtime.scheduler.due import Agenda, Firing, Origin, due, next_after
from tidemill.runtime.view.arrivals import places
from tidemill.runtime.view.fired import NOTHING_FIRED, REAL
from tidemill.sql.parse import parse
from tidemill.sql.statements import Create

# In each of these months the clocks of Berlin and of New York are changed.
MONTHS = [int(datetime(2026, month, day, tzinfo=UTC).timestamp()) for month, day in ((3, 1), (10, 5))]
DAYS = 31
BEYOND = 12 * DAY
"""Seconds after the month for which the almanac knows when points are due."""
VIEWS = 40
"""Views of a world."""


@dataclass(frozen=True)
class Machine:
    """A machine with a service. `lives`: from when until when it lives, in order. `wrong`: from when on by how many
    seconds its clock is wrong."""

    lives: Sequence[tuple[float, float]]
    wrong: Sequence[tuple[float, float]]

    @staticmethod
    def random(choose: random.Random, start: float, stop: float) -> Machine:
        lives, at = [], start
        while at < stop:
            lives.append((at, at + choose.expovariate(0.7 / DAY)))
            at = lives[-1][1] + choose.choice([1.0, 5.0, 60.0, 3600.0, 2 * DAY * choose.random()])
        wrong = [(start, 0.0)]
        for at in sorted(choose.uniform(start, stop) for _ in range(4)):
            by = choose.choice([-6 * 3600.0, -3600.0, -61.0, 30.0, 3600.0, float(DAY)])
            wrong += [(at, by), (at + choose.uniform(600.0, DAY), 0.0)]
        return Machine(lives, sorted(wrong))

    def life(self, at: float) -> tuple[float, float] | None:
        """The life at that time, else the next one."""
        return next((life for life in self.lives if at < life[1]), None)

    def shows(self, at: float) -> float:
        """What its clock shows."""
        return at + next(by for since, by in reversed(self.wrong) if since <= at)

    def jumps(self, at: float) -> float:
        """When its clock is changed next."""
        return next((since for since, _ in self.wrong if since > at), float("inf"))


@dataclass(frozen=True)
class Look:
    """A service looks at a view, whose log has `head` runs: what its clock shows, and what it is told."""

    now: float
    head: int
    firing: Firing | None
    following: float | None


def agenda_of(schedule: Sequence[Timed], zone: str, start: float) -> Agenda:
    statement = parse(f"CREATE INCREMENTAL VIEW v SCHEDULE ({schedule_text(schedule)}) AS SELECT 1").statement
    assert isinstance(statement, Create)
    origins = {name: Origin(start, start) for name in places(statement.schedule)}
    return Agenda(statement.schedule, ZONES[zone], REAL, origins)


def month(
    plan: Agenda, machines: Sequence[Machine], choose: random.Random, start: float, stop: float
) -> tuple[list[Look], list[Look]]:
    """A view through its month. Returns all looks, and of these the runs that were committed, in order.

    A run is committed only if no other one was since its look. A machine that dies takes its run with it.
    """
    looks: list[Look] = []
    log: list[Look] = []
    fired, order = NOTHING_FIRED, count()
    events: list[tuple[float, int, Machine, Look | None]] = [(start, next(order), m, None) for m in machines]

    def look(now: float) -> Look:
        present = replace(plan, dealt=fired.instants.get(REAL, {}))
        looks.append(Look(now, len(log), due(present, now), next_after(present, now)))
        return looks[-1]

    while events:
        at, _, machine, ended = heapq.heappop(events)
        life = machine.life(at)
        if at > stop or life is None:
            continue
        if at < life[0]:
            heapq.heappush(events, (life[0], next(order), machine, None))
            continue
        if ended is not None and ended.firing is not None and ended.head == len(log):
            log.append(ended)
            fired = fired.then(ended.firing.deals)
        seen = look(machine.shows(at))
        if seen.firing is not None:
            then = at + choose.choice([0.0, 1.0, 30.0, 1000.0, 20000.0])
        else:
            assert seen.following is not None
            assert seen.following > seen.now
            # It wakes when a point is due, or soon after its clock was changed; a busy machine later.
            then = min(at + seen.following - seen.now, machine.jumps(at) + 2.0) + choose.choice([0.0, 0.0, 0.5, 5.0])
        dies = then >= life[1]
        heapq.heappush(events, (life[1] if dies else then, next(order), machine, None if dies else seen))
    while (last := look(stop)).firing is not None:
        log.append(last)
        fired = fired.then(last.firing.deals)
    return looks, log


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 9))])
def test_no_point_is_lost_or_doubled(seed: int) -> None:
    choose = random.Random(seed)
    start = MONTHS[seed % len(MONTHS)]
    stop = start + DAYS * DAY
    machines = [Machine.random(choose, start, stop) for _ in range(2)]
    for _ in range(VIEWS):
        schedule = random_schedule(choose, rare=choose.random() < 0.7)
        zone = choose.choice([*ZONES])
        looks, log = month(agenda_of(schedule, zone, start), machines, choose, start, stop)
        judge(Due.of(schedule, zone, start, stop + BEYOND), looks, log, start, stop)


def judge(points: Due, looks: Sequence[Look], log: Sequence[Look], start: float, stop: float) -> None:
    what = schedule_text(points.schedule)
    dealt: list[float] = [start]
    for run in log:
        dealt.append(max(dealt[-1], run.now))
    for look in looks:
        where = f"{what}: {look}"
        pending = points.between(dealt[look.head], look.now)
        if look.firing is None:
            assert not pending, f"lost: {where}"
            assert look.following == points.following(max(dealt[look.head], look.now)), where
        else:
            assert pending, f"doubled: {where}"
            assert look.firing.point in allowed(points.schedule, pending), where
            assert sorted(look.firing.deals.instants[REAL].values()) == sorted(pending.values()), where
    runs = [(run, len(points.between(*span))) for run, span in zip(log, pairwise(dealt), strict=True)]
    assert all(points for _, points in runs), f"{what}: a run without a point of its own"
    assert not points.between(dealt[-1], stop), f"{what}: points without a run"
