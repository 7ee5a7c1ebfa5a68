"""The place where a rule matched, as the rule sees it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from tidemill.memo.memo import Built, Memo, Node, Ref
from tidemill.plan.aggregates import Additive, additive, growing, order_sensitive
from tidemill.plan.clock import clock_of, timed
from tidemill.plan.columns import ColumnIds
from tidemill.plan.expr import ONE, TRUE, Col, Expr
from tidemill.plan.grouping import exactly, is_exact
from tidemill.plan.ops import Aggregate, Empty, Final, Join, Named, Partial, Project, QueryOp, Scan, Union
from tidemill.plan.props import Props, equi_keys, not_null
from tidemill.plan.query import Query
from tidemill.rule.build import keys, node, total, with_keys
from tidemill.rule.growth import grows
from tidemill.rule.result import Linked, NewForm, Result
from tidemill.tvr.form import (
    ATTRIBUTE,
    ATTRIBUTE_DELTA,
    DELTA,
    KEPT,
    NEGATIVE,
    NEW,
    OLD,
    POSITIVE,
    SNAPSHOT,
    SYMBOLIC,
    FormKind,
    Span,
    Time,
    at,
    over,
)

Operator = TypeVar("Operator", bound=QueryOp)
Matched = TypeVar("Matched", bound=QueryOp, covariant=True)
"""The operators that a rule matches."""


class Relation:
    """A relation at a match: its properties, and its forms as leaves for the trees that the rule builds.

    Answers hold for the interval of the match, which a rule names only by symbols: old, new, delta.
    """

    def __init__(self, memo: Memo, number: int, span: Span, asked: set[int] | None = None) -> None:
        self._memo = memo
        self._span = span
        self._asked = set[int]() if asked is None else asked
        self.number = number

    @property
    def props(self) -> Props:
        """Derived properties. Of keys more may become known later: see `keys`."""
        return self._memo.tvrs[self.number].props

    @property
    def keys(self) -> frozenset[frozenset[int]]:
        """The keys that are known; the rule is asked again if more are."""
        self._asked.add(self.number)
        return self.props.keys

    @property
    def columns(self) -> tuple[int, ...]:
        """Column ids."""
        return self._memo.tvrs[self.number].props.columns

    @property
    def changed(self) -> bool:
        """True if some source below changes."""
        return self._memo.changed(self.number, self._span)

    @property
    def grows(self) -> bool:
        """True if it is known that no row leaves it."""
        return grows(self._memo, self.number, self._span)

    @property
    def old(self) -> Ref:
        """The snapshot before the change."""
        return self.moment(SNAPSHOT, old=True)

    @property
    def new(self) -> Ref:
        """The snapshot after the change."""
        return self.moment(SNAPSHOT, old=False)

    @property
    def delta(self) -> Built:
        """The signed change; known to be empty if no source below changed."""
        return self.change(DELTA)

    def moment(self, kind: FormKind, *, old: bool) -> Ref:
        """A form at a moment, of this kind."""
        return Ref(self.number, at(kind, OLD if old else NEW))

    def change(self, kind: FormKind) -> Built:
        """A form over the interval, of this kind."""
        if not self.changed:
            return Node(Empty(self.columns, kind.signed))
        return Ref(self.number, over(kind, SYMBOLIC))


@dataclass(frozen=True, slots=True)
class Side:
    """An input of a join, with its side of the join's equalities: ((column for the values, expression), ...).

    `nulls`: rows with a NULL there count too, because NULL can match or because they are padded.
    """

    relation: Relation
    named: Named
    nulls: bool

    def keys(self, rows: Built) -> Built:
        """The values of the equated expressions in rows of this side."""
        return keys((self.named, rows))

    def cut(self, rows: Built, wanted: Built) -> Built:
        """The rows of this side whose values are in `wanted`; all rows if there is no equality."""
        return with_keys(tuple((e, c) for c, e in self.named), rows, wanted, nulls=self.nulls)


class Match(Generic[Matched]):
    """A relation written with an operator that a rule matches, over an interval (by default the whole timeline).

    `op`: that operator. Some methods apply to matches of one operator only, as the type of their `self` says. `asked`:
    gets the relations of which the rule asked for what may become known later: ways to write them, links, keys.
    """

    def __init__(
        self,
        memo: Memo,
        tvr: int,
        op: Matched,
        inputs: tuple[int, ...],
        span: Span | None = None,
        asked: set[int] | None = None,
    ) -> None:
        self._memo = memo
        self._span = span or memo.timeline.whole
        self._asked = set[int]() if asked is None else asked
        self.op = op
        self.relation = self._relation(tvr)
        self.inputs = tuple(map(self._relation, inputs))

    @property
    def query(self) -> Query:
        """The query, with facts about its expressions and sources."""
        return self._memo.query

    @property
    def types(self) -> ColumnIds:
        """Column types."""
        return self._memo.columns

    def column(self, role: Hashable, kind: str, name: str) -> int:
        """The column of a role at this relation, created at first use."""
        return self._memo.columns.fresh((self.relation.number, role), kind, name)

    @property
    def of_query(self) -> bool:
        """True if the query itself is written so; False for what rules derive, and for other ways that they find."""
        number = self.relation.number
        op, inputs = self._memo.tvrs[number].expressions[0]
        here = op == self.op and inputs == tuple(i.number for i in self.inputs)
        return here and self.query.has(self._memo.tree(number))

    # -- questions ----------------------------------------------------------------------------------------------------

    def written(self, relation: Relation, operator: type[Operator]) -> Iterator[tuple[Operator, tuple[Relation, ...]]]:
        """The known ways to write a relation with this operator: the operator and its inputs."""
        self._asked.add(relation.number)
        for op, inputs in self._memo.tvrs[relation.number].expressions:
            if isinstance(op, operator):
                yield op, tuple(map(self._relation, inputs))

    def additive_calls(self: Match[Aggregate]) -> tuple[Additive, ...] | None:
        """The attribute forms of the aggregate's calls; None if a call is not additive."""
        return self._additive_calls(self.op)

    def _additive_calls(self, op: Aggregate) -> tuple[Additive, ...] | None:
        found = [additive(self.query, self.types, e) for _, e in op.calls]
        return tuple(a for a in found if a is not None) if all(found) else None

    def partial(self: Match[Aggregate]) -> Partial | None:
        """The attribute form of the matched aggregate, with part columns; None if a call is not additive."""
        return self.partial_of(self.op)

    def partial_of(self, op: Aggregate) -> Partial | None:
        """The attribute form of any aggregate, with part columns; None if a call is not additive."""
        calls = self._additive_calls(op)
        return None if calls is None else self._partial(op, calls)

    def growing(self: Match[Aggregate]) -> tuple[Partial, Named] | None:
        """A form of the matched aggregate whose parts merge while no row leaves its input, and these parts of the rows
        that the aggregate has; None if the values of a call do not tell them."""
        found = [growing(self.query, self.types, e) for _, e in self.op.calls]
        calls = tuple(call for call in found if call is not None)
        if len(calls) < len(found):
            return None
        partial = self._partial(self.op, calls)
        columns: list[tuple[int, Expr]] = [(c, Col(c)) for c, _ in self.op.keys] + [(partial.count, ONE)]
        for (c, _), call, parts in zip(self.op.calls, calls, partial.parts, strict=True):
            columns += zip(parts, call.told_by(Col(c)), strict=True)
        return partial, tuple(columns)

    def _partial(self, op: Aggregate, calls: tuple[Additive, ...]) -> Partial:

        def column(role: Hashable, kind: str, name: str) -> int:
            """The same column for every relation of the aggregate, so that their parts merge."""
            return self.types.fresh((op, role), kind, name)

        parts = tuple(
            tuple(column((c, p.name), p.type, f"{self.types.name(c)}_{p.name}") for p in a.parts)
            for (c, _), a in zip(op.calls, calls, strict=True)
        )
        return Partial(op.keys, op.calls, column("count", "long", "_n"), parts)

    def sides(self: Match[Join]) -> tuple[Side, Side]:
        """The two inputs of the matched join, each with its side of the equalities."""
        return self.sides_of(self.op)

    def sides_of(self, join: Join) -> tuple[Side, Side]:
        """The two inputs of any join, each with its side of the equalities."""
        left, right = self.inputs
        pairs = equi_keys(join.condition, frozenset(left.columns), frozenset(right.columns), self.query)
        ids = [self.column(("key", i), self.types.type_of(near), f"key{i}") for i, (near, _, _) in enumerate(pairs)]
        near_keys = tuple((c, near) for c, (near, _, _) in zip(ids, pairs, strict=True))
        far_keys = tuple((c, far) for c, (_, far, _) in zip(ids, pairs, strict=True))
        safe = any(null_safe for _, _, null_safe in pairs)
        of_left = safe or join.kind not in {"inner", "semi"}
        return Side(left, near_keys, of_left), Side(right, far_keys, safe or join.kind == "full")

    def is_unique(self: Match[Join], side: Side) -> bool:
        """True if a row of the other side meets at most one row of this one: the equalities bind a key of it.

        A key by Spark's own grouping suffices, as equalities compare alike.
        """
        bound = {e.id for _, e in side.named if isinstance(e, Col)}
        return any(key and key <= bound for key in side.relation.keys)

    def read(self, *exprs: Expr) -> frozenset[int]:
        """The columns that expressions read."""
        return frozenset[int]().union(*map(self.query.columns_of, exprs))

    def exact_keys(self, columns: Iterable[int]) -> bool:
        """True if rows of one group have the very same value in each of these columns, not only an equal one."""
        return all(is_exact(self.types.type(c)) for c in columns)

    def present(self: Match[Join], side: Relation) -> int | None:
        """A column of one side that is NULL in no pair, so that NULL identifies a pad; None if none is known."""
        known = side.props.known | not_null(self.op.condition, self.query)
        return next((c for c in side.columns if c in known), None)

    def asked(self: Match[Join], side: Relation) -> Named | None:
        """The columns of one side that the join's condition reads, as values to group by.

        Rows with equal values meet the same rows of the other side. None if no value distinguishes all that an
        expression can.
        """
        read = frozenset[int]().union(*(self.query.columns_of(c) for c in self.op.condition))
        found: list[tuple[int, Expr]] = []
        for c in side.columns:
            if c in read:
                value = exactly(c, self.types.type(c))
                if value is None:
                    return None
                kind = self.types.type_of(value)
                found.append((self.column(("asked", c), kind, self.types.name(c)), value))
        return tuple(found) or ((self.column(("asked", side.number), "boolean", "any"), TRUE),)

    @property
    def tells_changes(self: Match[Scan]) -> bool:
        """True if the scanned source can tell what changed."""
        return self.op.source in self._memo.timeline.telling(self._span)

    @property
    def may_cancel(self: Match[Scan]) -> bool:
        """True if the source's change may hold a row both as inserted and as deleted."""
        return self.op.source in self._memo.timeline.mixed(self._span)

    @property
    def moves(self) -> bool:
        """True if the operator reads the clock, and the clock changes within the interval."""
        return bool(clock_of(self.op, self.query) & self._memo.timeline.changed(self._span))

    def at(self, time: Time) -> Matched:
        """The operator with the clock as it is at a symbolic time."""
        return timed(self.op, self.query, time)

    def evaluate(self, *inputs: Built) -> Node:
        """The operator over plain inputs at the end of the interval.

        Sums of floats are exact, so that equal bags give equal values.
        """
        if isinstance(self.op, Aggregate):
            partial = self.partial_of(self.op)
            if partial is not None and any(order_sensitive(self.query, self.types, e) for _, e in self.op.calls):
                return Node(Final(partial), (Node(partial, inputs),))
        return Node(self.at(NEW), inputs)

    # -- other relations ----------------------------------------------------------------------------------------------

    def derive(self, op: QueryOp, *inputs: Relation) -> Relation:
        """The relation of an operator of queries over other relations; the same one each time."""
        numbers = tuple(i.number for i in inputs)
        return self._relation(self._memo.relation(op, numbers))

    def ways(self, relation: Relation) -> Iterator[tuple[QueryOp, tuple[Relation, ...]]]:
        """All known ways to write a relation, the original one first."""
        self._asked.add(relation.number)
        for op, inputs in tuple(self._memo.tvrs[relation.number].expressions):
            yield op, tuple(map(self._relation, inputs))

    def ways_below(self, relation: Relation) -> Iterator[tuple[QueryOp, tuple[Relation, ...]]]:
        """All known ways to write a relation, or a relation of which it only drops columns."""
        for op, inputs in self.ways(relation):
            if isinstance(op, Project) and all(e == Col(c) for c, e in op.columns):
                yield from self.ways(inputs[0])
            else:
                yield op, inputs

    def linked(self, kind: str, relation: Relation) -> Relation | None:
        """The relation that a link of this kind leads to; None if there is none."""
        self._asked.add(relation.number)
        found = self._memo.linked(kind, relation.number)
        return None if found is None else self._relation(found)

    def keep(self, relation: Relation) -> Linked:
        """Proposes the snapshot of a relation as a state."""
        return Linked(KEPT, relation.number)

    def _relation(self, number: int) -> Relation:
        return Relation(self._memo, number, self._span, self._asked)

    # -- results ------------------------------------------------------------------------------------------------------

    def split(self, positive: Relation, negative: Relation) -> Iterator[Result]:
        """Splits the matched relation into its positive and negative part, whose bag union it is (see `POSITIVE`)."""
        columns = self.relation.columns
        yield Linked(POSITIVE, positive.number)
        yield Linked(NEGATIVE, negative.number)
        yield self.snapshot(node(Union(columns, (columns, columns)), positive.new, negative.new))
        if self.relation.changed:
            yield self.delta(total(columns, positive.delta, negative.delta))

    def delta(self, built: Built) -> NewForm:
        """Yields the matched relation's delta."""
        return NewForm(over(DELTA, SYMBOLIC), built)

    def snapshot(self, built: Built, *, old: bool = False) -> NewForm:
        """Yields the matched relation's snapshot."""
        return NewForm(at(SNAPSHOT, OLD if old else NEW), built)

    def attribute(self, built: Built, *, old: bool = False) -> NewForm:
        """Yields the matched relation's snapshot in attribute form."""
        return NewForm(at(ATTRIBUTE, OLD if old else NEW), built)

    def attribute_delta(self, built: Built) -> NewForm:
        """Yields the matched relation's delta in attribute form."""
        return NewForm(over(ATTRIBUTE_DELTA, SYMBOLIC), built)
