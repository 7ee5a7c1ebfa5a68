"""What a run counts of its own rows is what the relations of the query differ by, whatever the query and the method."""

from __future__ import annotations

import os

import pytest
from hypothesis import Phase, event, given, seed, settings
from hypothesis import strategies as st

from tests.model.maintain import View
from tests.model.mode import Mode
from tests.search.random_trees import queries
from tests.search.test_algebra import RUN, SEED, TABLES, changes, now_of
from tidemill.rule.registry import load_rules

OTHERS = frozenset(r.name for r in load_rules() if r.pack not in {"delta", "positive_negative", "recompute"})
"""Rules of the methods by which rows of some keys arrive: how many these are is in no relation of the query."""
MODES = st.builds(
    Mode,
    prefer=st.sampled_from([None, "delta", "positive_negative", "recompute"]),
    off=st.just(OTHERS),
    keep=st.sampled_from([None, 0.0, 1.0]),
    model=st.just("tuples"),
    known=st.just(True),
)
EXAMPLES = int(os.environ.get("TIDEMILL_EXAMPLES", "0"))
FEW, MANY = 12, 100


def maintain(data: st.DataObject, text: str, mode: Mode) -> None:
    """Plans from what every relation really holds, as counted by plain queries: then estimates are what is counted."""
    view = View(text, data.draw(TABLES, "tables"), mode, deferred=data.draw(st.booleans(), "deferred"))
    later = data.draw(changes(now_of(view)), "changes")
    if data.draw(st.booleans(), "early"):
        plan = view.early({}, price=data.draw(st.sampled_from([0.01, 0.3, 1.0]), "price"), expected=later)
        assert view.counted == plan.estimated
        event(f"early: {plan.estimated > 0}")
    plan = view.refresh(later)
    assert view.counted == plan.estimated
    event(f"{plan.kind}: {plan.estimated > 0}")


@settings(RUN, max_examples=EXAMPLES or FEW, derandomize=not EXAMPLES, phases=[Phase.generate, Phase.shrink])
@given(st.data(), queries(), MODES)
def test_the_rows_that_arrive_are_counted_exactly(data: st.DataObject, text: str, mode: Mode) -> None:
    maintain(data, text, mode)


@pytest.mark.slow
def test_many_more() -> None:
    @seed(SEED)
    @settings(RUN, max_examples=MANY, phases=[Phase.generate, Phase.shrink])
    @given(st.data(), queries(), MODES)
    def check(data: st.DataObject, text: str, mode: Mode) -> None:
        maintain(data, text, mode)

    check()
