"""What is expected to arrive: out of EXPECT, out of past cycles, out of the time of day; and where nothing is known."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.errors import TidemillError
from tidemill.runtime.view.arrivals import (
    CYCLES,
    ArrivalInterval,
    Arrived,
    ArrivedRows,
    ObservedRun,
    Outlook,
    Profile,
    expectations,
    hours,
    intervals,
    place,
    zone_of,
)
from tidemill.sql.schedule import DAY, second_of_day
from tidemill.sql.statements import AtTime, Expectation, OnDemand, Point

HOUR = 3600.0


def at(*times: str) -> tuple[Point, ...]:
    return tuple(Point(AtTime(second_of_day(time)), output=time == times[-1]) for time in times)


CLOCK = at("08:00", "16:00", "24:00")
BY_HAND: tuple[Point, ...] = (Point(OnDemand(), output=False), Point(OnDemand(), output=False), Point(OnDemand()))


class Log:
    """A log in the making: each run of a point, at an hour since the epoch, with what came since the run before."""

    def __init__(self, schedule: Sequence[Point] = CLOCK) -> None:
        self.schedule = schedule
        self.runs: list[ObservedRun] = []
        self.output = 0
        self.since: dict[str, ArrivedRows | None] = {}
        self.ran(len(schedule), 0.0, created=True)

    def ran(self, point: int, hour: float, created: bool = False, **came: ArrivedRows | int | None) -> Log:
        """`came`: inserts, or inserts and deletes; None: nobody counted."""
        for source in {*came, *self.since}:
            new = came.get(source, 0)
            before = self.since.get(source, (0, 0))
            rows = (new, 0) if isinstance(new, int) else new
            both = None if rows is None or before is None else (rows[0] + before[0], rows[1] + before[1])
            self.since[source] = both
        last = point == len(self.schedule)
        since = None if created else self.output
        arrived = Arrived(place(self.schedule, point), last, since, {} if created else dict(self.since))
        self.runs.append(ObservedRun(len(self.runs), hour * HOUR, arrived, created))
        if self.schedule[point - 1].output:
            self.output, self.since = len(self.runs) - 1, {}
        return self

    def outlook(self, *expect: Expectation, said: int | None = None) -> Outlook:
        """As the last run sees it, which is not committed yet."""
        *past, present = self.runs
        runs = [*past, ObservedRun(None, present.at, present.arrived)]
        return Outlook(self.schedule, {e.table[0]: e for e in expect}, runs, said, UTC)


def days(*rows: tuple[int, int, int]) -> Log:
    """Cycles of a day each, with what came until each of the three points."""
    log = Log()
    for day, (morning, noon, evening) in enumerate(rows):
        start = 24 * day
        log.ran(1, start + 8, t=morning).ran(2, start + 16, t=noon).ran(3, start + 24, t=evening)
    return log


# -- EXPECT -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schedule", "lengths"),
    [
        (CLOCK, [8 / 24, 8 / 24]),
        (at("02:00", "03:00", "24:00"), [1 / 24, 21 / 24]),
        (at("06:00", "18:00:00", "18:00:36"), [12 / 24, 0.01 / 24]),
        (BY_HAND, [1 / 3, 1 / 3]),
        ((*at("06:00", "12:00")[:1], Point(OnDemand()), *at("12:00")), [1 / 3, 1 / 3]),
    ],
)
def test_rows_per_day_are_those_of_the_time(schedule: tuple[Point, ...], lengths: list[float]) -> None:
    outlook = Outlook(schedule, {"t": Expectation(("t",), 2400, "DAY", 25.0)})
    assert outlook.ahead("t", 1) == [pytest.approx((1800 * n, 600 * n)) for n in lengths]


def test_the_first_stretch_begins_now_where_no_clock_tells() -> None:
    schedule = (Point(OnDemand(), output=False), *at("24:00"))
    log = Log(schedule).ran(1, 24 + 18, t=5)
    assert log.outlook(Expectation(("t",), 2400, "DAY")).ahead("t", 1) == [(600, 0)]


def test_rows_per_day_by_hand_take_as_long_as_they_did() -> None:
    log = Log(BY_HAND).ran(1, 1, t=1).ran(2, 3, t=1).ran(3, 9, t=1).ran(1, 10, t=1)
    assert log.outlook(Expectation(("t",), 2400, "DAY")).ahead("t", 1) == [(200, 0), (600, 0)]


@pytest.mark.parametrize(
    ("schedule", "arrived", "expected"),
    [
        (CLOCK, 0, [(900, 100), (900, 100)]),
        (CLOCK, 1000, [(450, 50), (450, 50)]),
        (CLOCK, 5000, [(0, 0), (0, 0)]),
        (at("08:00", "09:00", "12:00"), 0, [(450, 50), (1350, 150)]),
        (BY_HAND, 1000, [(450, 50), (450, 50)]),
    ],
)
def test_rows_per_cycle_are_what_has_not_arrived(
    schedule: tuple[Point, ...], arrived: int, expected: list[ArrivedRows]
) -> None:
    log = Log(schedule).ran(1, 8, t=arrived)
    assert log.outlook(Expectation(("t",), 2000, "CYCLE", 10.0)).ahead("t", 1) == expected


def test_rows_per_cycle_come_when_they_came_before() -> None:
    log = days((100, 300, 100), (100, 300, 100)).ran(1, 56, t=200)
    assert log.outlook(Expectation(("t",), 1000)).ahead("t", 1) == [(600, 0), (200, 0)]


def test_what_came_in_the_cycle_before_does_not_count() -> None:
    log = days((400, 400, 400)).ran(1, 32, t=100)
    outlook = log.outlook(Expectation(("t",), 900))
    assert outlook.ahead("t", 1) == [(400, 0), (400, 0)]
    again = log.ran(1, 34, t=100).ran(2, 40, t=300).outlook(Expectation(("t",), 900))
    assert again.ahead("t", 2) == [(400, 0)]


@pytest.mark.parametrize("per", ["CYCLE", "DAY"])
def test_a_source_that_does_not_change(per: str) -> None:
    log = days((5, 5, 5)).ran(1, 32, t=5, u=7)
    assert log.outlook(Expectation(("t",), 0, per)).ahead("t", 1) == [(0, 0), (0, 0)]
    assert log.outlook(Expectation(("t",), 0, per)).ahead("u", 1) == [(7, 0), (7, 0)]


def test_complete_holds_until_the_cycle_ends() -> None:
    log = Log().ran(1, 8, t=10).ran(2, 16, t=20)
    complete = Expectation(("t",))
    assert log.outlook(complete).ahead("t", 1) == [(0, 0), (0, 0)]
    assert log.outlook(complete, said=1).ahead("t", 2) == [(0, 0)]
    log.ran(3, 24, t=30).ran(1, 32, t=10)
    assert log.outlook(complete).over
    assert log.outlook(complete, said=2).ahead("t", 1) == [(20, 0), (30, 0)]
    assert log.outlook(complete, said=3).ahead("t", 1) == [(0, 0), (0, 0)]
    assert log.outlook(complete, said=-1).over
    assert not log.outlook(complete, said=3).over


def test_complete_of_a_view_that_was_never_filled() -> None:
    assert Outlook(CLOCK, {"t": Expectation(("t",))}).ahead("t", 1) == [(0, 0), (0, 0)]
    assert Outlook(CLOCK, {"t": Expectation(("t",))}, said=-1).ahead("t", 2) == [(0, 0)]


# -- past cycles ------------------------------------------------------------------------------------------------------


def test_the_same_stretch_of_past_cycles() -> None:
    log = days((1, 200, 30), (2, 220, 10)).ran(1, 56, t=3)
    assert log.outlook().ahead("t", 1) == [(210, 0), (20, 0)]
    assert log.outlook().ahead("t", 2) == [(20, 0)]


def test_one_cycle_is_enough() -> None:
    assert days((0, 200, 30)).ran(1, 32, t=0).outlook().ahead("t", 1) == [(200, 0), (30, 0)]


def test_inserts_and_deletes_are_foreseen_apart() -> None:
    log = Log().ran(1, 8, t=0).ran(2, 16, t=(10, 4)).ran(3, 24, t=(0, 6)).ran(1, 32, t=(1, 1))
    assert log.outlook().ahead("t", 1) == [(10, 4), (0, 6)]


def test_an_odd_day_is_passed_over() -> None:
    """A load, an outage, and a view that was not refreshed for a month."""
    usual = [(10, 100, 50)] * 3
    log = days(*usual, (10, 1_000_000, 50), *usual)
    log.ran(1, 24 * 7 + 8, t=10).ran(2, 24 * 37 + 16, t=3000).ran(3, 24 * 38, t=50).ran(1, 24 * 38 + 8, t=10)
    assert log.outlook().ahead("t", 1) == [(100, 0), (50, 0)]


def test_what_was_long_ago_is_forgotten() -> None:
    log = days(*[(1, 1000, 1)] * 20, *[(1, 10, 1)] * CYCLES).ran(1, 24 * (20 + CYCLES) + 8, t=1)
    assert log.outlook().ahead("t", 1) == [(10, 0), (1, 0)]


def test_a_source_that_came_later_knows_less() -> None:
    log = days((1, 2, 3)).ran(1, 32, t=1, u=7).ran(2, 40, t=2, u=8).ran(3, 48, u=9).ran(1, 56, t=1, u=7)
    assert log.outlook().ahead("u", 1) == [(8, 0), (9, 0)]
    assert log.outlook().ahead("never read", 1) == [None, None]


def test_points_that_fire_often_in_a_cycle() -> None:
    log = Log().ran(1, 8, t=1).ran(1, 10, t=5).ran(1, 12, t=5).ran(2, 16, t=7).ran(3, 24, t=9).ran(1, 32, t=1)
    assert log.outlook().ahead("t", 1) == [(7, 0), (9, 0)]


def test_outputs_within_a_cycle_begin_to_count_anew() -> None:
    schedule = (CLOCK[0], Point(CLOCK[1].trigger, output=True), CLOCK[2])
    log = Log(schedule).ran(1, 8, t=1).ran(2, 16, t=20).ran(3, 24, t=300).ran(1, 32, t=1)
    assert log.outlook().ahead("t", 1) == [(20, 0), (300, 0)]


def test_another_schedule_keeps_what_it_has_in_common() -> None:
    log = days((1, 200, 30))
    log.schedule = at("08:00", "16:00", "20:00", "24:00")
    log.ran(1, 32, t=1)
    found = log.outlook().ahead("t", 1)
    assert found[0] == (200.0, 0.0)
    assert found[2] == pytest.approx((30 * 4 / 8, 0))


def test_points_by_hand_of_another_schedule_are_others() -> None:
    log = Log(BY_HAND).ran(1, 1, t=1).ran(2, 2, t=20).ran(3, 3, t=300)
    log.schedule = BY_HAND[1:]
    assert log.ran(1, 4, t=1).outlook().ahead("t", 1) == [None]


# -- what is not known ------------------------------------------------------------------------------------------------


def test_nothing_is_known_at_first() -> None:
    assert Outlook(CLOCK, {}).ahead("t", 1) == [None, None]
    assert Log().ran(1, 0.01, t=5).outlook().ahead("t", 1) == [None, None]


def test_rows_that_nobody_counted_make_the_interval_longer() -> None:
    log = Log()
    log.runs += [
        ObservedRun(1, 8 * HOUR, Arrived("a", False, 0, {"t": None})),
        ObservedRun(2, 24 * HOUR, Arrived("b", True, 0, {"t": (48, 0)})),
    ]
    assert intervals(log.runs, "t") == [ArrivalInterval("AT '24:00'", "b", 0.0, 24 * HOUR, (48, 0))]


@pytest.mark.parametrize("since", [None, 7])
def test_a_run_whose_beginning_is_not_known_tells_nothing(since: int | None) -> None:
    runs = [ObservedRun(8, 0.0, Arrived("a", False, since, {"t": (5, 0)}))]
    assert intervals(runs, "t") == []


def test_counts_that_shrink_are_none() -> None:
    """Two counts of one change may differ: estimates of a source that counts files."""
    runs = [ObservedRun(0, 0.0, Arrived("b", True, None, {}))]
    runs += [
        ObservedRun(i, i * HOUR, Arrived("a", False, 0, {"t": rows})) for i, rows in ((1, (9.0, 2.0)), (2, (7.0, 3.0)))
    ]
    assert [i.rows for i in intervals(runs, "t")] == [(9, 2), (0, 1)]


# -- the time of day --------------------------------------------------------------------------------------------------


def test_a_stretch_never_seen_is_foreseen_by_the_clock() -> None:
    """Points 1 and 3 alone have run; the hours in between were seen on two days, and 1600 rows in them."""
    log = Log().ran(3, 24, t=0).ran(1, 32, t=80).ran(3, 48, t=1600).ran(1, 56, t=80)
    assert log.outlook().ahead("t", 1) == [pytest.approx((400, 0)), pytest.approx((400, 0))]


def test_hours_never_seen_have_the_rate_of_all() -> None:
    past = [
        ArrivalInterval("a", "b", 0.0, 10 * HOUR, (1000, 10)),
        ArrivalInterval("b", "c", 10 * HOUR, 20 * HOUR, (0, 0)),
    ]
    profile = Profile.of(past, UTC)
    assert profile.between(20 * HOUR, 2 * HOUR) == pytest.approx((100, 1))
    assert profile.between(9 * HOUR, 2 * HOUR) == pytest.approx((100, 1))
    assert profile.between(0, 20 * HOUR) == pytest.approx((1000, 10))


def test_a_rate_is_not_believed_for_longer_than_it_was_seen() -> None:
    profile = Profile.of([ArrivalInterval("a", "b", 0.0, 60.0, (1000, 0))], UTC)
    assert profile.between(0, 60.0) == pytest.approx((1000, 0))
    assert profile.between(0, 61.0) is None
    assert Profile.of([], UTC).between(0, 0) is None


def test_the_time_of_day_is_that_of_the_zone() -> None:
    past = [ArrivalInterval("a", "b", 0.0, HOUR, (60, 0)), ArrivalInterval("b", "a", HOUR, 24 * HOUR, (0, 0))]
    for zone, hour in (("UTC", 0), ("+05:30", 5), ("-01:00", 23), ("Asia/Tokyo", 9)):
        profile = Profile.of(past, zone_of(zone))
        assert profile.inserts[hour] == max(profile.inserts) > 0, zone


@pytest.mark.parametrize(
    "name", ["UTC", "Z", "GMT", "UTC+01:00", "GMT-3", "+18:00", "Europe/Berlin", "no zone", "+99:00"]
)
def test_every_zone_is_one(name: str) -> None:
    zone_of(name)


@given(st.floats(0, DAY, exclude_max=True), st.floats(0, 10 * DAY))
def test_hours_add_up(start: float, length: float) -> None:
    found = list(hours(start, length))
    assert sum(seconds for _, seconds in found) == pytest.approx(length, abs=1e-3)
    assert all(0 <= hour < 24 and seconds >= 0 for hour, seconds in found)


rows = st.none() | st.tuples(st.integers(0, 10**9), st.integers(0, 10**9))
steps = st.lists(st.tuples(st.integers(1, 3), st.floats(0, 100), rows), max_size=12)
expectation = st.none() | st.builds(
    Expectation,
    st.just(("t",)),
    st.none() | st.integers(0, 10**9),
    st.sampled_from(["DAY", "CYCLE"]),
    st.floats(0, 100),
)


@given(st.sampled_from([CLOCK, BY_HAND]), steps, expectation, st.integers(1, 3))
def test_whatever_has_been_the_answer_is_a_number_of_rows(
    schedule: tuple[Point, ...],
    runs: list[tuple[int, float, ArrivedRows | None]],
    said: Expectation | None,
    number: int,
) -> None:
    log, hour = Log(schedule), 0.0
    for point, later, came in runs:
        hour += later
        log.ran(point, hour, t=came)
    ahead = log.outlook(*([said] if said is not None else [])).ahead("t", number)
    assert len(ahead) == 3 - number
    assert all(known is None or (known[0] >= 0 and known[1] >= 0) for known in ahead)
    if said is not None and said.rows is not None:
        assert None not in ahead
        assert said.per == "DAY" or sum(sum(known) for known in ahead if known) <= said.rows * 1.001 + 1e-6


# -- names ------------------------------------------------------------------------------------------------------------

SOURCES = ["spark_catalog.db.t", "spark_catalog.other.t", "delta.`file:/a b/c`"]


@pytest.mark.parametrize(
    ("table", "name"),
    [
        (("t",), SOURCES[0]),
        (("T",), SOURCES[0]),
        (("db", "t"), SOURCES[0]),
        (("spark_catalog", "db", "t"), SOURCES[0]),
        (("other", "t"), SOURCES[1]),
        (("delta", "/a b/c"), SOURCES[2]),
        (("delta", "file:///a b/c"), SOURCES[2]),
    ],
)
def test_tables_are_named_as_in_the_query(table: tuple[str, ...], name: str) -> None:
    expected = Expectation(table, 5)
    assert expectations([expected], ["db"], SOURCES) == {name: expected}


@pytest.mark.parametrize("tables", [["u"], ["t", "db.t"], ["t", "t.t"]])
def test_tables_that_the_query_does_not_read_or_twice(tables: list[str]) -> None:
    with pytest.raises(TidemillError) as raised:
        expectations([Expectation(tuple(t.split(".")), 5) for t in tables], ["db"], SOURCES)
    assert raised.value.condition == "TIDEMILL_INVALID_CLAUSE"
    assert raised.value.parameters["clause"] == "EXPECT"


@given(st.dictionaries(st.text(), rows), st.none() | st.integers(0))
def test_what_is_recorded_is_read_again(known: dict[str, ArrivedRows | None], since: int | None) -> None:
    arrived = Arrived("AT '08:00'", False, since, known)
    assert Arrived.from_json(arrived.to_json()) == arrived
