"""Groups and partitions that are computed only for the keys that the other side of a join has."""

from __future__ import annotations

import pytest

from tests.model.maintain import View
from tests.model.mode import Mode
from tests.model.moments import Changes
from tests.model.semantics import Record
from tests.search.test_cases import SOURCES, T, U, W, maintained, plan
from tests.search.test_cuts import nodes
from tidemill.rule.registry import load_rules
from tidemill.search.runs.explanation import ExplainedPlan

RULE = "semi_join_reduction"
HOLISTIC = plan("aggregate keys=[#20 := #3] calls=[#21 := min(#4), #22 := count(*)]", U)
SUMS = plan("aggregate keys=[#20 := #3] calls=[#21 := sum(#4), #22 := avg(#5)]", U)
VALUES = plan("aggregate keys=[#20 := #3, #21 := #4] calls=[]", U)
PARTITIONS = plan("window [#3, #4, #5, #20] partition=[#3] (count of all)", U)
SHOWN = plan("filter [(#21 > 0)]", plan("project [#20, #21, #23 := (#22 + 1)]", HOLISTIC))
OF_A_JOIN = plan("aggregate keys=[#20 := #3] calls=[#21 := max(#7)]", plan("join inner [(#3 = #6)]", U, W))
REDUCED = {
    "inner": plan("join inner [(#0 = #20)]", T, HOLISTIC),
    "inner, more conditions": plan("join inner [(#0 = #20), (#1 > #21)]", T, HOLISTIC),
    "inner, null-safe": plan("join inner [(#0 <=> #20)]", T, HOLISTIC),
    "inner, null-safe beside another equality": plan("join inner [(#0 <=> #20), (#1 = #21)]", T, VALUES),
    "inner, keys and values": plan("join inner [(#0 = #20), (#1 = #21)]", T, HOLISTIC),
    "inner of three": plan("join inner [(#6 = #0)]", plan("join inner [(#0 = #20)]", T, SUMS), W),
    "left": plan("join left [(#0 = #20)]", T, HOLISTIC),
    "left, null-safe": plan("join left [(#0 <=> #20), (#1 > 0)]", T, SUMS),
    "semi": plan("join semi [(#0 = #20), (#1 > #21)]", T, HOLISTIC),
    "semi, the groups on the left": plan("join semi [(#20 = #0)]", HOLISTIC, T),
    "anti": plan("join anti [(#0 = #20), (#1 = #21)]", T, VALUES),
    "anti, null-safe": plan("join anti [(#0 <=> #20)]", T, HOLISTIC),
    "existence": plan("join existence [(#0 = #20)] exists=#30", T, SHOWN),
    "partitions": plan("join inner [(#0 = #3)]", T, PARTITIONS),
    "below selections": plan("join left [(#0 = #20)]", T, SHOWN),
    "groups of a join": plan("join inner [(#0 = #20)]", T, OF_A_JOIN),
    "by doubles": plan("join inner [(#2 = #20)]", T, plan("aggregate keys=[#20 := #5] calls=[#21 := max(#4)]", U)),
}


def is_reduced(found: ExplainedPlan) -> bool:
    """True if rows are grouped, or partitioned, of the keys of other rows alone."""
    walked = (pair for step in found.steps for pair in nodes(step.plan))
    return any(n["op"] == "join" and n["kind"] == "semi" and {"aggregate", "opaque"} & {*up} for n, up in walked)


@pytest.mark.parametrize("name", REDUCED)
def test_a_view_made_anew_is_its_query(name: str) -> None:
    """NULL keys, empty tables, and groups that come and go, in random tables."""
    for seed in range(12):
        view = maintained(REDUCED[name], Mode(prefer="explore", policy="FULL"), seed, 3)
        assert "FULL" in view.kinds


@pytest.mark.parametrize("name", REDUCED)
@pytest.mark.parametrize("keep", [None, 0.0, 1.0])
def test_a_view_that_follows_changes_is_its_query(name: str, keep: float | None) -> None:
    for seed, pack in enumerate(["explore", "delta", "affected", "recompute"]):
        maintained(REDUCED[name], Mode(prefer=pack, keep=keep), seed, 4)


@pytest.mark.parametrize("name", REDUCED)
def test_the_groups_are_those_of_the_other_side(name: str) -> None:
    others = frozenset(rule.name for rule in load_rules() if rule.pack == "explore" and rule.name != RULE)
    view = View(SOURCES + REDUCED[name], {0: [], 1: [], 2: []}, Mode(prefer="explore", policy="FULL", off=others))
    found = view.refresh({0: [({"a": 1, "b": 1, "x": 1}, 1)]})
    assert RULE in {used.expression.rule for used in found.explanation.used}


def test_a_group_that_is_emptied_and_comes_back() -> None:
    """Each step is checked against the query; at first no row asks for a group."""

    def row(a: int | None, b: int) -> Record:
        return {"a": a, "b": b, "x": 0}

    steps: list[Changes] = [
        {1: [(row(1, 5), 1), (row(None, 7), 1), (row(2, 3), 1)]},
        {0: [(row(1, 1), 1), (row(None, 1), 1)]},
        {1: [(row(1, 5), -1)]},
        {1: [(row(1, 2), 1)], 0: [(row(2, 2), 1)]},
        {0: [(row(1, 1), -1), (row(None, 1), -1), (row(2, 2), -1)]},
    ]
    for pack in ("explore", "delta", "affected"):
        for name in ("inner", "inner, null-safe", "left", "anti", "semi, the groups on the left"):
            view = View(SOURCES + REDUCED[name], {0: [], 1: [], 2: []}, Mode(prefer=pack))
            for feed in steps:
                view.refresh(feed)


def test_a_change_asks_for_the_groups_of_its_keys() -> None:
    """The term of a small change of the one side groups rows of its keys, where no state has the groups."""
    view = View(SOURCES + REDUCED["inner"], {0: [], 1: [], 2: []}, Mode(prefer="delta", keep=0.0))
    found = view.refresh({0: [({"a": 1, "b": 1, "x": 1}, 1)]})
    assert found.kind == "INCREMENTAL"
    assert is_reduced(found)
