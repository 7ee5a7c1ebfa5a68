"""Joins of the inputs that a change leaves as they are: kept where that pays, read, and right whatever changes."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from functools import partial, reduce
from typing import Any

import pytest

from tests.model.maintain import View
from tests.model.mode import Mode
from tests.model.moments import Changes
from tests.search.test_cases import SOURCES, U, W, changes, plan, record, table
from tidemill.plan.change import SourceChange
from tidemill.plan.ops import Join
from tidemill.search.contract.choice import Choice
from tidemill.search.contract.request import PlanRequest
from tidemill.search.contract.stored import Piece
from tidemill.search.runs.explanation import ExplainedPlan
from tidemill.search.service.planner import plan_run
from tidemill.settings import PlannerSettings
from tidemill.text.parser import parse_query


def joined(condition: str, *inputs: str) -> str:
    """An inner join as the analyser writes it, two inputs at a time."""
    return plan(f"join inner [{condition}]", reduce(partial(plan, "join inner []"), inputs[:-1]), inputs[-1])


LINES, ORDERS, CUSTOMERS = 0, 1, 2
ROWS = {LINES: 6_000_000.0, ORDERS: 1_500_000.0, CUSTOMERS: 150_000.0}
SHIPPING = f"""\
source {LINES} lines [k: long, d: date, x: long] rows={ROWS[LINES]:.0f}
source {ORDERS} orders [k: long, c: long, d: date] rows={ROWS[ORDERS]:.0f}
source {CUSTOMERS} customers [c: long, s: string] rows={ROWS[CUSTOMERS]:.0f}
""" + plan(
    "aggregate keys=[#10 := #3, #11 := #5] calls=[#12 := sum(#2)]",
    joined(
        "(#0 = #3), (#4 = #6)",
        plan("filter [(#1 > 7)]", f"scan {LINES} [#0 := k, #1 := d, #2 := x]"),
        plan("filter [(#5 < 7)]", f"scan {ORDERS} [#3 := k, #4 := c, #5 := d]"),
        plan("filter [(#7 = 1)]", f"scan {CUSTOMERS} [#6 := c, #7 := s]"),
    ),
)
"""TPC-H 3 without its last rows."""
T = "scan 0 [#0 := a, #1 := b, #2 := x]"
SOME_U, SOME_W = plan("filter [(#4 > 0)]", U), plan("filter [(#7 < 2)]", W)
SUMS = "aggregate keys=[#20 := #1] calls=[#21 := count(*), #22 := sum(#7), #23 := sum(#2)]"
ROW = joined("(#0 = #3), (#4 = #6)", T, SOME_U, W)
VIEWS = {
    "in a row": ROW,
    "in a row, sums": plan(SUMS, ROW),
    "in a row, extrema": plan("aggregate keys=[#20 := #1] calls=[#21 := max(#7), #22 := count(*)]", ROW),
    "in a ring": joined("(#0 = #3), (#4 = #6), (#7 = #1), (#0 < #7)", T, SOME_U, SOME_W),
    "NULLs are equal": joined("(#0 <=> #3), (#4 <=> #6)", T, U, SOME_W),
    "a source twice": joined("(#0 = #3), (#4 = #9)", T, U, plan("filter [(#10 > 0)]", "scan 0 [#9 := a, #10 := b]")),
    "two parts beside one": joined(
        "(#0 = #3), (#4 = #6), (#1 = #9), (#10 = #12), (#7 >= #10)",
        *(T, SOME_U, W),
        plan("filter [(#10 < 2)]", "scan 1 [#9 := a, #10 := b]"),
        "scan 2 [#12 := a]",
    ),
}


def shipped(
    *, cycle: Mapping[int, tuple[float, float]], kept: Collection[str] | None = None, changed: Collection[int] = ()
) -> ExplainedPlan:
    """The first run of the view, for what is expected to come; with states that were kept a run after some changes."""
    sources = {
        n: SourceChange(n in changed, True, rows=rows, inserts=500, deletes=500, direct=True)
        for n, rows in ROWS.items()
    }
    more: dict[str, Any] = {"first": True} if kept is None else {"first": False, "chosen": Choice(), "rows": 1e5}
    names = frozenset(kept or ())
    more["pieces"] = {name: [Piece(1, 100_000, 1_000_000, 1)] for name in names}
    settings = PlannerSettings(time_limit=60.0)
    query = parse_query(SHIPPING)
    return plan_run(
        PlanRequest(query, "INCREMENTAL", sources, names, full_reason=None, settings=settings, cycle=cycle, **more)
    )


def joins_kept(found: ExplainedPlan) -> set[str]:
    """The names of the kept states that are joins of orders and customers."""
    space = found.explanation.space
    joins = {
        c.name
        for c in space.candidates
        if isinstance(space.memo.tvrs[c.tvr].expressions[0][0], Join)
        and space.memo.tvrs[c.tvr].props.sources == {ORDERS, CUSTOMERS}
    }
    return joins & {s.name for s in found.states}


def read(node: Mapping[str, Any], op: str, field: str) -> set[Any]:
    """The values of a field in all operators of a kind in a wire plan."""
    below = set[Any]().union(*(read(i, op, field) for i in node.get("inputs", ())))
    return below | ({node[field]} if node["op"] == op else set())


def test_it_is_kept_where_the_other_input_changes_alone() -> None:
    alone = {LINES: (5000.0, 0.0), ORDERS: (0.0, 0.0), CUSTOMERS: (0.0, 0.0)}
    first = shipped(cycle=alone)
    (kept,) = joins_kept(first)
    after = shipped(cycle=alone, kept={s.name for s in first.states}, changed={LINES})
    assert kept in set().union(*(read(s.plan, "state", "name") for s in after.steps))
    assert not {ORDERS, CUSTOMERS} & set().union(*(read(s.plan, "scan", "source") for s in after.steps))
    assert joins_kept(after) == {kept}


def test_it_stays_and_is_followed_when_one_of_its_inputs_changes() -> None:
    alone = {LINES: (5000.0, 0.0), ORDERS: (0.0, 0.0), CUSTOMERS: (0.0, 0.0)}
    names = {s.name for s in shipped(cycle=alone).states}
    for changed in ({ORDERS}, {CUSTOMERS}, {LINES, ORDERS}):
        after = shipped(cycle=alone, kept=names, changed=changed)
        (kept,) = joins_kept(after)
        assert after.reason is None
        assert ("state", "segment", kept) in {(s.target, s.mode, s.state) for s in after.steps}


def test_it_is_not_kept_where_its_own_inputs_change_alone() -> None:
    """It would only cost its upkeep."""
    assert not joins_kept(shipped(cycle={LINES: (0.0, 0.0), ORDERS: (5000.0, 5000.0), CUSTOMERS: (500.0, 500.0)}))


def maintained(name: str, mode: Mode, seed: int) -> set[str]:
    """A view is its query when each source changes alone, and when several do; returns the rules of its plans."""
    dice = random.Random(seed)
    view = View(SOURCES + VIEWS[name], {n: table(dice, 6) for n in range(3)}, mode, seed=seed)
    found = set[str]()
    for source in (0, 1, 2):
        feed: Changes = {source: [(record(dice), 1), (record(dice), 1), (view.tables[source][0], -1)]}
        found |= {used.expression.rule for used in view.refresh(feed).explanation.used}
    for _ in range(2):
        view.refresh(changes(dice, view))
    return found


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_is_its_query_whatever_changes(name: str) -> None:
    assert "joined_rest" in maintained(name, Mode(prefer="higher_order", keep=1.0), 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize(("prefer", "keep"), [("higher_order", 0.0), ("lineage", 1.0), (None, 1.0), (None, 0.5)])
def test_a_view_is_its_query_whatever_changes_and_is_kept(name: str, prefer: str | None, keep: float) -> None:
    for seed in range(1, 4):
        maintained(name, Mode(prefer=prefer, keep=keep), seed)
