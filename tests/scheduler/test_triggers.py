"""When triggers fire by the clock: days with two or no 02:30, intervals, cron."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

import pytest

from tidemill.runtime.scheduler.triggers import last_instant, next_instant
from tidemill.runtime.view.arrivals import zone_of
from tidemill.sql.schedule import second_of_day
from tidemill.sql.statements import AtProgress, AtTime, Cron, Every, OnChange, OnDemand, Trigger

BERLIN = ZoneInfo("Europe/Berlin")


def at(text: str) -> AtTime:
    return AtTime(second_of_day(text))


def seconds(text: str, zone: tzinfo = UTC) -> float:
    time = datetime.fromisoformat(text)
    return (time if time.tzinfo else time.replace(tzinfo=zone)).timestamp()


def fired(trigger: Trigger, start: str, stop: str, zone: tzinfo) -> list[str]:
    """All instants after `start` up to `stop`, as the zone's clock shows them."""
    now, end, found = seconds(start, zone), seconds(stop, zone), []
    while (following := next_instant(trigger, now, zone, 0.0)) is not None and following <= end:
        now = following
        found.append(datetime.fromtimestamp(now, zone).isoformat(timespec="minutes"))
    return found


DAYS = [
    # the clock goes forward at 02:00: there is no 02:30
    (
        "02:30",
        "2026-03-28",
        "2026-03-31",
        ["2026-03-28T02:30+01:00", "2026-03-29T03:00+02:00", "2026-03-30T02:30+02:00"],
    ),
    ("02:00", "2026-03-29", "2026-03-30", ["2026-03-29T03:00+02:00"]),
    ("03:00", "2026-03-29", "2026-03-30", ["2026-03-29T03:00+02:00"]),
    # the clock goes back at 03:00: there are two 02:30
    (
        "02:30",
        "2026-10-24",
        "2026-10-27",
        ["2026-10-24T02:30+02:00", "2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00"],
    ),
    ("03:00", "2026-10-25", "2026-10-26", ["2026-10-25T03:00+01:00"]),
    ("24:00", "2026-03-28T12:00", "2026-03-30T12:00", ["2026-03-29T00:00+01:00", "2026-03-30T00:00+02:00"]),
    ("00:00", "2026-03-28T12:00", "2026-03-30T12:00", ["2026-03-29T00:00+01:00", "2026-03-30T00:00+02:00"]),
]


@pytest.mark.parametrize(("time", "start", "stop", "expected"), DAYS)
def test_times_of_days_on_which_the_clock_is_changed(time: str, start: str, stop: str, expected: list[str]) -> None:
    assert fired(at(time), start, stop, BERLIN) == expected


@pytest.mark.parametrize(
    ("zone", "time", "day", "expected"),
    [
        ("America/Sao_Paulo", "00:00", "2018-11-04", "2018-11-04T01:00-02:00"),  # midnight does not exist
        ("America/Sao_Paulo", "24:00", "2018-11-03", "2018-11-04T01:00-02:00"),
        ("Australia/Lord_Howe", "02:15", "2026-10-04", "2026-10-04T02:30+11:00"),  # by half an hour
        ("Pacific/Apia", "14:00", "2011-12-30", "2011-12-31T00:00+14:00"),  # a day that does not exist
        ("Asia/Kathmandu", "06:00", "2026-01-01", "2026-01-01T06:00+05:45"),
        ("+02:00", "06:00", "2026-01-01", "2026-01-01T06:00+02:00"),
    ],
)
def test_times_in_other_zones(zone: str, time: str, day: str, expected: str) -> None:
    where = zone_of(zone)
    before = seconds(expected) - 1
    following = next_instant(at(time), before, where, 0.0)
    assert following is not None
    assert datetime.fromtimestamp(following, where).isoformat(timespec="minutes") == expected
    assert last_instant(at(time), before, following, where, 0.0) == following


CRONS = [
    ("0 9 * * MON-FRI", "2026-03-27", "2026-03-31", ["2026-03-27T09:00+01:00", "2026-03-30T09:00+02:00"]),
    # a fixed hour that does not exist fires once, at the next instant; one that exists twice fires once
    ("30 2 * * *", "2026-03-29", "2026-03-30", ["2026-03-29T03:00+02:00"]),
    ("30 2 * * *", "2026-10-25", "2026-10-26", ["2026-10-25T02:30+02:00"]),
    (
        "0 0 31 * *",
        "2026-01-01",
        "2026-05-31",
        ["2026-01-31T00:00+01:00", "2026-03-31T00:00+02:00", "2026-05-31T00:00+02:00"],
    ),
    ("0 12 13 * FRI", "2026-02-10", "2026-02-21", ["2026-02-13T12:00+01:00", "2026-02-20T12:00+01:00"]),
    ("0 0 29 2 *", "2026-01-01", "2030-01-01", ["2028-02-29T00:00+01:00"]),
]


