"""The papers' running example, to the digit: what each method costs, and which one is chosen at which price.

Tempura section 2.2 (sales and their returns), Beanstalk 2.3; `../shared/experiments.md` corrects what they print.
"""

from __future__ import annotations

from typing import TypeAlias

import pytest

from tests.model.maintain import View
from tests.model.mode import Mode
from tests.model.moments import Changes, Tables
from tests.model.semantics import Record
from tidemill.explain.document import document
from tidemill.rule.registry import load_rules
from tidemill.search.runs.explanation import ExplainedPlan

SUMMARY = """\
source 0 sales [o_id: long, cat: string, price: long] rows=4
source 1 returns [o_id: long, cost: long] rows=1
aggregate keys=[#5 := #1] calls=[#6 := sum(if(isnull(#4), #2, -(#4)))]
  join left [(#0 = #3)]
    scan 0 [#0 := o_id, #1 := cat, #2 := price]
    scan 1 [#3 := o_id, #4 := cost]
"""
DEAREST = SUMMARY.replace("sum(", "max(")
"""Beanstalk 2.3: what is downstream takes back no maximum without computing it again."""
SALES = 0
RETURNS = 1


def sale(number: int, category: str, price: int) -> Record:
    return {"o_id": number, "cat": category, "price": price}


def returned(number: int, cost: int) -> tuple[Record, int]:
    return {"o_id": number, "cost": cost}, 1


FIRST: Tables = {
    SALES: [sale(1, "c1", 100), sale(2, "c2", 150), sale(3, "c1", 120), sale(4, "c1", 170)],
    RETURNS: [{"o_id": 1, "cost": 10}],
}
NEW_SALES = [(sale(5, "c2", 300), 1), (sale(6, "c1", 150), 1), (sale(7, "c2", 220), 1)]
O2, O6, O4 = returned(2, 20), returned(6, 15), returned(4, 25)
PUBLISHED: Changes = {SALES: NEW_SALES, RETURNS: [O2, O6]}
O4_INSTEAD: Changes = {SALES: NEW_SALES, RETURNS: [O2, O4]}
O4_AS_WELL: Changes = {SALES: NEW_SALES, RETURNS: [O2, O6, O4]}


OTHERS = frozenset(r.name for r in load_rules() if r.pack not in {"delta", "positive_negative", "recompute"})
"""Rules of the methods that the example does not compare."""


def planned(
    later: Changes, price: float, off: frozenset[str] = OTHERS, text: str = SUMMARY
) -> tuple[View, ExplainedPlan]:
    """The view after the first point, at a price, with all that is to come known; and that point's plan.

    As in the papers nothing comes after the second point, so nothing is kept for that.
    """
    view = View(text, FIRST, Mode(model="tuples", known=True, off=off, keep=0.0), deferred=True)
    return view, view.early({}, price=price, expected=later)


Cost: TypeAlias = tuple[float, float, float]


def costs(plan: ExplainedPlan) -> dict[str, Cost]:
    """Of each pack's own plan: its priced cost, and its cost at each of the two points."""
    prices = [point.price for point in plan.explanation.points]
    alternatives = {a.pack: a.costs for a in plan.explanation.rivals()}
    return {pack: (prices[0] * one + prices[1] * two, one, two) for pack, (one, two) in alternatives.items()}


@pytest.mark.parametrize(
    ("later", "delta", "apart"),
    [
        (PUBLISHED, (11.8, 9, 10), (12.2, 6, 11)),
        (O4_INSTEAD, (13.8, 9, 12), (12.2, 6, 11)),
        (O4_AS_WELL, (14.8, 9, 13), (13.2, 6, 12)),
    ],
    ids=["published", "o4 instead of o6", "o4 as well"],
)
def test_what_each_method_costs(later: Changes, delta: Cost, apart: Cost) -> None:
    _, plan = planned(later, 0.2)
    found = costs(plan)
    joined = float(sum(map(len, FIRST.values())) + sum(map(len, later.values())))
    assert found.keys() == {"delta", "positive_negative", "recompute"}
    assert found["delta"] == pytest.approx(delta)
    assert found["positive_negative"] == pytest.approx(apart)
    assert found["recompute"] == pytest.approx((joined + 7, 0, joined + 7))


EARLY = [("c1", 280), ("c2", 150)]
HELD = [("c1", -10)]


@pytest.mark.parametrize(
    ("later", "price", "kept", "after", "cost"),
    [
        (PUBLISHED, 0.2, EARLY, {("c1", 265), ("c2", 500)}, 10),
        (PUBLISHED, 0.33, EARLY, {("c1", 265), ("c2", 500)}, 10),
        (PUBLISHED, 0.34, HELD, {("c1", 265), ("c2", 500)}, 11),
        (PUBLISHED, 0.5, HELD, {("c1", 265), ("c2", 500)}, 11),
        (O4_INSTEAD, 0.2, HELD, {("c1", 235), ("c2", 500)}, 11),
        (O4_AS_WELL, 0.2, HELD, {("c1", 70), ("c2", 500)}, 12),
    ],
)
def test_which_is_chosen(
    later: Changes, price: float, kept: list[tuple[str, int]], after: set[tuple[str, int]], cost: float
) -> None:
    """The two cross at a price of 1/3; with frequent retraction the second wins at any price."""
    view, plan = planned(later, price)
    ((state,),) = view.states.values()
    assert sorted((group["c0"], group["c2"]) for group in state) == kept
    assert plan.estimated == view.counted == (9 if kept == EARLY else 6)
    last = view.refresh(later)
    assert set(view.rows()) == after
    assert last.estimated == view.counted == cost


@pytest.mark.parametrize("price", [0.2, 0.5])
@pytest.mark.parametrize("later", [PUBLISHED, O4_INSTEAD, O4_AS_WELL], ids=["published", "o4 instead", "o4 as well"])
def test_all_methods_together_are_never_dearer(later: Changes, price: float) -> None:
    view, plan = planned(later, price, frozenset())
    _, few = planned(later, price)
    best = min(cost for cost, _, _ in costs(few).values())
    assert plan.explanation.costs[0] * price + plan.explanation.costs[1] <= best
    view.refresh(later)  # which checks the content


@pytest.mark.parametrize("later", [PUBLISHED, O4_INSTEAD, O4_AS_WELL], ids=["published", "o4 instead", "o4 as well"])
def test_a_maximum_downstream_changes_the_method_upstream(later: Changes) -> None:
    """Where it takes back what it gave out early, its groups are computed again; so the outer join gives out only
    what stays, whatever the price, and the rest when it is due."""

    def rules(plan: ExplainedPlan) -> set[str]:
        return {p.choice.expression.rule for p in plan.explanation.schedule if p.choice.expression is not None}

    retracts = "left_outer_join"
    for price in (0.01, 0.2, 0.5):
        view, plan = planned(later, price, frozenset(), DEAREST)
        assert retracts not in rules(plan)
        assert "positive_negative" in document(plan, {})["methods"]
        early, due = plan.explanation.costs
        assert early == 6
        assert price * early + due < costs(plan)["delta"][0]
        assert view.refresh(later).estimated == due
    _, sums = planned(PUBLISHED, 0.2, frozenset())
    assert retracts in rules(sums)
