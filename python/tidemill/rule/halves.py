"""An aggregate over an inner join, from aggregates of the join's two halves (DBToaster's update-independent views).

The aggregate of a half groups by all columns that are looked at beyond the half, and has the parts of the calls that
read that half alone. Its rows stand for many rows each: counts multiply, and so do parts with the other half's count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tidemill.memo.memo import Built
from tidemill.plan.aggregates import Additive
from tidemill.plan.expr import Col, Expr
from tidemill.plan.grouping import is_exact
from tidemill.plan.ops import Aggregate, CallParts, Combine, Join, Named, Partial, Project
from tidemill.plan.query import Query
from tidemill.rule.build import is_empty, join, node
from tidemill.rule.match import Match, Relation

ALL_WAYS = 3
"""Inputs of a join up to which each of them is tried as a half; of more, one, since halves are halved in turn."""

ColumnSet = frozenset[int]
NONE: ColumnSet = frozenset()


@dataclass(frozen=True, slots=True)
class Halves:
    """Aggregates of the halves, the conjuncts that join their rows, and what makes parts of the joined rows: a
    projection, if some column of theirs is computed from both, and then `combine`."""

    one: Relation
    other: Relation
    condition: tuple[Expr, ...]
    projection: Project | None
    combine: Combine

    def parts(self, one: Built, other: Built) -> Built:
        """Parts of the whole from parts of the halves."""
        rows = join("inner", self.condition, (), one, other)
        if self.projection is not None:
            rows = node(self.projection, rows)
        return rows if is_empty(rows) else node(self.combine, rows)


def halves(m: Match[Aggregate]) -> Iterator[Halves]:
    """The ways to halve the inner join below a matched additive aggregate, or below a projection that it is over."""
    (rows,) = m.inputs
    found: list[tuple[Named, Join, tuple[Relation, ...]]] = [((), *way) for way in m.written(rows, Join)]
    for project, (joined,) in m.written(rows, Project):
        found += [(project.columns, *way) for way in m.written(joined, Join)]
    for computed, op, inputs in found:
        if op.kind != "inner":
            continue
        for alone in _alone(m.query, op.condition, inputs):
            rest = tuple(r for i, r in enumerate(inputs) if i != alone)
            pair = _Half(m, op.condition, inputs[alone : alone + 1]), _Half(m, op.condition, rest)
            if (halved := _halved(m, pair, op.condition, computed)) is not None:
                yield halved


def _alone(query: Query, condition: Sequence[Expr], inputs: Sequence[Relation]) -> Sequence[int]:
    """The inputs that can be a half, so that conjuncts hold the others together."""
    if len(inputs) == 2:
        return [0]
    columns = [frozenset(r.columns) for r in inputs]
    loose = [i for i in range(len(inputs)) if _connected(query, condition, columns[:i] + columns[i + 1 :])]
    return loose if len(inputs) <= ALL_WAYS else loose[-1:]


def _connected(query: Query, condition: Sequence[Expr], parts: list[ColumnSet]) -> bool:
    links = [r for c in condition if (r := query.columns_of(c)) <= NONE.union(*parts)]
    first, *pending = parts
    reached = set(first)
    while near := [p for p in pending if any(link & reached and link & p for link in links)]:
        reached.update(*near)
        pending = [p for p in pending if p not in near]
    return not pending


class _Half:
    """A half of a join while its aggregate is put together: its own `keys` and `calls`, columns `computed` for them."""

    def __init__(self, m: Match[Aggregate], condition: tuple[Expr, ...], inputs: tuple[Relation, ...]) -> None:
        self._m = m
        self._inputs = inputs
        self.columns: ColumnSet = frozenset(c for r in inputs for c in r.columns)
        several = condition if len(inputs) > 1 else ()
        self.condition = tuple(c for c in several if m.query.columns_of(c) and self.holds(m.query.columns_of(c)))
        self.keys: list[tuple[int, Expr]] = []
        self.calls: list[tuple[int, Expr]] = []
        self._computed: list[tuple[int, Expr]] = []

    def holds(self, read: ColumnSet) -> bool:
        return read <= self.columns

    def compute(self, column: int, expr: Expr) -> None:
        self._computed.append((column, expr))
        self.columns |= {column}

    def aggregate(self, beyond: ColumnSet) -> tuple[Relation, Partial] | None:
        """The half's aggregate; None if it has no keys, or a key that takes for one what an expression tells apart."""
        m, rows = self._m, self._inputs[0]
        if len(self._inputs) > 1:
            rows = m.derive(Join("inner", self.condition), *self._inputs)
        if self._computed:
            rows = m.derive(Project((*((c, Col(c)) for c in rows.columns), *self._computed)), rows)
        shown = tuple(c for c in rows.columns if c in beyond)
        if not (shown or self.keys) or not all(is_exact(m.types.type(c)) for c in shown):
            return None
        op = Aggregate((*((c, Col(c)) for c in shown), *self.keys), tuple(self.calls))
        partial = m.partial_of(op)
        return None if partial is None else (m.derive(op, rows), partial)


