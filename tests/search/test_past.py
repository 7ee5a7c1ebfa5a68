"""What earlier runs took decides between a full and an incremental run."""

from __future__ import annotations

from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.search.contract.past import (
    GAIN,
    HOPE,
    LATEST,
    NEAR,
    NO_DIFFERENCE,
    REMEMBERED,
    TRIES,
    WORTH,
    Methods,
    Past,
    PastRun,
    Way,
)

NOISE = 100.0
COSTS = st.floats(1.0, 1e6)


def runs(kind: Way, estimated: float, *measured: float, cold: bool = False, methods: Methods = ()) -> list[PastRun]:
    return [PastRun(kind, estimated, cost, cold, methods) for cost in measured]


DELTA, GROUPS, PARTS = ("delta",), ("delta", "affected"), ("delta", "positive_negative")


def test_without_runs_the_estimates_decide_and_a_full_run_must_be_cheaper_by_the_noise() -> None:
    assert Past().compare(300.0, 350.0, NOISE).way == "INCREMENTAL"
    assert Past().compare(300.0, 450.0, NOISE).way == "FULL"


@given(full=COSTS, incremental=COSTS, took_full=COSTS, took_incremental=COSTS)
def test_once_both_ran_twice_the_choice_is_within_a_twentieth_of_the_better(
    full: float, incremental: float, took_full: float, took_incremental: float
) -> None:
    """Whatever the estimates said, and at any size."""
    seen = [
        *runs("FULL", full, took_full, took_full),
        *runs("INCREMENTAL", incremental, took_incremental, took_incremental),
    ]
    found = Past(seen).compare(full, incremental, NOISE)
    took = took_full if found.way == "FULL" else took_incremental
    assert took <= max(min(took_full, took_incremental) / NEAR, min(took_full, took_incremental) + NO_DIFFERENCE)
    assert (found.full, found.incremental) == pytest.approx((took_full, took_incremental))


def test_few_small_runs_say_nothing() -> None:
    """A small run takes three times as long as the next one for no reason of its own."""
    one = [*runs("FULL", 20.0, 20.0), *runs("INCREMENTAL", 60.0, 300.0)]
    assert Past(one).compare(20.0, 60.0, NOISE).way == "INCREMENTAL"
    both = [*runs("FULL", 20.0, 20.0, 20.0), *runs("INCREMENTAL", 60.0, 70.0, 60.0)]
    assert Past(both).compare(20.0, 60.0, NOISE).way == "FULL"


def test_half_of_the_error_of_a_kind_that_alone_has_run_is_shared() -> None:
    slow = Past(runs("INCREMENTAL", 1000.0, 4000.0, 4000.0))
    found = slow.compare(1900.0, 1000.0, NOISE)
    assert (found.way, found.full, found.incremental) == ("FULL", 3800.0, 4000.0)
    assert slow.compare(2100.0, 1000.0, NOISE).way == "INCREMENTAL"
    assert found.beside("FULL") == 4000.0
    assert found.beside("INCREMENTAL") is None


def test_cold_runs_are_compared_with_cold_ones_only() -> None:
    """Where each run has a process of its own, both are cold; else what was cold says nothing of what is warm."""
    cold = [*runs("FULL", 1000.0, 3000.0, 3000.0, cold=True), *runs("INCREMENTAL", 800.0, 4000.0, 4000.0, cold=True)]
    assert Past(cold).compare(1000.0, 800.0, NOISE).way == "FULL"
    warm = runs("INCREMENTAL", 800.0, 800.0, 800.0)
    found = Past([*warm, *runs("FULL", 1000.0, 3000.0, cold=True)]).compare(1000.0, 800.0, NOISE)
    assert (found.full, found.incremental) == (1000.0, 800.0)


@given(st.lists(COSTS, min_size=2, max_size=12))
def test_the_latest_runs_count_and_only_those_alike(costs: list[float]) -> None:
    others = runs("FULL", 1e9, *[1.0] * 3)
    seen = [*runs("INCREMENTAL", 100.0, 100.0, 100.0), *others, *runs("FULL", 100.0, *costs)]
    assert Past(seen).compare(100.0, 100.0, NOISE).full == pytest.approx(median(costs[:LATEST]))


