"""Extraction over several runs: when each part is worth doing, what is saved and loaded (Tempura 6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest

from benchmarks.planning import over as over_points
from cost_model.default import DefaultCostModel
from tests.search.test_cases import SOURCES, VIEWS
from tidemill.cost.costing import CpuMs, Facts, Read, RowCount
from tidemill.explain.document import document
from tidemill.memo.memo import Memo, Node, Ref
from tidemill.plan.change import SourceChange
from tidemill.plan.ops import Changes, Negate, Net, Op, Scan, Sum
from tidemill.search.choose import sharing
from tidemill.search.choose.chosen import Chosen
from tidemill.search.choose.extract import Extractor
from tidemill.search.choose.planned_run import PlannedRun
from tidemill.search.choose.sharing import Shared, Start, TimeLimit, cheapest, share
from tidemill.search.contract.request import PlanRequest, UpcomingPoint, planned_with
from tidemill.search.contract.run_kinds import Policy
from tidemill.search.service.planner import plan_run
from tidemill.search.space.space import transition_of
from tidemill.settings import PlannerSettings
from tidemill.text.parser import parse_query
from tidemill.tvr.form import DELTA, NEW, OLD, SNAPSHOT, SYMBOLIC, Span, at, over
from tidemill.tvr.timeline import Timeline

QUERY = "source 0 t [a: long] rows=100\nscan 0 [#0 := a]"
FIELDS = ((0, "a"),)


@dataclass(frozen=True)
class Fixed(DefaultCostModel):
    """Each operator of a class costs the same; so do saving and loading."""

    costs: Mapping[type, float] | None = None
    to_save: float = 5.0
    to_load: float = 4.0

    def cost(self, op: Op, reads: Sequence[Read], output: RowCount, facts: Facts) -> CpuMs:
        return CpuMs((self.costs or {}).get(type(op), 0.0))

    def save(self, rows: float) -> CpuMs:
        return CpuMs(self.to_save)

    def load(self, rows: float) -> CpuMs:
        return CpuMs(self.to_load)


def change(inserts: float, *, changed: bool = True) -> SourceChange:
    return SourceChange(changed=changed, old_readable=True, rows=100.0, inserts=inserts, deletes=0.0)


def extractor(
    memo: Memo,
    model: Fixed,
    steps: Sequence[SourceChange],
    prices: Sequence[float],
    prefer: str | None = None,
    *,
    last_first: bool = False,
) -> Extractor:
    facts = Facts(memo.query, tuple({0: s} for s in steps), {})
    runs = [PlannedRun(i + 1, price, i if last_first else None) for i, price in enumerate(prices)]
    return Extractor(memo, model, facts, prefer=prefer, runs=runs)


def over_steps(*steps: SourceChange) -> Memo:
    memo = Memo(parse_query(QUERY), Timeline(tuple(transition_of({0: s}) for s in steps)))
    memo.register(memo.query.root)
    return memo


def computed_once(*steps: SourceChange) -> tuple[Memo, int]:
    """A change over these steps, and its group."""
    memo = over_steps(*steps)
    group = memo.change(0, DELTA)
    memo.add(group, Node(Net((0,)), (Node(Changes(0, FIELDS, OLD, NEW)),)), "r", "p")
    return memo, group


def read_twice(*steps: SourceChange) -> tuple[Memo, int]:
    """A change that one group reads twice, and that group."""
    memo, _ = computed_once(*(steps or [change(5.0)]))
    whole = memo.moment(0, SNAPSHOT, old=False)
    delta = Ref(0, over(DELTA, SYMBOLIC))
    memo.add(whole, Node(Sum(), (delta, Node(Negate(), (delta,)))), "r", "p")
    return memo, whole


@pytest.mark.parametrize(("price", "cost", "early"), [(0.6, 10.0, False), (0.2, 7.0, True), (0.4, 10.0, None)])
def test_early_work_pays_where_it_is_cheap_enough(price: float, cost: float, early: bool | None) -> None:
    """Compute 10, save 5, load 4: late (0, 10), early (15, 4); even at 0.4 (Beanstalk's second example)."""
    still = change(0.0, changed=False)
    memo, group = computed_once(change(5.0), still)
    found = extractor(memo, Fixed(costs={Net: 10.0}), [change(5.0), still], [price, 1.0])
    assert found.cost(group, 1) == pytest.approx(cost)
    if early is not None:
        assert found.saved_by(group, 1) == ([(group, 0)] if early else [])


@pytest.mark.parametrize(
    ("prices", "cost", "early"),
    [
        ([0.7, 1.0], 18.5, 0),
        ([0.6, 1.0], 17.0, 0),
        ([0.5, 1.0], 15.5, 0),
        ([0.9, 1.0], 20.0, None),
        ([0.7, 0.5, 1.0], 15.5, 1),
        ([0.5, 0.7, 1.0], 15.5, 0),
        ([0.9, 0.8, 1.0], 20.0, None),
    ],
    ids=str,
)
def test_several_readers_share_early_work_that_pays_for_none_of_them(
    prices: list[float], cost: float, early: int | None
) -> None:
    """Compute 10, save 5, load 4, read twice: no reader gains by itself, so no tree has the work early. Falling prices
    lead to the cheapest point."""
    still = change(0.0, changed=False)
    steps = [change(5.0), *[still] * (len(prices) - 1)]
    memo, whole = read_twice(*steps)
    group = memo.change(0, DELTA)
    facts = Facts(memo.query, tuple({0: step} for step in steps), {})
    runs = [PlannedRun(i + 1, price) for i, price in enumerate(prices)]
    number, due = memo.find(group), len(prices) - 1
    found = Extractor(memo, Fixed(costs={Net: 10.0}), facts, runs=runs, savable=lambda g: memo.find(g) == number)
    best = share(found, [whole], due)
    assert best.cost[0] == pytest.approx(cost)
    assert best.extractor.saved_by(whole, due) == ([] if early is None else [(number, early)])


@pytest.mark.parametrize("price", [0.0, 0.5, 1.0, 3.0])
def test_a_preferred_pack_is_heard_at_any_price_and_costs_what_it_costs(price: float) -> None:
    memo, whole = read_twice()
    delta = Ref(0, over(DELTA, SYMBOLIC))
    memo.add(whole, Node(Sum(), (delta, Node(Negate(), (Node(Negate(), (delta,)),)))), "r", "q")
    model = Fixed(costs={Net: 10.0, Negate: 1.0})
    for prefer, negations in ((None, 1), ("p", 1), ("q", 2)):
        found = extractor(memo, model, [change(5.0)], [price], prefer)
        plan = found.planned([whole], 0)
        computed = [p.choice.expression for p in plan if p.choice.expression is not None]
        if prefer or price:  # otherwise nothing is cheaper than anything
            assert sum(isinstance(e.op, Negate) for e in computed) == negations
        assert found.cost(whole) == pytest.approx(price * (2 * 10.0 + negations), abs=0.0 if price else 1e-9)
        # Of the change, read twice: to compute it once saves 10, writing it and loading it twice costs 5 + 2 * 4.
        assert found.gains(plan)[memo.change(0, DELTA), 0] == pytest.approx(price * (10.0 - 13.0))
    unpreferred = extractor(memo, model, [change(5.0)], [price], "q")
    others = [e for e in memo.group(whole).expressions if e.pack == "p"]
    weighed = [choice for e in others if (choice := Chosen.making(unpreferred, whole).weighed(whole, e)) is not None]
    assert [choice.unpreferred for choice in weighed] == [1]
    assert weighed[0].cost == pytest.approx(price * 21.0)


@pytest.mark.parametrize("pack", ["affected", "positive_negative"])
def test_a_preferred_pack_is_heard_by_runs_that_cost_nothing(pack: str) -> None:
    request = over_points(parse_query(SOURCES + VIEWS["left join"]), 2, PlannerSettings(prefer=pack))
    free = replace(request, price=0.0, ahead=tuple(replace(point, price=0.0) for point in request.ahead))
    assert pack in document(plan_run(free), {})["methods"]


SUMS = """\
source 0 t [a: long, b: long] rows=2000000
aggregate keys=[#9 := #0] calls=[#10 := sum(#1)]
  scan 0 [#0 := a, #1 := b]
"""


@pytest.mark.parametrize(
    ("price", "ahead", "early"),
    [
        (0.1, [], True),
        (1.0, [], False),
        (5.0, [], False),
        (0.3, [0.1], False),
        (0.1, [0.3], True),
        (0.1, [0.3, 0.2, 0.05], False),
        (0.1, [0.3, 0.2, 0.4, 0.15], True),
    ],
)
def test_a_filling_is_prepared_at_the_cheapest_point(price: float, ahead: list[float], early: bool) -> None:
    """Two million rows are there, one per cent more are expected until each point; the last one costs 1."""
    there = {0: SourceChange(changed=True, old_readable=True, rows=2e6, inserts=2e6, deletes=0.0)}
    more = {0: SourceChange(changed=True, old_readable=True, rows=2.02e6, inserts=2e4, deletes=0.0)}
    points = planned_with(
        [*(UpcomingPoint(p, output=False, changes=more) for p in ahead), UpcomingPoint(1.0, True, more)]
    )
    request = PlanRequest(parse_query(SUMS), "AUTO", there, frozenset(), first=True, full_reason=None)
    plan = plan_run(replace(request, price=price, ahead=points))
    assert plan.kind == "PARTIAL"
    assert [s.mode for s in plan.steps] == (["base"] if early else [])
    assert (plan.estimated > 0) == early


MAXIMA = SUMS.replace("sum", "max")


@pytest.mark.parametrize(
    ("price", "more", "policy", "early"),
    [
        (0.6, 0, "AUTO", True),
        (0.6, 10, "AUTO", False),
        (0.1, 1e5, "STRICT", True),
        (0.1, 1e5, "AUTO", False),
        (0.95, 0, "AUTO", False),
    ],
)
def test_what_is_expected_to_come_decides_whether_early_work_pays(
    price: float, more: float, policy: Policy, early: bool
) -> None:
    """The largest values of the groups that changed are read from the whole table: twice, if more is to come.

    Where so much comes that the last run had better compute everything anew, nothing is worth doing before, if it may.
    """
    here, later = (
        {0: SourceChange(changed=n > 0, old_readable=True, rows=1e6, inserts=n, deletes=n)} for n in (1e5, more)
    )
    request = PlanRequest(parse_query(MAXIMA), policy, here, frozenset(), first=False, full_reason=None)
    plan = plan_run(replace(request, price=price, ahead=planned_with([UpcomingPoint(1.0, True, later)])))
    assert [s.target for s in plan.steps if s.target != "shared"] == (["held"] if early else [])


def test_a_run_reads_only_what_is_there() -> None:
    memo = over_steps(change(5.0), change(5.0))
    first, both = Span(0, 1), Span(0, 2)
    for span in (first, both):
        memo.add(memo.change(0, DELTA, span), Node(Changes(0, FIELDS, OLD, NEW)), "r", "p", span)
        memo.add(memo.moment(0, SNAPSHOT, old=False, span=span), Node(Scan(0, FIELDS, NEW)), "r", "p", span)
    found = extractor(memo, Fixed(), [change(5.0)] * 2, [1.0, 1.0])
    assert found.best(memo.change(0, DELTA, first)) is not None
    assert found.best(memo.change(0, DELTA, both)) is None
    assert found.best(memo.change(0, DELTA, both), 1) is not None
    assert found.best(memo.moment(0, SNAPSHOT, old=False, span=both)) is None
    assert found.rows(memo.change(0, DELTA, both), 1) == 10.0
    assert found.rows(memo.change(0, DELTA, first), 1) == 5.0


def test_what_stands_still_is_there_early() -> None:
    still = change(0.0, changed=False)
    memo = over_steps(change(5.0), still)
    memo.add(memo.moment(0, SNAPSHOT, old=False), Node(Scan(0, FIELDS, NEW)), "r", "p")
    assert memo.form(0, at(SNAPSHOT, 1)) == memo.form(0, at(SNAPSHOT, 2))
    assert extractor(memo, Fixed(), [change(5.0), still], [1.0, 1.0]).best(memo.form(0, at(SNAPSHOT, 2))) is not None


def test_a_part_of_the_work_is_done_early() -> None:
    """The delta of both steps is the sum of the two: the first one's share is worth doing at the cheap run."""
    memo = over_steps(change(5.0), change(5.0))
    spans = Span(0, 1), Span(1, 2)
    for span in spans:
        memo.add(memo.change(0, DELTA, span), Node(Net((0,)), (Node(Changes(0, FIELDS, OLD, NEW)),)), "r", "p", span)
    whole = memo.moment(0, SNAPSHOT, old=False)
    first = memo.change(0, DELTA, spans[0])
    memo.add(whole, Node(Net((0,)), (Ref(0, over(DELTA, SYMBOLIC)),)), "r", "p", spans[0])
    cheap = extractor(memo, Fixed(costs={Net: 10.0}), [change(5.0)] * 2, [0.1, 1.0])
    assert cheap.saved_by(whole, 1)[-1] == (memo.find(whole), 0)
    dear = extractor(memo, Fixed(costs={Net: 10.0}, to_save=1000.0), [change(5.0)] * 2, [0.1, 1.0])
    assert dear.saved_by(whole, 1) == []
    assert cheap.best(first) is not None


def test_what_is_read_twice_is_computed_once_where_that_pays() -> None:
    """Two readers of 10 cost 20 as a tree; shared 10, to write 5 and to load 4 each: 23 or, loaded for 1 each, 17."""
    for to_load, expected in ((4.0, 20.0), (1.0, 17.0)):
        memo, whole = read_twice()
        found = share(extractor(memo, Fixed(costs={Net: 10.0}, to_load=to_load), [change(5.0)], [1.0]), [whole], 0)
        assert found.cost[0] == expected
        assert found.extractor.shared == ({(memo.change(0, DELTA), 0)} if expected < 20 else set())


def test_what_does_not_pay_is_taken_back_as_it_was() -> None:
    memo, whole = read_twice()
    found = extractor(memo, Fixed(costs={Net: 10.0}), [change(5.0)], [1.0])
    before = found.best(whole), found.order, found.planned([whole], 0)
    take_back = found.share({(memo.change(0, DELTA), 0)})
    assert found.order == [(memo.change(0, DELTA), 0)]
    assert found.planned([whole], 0) != before[-1]
    take_back()
    assert (found.best(whole), found.order, found.planned([whole], 0)) == before


@pytest.mark.parametrize(
    ("seconds", "far", "tried", "looked_at"),
    [
        (60.0, 10.0, [None, "q", "other"], [None, "q", "other"]),
        (60.0, 0.5, [None, "q", "other"], [None]),
        (-1.0, 10.0, [None], [None]),
    ],
)
def test_what_is_tried_beside_the_best_tree(
    seconds: float,
    far: float,
    tried: list[str | None],
    looked_at: list[str | None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What that tree reads twice is shared in any case; the rest is a matter of time, and not looked at if far off.
    What `p` would do is what that tree does.
    """
    memo, whole = read_twice()
    delta = Ref(0, over(DELTA, SYMBOLIC))
    memo.add(whole, Node(Sum(), (delta, Node(Negate(), (Node(Negate(), (delta,)),)))), "r", "q")
    model = Fixed(costs={Net: 1000.0, Negate: 1.0})
    made: list[str | None] = []
    looks: list[str | None] = []

    def make(pack: str | None) -> Extractor:
        made.append(pack)
        return extractor(memo, model, [change(5.0)], [1.0], pack)

    def noted(*args: Any) -> Shared:
        looks.append(made[-1])
        return improved(*args)

    improved = sharing._improved
    monkeypatch.setattr(sharing, "_improved", noted)
    monkeypatch.setattr(sharing, "FAR", far)
    limit = TimeLimit(seconds)
    tree = make(None)
    starts = [Start(partial(make, pack), partial(tree.prefers, pack)) for pack in ("p", "q")]
    best = cheapest(tree, [*starts, Start(lambda: make("other"))], [whole], 0, limit)
    assert (made, looks, limit.cut_off) == (tried, looked_at, seconds < 0)
    assert best.extractor.shared == {(memo.change(0, DELTA), 0)}
    assert best.cost[0] == 1000.0 + 5.0 + 2 * 4.0 + 1.0


@pytest.mark.parametrize(
    ("objective", "price", "early"), [("priced", 10.0, False), ("last", 10.0, True), ("last", 1e12, True)]
)
def test_the_objective(objective: str, price: float, early: bool) -> None:
    """By price, early work at ten times the price does not pay; where the last point counts first, it always does."""
    there = {0: SourceChange(changed=True, old_readable=True, rows=2e6, inserts=2e6, deletes=0.0)}
    more = {0: SourceChange(changed=True, old_readable=True, rows=2.02e6, inserts=2e4, deletes=0.0)}
    settings = PlannerSettings(objective=objective)
    request = PlanRequest(parse_query(SUMS), "AUTO", there, frozenset(), True, None, settings, price=price)
    plan = plan_run(replace(request, ahead=(UpcomingPoint(1.0, True, more),)))
    assert [s.mode for s in plan.steps] == (["base"] if early else [])


@pytest.mark.parametrize(
    ("to_save", "to_load", "early"),
    [(1e12, 9.999, True), (1e12, 10.0, False), (0.0, 10.0, False), (0.0, 10.001, False)],
)
def test_where_the_last_point_counts_first_nothing_before_it_outweighs_it(
    to_save: float, to_load: float, early: bool
) -> None:
    """To compute takes 10. What loading saves at the last point is worth any cost before; nothing saved, no cost."""
    still = change(0.0, changed=False)
    memo, group = computed_once(change(5.0), still)
    model = Fixed(costs={Net: 10.0}, to_save=to_save, to_load=to_load)
    found = extractor(memo, model, [change(5.0), still], [1.0, 1.0], last_first=True)
    assert found.saved_by(group, 1) == ([(group, 0)] if early else [])


def test_what_is_equal_at_the_last_point_is_compared_by_the_one_before_it() -> None:
    """Loading costs 4, whoever has saved. Work at the second run is free, and yet it is done at the first."""
    still = change(0.0, changed=False)
    memo, group = computed_once(change(5.0), still, still)
    for last_first, run in ((False, 1), (True, 0)):
        model, steps = Fixed(costs={Net: 10.0}), [change(5.0), still, still]
        found = extractor(memo, model, steps, [1.0, 0.0, 1.0], last_first=last_first)
        assert found.saved_by(group, 2) == [(group, run)]
    first, _, last = found.runs
    assert found.cost(group, 2) == last.priced(4.0) + first.priced(15.0)
    assert last.priced(0.1) + last.priced(0.2) == last.priced(0.3)


@pytest.mark.parametrize(("early", "expected"), [(True, (15.0, 2.0)), (False, (0.0, 17.0))])
def test_what_is_read_twice_is_written_once_where_the_last_point_counts_first(
    early: bool, expected: tuple[float, float]
) -> None:
    """Compute 10, save 5, load 1: at the first run if it may, else at the last one, where 20 would be dearer."""
    steps = change(5.0), change(0.0, changed=False)
    memo, whole = read_twice(*steps)
    facts, model = Facts(memo.query, tuple({0: s} for s in steps), {}), Fixed(costs={Net: 10.0}, to_load=1.0)
    first, last = runs = [PlannedRun(1, rank=0), PlannedRun(2, rank=1)]
    found = Extractor(memo, model, facts, runs=runs, savable=lambda g: early and g == memo.change(0, DELTA))
    best = share(found, [whole], 1)
    assert tuple(best.costs) == expected
    assert best.cost[0] == first.priced(expected[0]) + last.priced(expected[1])


@pytest.mark.parametrize(("objective", "kept"), [("priced", 0), ("last", 1)])
def test_states_are_made_at_any_cost_where_the_last_point_counts_first(objective: str, kept: int) -> None:
    """Every point has output. A state saves likely runs something, but less than their part of the cost to make it."""
    query = parse_query(SOURCES + VIEWS["extrema of exact values"])
    settings = PlannerSettings(objective=objective)
    first = plan_run(PlanRequest(query, "AUTO", {0: change(1e6)}, frozenset(), True, None, settings))
    assert len(first.states) == kept
    names = frozenset(s.name for s in first.states)
    other = PlannerSettings(objective={"last": "priced", "priced": "last"}[objective])
    for now, then in ((settings, kept), (other, 1)):
        request = PlanRequest(query, "INCREMENTAL", {0: change(5.0)}, names, False, None, now)
        assert len(plan_run(replace(request, chosen=first.chosen, rows=5e5)).states) == then
