"""Lowering of how far a change reaches in the partitions of a window, and of the rows from there on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tidemill.plan.expr import FALSE, Cast, Col, Expr, Lit, fn
from tidemill.plan.ops import FromStart, Reach, ReachedWindow, SortKey
from tidemill.search.lower.lowered import Blocks, Lowered, null_of
from tidemill.wire import nodes
from tidemill.wire.nodes import WireNode


@dataclass(frozen=True, slots=True)
class _Numbered:
    """Rows before the first changed one of their partition, backwards, and a row 0 for this one itself.

    `start`: the first changed row's value of the order; `value`: the row's own. `through`: the number of the last row
    that ties with it, as `rank` is that of the first. `since`: for each of `Bounds.since`, whether it is not NULL.
    """

    start: int
    number: int
    rank: int
    value: int
    through: int
    since: tuple[int, ...]

    @property
    def columns(self) -> tuple[int, ...]:
        return (self.start, self.number, self.rank, self.value, self.through, *self.since)


def reach(blocks: Blocks, op: Reach, rows: Lowered | None, change: Lowered, *, few: bool) -> Lowered:
    """The starts in each partition of the change; `few`: the change is small.

    Rows before the first changed one are numbered backwards from it. Row `behind` is the first that is reached, row
    `before + behind` the first that is read; where there are fewer, all rows are. Of the rows behind number `behind`,
    the nearest in which a `since` is not NULL is read too, if there is one. A row whose rank differs from its number
    ties with the one behind it.
    """
    kind = blocks.columns.type_of(op.order[0].expr)
    keys = tuple(c for c, _ in op.partition)
    start = blocks.column(kind, "start")
    starts = _starts(blocks, op, change, start)
    if rows is None:
        read = null_of(kind) if op.bounds.whole else Col(start)
        node = nodes.project((*nodes.same(keys), (op.reached, Col(start)), (op.read, read)), starts)
        return Lowered(node, (*keys, op.reached, op.read), None)
    return _both(blocks, op, keys, *_numbered(blocks, op, starts, start, rows, few=few))


def _numbered(
    blocks: Blocks, op: Reach, starts: WireNode, start: int, rows: Lowered, *, few: bool
) -> tuple[_Numbered, WireNode]:
    first, bounds = op.order[0], op.bounds
    kind = blocks.columns.type_of(first.expr)
    keys = tuple(c for c, _ in op.partition)
    on = blocks.equal(((expr, c) for c, expr in op.partition), nulls=True)
    near = nodes.join("inner", [*on, _before(first, Col(start))], starts, rows.node, "left" if few else None)
    number, rank = (blocks.column("integer", n) for n in ("number", "rank"))
    through = blocks.column("long", "through")
    since = tuple(blocks.column("boolean", "since") for _ in bounds.since)
    named = _Numbered(start, number, rank, blocks.column(kind, "value"), through, since)
    # A start behind which all rows are reached is a value of the first key alone.
    order = op.order[:1] if bounds.behind else op.order
    back = [replace(key, ascending=not key.ascending, nulls_first=not key.nulls_first) for key in order]
    counted = nodes.numbered(map(Col, keys), back, number, rank, near, through if since else None)
    if not since and bounds.whole != "in order":
        counted = nodes.where((_is_near(op, number),), counted)
    zero, none = Lit(0, "integer"), Lit(0, "long")
    own = [(named.value, first.expr), *((c, fn("isnotnull", e)) for c, e in zip(since, bounds.since, strict=True))]
    same = nodes.same((*keys, start, number, rank))
    known = nodes.project((*same, (through, Col(through) if since else none), *own), counted)
    itself = nodes.project(
        (
            *nodes.same((*keys, start)),
            *((number, zero), (rank, zero), (through, none), (named.value, null_of(kind))),
            *((c, FALSE) for c in since),
        ),
        starts,
    )
    shown = (*keys, *named.columns)
    return named, nodes.union(shown, (shown, known), (shown, itself))


def _is_near(op: Reach, number: int) -> Expr:
    """That a row is one of those that are counted, or the one before. If this one ties with the last that is read, the
    order does not say which of them is read."""
    return fn("<=", Col(number), Lit(op.bounds.before + op.bounds.behind + 1, "integer"))


def _starts(blocks: Blocks, op: Reach, change: Lowered, start: int) -> WireNode:
    """The first changed row's value of the order in each partition; NULL if no row comes before it."""
    first = op.order[0]
    kind = blocks.columns.type_of(first.expr)
    least, unknown = blocks.column(kind, "least"), blocks.column("boolean", "unknown")
    calls = ((least, fn("min" if first.ascending else "max", first.expr)), (unknown, fn("bool_or", _is_null(first))))
    found = nodes.aggregate(op.partition, calls, change.node)
    keys = nodes.same(c for c, _ in op.partition)
    return nodes.project((*keys, (start, fn("if", Col(unknown), null_of(kind), Col(least)))), found)