def test_old_runs_are_forgotten() -> None:
    past = Past()
    for n in range(REMEMBERED + 3):
        past = past.then(PastRun("FULL", 1.0, float(n)))
    assert [run.measured for run in past.runs] == [float(n) for n in range(REMEMBERED + 2, 2, -1)]


def test_other_methods_are_tried_that_may_be_much_cheaper() -> None:
    """Twice as cheap as they look, at best; by a tenth and 30 ms."""
    past = Past(runs("INCREMENTAL", 400.0, *[400.0] * 4, methods=DELTA))

    def tried(estimated: float) -> Methods:
        return past.decide(1e6, ((DELTA, 400.0), (GROUPS, estimated)), NOISE).methods

    assert tried(1.01 * WORTH * HOPE * 400.0) == DELTA
    assert tried(0.99 * WORTH * HOPE * 400.0) == GROUPS
    small = Past(runs("INCREMENTAL", 40.0, *[40.0] * 4, methods=DELTA))
    assert small.decide(1e6, ((DELTA, 40.0), (GROUPS, 30.0)), NOISE).methods == DELTA
    few = Past(past.runs[: TRIES - 1])
    assert few.decide(1e6, ((DELTA, 400.0), (GROUPS, 300.0)), NOISE).methods == DELTA


def test_methods_are_tried_only_where_a_run_is_incremental_anyway() -> None:
    past = Past([*runs("INCREMENTAL", 400.0, *[400.0] * 4, methods=DELTA), *runs("FULL", 100.0, 100.0, 100.0)])
    made = past.decide(100.0, ((DELTA, 400.0), (GROUPS, 300.0)), NOISE)
    assert (made.taken, made.known) == (None, DELTA)


def test_what_other_methods_took_does_not_correct_these() -> None:
    past = Past(
        [
            *runs("INCREMENTAL", 400.0, *[4000.0] * 3, methods=GROUPS),
            *runs("INCREMENTAL", 400.0, *[400.0] * 4, methods=DELTA),
            *runs("FULL", 600.0, 600.0, 600.0),
        ]
    )
    made = past.decide(600.0, ((DELTA, 400.0), (GROUPS, 390.0)), NOISE)
    assert (made.taken, made.found.incremental) == (DELTA, 400.0)


@given(
    estimates=st.tuples(*[st.floats(10.0, 1e4)] * 3),
    off=st.tuples(*[st.floats(0.3, 3.0)] * 3),
    cold=st.sampled_from([False, True]),
)
def test_methods_are_tried_for_a_few_runs_and_the_cheapest_that_ran_stays(
    estimates: tuple[float, ...], off: tuple[float, ...], cold: bool
) -> None:
    """Whatever runs take: no methods that might be much cheaper are left out, and none that are dearer are kept."""
    rivals = tuple(zip((DELTA, GROUPS, PARTS), estimates, strict=True))
    takes = {methods: estimate * factor for (methods, estimate), factor in zip(rivals, off, strict=True)}
    past, taken = Past(runs("INCREMENTAL", estimates[0], *[takes[DELTA]] * 4, methods=DELTA)), list[Methods]()
    for number in range(20):
        methods = past.decide(1e9, rivals, NOISE).methods
        new = methods != DELTA and methods not in taken
        taken.append(methods)
        past = past.then(PastRun("INCREMENTAL", dict(rivals)[methods], takes[methods], new or cold, methods))
        assert number < 2 * (TRIES + 1) or methods == taken[2 * (TRIES + 1)]
    last = taken[-1]
    ran = {methods for methods in takes if methods == DELTA or taken.count(methods) > TRIES} if not cold else {DELTA}
    least = min(takes[methods] for methods in ran)
    assert takes[last] <= max(least / NEAR, least + NO_DIFFERENCE)
    for methods in set(takes) - set(taken) - {DELTA}:
        hope = dict(rivals)[methods] / HOPE * off[0] ** 0.5
        assert hope >= min(WORTH * least, least - GAIN) or least < takes[DELTA]