def _halved(
    m: Match[Aggregate], pair: tuple[_Half, _Half], conjuncts: tuple[Expr, ...], computed: Named
) -> Halves | None:
    """Gives each key and call of the aggregate to the half that it reads alone, and has both halves made."""
    op, partial, calls = m.op, m.partial(), m.additive_calls()
    if partial is None or calls is None:
        return None

    def half_of(read: ColumnSet) -> _Half | None:
        return next((half for half in pair if read and half.holds(read)), None)

    condition = tuple(c for c in conjuncts if not any(c in half.condition for half in pair))
    reads = [_read(m.query, call) for call in calls]
    beyond = NONE.union(*map(m.query.columns_of, condition))
    asked = NONE.union(*(m.query.columns_of(e) for _, e in op.keys), *reads)
    both: list[tuple[int, Expr]] = []
    for c, e in computed:
        if c in asked and e != Col(c):
            half = half_of(m.query.columns_of(e))
            if half is None:
                beyond |= m.query.columns_of(e)
                both.append((c, e))
            else:
                half.compute(c, e)
    keys: list[tuple[int, Expr]] = []
    for c, e in op.keys:
        half = half_of(m.query.columns_of(e))
        if half is None or (isinstance(e, Col) and is_exact(m.types.type(e.id))):
            beyond |= m.query.columns_of(e)
            keys.append((c, e))
        else:
            half.keys.append((c, e))
            keys.append((c, Col(c)))
    values: dict[int, int] = {}
    for (c, e), call, read in zip(op.calls, calls, reads, strict=True):
        half = half_of(read)
        if not call.weighs:
            return None
        if half is None:
            beyond |= read
        elif call.multiplies:
            half.calls.append((c, e))
        else:
            values[c] = m.column(("value", c), call.argument_type, m.types.name(c))
            half.keys.append((values[c], call.value))
    one, other = (half.aggregate(beyond) for half in pair)
    if one is None or other is None:
        return None
    given = {c: CallParts(value=values.get(c)) for c, _ in op.calls}
    for (_, near), (_, far) in ((one, other), (other, one)):
        given |= {c: CallParts(parts, (far.count,)) for (c, _), parts in zip(near.calls, near.parts, strict=True)}
    counts = (one[1].count, other[1].count)
    combine = Combine(partial, tuple(keys), counts, tuple(given.values()))
    shown = (*_columns(one[1]), *_columns(other[1]))
    projection = Project((*((c, Col(c)) for c in shown), *both)) if both else None
    return Halves(one[0], other[0], condition, projection, combine)


def _columns(partial: Partial) -> tuple[int, ...]:
    return (*(c for c, _ in partial.keys), partial.count, *(c for part in partial.parts for c in part))


def _read(query: Query, call: Additive) -> ColumnSet:
    args = call.call.args if call.call.filter is None else (*call.call.args, call.call.filter)
    return NONE.union(*map(query.columns_of, args))