def _both(blocks: Blocks, op: Reach, keys: Sequence[int], of: _Numbered, rows: WireNode) -> Lowered:
    """Both starts in each partition, from the numbered rows before its first changed one."""
    first, bounds = op.order[0], op.bounds
    kind, last = blocks.columns.type_of(first.expr), "max" if first.ascending else "min"
    most = bounds.before + bounds.behind
    starts_at = {n: blocks.column(kind, f"start{n}") for n in {bounds.behind, most} if n > 0}
    tied, itself = blocks.column("boolean", "tied"), blocks.column(kind, "start")
    ties: Expr = fn("not", fn("=", Col(of.number), Col(of.rank)))
    if bounds.whole != "in order":
        ties = fn("and", _is_near(op, of.number), ties) if most else FALSE
    calls = [(c, fn("max", fn("if", _is(of.number, n), Col(of.value), null_of(kind)))) for n, c in starts_at.items()]
    calls += [(itself, fn("max", Col(of.start))), (tied, fn("bool_or", ties))]
    found = [_Found.fresh(blocks, kind) for _ in of.since]
    for held, names in zip(of.since, found, strict=True):
        holds = fn("and", Col(held), fn(">", Col(of.number), Lit(bounds.behind, "integer")))
        doubtful = fn("and", holds, fn("<", Cast(Col(of.rank), "long"), Col(of.through)))
        calls += [
            (names.any, fn("bool_or", holds)),
            (names.start, fn(last, fn("if", holds, Col(of.value), null_of(kind)))),
            (names.doubtful, fn(last, fn("if", doubtful, Col(of.value), null_of(kind)))),
        ]
    starts_at[0] = itself
    unclear = [Col(tied), *(names.unclear for names in found)]
    reached: Expr = Col(starts_at[bounds.behind])
    for doubt in unclear:
        reached = fn("if", doubt, null_of(kind), reached)
    node = nodes.aggregate(nodes.same(keys), calls, rows)
    node = nodes.project((*nodes.same((*keys, *(c for c, _ in calls))), (op.reached, reached)), node)
    read: Expr = null_of(kind)
    if not bounds.whole:
        read = Col(starts_at[most])
        for names in found:
            read = _earlier(first, read, fn("if", Col(names.any), Col(names.start), Col(op.reached)))
        read = fn("if", fn("isnull", Col(op.reached)), null_of(kind), read)
    node = nodes.project((*nodes.same((*keys, op.reached)), (op.read, read)), node)
    return Lowered(node, (*keys, op.reached, op.read), None)


@dataclass(frozen=True, slots=True)
class _Found:
    """Rows where a `since` is not NULL: whether there are any, the starts of the last, and of the last that ties."""

    any: int
    start: int
    doubtful: int

    @staticmethod
    def fresh(blocks: Blocks, kind: str) -> _Found:
        return _Found(blocks.column("boolean", "any"), blocks.column(kind, "since"), blocks.column(kind, "doubtful"))

    @property
    def unclear(self) -> Expr:
        """That the last one ties, or may tie: of rows that are NULL in the order no start tells."""
        ties = fn("or", fn("isnull", Col(self.start)), fn("<=>", Col(self.start), Col(self.doubtful)))
        return fn("and", Col(self.any), ties)


def _earlier(first: SortKey, one: Expr, other: Expr) -> Expr:
    """The start that means more rows."""
    earlier = fn("if", fn("<" if first.ascending else ">", one, other), one, other)
    return fn("if", fn("isnull", one), one, earlier)


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
    return fn("isnull", first.expr) if first.nulls_first else FALSE


def _is(column: int, number: int) -> Expr:
    return fn("=", Col(column), Lit(number, "integer"))
