"""Sizes of the relations of a query at each moment, and of their changes over each interval."""

from __future__ import annotations

from collections.abc import Mapping
from unittest import mock

import pytest

from benchmarks.planning import over
from cost_model.default import MODEL
from tests.search.test_cases import SOURCES as CASES
from tests.search.test_cases import VIEWS
from tidemill.cost.changes import Change
from tidemill.cost.kept import KeptRows, StateRows
from tidemill.memo.memo import Memo
from tidemill.plan.change import SourceChange
from tidemill.plan.ops import Aggregate
from tidemill.rule.engine import Budget
from tidemill.search.choose.settle import Choice, SettledChoices, SettlingProblem
from tidemill.search.service.planner import plan_run
from tidemill.search.space.space import Kept, Space, SpaceRequest, explore_space, normal_query
from tidemill.settings import PlannerSettings
from tidemill.text.parser import parse_query
from tidemill.tvr.form import ATTRIBUTE_DELTA, DELTA

SOURCES = """\
source 0 l [orderkey: long, price: long, flag: string] rows=6000000
source 1 o [orderkey: long, custkey: long, date: date] rows=1500000
source 2 c [custkey: long, nation: long] rows=150000
"""
L = "scan 0 [#0 := orderkey, #1 := price, #2 := flag]"
ORDERS = "scan 1 [#5 := orderkey, #6 := custkey, #7 := date]"
CUSTOMERS = "scan 2 [#8 := custkey, #9 := nation]"
BY_ORDER = f"aggregate keys=[#20 := #0] calls=[#21 := sum(#1)]\n  {L}"


def space(text: str, *steps: Mapping[int, SourceChange], rows: KeptRows | None = None) -> Space:
    """The space of a query in which no rule is applied."""
    query = normal_query(parse_query(SOURCES + text))
    kept = Kept(None) if rows is None else Kept({}, rows=rows)
    still = {n: SourceChange(changed=False, old_readable=True, rows=s.rows) for n, s in query.sources.items()}
    return explore_space(
        SpaceRequest(query, [{**still, **step} for step in steps], len(steps), kept), [], MODEL, Budget()
    )


def arrived(rows: float, inserts: float, deletes: float = 0.0, **values: float) -> SourceChange:
    """A change of a source, which has `rows` rows after it; `values`: distinct values of its fields."""
    return SourceChange(changed=True, old_readable=True, rows=rows, inserts=inserts, deletes=deletes, values=values)


def root_change(found: Space, start: int = 0, end: int = 1) -> Change:
    change = found.facts.change(found.root, start, end)
    assert change is not None
    return change


def joined(*inputs: str) -> str:
    return "\n".join(["join inner [(#0 = #5)]", *(f"  {i}" for i in inputs)])


def test_orders_that_come_with_their_lines_are_as_many_pairs_as_lines() -> None:
    found = space(joined(L, ORDERS), {0: arrived(6.06e6, 60_000), 1: arrived(1.515e6, 15_000)})
    assert [found.facts.size(found.root, t) for t in (0, 1)] == pytest.approx([6e6, 6.06e6])
    change = root_change(found)
    assert (change.inserts, change.deletes, change.updates) == pytest.approx((60_000, 0, 0))


def test_customers_that_are_replaced_replace_their_pairs() -> None:
    text = "\n".join(["join inner [(#6 = #8)]", f"  {ORDERS}", f"  {CUSTOMERS}"])
    found = space(text, {2: arrived(150_000, 150, 150)})
    assert root_change(found).signed == pytest.approx(3_000), "ten orders each"


def test_groups_with_new_keys_grow_with_their_table() -> None:
    """A million and a half groups were counted, of four rows each; 60,000 rows come, a third of as many leave."""
    values = {"orderkey": 1.515e6}
    found = space(BY_ORDER, {0: arrived(6.06e6, 60_000, **values)}, rows=KeptRows(content=1.5e6))
    assert [found.facts.size(found.root, t) for t in (0, 1)] == pytest.approx([1.5e6, 1.515e6], rel=0.01)
    change = root_change(found)
    assert change.inserts == pytest.approx(15_000, rel=0.05)
    assert change.updates == pytest.approx(60_000 - 15_000, rel=0.1), "the others are of orders that were there"


def test_few_groups_are_all_updated_and_none_is_new() -> None:
    text = f"aggregate keys=[#20 := #2] calls=[#21 := sum(#1)]\n  {L}"
    change = root_change(space(text, {0: arrived(6e6, 600, 600)}, rows=KeptRows(content=3.0)))
    assert (change.inserts, change.deletes, change.updates) == pytest.approx((0, 0, 3))


