"""Derived properties of operators: columns, keys, reproducibility, and columns without NULLs.

About half of the preconditions of rules are questions about these properties.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from tidemill.plan.aggregates import additive, order_sensitive
from tidemill.plan.clock import clock_of
from tidemill.plan.columns import ColumnIds
from tidemill.plan.expr import Col, Expr, Lit
from tidemill.plan.kinds import JoinKind
from tidemill.plan.ops import (
    Aggregate,
    Filter,
    Join,
    Limit,
    Opaque,
    Project,
    QueryOp,
    RowWise,
    Scan,
    Sort,
    Union,
    Window,
    WindowCall,
)
from tidemill.plan.query import Query


@dataclass(frozen=True, slots=True)
class Props:
    """Properties that a relation has at any time.

    Attributes:
        columns: ids, in order.
        keys: sets of columns whose values no two rows share; the empty set means one row at most.
        reproducible: computing the relation twice over the same sources gives the same bag bit by bit; False above sums
            of floats, ties under a limit, first, collect_list and the like. The old rows of a relation that is not
            reproducible must be read from where they were kept, never computed again.
        sources: the sources below; the clock is one of them.
        known: columns that are NULL in no row.
    """

    columns: tuple[int, ...]
    keys: frozenset[frozenset[int]]
    reproducible: bool
    sources: frozenset[int]
    known: frozenset[int] = frozenset()


def derive(op: QueryOp, inputs: Sequence[Props], query: Query, columns: ColumnIds) -> Props:
    """Properties of an operator of a query from those of its inputs."""
    sources = frozenset[int]().union(*(i.sources for i in inputs))
    reproducible = all(i.reproducible for i in inputs)
    keys: frozenset[frozenset[int]] = frozenset()
    match op:
        case Scan(source, fields, _):
            sources = frozenset({source})
            ids = tuple(c for c, _ in fields)
        case Filter(condition):
            ids = inputs[0].columns
            fixed = _fixed(condition, query)
            keys = frozenset(key - fixed for key in inputs[0].keys)
            sources |= clock_of(op, query)
        case Sort():
            ids, keys = inputs[0].columns, inputs[0].keys
            sources |= clock_of(op, query)
        case Limit(order=order):
            ids, keys = inputs[0].columns, inputs[0].keys
            exprs = frozenset(k.expr.id for k in order if isinstance(k.expr, Col))
            reproducible = reproducible and any(key <= exprs for key in keys)
        case Project(named):
            ids = tuple(c for c, _ in named)
            keys = _through(inputs[0].keys, named)
            sources |= clock_of(op, query)
        case Union(ids, _):
            pass
        case Aggregate(named, calls):
            ids = tuple(c for c, _ in (*named, *calls))
            keys = frozenset({frozenset(c for c, _ in named)})
            exact = all(additive(query, columns, e) for _, e in calls)
            reproducible = reproducible and (exact or not any(order_sensitive(query, columns, e) for _, e in calls))
        case Join(kind, condition, exists):
            ids = _join_columns(kind, exists, inputs)
            keys = _join_keys(kind, condition, inputs, query)
        case RowWise(columns=ids):
            pass
        case Window(columns=ids, calls=window):
            keys = frozenset(key for key in inputs[0].keys | _numbered(op, inputs[0]) if key <= set(ids))
            reproducible = reproducible and all(map(_reproducible, window))
        case Opaque(columns=ids):
            reproducible = False
        case _:
            assert_never(op)
    return Props(ids, keys, reproducible, sources, _known(op, inputs, query) & frozenset(ids))


def _known(op: QueryOp, inputs: Sequence[Props], query: Query) -> frozenset[int]:
    """The columns without NULLs, among those that the operator may show."""
    below = frozenset[int]().union(*(i.known for i in inputs))
    match op:
        case Filter(condition) | Join(kind="inner", condition=condition):
            return below | not_null(condition, query)
        case Project(named):
            return frozenset(c for c, e in named if _is_known(e, below))
        case Aggregate(named, _):
            return frozenset(c for c, e in named if _is_known(e, below))
        case Join(kind="left" | "semi" | "anti" | "existence"):
            return inputs[0].known
        case Sort() | Limit():
            return below
        case Join() | Scan() | Union() | RowWise() | Window() | Opaque():
            return frozenset()
        case _:
            assert_never(op)


def _is_known(expr: Expr, known: frozenset[int]) -> bool:
    return (isinstance(expr, Lit) and expr.value is not None) or (isinstance(expr, Col) and expr.id in known)


def not_null(condition: Sequence[Expr], query: Query) -> frozenset[int]:
    """Columns that are NULL in no row for which all conjuncts are true, as far as equalities tell."""
    found = [info.equal for info in map(query.info, condition) if info is not None and info.equal is not None]
    return frozenset(e.id for q in found if not q.null_safe for e in (q.left, q.right) if isinstance(e, Col))


def _reproducible(call: WindowCall) -> bool:
    """True if rows that tie in the order of their partition cannot swap values, and no sum drifts."""
    if call.function in {"rank", "dense_rank", "percent_rank", "cume_dist"}:
        return True
    return call.any_order and call.function != "row_number" and call.frame != "rows"


def _through(keys: frozenset[frozenset[int]], named: Sequence[tuple[int, Expr]]) -> frozenset[frozenset[int]]:
    renamed: dict[int, int] = {}
    for column, expr in named:
        if isinstance(expr, Col):
            renamed.setdefault(expr.id, column)
    return frozenset(frozenset(renamed[c] for c in key) for key in keys if key <= renamed.keys())


def _fixed(condition: Sequence[Expr], query: Query) -> frozenset[int]:
    """Columns that have one value in all rows for which all conjuncts are true."""
    found = [info.equal for info in map(query.info, condition) if info is not None and info.equal is not None]
    pairs = [pair for q in found for pair in ((q.left, q.right), (q.right, q.left))]
    return frozenset(a.id for a, b in pairs if isinstance(a, Col) and not query.columns_of(b) and _is_sure(b, query))


def _is_sure(expr: Expr, query: Query) -> bool:
    info = query.info(expr)
    return isinstance(expr, Lit) or (info is not None and info.deterministic and not info.time_dependent)


def _numbered(op: Window, below: Props) -> frozenset[frozenset[int]]:
    """The keys that numbers of rows make: those of a partition are different."""
    new = [c for c in op.columns if c not in set(below.columns)]
    partition = [e.id for e in op.partition if isinstance(e, Col)]
    if len(new) != len(op.calls) or len(partition) < len(op.partition):
        return frozenset()
    numbers = (c for c, call in zip(new, op.calls, strict=True) if call.function == "row_number")
    return frozenset(frozenset({*partition, c}) for c in numbers)


def _join_columns(kind: JoinKind, exists: int | None, inputs: Sequence[Props]) -> tuple[int, ...]:
    if kind in {"semi", "anti"}:
        return inputs[0].columns
    if kind == "existence":
        assert exists is not None
        return (*inputs[0].columns, exists)
    return tuple(c for i in inputs for c in i.columns)


def _join_keys(
    kind: JoinKind, condition: Sequence[Expr], inputs: Sequence[Props], query: Query
) -> frozenset[frozenset[int]]:
    if kind in {"semi", "anti", "existence"}:
        return inputs[0].keys
    if kind != "inner":
        left, right = inputs
        if kind == "left" and _bound(right, (left,), condition, query):
            return left.keys
        if kind == "right" and _bound(left, (right,), condition, query):
            return right.keys
        if kind == "full":
            return frozenset()  # a padded row of either side may be the same as one of the other: NULL is a key too
        # A row is padded only if it meets nothing, so it is there once.
        return frozenset(a | b for a in left.keys for b in right.keys)
    # If equalities bind a key of an input to the others, that input adds no rows and its key is not needed.
    needed = list(range(len(inputs)))
    for i in range(len(inputs)):
        others = [inputs[j] for j in needed if j != i]
        if others and _bound(inputs[i], others, condition, query):
            needed.remove(i)
    keys = {frozenset[int]()}
    for i in needed:
        keys = {k | own for k in keys for own in inputs[i].keys}
    return frozenset(keys)


def _bound(own: Props, others: Sequence[Props], condition: Sequence[Expr], query: Query) -> bool:
    """True if equalities bind a whole key of `own`, so that each row of the others meets at most one row of it."""
    theirs = frozenset(c for o in others for c in o.columns)
    equated = {b.id for _, b, _ in equi_keys(condition, theirs, frozenset(own.columns), query) if isinstance(b, Col)}
    return any(key <= equated for key in own.keys)


def equi_keys(
    condition: Sequence[Expr], left: frozenset[int], right: frozenset[int], query: Query
) -> tuple[tuple[Expr, Expr, bool], ...]:
    """Equalities between two sets of columns: (expression over left, expression over right, null-safe)."""
    found = []
    for conjunct in condition:
        info = query.info(conjunct)
        if info is None or info.equal is None:
            continue
        a, b = info.equal.left, info.equal.right
        of_a, of_b = query.columns_of(a), query.columns_of(b)
        if of_a and of_b and of_a <= left and of_b <= right:
            found.append((a, b, info.equal.null_safe))
        elif of_a and of_b and of_b <= left and of_a <= right:
            found.append((b, a, info.equal.null_safe))
    return tuple(found)
