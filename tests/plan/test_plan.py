"""Expressions, the query document, the normal form, names of states, derived properties."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidemill.plan.columns import ColumnIds
from tidemill.plan.expr import Cast, Col, Evaluate, Expr, Fn, Handle, Lit, walk
from tidemill.plan.keyed import keyed_fields
from tidemill.plan.normal import normalise
from tidemill.plan.ops import Join, Limit, Project, Window, WindowCall
from tidemill.plan.props import Props, derive, equi_keys
from tidemill.plan.query import Query
from tidemill.plan.tree import Tree
from tidemill.text.canon import column_names, state_name
from tidemill.text.parser import parse_document, parse_query
from tidemill.wire.expressions import expr_from_json, expr_to_json
from tidemill.wire.query_document import read_query

SOURCES = """\
source 0 t [a: long, b: long, x: double] rows=1000
source 1 u [a: long, c: long] rows=1000
"""
JOIN = "join inner [(#0 = #3)]\n  scan 0 [#0 := a, #1 := b]\n  scan 1 [#3 := a, #4 := c]"


def query(text: str) -> Query:
    return parse_query(SOURCES + text)


def props(found: Query, tree: Tree | None = None) -> Props:
    """Properties of a whole tree; source 0 has changed."""
    tree = tree or normalise(found.root)
    inputs = [props(found, i) for i in tree.inputs]
    return derive(tree.op, inputs, found, ColumnIds(found))


@pytest.mark.parametrize(
    "expr",
    [
        Col(3),
        Handle(0),
        Lit(None, "void"),
        Fn("if", (Col(0), Lit(1, "long"), Cast(Lit(None, "void"), "long"))),
        Lit(None, '{"containsNull":true,"elementType":"long","type":"array"}'),
        Cast(Col(1), '{"containsNull":false,"elementType":"double","type":"array"}'),
        Evaluate(2, (Col(1), Col(2))),
    ],
)
def test_expressions_survive_the_wire(expr: Expr) -> None:
    assert expr_from_json(expr_to_json(expr)) == expr
    assert next(iter(walk(expr))) == expr


def test_an_unknown_expression_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown expression"):
        expr_from_json({"lambda": 3})


def test_reading_a_document() -> None:
    text = "aggregate keys=[#5 := #0] calls=[#6 := sum(#1) filter (#1 > 3)]\n  scan 0 [#0 := a, #1 := b]"
    found = query(text)
    call = found.info(Handle(0)) or found.info(Handle(1))
    call = next(e for e in found.expressions.values() if e.aggregate)
    assert call.aggregate is not None
    assert (call.aggregate.function, call.aggregate.buffers, call.columns) == ("sum", ("long",), frozenset({1}))
    assert call.aggregate.filter is not None
    assert found.columns_of(call.aggregate.filter) == {1}
    assert found.output == ((5, "c5"), (6, "c6"))
    with pytest.raises(ValueError, match="version 2"):
        read_query({**parse_document(SOURCES + text), "version": 2})
    with pytest.raises(ValueError, match="unknown operator"):
        read_query({**parse_document(SOURCES + text), "root": {"op": "mill"}})


def test_normal_form_flattens_inner_joins() -> None:
    found = query("join inner [(#4 = #6)]\n" + _under(JOIN) + "\n  scan 0 [#6 := a]")
    root = normalise(found.root)
    assert isinstance(root.op, Join)
    assert len(root.inputs) == 3
    assert len(root.op.condition) == 2


def test_normal_form_flattens_through_projections_that_only_drop() -> None:
    found = query("join inner [(#4 = #6)]\n" + _under("project [#0, #4]\n" + _under(JOIN)) + "\n  scan 0 [#6 := a]")
    root = normalise(found.root)
    assert isinstance(root.op, Project)
    assert [c for c, _ in root.op.columns] == [0, 4, 6]
    assert len(root.inputs[0].inputs) == 3
    computing = query(
        "join inner [(#9 = #6)]\n" + _under("project [#9 := (#0 + 1)]\n" + _under(JOIN)) + "\n  scan 0 [#6 := a]"
    )
    assert len(normalise(computing.root).inputs) == 2


def test_normal_form_mirrors_right_joins_and_drops_sorts() -> None:
    found = query("sort order=[#0 asc nulls first]\n" + _under(JOIN.replace("inner", "right")))
    root = normalise(found.root)
    assert isinstance(root.op, Join)
    assert root.op.kind == "left"
    assert root.inputs == (found.root.inputs[0].inputs[1], found.root.inputs[0].inputs[0])
    limited = query("limit 3 order=[#0 asc nulls first]\n" + _under(JOIN))
    assert isinstance(normalise(limited.root).op, Limit)


def test_names_of_states_do_not_depend_on_ids() -> None:
    one = query("aggregate keys=[#5 := #0] calls=[#6 := sum(#1)]\n  filter [(#1 > 3)]\n    scan 0 [#0 := a, #1 := b]")
    other = query(
        "filter [(#7 = 1)]\n  aggregate keys=[#2 := #9] calls=[#7 := sum(#8)]\n"
        "    filter [(#8 > 3)]\n      scan 0 [#9 := a, #8 := b]"
    )
    assert state_name(one, one.root, "attribute") == state_name(other, other.root.inputs[0], "attribute")


@pytest.mark.parametrize(
    "text",
    [
        "aggregate keys=[#5 := #0] calls=[#6 := sum(#1)]\n  filter [(#1 > 4)]\n    scan 0 [#0 := a, #1 := b]",
        "aggregate keys=[#5 := #0] calls=[#6 := sum(#1)]\n  filter [(#0 > 3)]\n    scan 0 [#0 := a, #1 := b]",
        "aggregate keys=[#5 := #0] calls=[#6 := sum(#1)]\n  filter [(#1 > 3)]\n    scan 1 [#0 := a, #1 := c]",
        "aggregate keys=[#5 := #0] calls=[#6 := min(#1)]\n  filter [(#1 > 3)]\n    scan 0 [#0 := a, #1 := b]",
    ],
)
def test_names_of_states_tell_relations_apart(text: str) -> None:
    base = "aggregate keys=[#5 := #0] calls=[#6 := sum(#1)]\n  filter [(#1 > 3)]\n    scan 0 [#0 := a, #1 := b]"
    one, other = query(base), query(text)
    assert state_name(one, one.root, "attribute") != state_name(other, other.root, "attribute")
    assert state_name(one, one.root, "attribute") != state_name(one, one.root, "snapshot")
    assert state_name(one, one.root, "attribute") != state_name(one, one.root, "attribute", "ansi=false")


def test_windows_that_pass_other_columns_on_are_told_apart() -> None:
    """What is kept of one has fewer columns; the columns that both compute have one name."""

    def window(columns: str) -> Query:
        return query(
            f"window {columns} partition=[#0] (Window lag(#1) OVER (PARTITION BY #0))\n  scan 0 [#0 := a, #1 := b]"
        )

    both, one = window("[#0, #1, #9]"), window("[#0, #9]")
    assert state_name(both, both.root, "snapshot") != state_name(one, one.root, "snapshot")
    assert column_names(both, both.root)[9] == column_names(one, one.root)[9]


def test_the_sides_of_a_self_join_are_told_apart() -> None:
    """The names of states say of which side a column is, in whatever is above the join."""

    def summed(column: int) -> str:
        query = parse_query(
            f"""source 0 t [k: long, j: long, v: long] rows=1000