def test_an_interval_of_several_transitions_is_less_than_their_sum() -> None:
    """Each of two transitions touches nearly all of a hundred groups: together they are still a hundred."""
    text = f"aggregate keys=[#20 := #2] calls=[#21 := sum(#1)]\n  {L}"
    found = space(text, {0: arrived(6e6, 300)}, {0: arrived(6e6, 300)}, rows=KeptRows(content=100.0))
    first, second, both = (root_change(found, *span) for span in ((0, 1), (1, 2), (0, 2)))
    assert first.updates == second.updates == pytest.approx(95, abs=1)
    assert both.updates == pytest.approx(100, abs=1)


def test_what_does_not_change_has_no_change() -> None:
    found = space(joined(L, ORDERS), {2: arrived(150_000, 10)})
    assert root_change(found) == Change()


def test_a_source_that_does_not_tell_its_change_gets_a_guess() -> None:
    found = space(L, {0: SourceChange(changed=True, old_readable=True, rows=6e6)})
    assert root_change(found) == Change(inserts=60_000)


def test_a_state_that_was_counted_corrects_all_moments() -> None:
    query = normal_query(parse_query(SOURCES + BY_ORDER))
    steps = [{0: arrived(6.06e6, 60_000)}]
    every = explore_space(SpaceRequest(query, steps, 1, Kept(None)), [], MODEL, Budget())
    groups = next(c for c in every.candidates if c.partial is not None)
    rows = KeptRows({groups.name: StateRows(3e6)})
    found = explore_space(SpaceRequest(query, steps, 1, Kept(None, rows=rows)), [], MODEL, Budget())
    assert [found.facts.size(groups.tvr, t) for t in (0, 1)] == pytest.approx([3e6, 3.03e6], rel=1e-6)


def test_rows_that_were_written_stand_for_estimates() -> None:
    """The content's rows, and those of states: more or fewer than the model says."""
    query, steps = normal_query(parse_query(SOURCES + BY_ORDER)), [{0: arrived(6e6, 6_000, 6_000)}]

    def told(kept: Kept) -> Space:
        return explore_space(SpaceRequest(query, steps, 1, kept), [], MODEL, Budget())

    groups = next(c for c in told(Kept(None)).candidates if c.partial is not None)
    for rows in (10.0, 900_000.0):
        whole = told(Kept({}, rows=KeptRows(content=rows)))
        assert whole.facts.size(whole.root, 0) == whole.facts.kept.content == rows
        kept = told(Kept(None, rows=KeptRows({groups.name: StateRows(rows)})))
        assert kept.facts.size(groups.tvr, 0) == rows


@pytest.mark.parametrize("name", sorted(VIEWS)[::9])
@pytest.mark.parametrize("points", [1, 2])
def test_every_way_to_compute_a_change_has_its_rows(name: str, points: int) -> None:
    """Whatever is chosen for a group: a form that is computed has the rows of its relation and interval."""
    settled: list[tuple[SettlingProblem, SettledChoices]] = []

    def settle(self: SettlingProblem, *args: object) -> SettledChoices:
        settled.append((self, plain(self, *args)))  # type: ignore[arg-type]
        return settled[-1][1]

    plain = SettlingProblem.settle
    with mock.patch.object(SettlingProblem, "settle", settle):
        plan_run(over(parse_query(CASES + VIEWS[name]), points, PlannerSettings()))
    each = [_has_its_rows(problem, place[0], c) for problem, found in settled for place, c in found.found.items()]
    assert any(each)


def _has_its_rows(problem: SettlingProblem, group: int, choice: Choice) -> bool:
    memo: Memo = problem._memo
    about, e = memo.group(group).about, choice.expression
    if about is None or about[1].kind not in {DELTA, ATTRIBUTE_DELTA} or e is None or not e.inputs:
        return False
    if e.rule in {"read_state", "read_result"}:
        return False
    relation, form = about
    assert form.start is not None
    change = problem._facts.change(relation, form.start, form.end)
    assert change is not None
    assert choice.rows == (change.signed if form.kind == DELTA else change.touched), (e.rule, memo.tvrs[relation])
    if isinstance(memo.tvrs[relation].expressions[0][0], Aggregate):
        assert change.touched <= (problem._facts.size(relation, 0) or 0.0) + change.inserts + 1e-6
    return True
