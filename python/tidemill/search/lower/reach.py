"""Lowering of how far a change reaches in the partitions of a window, and of the rows from there on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidemill.plan.expr import Col, Expr, Lit, fn
from tidemill.plan.ops import FromStart, Reach, ReachedWindow, SortKey
from tidemill.search.lower.lowered import Blocks, Lowered, null_of
from tidemill.wire import nodes
from tidemill.wire.nodes import WireNode


def reach(blocks: Blocks, op: Reach, rows: Lowered, change: Lowered, *, few: bool) -> Lowered:
    """The starts in each partition of the change; `few`: the change is small.

    Rows before the first changed one are numbered backwards from it. Row `behind` is the first that is reached, row
    `before + behind` the first that is read; where there are fewer, all rows are. A row whose rank differs from its
    number ties with the one behind it.
    """
    first, most = op.order[0], op.before + op.behind
    kind = blocks.columns.type_of(first.expr)
    keys = tuple(c for c, _ in op.partition)
    start = blocks.column(kind, "start")
    starts = _starts(blocks, op, change, start)
    on = blocks.equal(((expr, c) for c, expr in op.partition), nulls=True)
    near = nodes.join("inner", [*on, _before(first, Col(start))], starts, rows.node, "left" if few else None)
    number, rank, value = (
        blocks.column(t, n) for t, n in (("integer", "number"), ("integer", "rank"), (kind, "value"))
    )
    back = [replace(key, ascending=not key.ascending, nulls_first=not key.nulls_first) for key in op.order]
    counted = nodes.numbered(map(Col, keys), back, number, rank, near)
    # One more than are read: if that one ties with the last, the order does not say which of them is read.
    counted = nodes.where((fn("<=", Col(number), Lit(most + 1, "integer")),), counted)
    shown = (*keys, start, number, rank, value)
    known = nodes.project((*nodes.same(shown[:-1]), (value, first.expr)), counted)
    zero = Lit(0, "integer")
    itself = nodes.project((*nodes.same((*keys, start)), (number, zero), (rank, zero), (value, null_of(kind))), starts)
    return _both(blocks, op, keys, (start, number, rank, value), nodes.union(shown, (shown, known), (shown, itself)))


def _starts(blocks: Blocks, op: Reach, change: Lowered, start: int) -> WireNode:
    """The first changed row's value of the order in each partition; NULL if no row comes before it."""
    first = op.order[0]
    kind = blocks.columns.type_of(first.expr)
    least, unknown = blocks.column(kind, "least"), blocks.column("boolean", "unknown")
    calls = ((least, fn("min" if first.ascending else "max", first.expr)), (unknown, fn("bool_or", _is_null(first))))
    found = nodes.aggregate(op.partition, calls, change.node)
    keys = nodes.same(c for c, _ in op.partition)
    return nodes.project((*keys, (start, fn("if", Col(unknown), null_of(kind), Col(least)))), found)


def _both(
    blocks: Blocks, op: Reach, keys: Sequence[int], of_rows: tuple[int, int, int, int], rows: WireNode
) -> Lowered:
    """Both starts in each partition, from the numbered rows before its first changed one, and a row 0 for itself."""
    start, number, rank, value = of_rows
    kind = blocks.columns.type_of(op.order[0].expr)
    starts_at = {n: blocks.column(kind, f"start{n}") for n in {op.behind, op.before + op.behind} if n > 0}
    tied, itself = blocks.column("boolean", "tied"), blocks.column(kind, "start")
    calls = [(c, fn("max", fn("if", _is(number, n), Col(value), null_of(kind)))) for n, c in starts_at.items()]
    calls += [(itself, fn("max", Col(start))), (tied, fn("bool_or", fn("not", fn("=", Col(number), Col(rank)))))]
    found = nodes.aggregate(nodes.same(keys), calls, rows)
    starts_at[0] = itself
    reached = fn("if", Col(tied), null_of(kind), Col(starts_at[op.behind]))
    read = fn("if", fn("isnull", reached), null_of(kind), Col(starts_at[op.before + op.behind]))
    node = nodes.project((*nodes.same(keys), (op.reached, reached), (op.read, read)), found)
    return Lowered(node, (*keys, op.reached, op.read), None)


def from_start(blocks: Blocks, op: FromStart, rows: Lowered, starts: Lowered, *, broadcast: bool) -> Lowered:
    """The rows from the start of their partition on."""
    condition = [*blocks.equal(op.on, nulls=True), _from(op.order, op.start)]
    return rows.over(nodes.join("semi", condition, rows.node, starts.node, "right" if broadcast else None))


def read_rows(blocks: Blocks, op: ReachedWindow, rows: Lowered, starts: Lowered, *, broadcast: bool) -> Lowered:
    """The rows that a window reads, with the start of those that are reached."""
    condition = [*blocks.equal(op.on, nulls=True), _from(op.window.order[0], op.read)]
    node = nodes.join("inner", condition, rows.node, starts.node, "right" if broadcast else None)
    return Lowered(node, (*rows.columns, op.reached), None)


def reached_rows(op: ReachedWindow, computed: Lowered) -> Lowered:
    """The rows of a window that are reached. The JVM sees by this filter which frames it has to compute."""
    node = nodes.where((_from(op.window.order[0], op.reached),), computed.node)
    return Lowered(nodes.project(nodes.same(op.window.columns), node), op.window.columns, None)


def _from(order: SortKey, start: int) -> Expr:
    """That a row lies at a start or behind it."""
    behind = fn("or", fn("isnull", Col(start)), fn(">=" if order.ascending else "<=", order.expr, Col(start)))
    return behind if order.nulls_first else fn("or", behind, fn("isnull", order.expr))


def _before(first: SortKey, start: Expr) -> Expr:
    """That a row comes before a start; no row comes before NULL."""
    before = fn("<" if first.ascending else ">", first.expr, start)
    if not first.nulls_first:
        return before
    return fn("or", before, fn("and", fn("isnull", first.expr), fn("isnotnull", start)))


def _is_null(first: SortKey) -> Expr:
    """That a row is NULL in the order, and before all others for that."""
    return fn("isnull", first.expr) if first.nulls_first else Lit(False, "boolean")


def _is(column: int, number: int) -> Expr:
    return fn("=", Col(column), Lit(number, "integer"))