aggregate keys=[#9 := #0] calls=[#10 := sum(#{column})]
  join inner [(#0 = #4)]
    scan 0 [#0 := k, #1 := j, #2 := v]
    scan 0 [#3 := k, #4 := j, #5 := v]
"""
        )
        return state_name(query, query.root, "attribute")

    assert summed(2) == summed(2)
    assert summed(2) != summed(5)


def test_keys() -> None:
    grouped = "aggregate keys=[#5 := #0] calls=[#6 := count(*)]\n  scan 0 [#0 := a, #1 := b]"
    assert props(query(grouped)).keys == {frozenset({5})}
    assert props(query("aggregate keys=[] calls=[#6 := count(*)]\n  scan 0 [#0 := a]")).keys == {frozenset()}
    assert props(query("project [#8 := #5, #6]\n" + _under(grouped))).keys == {frozenset({8})}
    assert props(query("project [#6]\n" + _under(grouped))).keys == frozenset()
    looked_up = "join {} [(#3 = #5)]\n  aggregate keys=[#3 := #9] calls=[]\n    scan 1 [#9 := a]\n"
    for kind, wanted in (("inner", 5), ("left", 3)):  # on either side, and of the side that is never padded
        assert props(query(looked_up.format(kind) + _under(grouped))).keys == {frozenset({wanted})}
    assert props(query(looked_up.format("full") + _under(grouped))).keys == frozenset()
    apart = looked_up.format("inner").replace("(#3 = #5)", "(#3 < #5)")
    assert props(query(apart + _under(grouped))).keys == {frozenset({3, 5})}
    padded = looked_up.format("left").replace("(#3 = #5)", "(#3 < #5)")
    assert props(query(padded + _under(grouped))).keys == {frozenset({3, 5})}


@pytest.mark.parametrize(
    ("above", "function", "wanted"),
    [
        ("", "row_number", {0, 7}),
        ("filter [(#7 = 1)]", "row_number", {0}),
        ("filter [(#7 < 3)]", "row_number", {0, 7}),
        ("filter [(#7 = #1)]", "row_number", {0, 7}),
        ("project [#1, #7]", "row_number", None),
        ("", "rank", None),
    ],
)
def test_keys_of_numbered_rows(above: str, function: str, wanted: set[int] | None) -> None:
    """A row's number within its partition is a key together with the partition; a filter may make it one value."""
    window = "window [#0, #1, #7] partition=[#0] (text)\n  scan 0 [#0 := a, #1 := b]"
    found = query(f"{above}\n{_under(window)}" if above else window)
    tree = found.root.inputs[0] if above else found.root
    assert isinstance(tree.op, Window)
    numbered = Tree(replace(tree.op, calls=(WindowCall(function, "rows", False),)), tree.inputs)
    whole = Tree(found.root.op, (numbered,)) if above else numbered
    assert props(found, whole).keys == (frozenset() if wanted is None else {frozenset(wanted)})


def test_reproducible_and_sources() -> None:
    scan = "\n  scan 0 [#0 := a, #1 := b, #2 := x]"
    assert props(query("aggregate keys=[#5 := #0] calls=[#6 := sum(#2)]" + scan)).reproducible  # kept exactly
    assert not props(query("aggregate keys=[#5 := #0] calls=[#6 := first(#1)]" + scan)).reproducible
    assert not props(query("aggregate keys=[#5 := #0] calls=[#6 := sum(distinct #2)]" + scan)).reproducible
    assert not props(query("limit 2 order=[#0 asc nulls first]" + scan)).reproducible
    assert not props(query("opaque Window [#0, #1] (why)" + scan)).reproducible
    assert props(query("filter [(#0 > 1)]" + scan)).sources == {0}
    assert props(query("scan 1 [#0 := a]")).sources == {1}


def test_equi_keys_look_both_ways() -> None:
    found = query("join left [(#3 <=> #0), (#1 = 4), (#1 = #0), ((#1 + 1) = #4)]\n" + "\n".join(JOIN.splitlines()[1:]))
    assert isinstance(found.root.op, Join)
    keys = equi_keys(found.root.op.condition, frozenset({0, 1}), frozenset({3, 4}), found)
    assert [(near == Col(0), far, null_safe) for near, far, null_safe in keys] == [
        (True, Col(3), True),
        (False, Col(4), False),
    ]


def _under(text: str) -> str:
    return "\n".join("  " + line for line in text.splitlines())


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("window [#0, #1, #2] partition=[#0] (count of all)\n  scan 0 [#0 := a, #1 := b]", {0: ("a",)}),
        ("aggregate keys=[#5 := #1] calls=[]\n  scan 0 [#0 := a, #1 := b]", {0: ("b",)}),
        ("aggregate keys=[#5 := #1] calls=[]\n  limit 3 order=[]\n    scan 0 [#0 := a, #1 := b]", {}),
        ("aggregate keys=[#5 := (#0 + #1)] calls=[]\n  scan 0 [#0 := a, #1 := b]", {}),
        ("project [#0]\n  scan 0 [#0 := a]", {}),
    ],
)
def test_fields_that_bring_rows_together(text: str, found: dict[int, tuple[str, ...]]) -> None:
    assert keyed_fields(parse_query(f"source 0 t [a: long, b: long] rows=10\n{text}")) == found
