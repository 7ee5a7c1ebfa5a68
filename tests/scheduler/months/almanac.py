"""The judge of schedules: when points are due, by going through all minutes one by one, and what a run has to be.

It shares no code with the scheduler. A schedule is made here together with its text, so that nothing needs reading.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, tzinfo
from functools import cache
from operator import itemgetter
from zoneinfo import ZoneInfo

MINUTE = 60
DAY = 86_400
WEEKDAYS = frozenset(range(5))
EVERY_DAY = frozenset(range(7))
NAMES = "UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu"
ZONES: Mapping[str, tzinfo] = {name: UTC if name == "UTC" else ZoneInfo(name) for name in NAMES}


@dataclass(frozen=True)
class Timed:
    """A point of a schedule. By the clock exactly one of these is set: `every` so many minutes; `at` a minute of a day
    (1440: its end) on some `weekdays` (Monday: 0); at all minutes by the zone's clock that leave `rest` divided by
    `step`. None of them is: it waits for data.
    """

    text: str
    output: bool = True
    every: int = 0
    at: int | None = None
    weekdays: frozenset[int] = EVERY_DAY
    step: int = 0
    rest: int = 0

    @property
    def by_clock(self) -> bool:
        return bool(self.every or self.step) or self.at is not None


def schedule_text(points: Iterable[Timed]) -> str:
    """The points as SQL writes them."""
    return ", ".join(point.text + ("" if point.output else " NO OUTPUT") for point in points)


@dataclass(frozen=True, slots=True)
class Shown:
    """A minute: its epoch seconds, and what the zone's clock shows then."""

    at: int
    day: date
    minute: int


@cache
def minutes(zone: str, start: int, stop: int) -> Sequence[Shown]:
    """All minutes after the day before `start`, up to `stop`."""
    found = []
    for at in range(start - DAY, stop + 1, MINUTE):
        local = datetime.fromtimestamp(at, ZONES[zone])
        found.append(Shown(at, local.date(), local.hour * 60 + local.minute))
    return found


@cache
def instants(point: Timed, zone: str, start: int, stop: int) -> Sequence[int]:
    """When a point of the clock is due that came into the schedule at `start`, a full minute: all after it, up to
    `stop`. A time of day that a day does not have is due at the next minute, one that it has twice at the first."""
    if point.every:
        return range(start + point.every * MINUTE, stop + 1, point.every * MINUTE)
    shown = minutes(zone, start, stop)
    if point.step:
        return [m.at for m in shown if m.minute % point.step == point.rest and m.at > start]
    if point.at is None:
        return []
    wanted, had, found = point.at % (24 * 60), set[date](), []
    for m in shown:
        if m.minute >= wanted and m.day not in had:
            had.add(m.day)
            if m.at > start and m.day.weekday() in point.weekdays:
                found.append(m.at)
    return found


@dataclass(frozen=True)
class Due:
    """The instants of all points of a schedule, each with the number of its point, in order."""

    schedule: Sequence[Timed]
    all: Sequence[tuple[int, int]]

    @staticmethod
    def of(schedule: Sequence[Timed], zone: str, start: int, stop: int) -> Due:
        found = [(at, n) for n, p in enumerate(schedule, 1) for at in instants(p, zone, start, stop)]
        return Due(schedule, sorted(found))

    def between(self, after: float, upto: float) -> dict[int, int]:
        """The points that are due in between, each with its last instant."""
        first, last = (bisect_right(self.all, at, key=itemgetter(0)) for at in (after, upto))
        return {number: at for at, number in self.all[first:last]}

    def following(self, after: float) -> int | None:
        """The first instant after a time."""
        place = bisect_right(self.all, after, key=itemgetter(0))
        return self.all[place][0] if place < len(self.all) else None


def allowed(schedule: Sequence[Timed], due: Mapping[int, float]) -> Collection[int]:
    """The points as which a run may count that deals with all of these, each due since then: the last one of the
    schedule, else the latest with output, else the latest."""
    if len(schedule) in due:
        return {len(schedule)}
    among = {n: at for n, at in due.items() if schedule[n - 1].output} or due
    latest = max(among.values())
    return {n for n, at in among.items() if at == latest}


def random_schedule(choose: random.Random, rare: bool = False) -> tuple[Timed, ...]:
    """One to four points of the clock, of all kinds; `rare`: at most a few a day."""
    times = sorted(choose.sample([*range(0, 1440, 15), 1, 119, 121, 155, 179, 1439, 1440], choose.randrange(3)))
    daily = [Timed(f"AT '{t // 60:02}:{t % 60:02}'", at=t) for t in times]
    kinds = [_every, _cron_of_a_day, _cron_of_a_day, *([] if rare else [_cron_of_an_hour, _every])]
    others = [make(choose, rare) for make in choose.sample(kinds, choose.randrange(0 if daily else 1, 3))]
    both = [*daily, *others] if choose.random() < 0.5 else [*others, *daily]
    found = list({point.text: point for point in both}.values())
    return (*(replace(p, output=choose.random() < 0.6) for p in found[:-1]), found[-1])


def _every(choose: random.Random, rare: bool) -> Timed:
    count, unit, length = choose.choice(
        [(7, "HOURS", 420), (1, "DAYS", 1440), (3, "DAYS", 4320), (2000, "MINUTES", 2000)]
        if rare
        else [(45, "MINUTES", 45), (90, "MINUTES", 90), (2, "HOURS", 120), (7, "HOURS", 420), (1, "DAY", 1440)]
    )
    return Timed(f"EVERY {count} {unit}", every=length)


def _cron_of_a_day(choose: random.Random, _: bool) -> Timed:
    at = choose.choice([150, 155, 125, 0, choose.randrange(1440)])
    days, text = choose.choice(
        [(EVERY_DAY, "*"), (WEEKDAYS, "MON-FRI"), (frozenset({6}), "0"), (frozenset({1, 3}), "2,4")]
    )
    return Timed(f"CRON '{at % 60} {at // 60} * * {text}'", at=at, weekdays=days)


def _cron_of_an_hour(choose: random.Random, _: bool) -> Timed:
    if choose.random() < 0.5:
        return Timed("CRON '*/30 * * * *'", step=30)
    rest = choose.randrange(60)
    return Timed(f"CRON '{rest} * * * *'", step=60, rest=rest)
