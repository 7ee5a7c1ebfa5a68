"""Estimates are corrected by what earlier runs took, and by the rows that they wrote."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.search.contract.learned import CONTENT, DEARER, REMEMBERED, Learned, Seen

COSTS = st.floats(1.0, 1e6)


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
