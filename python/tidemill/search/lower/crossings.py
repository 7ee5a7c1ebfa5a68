"""Lowering of `Crossing`: the rows whose answer differs between two values of the clock."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import assert_never

from tidemill.plan.clock import timed
from tidemill.plan.expr import ONE, ZERO, Col, Expr, Lit, fn
from tidemill.plan.grouping import identity
from tidemill.plan.ops import Filter, Project
from tidemill.plan.query import Query
from tidemill.search.lower.lowered import Blocks, Lowered
from tidemill.wire import nodes

MINUS_ONE = Lit(-1, "long")


def crossing(blocks: Blocks, query: Query, of: Filter | Project, rows: Lowered, start: int, end: int) -> Lowered:
    """The signed change of a filter or projection over plain rows, as the clock moves from `start` to `end`."""
    match of:
        case Filter():
            return _of_filter(blocks, query, of, rows, start, end)
        case Project():
            return _of_projection(blocks, query, of, rows, start, end)
        case _:
            assert_never(of)


def _of_filter(blocks: Blocks, query: Query, of: Filter, rows: Lowered, start: int, end: int) -> Lowered:
    """Both bounds stand in one condition of plain comparisons, so that a scan reads only the rows between them."""
    still = [c for c in of.condition if not query.reads_clock(c)]
    moving = Filter(tuple(c for c in of.condition if query.reads_clock(c)))
    before, after = timed(moving, query, start).condition, timed(moving, query, end).condition
    comes, goes = _but_not(after, before), _but_not(before, after)
    node = nodes.where([*still, fn("or", comes, goes)], rows.node)
    count = fn("if", _all(after), ONE, MINUS_ONE)
    node = nodes.project((*nodes.same(rows.columns), (blocks.count, count)), node)
    return Lowered(node, rows.columns, blocks.count)


def _but_not(true: Sequence[Expr], untrue: Sequence[Expr]) -> Expr:
    """True where all of the first conjuncts are true, and one of the second is false or NULL."""
    return fn("and", _all(true), reduce(lambda a, b: fn("or", a, b), (x for c in untrue for x in _untrue(c))))


def _untrue(condition: Expr) -> tuple[Expr, Expr]:
    return fn("not", condition), fn("isnull", condition)


def _all(conjuncts: Sequence[Expr]) -> Expr:
    return reduce(lambda a, b: fn("and", a, b), conjuncts)


def _of_projection(blocks: Blocks, query: Query, of: Project, rows: Lowered, start: int, end: int) -> Lowered:
    before, after = dict(timed(of, query, start).columns), dict(timed(of, query, end).columns)
    moving = [c for c, e in of.columns if query.reads_clock(e)]
    earlier = {c: blocks.column(blocks.columns.type(c), "old_value") for c in moving}
    values = [*((earlier[c], before[c]) for c in moving), *after.items()]
    node = nodes.project(values, rows.node)
    differ = (
        fn("not", fn("<=>", identity(earlier[c], blocks.columns.type(c)), identity(c, blocks.columns.type(c))))
        for c in moving
    )
    node = nodes.where([reduce(lambda a, b: fn("or", a, b), differ)], node)
    shown = nodes.same((*earlier.values(), *after))
    node = nodes.project([*shown, (blocks.count, fn("explode", fn("array", MINUS_ONE, ONE)))], node)
    is_old = fn("<", Col(blocks.count), ZERO)
    columns = tuple((c, fn("if", is_old, Col(earlier[c]), Col(c)) if c in earlier else Col(c)) for c in after)
    return blocks.project(columns, Lowered(node, (), blocks.count))
