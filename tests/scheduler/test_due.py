"""What is due: many cases, and random months in which no point is lost and none makes two runs."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC
from zoneinfo import ZoneInfo

import pytest

from tidemill.runtime.scheduler.due import Agenda, Firing, Origin, due, next_after
from tidemill.runtime.scheduler.triggers import by_clock, next_instant
from tidemill.runtime.view.arrivals import places
from tidemill.runtime.view.fired import NOTHING_FIRED, Fired
from tidemill.sql.parse import parse
from tidemill.sql.statements import Create, Point

HOUR = 3600.0
DAY = 24 * HOUR


def schedule(text: str) -> tuple[Point, ...]:
    statement = parse(f"CREATE INCREMENTAL VIEW v SCHEDULE ({text}) AS SELECT 1").statement
    assert isinstance(statement, Create)
    return statement.schedule


def agenda(text: str, **others: object) -> Agenda:
    points = schedule(text)
    origins = {name: Origin(0.0, 0.0) for name in places(points)}
    return replace(Agenda(points, UTC, "real", origins), **others)  # type: ignore[arg-type]  # fields by name


CASES = [
    # the last of what was missed
    ("AT '01:00', AT '02:00', AT '03:00'", 2.5 * HOUR, 2, 2),
    ("AT '01:00', AT '02:00', AT '03:00'", 4 * HOUR, 3, 3),
    # one that ends the cycle comes before a later one
    ("AT '01:00' NO OUTPUT, AT '02:00'", DAY + 1.5 * HOUR, 2, 2),
    # one with output comes before a later one without
    ("AT '01:00', AT '02:00' NO OUTPUT, AT '23:00'", 2.5 * HOUR, 1, 2),
    ("AT '01:00' NO OUTPUT, AT '02:00' NO OUTPUT, AT '23:00'", 2.5 * HOUR, 2, 2),
    ("AT '00:00', AT '24:00'", DAY, 2, 2),
    ("EVERY 1 HOUR", 5.5 * HOUR, 1, 1),
    ("EVERY 1 HOUR, CRON '*/20 * * * *'", 1800.0, 2, 1),
    ("EVERY 1 HOUR NO OUTPUT, ON DEMAND", HOUR, 1, 1),
]


@pytest.mark.parametrize(("text", "now", "point", "missed"), CASES)
def test_all_that_was_missed_is_one_run(text: str, now: float, point: int, missed: int) -> None:
    found = due(agenda(text), now)
    assert found is not None
    dealt = found.deals.instants["real"]
    assert (found.point, len(dealt), found.trigger) == (point, missed, "SCHEDULE")
    assert due(agenda(text, dealt=dealt), now) is None


@pytest.mark.parametrize("text", ["AT '01:00'", "ON DEMAND", "EVERY 2 HOURS", "CRON '0 1 * * *'", "ON CHANGE"])
def test_nothing_is_due(text: str) -> None:
    assert due(agenda(text), HOUR - 1) is None


def test_changes() -> None:
    text = "ON CHANGE NO OUTPUT, AT PROGRESS 50 PERCENT, AT '24:00'"
    found = due(agenda(text, arrived={1}), 5.0)
    assert found is not None
    assert (found.point, found.trigger) == (1, "CHANGE")
    found = due(agenda(text, arrived={1, 2}, cycle=7), 5.0)
    assert found is not None
    assert (found.point, found.trigger, found.deals.cycles) == (2, "SCHEDULE", {"AT PROGRESS 50 PERCENT": 7})
    found = due(agenda(text, arrived={1, 2}), DAY)
    assert found is not None
    assert (found.point, found.trigger) == (3, "SCHEDULE")
    assert found.deals == Fired({"real": {"AT '24:00'": DAY}}, {"AT PROGRESS 50 PERCENT": -1})


def test_who_waits_is_not_due() -> None:
    assert due(agenda("EVERY 1 HOUR", suspended=True), DAY) is None
    assert next_after(agenda("EVERY 1 HOUR", suspended=True), DAY) is None
    failed = agenda("EVERY 1 HOUR", held=DAY + 90)
    assert due(failed, DAY + 89) is None
    assert next_after(failed, DAY) == DAY + 90
    assert due(failed, DAY + 90) is not None


def test_a_point_counts_from_when_it_came() -> None:
    points = schedule("AT '01:00', AT '02:00'")
    origins = {"AT '01:00'": Origin(0.0, 0.0), "AT '02:00'": Origin(5 * HOUR, 5 * HOUR)}
    found = due(Agenda(points, UTC, "real", origins), 6 * HOUR)
    assert found is not None
    assert (found.point, found.deals.instants["real"]) == (1, {"AT '01:00'": HOUR})
    assert next_after(Agenda(points, UTC, "real", origins), 6 * HOUR) == DAY + HOUR


def test_what_was_dealt_with_is_joined() -> None:
    first = Fired({"real": {"a": 5.0}}, {"p": 1}, {"t": "1"}, 3)
    assert NOTHING_FIRED.then(first) == first.then(NOTHING_FIRED) == first
    assert Fired.from_json(first.to_json()) == first


SCHEDULES = (
    "AT '14:00' COST 0.25 NO OUTPUT, AT '19:00' COST 0.3 NO OUTPUT, AT '24:00'",
    "AT '02:30', AT '14:00' NO OUTPUT, AT '23:59'",
    "EVERY 7 MINUTES NO OUTPUT, AT '12:00'",
    "EVERY 90 SECONDS",
    "CRON '*/15 2-3 * * *' NO OUTPUT, CRON '30 2 * * *'",
    "AT '00:00', EVERY 1 HOUR NO OUTPUT, CRON '0 9 * * MON-FRI', AT '24:00'",
)


def points_between(plan: Agenda, start: float, stop: float) -> list[tuple[float, int]]:
    """Every instant of every point of the clock, by stepping."""
    found = []
    for number, point, name in plan.places():
        now = start
        while by_clock(point.trigger):
            following = next_instant(point.trigger, now, plan.zone, plan.origins[name].anchor)
            if following is None or following > stop:
                break
            found.append((following, number))
            now = following
    return sorted(found)


def month(plan: Agenda, choose: random.Random, start: float, stop: float) -> list[tuple[float, float, Firing]]:
    """A month of a scheduler that is away at times, whose runs take their time, and which dies before it commits.

    Returns the runs that were committed: when they began and ended, and what they were.
    """
    done: list[tuple[float, float, Firing]] = []
    dealt: dict[str, float] = {}
    now = start
    while now < stop:
        present = replace(plan, dealt=dealt)
        firing = due(present, now)
        if firing is not None:
            ended = now + choose.choice([0.0, 1.0, 30.0, 1000.0, 20000.0])
            if choose.random() < 0.9:  # else it is killed, and another one begins with what the log says
                done.append((now, ended, firing))
                dealt = {**dealt, **firing.deals.instants["real"]}
            now = ended
            continue
        following = next_after(present, now)
        assert following is not None
        assert following > now
        now = following + choose.choice([0.0, 0.0, 0.5, 5.0, 100.0, 2 * DAY * choose.random()])
    # What came last is dealt with at the end.
    while (firing := due(replace(plan, dealt=dealt), stop)) is not None:
        done.append((stop, stop, firing))
        dealt = {**dealt, **firing.deals.instants["real"]}
    return done


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("text", SCHEDULES)
def test_a_month_loses_nothing_and_doubles_nothing(text: str, seed: int) -> None:
    choose = random.Random(f"{text} {seed}")
    zone = choose.choice([ZoneInfo("Europe/Berlin"), ZoneInfo("America/New_York"), UTC])
    points = schedule(text)
    start = 1_773_500_000.0 + choose.uniform(0, DAY)  # March 2026: the clocks go forward in both zones
    origins = {name: Origin(start, start) for name in places(points)}
    plan = Agenda(points, zone, "real", origins)
    stop = start + 30 * DAY
    runs = month(plan, choose, start, stop)
    covered = cover(plan, runs, start)
    for at, number in points_between(plan, start, stop):
        run = covered.get((number, at))
        assert run is not None, f"point {number} at {at} was lost"
        began, _, firing = run
        assert began >= at, "no run before its time"
        promised = points[number - 1]
        fired = points[firing.point - 1]
        assert fired.output or not promised.output, "a point with output was folded into one without"
        if number == len(points):
            assert firing.point == number, "a cycle was not ended"


def cover(
    plan: Agenda, runs: Sequence[tuple[float, float, Firing]], start: float
) -> dict[tuple[int, float], tuple[float, float, Firing]]:
    """The run that deals with each instant; fails if there are two."""
    last: dict[str, float] = {}
    found: dict[tuple[int, float], tuple[float, float, Firing]] = {}
    numbers = {name: number for number, _, name in plan.places()}
    for run in runs:
        for name, upto in run[2].deals.instants["real"].items():
            number, now = numbers[name], last.get(name, start)
            assert upto > now, "dealt with twice"
            point = plan.schedule[number - 1]
            while (at := next_instant(point.trigger, now, plan.zone, plan.origins[name].anchor)) is not None:
                if at > upto:
                    break
                assert (number, at) not in found
                found[number, at] = run
                now = at
            last[name] = upto
    return found
