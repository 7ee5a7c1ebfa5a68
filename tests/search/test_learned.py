"""Estimates are corrected by what earlier runs took, and by the rows that they wrote."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.search.test_planner import SUMS, planned
from tidemill.cost.kept import CONTENT
from tidemill.search.contract.learned import DEARER, REMEMBERED, Learned, Seen
from tidemill.search.contract.lessons import READ_FIRST, likely_cost, likely_costs, taught
from tidemill.search.contract.run_plan import RunPlan

COSTS = st.floats(1.0, 1e6)


class Step(NamedTuple):
    """A step that was carried out."""

    step: str
    cpu_ms: int
    rows: int | None = None


def test_a_run_teaches_its_steps_and_the_parts_of_applying() -> None:
    """But not what reads a change for them, which no plan has: that is a part of nothing."""
    plan = replace(planned(SUMS, states=frozenset(s.name for s in planned(SUMS, first=True).states)), applying=80.0)
    model = {step.name: step.volume.cost or 0.0 for step in plan.steps}
    took = {name: round(cost / 4) for name, cost in model.items()}
    spent = [
        Step(f"{READ_FIRST} 0 from 0 to 1", 700),
        *(Step(name, cost, 5) for name, cost in took.items()),
        Step("find", 30),
        Step("cut", 10),
    ]
    assert (plan.kind, len(plan.steps)) == ("INCREMENTAL", 2)
    assert list(likely_costs(Learned(), plan, spent)) == [None, *model.values(), 80.0, None]
    assert likely_cost(Learned(), plan) == plan.estimated
    learned = taught(Learned(), plan, spent, cold=False)
    assert list(likely_costs(learned, plan, spent)) == pytest.approx([None, *took.values(), 30.0, 10.0])
    less = sum(model.values()) - sum(took.values()) + 80.0 - 40.0
    assert likely_cost(learned, plan) == pytest.approx(plan.estimated - less)
    assert learned.sizes.keys() == {CONTENT, *(s.name for s in plan.states)}
    assert all(factor < 1.0 for factor in learned.sizes.values())


def test_what_steps_of_other_sizes_took_counts_where_none_of_this_size_ran() -> None:
    """Steps of few rows and of many: each size by itself, once it was seen."""

    def sized(rows: float) -> RunPlan:
        plan = planned(SUMS, first=True)
        return replace(
            plan,
            steps=tuple(replace(s, volume=replace(s.volume, read=rows, written=rows, cost=50.0)) for s in plan.steps),
        )

    def took(learned: Learned, rows: float) -> float | None:
        return next(likely_costs(learned, sized(rows), [Step("result", 0)]))

    learned = taught(Learned(), sized(5.0), [Step("result", 10)], cold=False)
    assert (took(learned, 5.0), took(learned, 5e4)) == (10.0, 10.0)
    learned = taught(learned, sized(5e4), [Step("result", 90)], cold=False)
    assert (took(learned, 5.0), took(learned, 5e4)) == pytest.approx((10.0, 90.0))


@given(estimated=COSTS, factor=st.floats(1.0 / DEARER, DEARER))
def test_after_one_run_the_next_estimate_is_what_it_took(estimated: float, factor: float) -> None:
    took = max(1.0, estimated * factor)
    learned = Learned().costs_after("FULL", [Seen("result", estimated, took)])
    assert learned.cost("FULL", ["result"], estimated) == pytest.approx(took)


def test_a_lesson_is_for_steps_of_one_kind_of_run_name_and_size() -> None:
    learned = Learned().costs_after("FULL", [Seen("result", 100.0, 300.0)])
    assert learned.cost("FULL", ["result"], 400.0) == 1200.0
    assert learned.cost("FULL", ["result"], 401.0) is None
    assert learned.cost("FULL", ["delta"], 100.0) is None
    assert learned.cost("INCREMENTAL", ["result"], 100.0) is None


def test_the_first_name_with_a_lesson_counts() -> None:
    """What steps of as many rows took tells more than what all did."""
    few, many = Seen("delta of 10^1 rows", 50.0, 10.0), Seen("delta", 60.0, 90.0)
    learned = Learned().costs_after("FULL", [few, many])
    for name, cost in (("delta of 10^1 rows", 12.0), ("delta of 10^4 rows", 90.0)):
        assert learned.cost("FULL", [name, "delta"], 60.0) == pytest.approx(cost)


def test_one_run_out_of_the_ordinary_changes_little() -> None:
    learned = Learned()
    for _ in range(6):
        learned = learned.costs_after("FULL", [Seen("result", 100.0, 100.0)])
    learned = learned.costs_after("FULL", [Seen("result", 100.0, 1600.0)])
    assert learned.cost("FULL", ["result"], 100.0) == pytest.approx(200.0)


def test_a_cold_run_teaches_only_until_a_warm_one_does() -> None:
    def after(learned: Learned, took: float, *, cold: bool) -> Learned:
        return learned.costs_after("FULL", [Seen("result", 100.0, took)], cold=cold)

    cold = after(Learned(), 900.0, cold=True)
    assert cold.cost("FULL", ["result"], 100.0) == pytest.approx(900.0)
    warm = after(cold, 50.0, cold=False)
    assert warm.cost("FULL", ["result"], 100.0) == pytest.approx(50.0)
    assert after(warm, 900.0, cold=True).cost("FULL", ["result"], 100.0) == pytest.approx(50.0)


def test_what_no_run_repeats_is_forgotten_first() -> None:
    learned = Learned().costs_after("FULL", [Seen("delta", 10.0, 20.0)])
    for n in range(REMEMBERED - 1):
        learned = learned.costs_after("FULL", [Seen(f"shared {n}", 10.0, 20.0), Seen("delta", 10.0, 20.0)])
    assert len(learned.costs) == REMEMBERED
    learned = learned.costs_after("FULL", [Seen("result", 10.0, 20.0)])
    assert {"FULL delta", "FULL result"} <= learned.costs.keys()
    assert "FULL shared 0" not in learned.costs


@given(st.lists(st.tuples(st.sampled_from(["", "s", "t"]), COSTS, COSTS), max_size=8))
def test_lessons_are_read_as_they_were_written(seen: list[tuple[str, float, float]]) -> None:
    all_seen = [Seen(*each) for each in seen]
    learned = Learned().costs_after("FULL", all_seen).sizes_after(all_seen)
    again = Learned.from_json(learned.to_json())
    assert again.to_json() == learned.to_json()


@given(error=st.floats(1.0 / DEARER, DEARER), below=st.floats(1.0 / DEARER, DEARER))
def test_sizes_come_to_what_is_measured_though_one_change_follows_from_another(error: float, below: float) -> None:
    """The change of the view follows from that of a state; either estimate is off by a factor of its own."""
    learned, of_state, of_view = Learned(), 0.0, 0.0
    for _ in range(12):
        sizes = learned.sizes
        of_state = 1000.0 / below * sizes.get("s", 1.0)
        of_view = of_state / error * sizes.get(CONTENT, 1.0)
        learned = learned.sizes_after([Seen("s", of_state, 1000.0), Seen(CONTENT, of_view, 1000.0)])
    assert of_state == pytest.approx(1000.0, rel=0.2)
    assert of_view == pytest.approx(1000.0, rel=0.2)
