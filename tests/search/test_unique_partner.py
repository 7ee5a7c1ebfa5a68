"""Joins whose right side has a key: right by a rule of their own alone, and cheap where values are counted."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tests.model.maintain import View
from tests.model.mode import Mode
from tests.search.test_cases import SOURCES, T, U, changes, plan, record, table
from tests.search.test_joined_rest import read
from tidemill.plan.change import SourceChange
from tidemill.search.contract.choice import Choice
from tidemill.search.contract.request import PlanRequest
from tidemill.search.contract.stored import Piece
from tidemill.search.service.planner import plan_run
from tidemill.settings import PlannerSettings
from tidemill.text.parser import parse_query

SUMS = plan("aggregate keys=[#9 := #3] calls=[#10 := sum(#4), #11 := max(#4)]", U)
VALUES = plan("aggregate keys=[#9 := #3] calls=[]", U)
PAIRS = plan("aggregate keys=[#9 := #3, #10 := #4] calls=[#11 := count(*)]", U)
OWN_SUMS = plan("aggregate keys=[#20 := #0] calls=[#21 := sum(#1)]", T)
VIEWS = {
    "anti join": plan("join anti [(#0 = #9)]", T, VALUES),
    "anti join, more conditions": plan("join anti [(#0 = #9), (#1 < #10)]", T, SUMS),
    "anti join, null-safe": plan("join anti [(#0 <=> #9)]", T, VALUES),
    "anti join, a key of two columns": plan("join anti [(#0 = #9), (#10 = #1)]", T, PAIRS),
    "anti join of floats": plan("join anti [(#2 = #9)]", T, plan("aggregate keys=[#9 := #5] calls=[]", U)),
    "anti join of groups of one source": plan(
        "join anti [(#0 = #9)]", T, plan("aggregate keys=[#9 := #4] calls=[]", "scan 0 [#4 := b]")
    ),
    "existence join": plan("join existence [(#0 = #9), (#1 <= #11)] exists=#12", T, SUMS),
    "existence join of groups": plan("join existence [(#20 = #9)] exists=#12", OWN_SUMS, SUMS),
    "left join": plan("join left [(#0 = #9)]", T, SUMS),
    "left join, more conditions": plan("join left [(#0 = #9), (#10 > 0), (#1 > 0)]", T, SUMS),
    "left join, null-safe": plan("join left [(#0 <=> #9)]", T, SUMS),
    "left join of left joins": plan(
        "join left [(#10 = #13)]",
        plan("join left [(#0 = #9)]", T, SUMS),
        plan("aggregate keys=[#13 := #7] calls=[#14 := count(*)]", "scan 2 [#7 := b]"),
    ),
    "full join": plan("join full [(#20 = #9)]", OWN_SUMS, SUMS),
    "full join, more conditions": plan("join full [(#20 = #9), (#21 < #10)]", OWN_SUMS, SUMS),
    "full join, null-safe": plan("join full [(#20 <=> #9)]", OWN_SUMS, SUMS),
}
JOINS = {"match_join", "left_outer_join", "full_outer_join", "cogroup_join", "affected_join_keys", "outer_join_parts"}
OTHERS = frozenset(JOINS | {"told_apart", "indirectly_affected", "touched_keys", "difference"})
"""The rules that know the change of a join as well."""


@pytest.mark.parametrize("keep", [0.0, 1.0])
@pytest.mark.parametrize("name", VIEWS)
def test_a_view_is_its_query_whatever_changes(name: str, keep: float) -> None:
    for seed in range(3):
        dice = random.Random(seed)
        mode = Mode(policy="STRICT", off=OTHERS, keep=keep, ordered=seed == 2)
        view = View(SOURCES + VIEWS[name], {n: table(dice, 6) for n in range(3)}, mode, seed=seed)
        for source in [n for n in (0, 1, 1, 0) if f"scan {n} " in VIEWS[name]]:
            gone = [(row, -1) for row in view.tables[source][:1]]
            found = view.refresh({source: [(record(dice), 1), (record(dice), 1), *gone]})
            rules = {used.expression.rule for used in found.explanation.used}
            assert "unique_partner" in rules, name
        for _ in range(3):
            view.refresh(changes(dice, view))


CUSTOMERS, ORDERS = 0, 1
ROWS = {CUSTOMERS: 150_000.0, ORDERS: 1_500_000.0}
WITHOUT_ORDERS = f"""\
source {CUSTOMERS} customers [k: long, s: string] rows={ROWS[CUSTOMERS]:.0f}
source {ORDERS} orders [c: long, t: string] rows={ROWS[ORDERS]:.0f}
""" + plan(
    "aggregate keys=[#10 := #1] calls=[#11 := count(*)]",
    plan("join anti [(#0 = #2)]", f"scan {CUSTOMERS} [#0 := k, #1 := s]", f"scan {ORDERS} [#2 := c]"),
)
"""TPC-H 22, without what it selects."""


def test_orders_are_not_read_for_a_change_of_them() -> None:
    """Counted values tell which customers get their first order or lose their last."""
    sources = {n: SourceChange(False, True, rows=rows) for n, rows in ROWS.items()}
    request = PlanRequest(
        parse_query(WITHOUT_ORDERS),
        "INCREMENTAL",
        sources,
        frozenset(),
        first=True,
        full_reason=None,
        settings=PlannerSettings(time_limit=60.0),
        cycle={CUSTOMERS: (0.0, 0.0), ORDERS: (9_000.0, 6_000.0)},
    )
    kept = frozenset(s.name for s in plan_run(request).states)
    came = SourceChange(True, True, rows=ROWS[ORDERS], inserts=9_000, deletes=6_000, direct=True)
    after = plan_run(
        replace(
            request,
            first=False,
            states=kept,
            sources=sources | {ORDERS: came},
            pieces={name: [Piece(1, 100_000, 1_000_000, 1)] for name in kept},
            chosen=Choice(),
            rows=50.0,
        )
    )
    assert "unique_partner" in {used.expression.rule for used in after.explanation.used}
    assert ORDERS not in set().union(*(read(s.plan, "scan", "source") for s in after.steps))