@pytest.mark.parametrize(("expression", "start", "stop", "expected"), CRONS)
def test_cron(expression: str, start: str, stop: str, expected: list[str]) -> None:
    assert fired(Cron(expression), start, stop, BERLIN) == expected
    own = Cron(expression, "Europe/Berlin")
    assert next_instant(own, seconds(start, BERLIN), UTC, 0.0) == seconds(expected[0])


def test_cron_by_the_hour_goes_through_both_hours() -> None:
    every = fired(Cron("*/30 * * * *"), "2026-10-25T01:30", "2026-10-25T04:00", BERLIN)
    assert [text[11:] for text in every] == [
        *("02:00+02:00", "02:30+02:00", "02:00+01:00", "02:30+01:00", "03:00+01:00", "03:30+01:00", "04:00+01:00"),
    ]


def test_cron_right_before_its_instant() -> None:
    instant = seconds("2026-03-02T02:05")
    assert next_instant(Cron("5 2 * * *"), instant - 2e-7, UTC, 0.0) == instant


def test_an_interval_counts_from_its_anchor() -> None:
    day = Every(1, "DAYS")
    assert next_instant(day, 50.0, UTC, 1000.0) == 1000.0 + 86400
    assert next_instant(day, 1000.0 + 86400, UTC, 1000.0) == 1000.0 + 2 * 86400
    assert last_instant(day, 0.0, 1000.0, UTC, 1000.0) is None
    assert last_instant(day, 0.0, 1000.0 + 86399, UTC, 1000.0) is None
    assert last_instant(day, 0.0, 1000.0 + 3.5 * 86400, UTC, 1000.0) == 1000.0 + 3 * 86400
    assert last_instant(day, 1000.0 + 3 * 86400, 1000.0 + 3.5 * 86400, UTC, 1000.0) is None


@pytest.mark.parametrize("trigger", [OnDemand(), OnChange(), AtProgress(5.0)])
def test_what_the_clock_does_not_fire(trigger: Trigger) -> None:
    assert next_instant(trigger, 0.0, UTC, 0.0) is None
    assert last_instant(trigger, 0.0, 1e9, UTC, 0.0) is None


@pytest.mark.parametrize("seed", range(12))
def test_last_and_next_agree(seed: int) -> None:
    """Whatever instants `next_instant` steps through, `last_instant` finds the last of them."""
    choose = random.Random(seed)
    zone = choose.choice([BERLIN, ZoneInfo("America/New_York"), ZoneInfo("Australia/Lord_Howe"), UTC])
    triggers: list[Trigger] = [
        AtTime(choose.randrange(0, 86401, 900)),
        Every(choose.randrange(1, 90), choose.choice(["MINUTES", "HOURS"])),
        Cron(f"{choose.randrange(60)} {choose.randrange(24)} * * *"),
        Cron(f"*/{choose.randrange(1, 60)} * * * *"),
        Cron(f"0 0 {choose.randrange(1, 29)} * {choose.randrange(7)}"),
    ]
    trigger = choose.choice(triggers)
    anchor = seconds("2026-03-20", zone)
    start = anchor + choose.uniform(0, 20 * 86400)
    instants, now = [], start
    for _ in range(60):
        following = next_instant(trigger, now, zone, anchor)
        assert following is not None
        assert following > now
        instants.append(following)
        now = following
    for _ in range(40):
        moment = choose.uniform(start, instants[-1])
        last = max((i for i in instants if i <= moment), default=None)
        assert last_instant(trigger, start, moment, zone, anchor) == last
        if last is not None:
            assert last_instant(trigger, last, moment, zone, anchor) is None
    assert last_instant(trigger, start, instants[-1], zone, anchor) == instants[-1]


def test_a_long_pause_is_looked_through_quickly() -> None:
    began = datetime.now(UTC)
    for expression in ("* * * * *", "0 0 1 1 *", "0 0 29 2 *"):
        found = last_instant(Cron(expression), seconds("1990-01-01"), seconds("2026-06-01T00:00:30"), BERLIN, 0.0)
        assert found is not None
    assert datetime.now(UTC) - began < timedelta(seconds=20)
