"""The text format of plans: printable and parseable."""

from __future__ import annotations

import pytest

from tidemill.plan.expr import Cast, Col, Fn, Lit
from tidemill.plan.ops import Project
from tidemill.plan.tree import Tree, columns_of
from tidemill.text.line import PlanSyntaxError
from tidemill.text.parser import parse_expr, parse_query
from tidemill.text.printer import Printer

SOURCES = """\
source 0 t [a: long, b: long, s: string, d: decimal(10,2)] rows=1000
source 1 u [a: long, x: double] kind=delta
"""
QUERIES = [
    """\
output [#10 := k, #11 := total, #16 := least]
limit 3 offset=1 order=[#10 desc nulls last, #11 asc nulls first]
  aggregate keys=[#10 := #0] calls=[#11 := sum(#1), #12 := count(*), #13 := count(distinct #1, #2), \
#14 := sum(#1) filter (#1 > 3), #15 := avg(#3), #16 := min(#5)]
    filter [((#1 + 1) > 3), isnotnull(#0), ((#0 = 1) or (#2 = 'it''s'))]
      join left [(#0 <=> #4), (#1 > 2)]
        scan 0 [#0 := a, #1 := b, #2 := s, #3 := d]
        scan 1 [#4 := a, #5 := x]""",
    """\
output [#9 := a]
union [#9] from=[[#0], [#4]]
  project [#0, #8 := cast(#0 as decimal(10,2)), #7 := coalesce(#1, -1)]
    scan 0 [#0 := a, #1 := b]
  join existence [(#4 = #6)] exists=#12
    scan 1 [#4 := a]
    scan 0 [#6 := a]""",
    """\
output [#0 := a, #1 := w]
sort order=[(#0 + 1) desc nulls first]
  opaque Window [#0, #1] (no rule (yet))
    join anti []
      scan 0 [#0 := a]
      scan 1 [#4 := a]""",
]


@pytest.mark.parametrize("text", QUERIES)
def test_round_trip(text: str) -> None:
    assert Printer(parse_query(SOURCES + text)).query() == SOURCES + text


def test_equal_expressions_share_a_handle() -> None:
    query = parse_query(SOURCES + "filter [(#0 = 1)]\n  filter [(#0 = 1)]\n    scan 0 [#0 := a]")
    assert list(query.expressions) == [0]


def test_a_shared_node_is_named_once() -> None:
    query = parse_query(SOURCES + "filter [(#0 > 1)]\n  scan 0 [#0 := a]")
    shown = Printer(query).tree(Tree(Project(()), (query.root, query.root)))
    assert shown.splitlines()[1:] == ["  r0 := filter [(#0 > 1)]", "    scan 0 [#0 := a]", "  r0"]
    again = "union [#5] from=[[#0], [#0]]\n  r0 := filter [(#0 > 1)]\n    scan 0 [#0 := a]\n  r0"
    assert Printer(parse_query(SOURCES + again)).query().endswith(again)


def test_operators_bind_as_in_sql() -> None:
    parsed = parse_expr("#0 + 2 * #1 = 3 and not(#2)")
    times = Fn("*", (Lit(2, "long"), Col(1)))
    equal = Fn("=", (Fn("+", (Col(0), times)), Lit(3, "long")))
    assert parsed == Fn("and", (equal, Fn("not", (Col(2),))))
    assert Printer().expr(parsed) == "(((#0 + (2 * #1)) = 3) and not(#2))"
    assert parse_expr("cast(1.5 as decimal(10,2))") == Cast(Lit(1.5, "double"), "decimal(10,2)")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "needs a plan"),
        ("mill 3", "unknown operator 'mill'"),
        ("join outer []\n  scan 0 [#0 := a]\n  scan 1 [#1 := a]", "unknown kind of join 'outer'"),
        ("scan 7 [#0 := a]", "no source 7"),
        ("scan 0 [#0 := q]", "no field 'q'"),
        ("filter [(#5 > 1)]\n  scan 0 [#0 := a]", "column #5"),
        ("filter [(#0 > 1]\n  scan 0 [#0 := a]", "expected )"),
        ("filter [(#0 > 1)]\n    scan 0 [#0 := a]", "wrong indent"),
        ("scan 0 [#0 := a]\nscan 0 [#1 := a]", "a second root"),
        ("scan 0 [#0 := a] ?", "unexpected '?'"),
        ("union [#4] from=[[#0]]\n  scan 0 [#0 := a]\n  scan 1 [#1 := a]", "do not fit"),
    ],
)
def test_errors_name_the_line(text: str, message: str) -> None:
    with pytest.raises(PlanSyntaxError) as caught:
        parse_query(SOURCES + text)
    assert message in str(caught.value)


def test_columns_of_a_join() -> None:
    query = parse_query(SOURCES + QUERIES[1])
    assert columns_of(query.root.inputs[1]) == (4, 12)
