"""The order of inner joins."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidemill.plan.ops import Join
from tidemill.search.lower.join_order import Input, join_order
from tidemill.text.parser import parse_query

SOURCES = """\
source 0 t [a: long, b: long] rows=10000000
source 1 u [a: long, c: long] rows=50000000
source 2 w [a: long, d: long] rows=1000
"""
T, U, W = "  scan 0 [#0 := a, #1 := b]\n", "  scan 1 [#2 := a, #3 := c]\n", "  scan 2 [#4 := a, #5 := d]\n"
CHAIN = "join inner [(#0 = #2), (#3 = #4), (#1 < #5)]\n" + T + U + W


def inputs(leading: int | None) -> list[Input]:
    sizes = [1e6, 5e6, 1e3]
    return [
        Input(frozenset({2 * i, 2 * i + 1}), 10.0 if i == leading else n, n, leads=i == leading, row_bytes=24)
        for i, n in enumerate(sizes)
    ]


@pytest.mark.parametrize(("leading", "order"), [(0, [0, 1, 2]), (2, [2, 1, 0]), (None, [0, 1, 2])])
def test_joins_go_from_the_delta_outward(leading: int | None, order: list[int]) -> None:
    query = parse_query(SOURCES + CHAIN)
    assert isinstance(query.root.op, Join)
    first, steps = join_order(query, inputs(leading), query.root.op.condition)
    assert [first, *(s.input for s in steps)] == order
    assert all(s.broadcast for s in steps) == (leading is not None)
    seen = [c for s in steps for c in s.condition]
    assert sorted(seen, key=str) == sorted(query.root.op.condition, key=str)  # each conjunct once


def test_a_conjunct_over_the_first_input_alone_is_not_lost() -> None:
    query = parse_query(SOURCES + "join inner [(#1 > 3)]\n" + T + U)
    assert isinstance(query.root.op, Join)
    _, steps = join_order(query, inputs(0)[:2], query.root.op.condition)
    assert [len(s.condition) for s in steps] == [1]


@pytest.mark.parametrize(("rows", "row_bytes", "broadcast"), [(5e5, 400, True), (1e6, 40, True), (1e6, 400, False)])
def test_a_leading_input_is_broadcast_while_it_is_short_or_narrow(rows: float, row_bytes: int, broadcast: bool) -> None:
    """What was joined is as wide as all of it: a narrow delta with wide rows is no longer broadcast."""
    query = parse_query(SOURCES + CHAIN)
    assert isinstance(query.root.op, Join)
    delta, others = Input(frozenset({0, 1}), rows, 1e7, leads=True, row_bytes=row_bytes), inputs(None)
    others = [others[1], replace(others[2], rows=1e9, base=1e9)]
    _, steps = join_order(query, [delta, *others], query.root.op.condition)
    assert steps[0].broadcast == broadcast
    wide = [replace(others[0], row_bytes=1000), others[1]]
    _, steps = join_order(query, [delta, *wide], query.root.op.condition)
    assert not steps[1].broadcast or rows <= 5e5
