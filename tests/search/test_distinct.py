"""Rows of joins and groups as estimated from which columns are equated, over tables sized as in TPC-H."""

from __future__ import annotations

from math import exp, inf

import pytest

from cost_model.default import MODEL
from tidemill.cost.guesses import GROUPED_VALUES
from tidemill.cost.kept import KeptRows
from tidemill.plan.change import SourceChange
from tidemill.plan.ops import Aggregate
from tidemill.rule.engine import Budget
from tidemill.search.space.space import Kept, Space, SpaceRequest, explore_space, normal_query
from tidemill.text.parser import parse_query

SOURCES = """\
source 0 l [orderkey: long, partkey: long, suppkey: long, price: long, flag: string] rows=6000000
source 1 o [orderkey: long, custkey: long, date: date] rows=1500000
source 2 ps [partkey: long, suppkey: long] rows=800000
source 3 s [suppkey: long, nation: long] rows=10000
"""
L = "scan 0 [#0 := orderkey, #1 := partkey, #2 := suppkey, #3 := price, #4 := flag]"
ORDERS, PS = "scan 1 [#5 := orderkey, #6 := custkey, #7 := date]", "scan 2 [#8 := partkey, #9 := suppkey]"
S = "scan 3 [#10 := suppkey, #11 := nation]"


def rows(text: str, *inputs: str, content: float | None = None) -> float:
    """Estimated rows of an operator over scans."""
    found = explored("\n".join([text, *(f"  {scan}" for scan in inputs)]), content)
    return found.facts.size(found.root, 0) or 0.0


def explored(text: str, content: float | None = None) -> Space:
    """The space of a query in which no rule is applied; `content`: rows of the view, as they were counted."""
    query = normal_query(parse_query(SOURCES + text))
    change = {
        n: SourceChange(changed=True, old_readable=True, rows=s.rows, inserts=10.0, deletes=10.0)
        for n, s in query.sources.items()
    }
    kept = Kept(None, rows=KeptRows(content=content))
    return explore_space(SpaceRequest(query, [change], 1, kept), [], MODEL, Budget())


@pytest.mark.parametrize(
    ("text", "inputs"),
    [
        ("join inner [(#0 = #5)]", (L, ORDERS)),
        ("join inner [(#2 = #10)]", (L, S)),
        ("join inner [(#2 = #10)]", (S, L)),
        ("join inner [(#1 = #8), (#2 = #9)]", (L, PS)),  # a key of two columns is no product of two keys
        ("join inner [(#1 = #8), (#2 = #9), (#9 = #10), (#0 = #5)]", (L, PS, S, ORDERS)),
    ],
)
def test_each_row_finds_the_one_with_its_key(text: str, inputs: tuple[str, ...]) -> None:
    assert rows(text, *inputs) == pytest.approx(6e6)


def test_of_a_condition_that_equates_nothing_some_pairs_are_left() -> None:
    assert rows("join inner [(#0 = #5), (#3 > #6)]", L, ORDERS) == pytest.approx(0.4 * 6e6)


def test_rows_that_have_a_partner() -> None:
    """Four lines for each order: by chance none for e^-4 of them; few suppliers by chance sell none of the parts."""
    assert rows("join semi [(#5 = #0)]", ORDERS, L) == pytest.approx(1.5e6 * (1 - exp(-4)))
    assert rows("join anti [(#5 = #0)]", ORDERS, L) == pytest.approx(0.1 * 1.5e6)  # nor less than a tenth


def test_groups() -> None:
    assert rows("aggregate keys=[#20 := #4] calls=[#21 := sum(#3)]", L) == pytest.approx(GROUPED_VALUES)
    by_two = "aggregate keys=[#20 := #4, #22 := #1] calls=[#21 := sum(#3)]"
    assert rows(by_two, L) == pytest.approx(GROUPED_VALUES**2)
    assert rows("aggregate keys=[] calls=[#21 := sum(#3)]", L) == 1


def test_groups_of_a_key_and_what_depends_on_it() -> None:
    text = "aggregate keys=[#20 := #10, #22 := #11] calls=[#21 := sum(#3)]\n  join inner [(#2 = #10)]"
    assert rows(text, f"  {L}", f"  {S}") == pytest.approx(10_000)


def test_groups_by_what_equals_what_it_is_computed_of() -> None:
    text = "aggregate keys=[#30 := #22] calls=[#31 := count()]\n  filter [(#21 = #22)]\n"
    text += "    project [#21, #22 := (#21 + 1)]\n"
    text += "      aggregate keys=[#20 := #4] calls=[#21 := count(#3)]"
    assert 1 <= rows(text, f"      {L}") <= GROUPED_VALUES


def test_groups_that_were_counted() -> None:
    """Fewer of the keys have no more values than all of them."""
    assert rows("aggregate keys=[#20 := #4] calls=[#21 := sum(#3)]", L, content=3.0) == 3.0
    query = normal_query(parse_query(f"{SOURCES}aggregate keys=[#20 := #4, #22 := #1] calls=[]\n  {L}"))
    there = {n: SourceChange(changed=False, old_readable=True, rows=s.rows) for n, s in query.sources.items()}
    distinct = explore_space(
        SpaceRequest(query, [there], 1, Kept(None, rows=KeptRows(content=50.0))), [], MODEL, Budget()
    ).facts.distinct
    assert distinct is not None
    assert [distinct.number(keys) for keys in ({20, 22}, {20}, {22}, {20, 21})] == [50.0, 50.0, 50.0, inf]


def test_a_join_of_which_the_rows_were_counted_gives_as_few_for_changes() -> None:
    """The newest order of each customer: by its keys alone, any order might be one."""
    text = f"""project [#20 := #6, #21 := #7]
  join inner [(#6 = #22), (#7 = #23)]
    {ORDERS}
    aggregate keys=[#22 := #26] calls=[#23 := max(#27)]
      scan 1 [#25 := orderkey, #26 := custkey, #27 := date]"""
    (guessed,) = explored(text).facts.selectivity.values()
    found = explored(text, content=5000.0)
    (known,) = found.facts.selectivity.values()
    groups = next(
        found.facts.size(t.number, 0) or 0.0 for t in found.memo.tvrs if isinstance(t.expressions[0][0], Aggregate)
    )
    assert known * 1.5e6 * groups == pytest.approx(5000.0)
    assert guessed > 100 * known
