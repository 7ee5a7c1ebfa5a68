"""Exploration ends where no rule has anything to add, and is called saturated only then."""

from __future__ import annotations

from typing import Any

import pytest

from tests.search.test_cases import SOURCES, VIEWS
from tidemill.memo.check import check
from tidemill.memo.memo import Memo
from tidemill.plan.query import Query
from tidemill.rule.engine import Budget, Stopped, explore
from tidemill.rule.registry import load_rules
from tidemill.search.space.seed import Seeding
from tidemill.search.space.space import normal_query
from tidemill.text.parser import parse_query
from tidemill.tvr.timeline import Timeline, Transition

BUDGET = Budget(seconds=600, groups=1_000_000)


def seeded(query: Query, steps: int, grows: bool) -> tuple[Memo, Seeding]:
    """A memo with a query all of whose sources change in each step; `grows`: no row leaves them."""
    every = frozenset(query.sources)
    step = Transition(every, every, frozenset(), every) if grows else Transition(every, every, every)
    memo = Memo(query, Timeline((step,) * steps))
    seeding = Seeding(memo, steps, lambda _source, _time: True)
    seeding.query(query.root)
    return memo, seeding


def known(memo: Memo) -> dict[str, Any]:
    """All that exploration can add to."""
    return {
        "relations": len(memo.tvrs),
        "ways": sum(len(t.expressions) for t in memo.tvrs),
        "links": len(memo.links),
        "keys": {t.number: t.props.keys for t in memo.tvrs},
        "expressions": {(e.op, tuple(map(memo.find, e.inputs))) for g in memo.live_groups() for e in g.expressions},
        "groups": len(list(memo.live_groups())),
    }


@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize("grows", [False, True])
@pytest.mark.parametrize("name", VIEWS)
def test_nothing_is_left_to_find(name: str, grows: bool, steps: int) -> None:
    memo, seeding = seeded(normal_query(parse_query(SOURCES + VIEWS[name])), steps, grows)
    explored = explore(memo, load_rules(), BUDGET, fresh=seeding.snapshots)
    assert explored.stopped is Stopped.SATURATED
    check(memo)
    before = known(memo)
    explore(memo, load_rules(), BUDGET, fresh=seeding.snapshots)
    assert known(memo) == before
