"""What a rule sees of the place where it matched."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from tidemill.memo.memo import Built, Memo, Node, Ref
from tidemill.plan.aggregates import Additive, additive, order_sensitive
from tidemill.plan.columns import Columns
from tidemill.plan.expr import Expr
from tidemill.plan.ops import Aggregate, Empty, Final, Op, Partial
from tidemill.plan.props import Props, equi_keys
from tidemill.plan.query import Query
from tidemill.rule.result import NewForm
from tidemill.tvr.form import ATTRIBUTE, ATTRIBUTE_DELTA, DELTA, SNAPSHOT, FormKind, at, over


class Relation:
    """A time-varying relation at a match: its forms as leaves for what the rule builds, and its properties."""

    def __init__(self, memo: Memo, number: int) -> None:
        self._memo = memo
        self.number = number

    @property
    def props(self) -> Props:
        """Derived properties."""
        return self._memo.tvrs[self.number].props

    @property
    def columns(self) -> tuple[int, ...]:
        """Column ids."""
        return self.props.columns

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
        """A snapshot-like form."""
        return Ref(self._memo.moment(self.number, kind, old=old))

    def change(self, kind: FormKind) -> Built:
        """A delta-like form."""
        if not self.props.changed:
            return Node(Empty(self.columns, kind.signed))
        return Ref(self._memo.change(self.number, kind))


@dataclass(frozen=True, slots=True)
class NamedKey:
    """An equality `left = right` of a join, and the column that holds its values."""

    column: int
    left: Expr
    right: Expr


class Match:
    """A relation written with an operator that a rule asked for."""

    def __init__(self, memo: Memo, tvr: int, op: Op, inputs: tuple[int, ...]) -> None:
        self._memo = memo
        self.op = op
        self.relation = Relation(memo, tvr)
        self.inputs = tuple(Relation(memo, i) for i in inputs)

    @property
    def query(self) -> Query:
        """What is known of expressions and sources."""
        return self._memo.query

    @property
    def types(self) -> Columns:
        """Column types."""
        return self._memo.columns

    def column(self, role: Hashable, kind: str, name: str) -> int:
        """A new column with a role at this relation; the same one for the same role."""
        return self._memo.columns.fresh((self.relation.number, role), kind, name)

    # -- questions ----------------------------------------------------------------------------------------------------

    def additive_calls(self) -> tuple[Additive, ...] | None:
        """How the calls of an aggregate are kept by addition; None if one of them is not."""
        assert isinstance(self.op, Aggregate)
        found = [additive(self.query, self.types, e) for _, e in self.op.calls]
        return tuple(a for a in found if a is not None) if all(found) else None

    def partial(self) -> Partial | None:
        """The attribute form of an aggregate with its part columns; None if a call is not additive."""
        calls = self.additive_calls()
        if calls is None:
            return None
        assert isinstance(self.op, Aggregate)
        parts = tuple(
            tuple(self.column((c, p.name), p.type, f"{self.types.name(c)}_{p.name}") for p in a.parts)
            for (c, _), a in zip(self.op.calls, calls, strict=True)
        )
        return Partial(self.op.keys, self.op.calls, self.column("count", "long", "_n"), parts)

    def named_keys(self, condition: tuple[Expr, ...]) -> tuple[NamedKey, ...]:
        """The equalities of a condition between the two inputs, each with a column for its values."""
        left, right = (frozenset(i.columns) for i in self.inputs)
        found = []
        for i, (near, far, _) in enumerate(equi_keys(condition, left, right, self.query)):
            kind = self.types.type_of(near)
            found.append(NamedKey(self.column(("key", i), kind, f"key{i}"), near, far))
        return tuple(found)

    def tells_changes(self, source: int) -> bool:
        """True if a source can tell what changed since the old position."""
        return source in self._memo.telling

    def may_cancel(self, source: int) -> bool:
        """True if a source's change may hold a row both as inserted and as deleted."""
        return source in self._memo.mixed

    def evaluate(self, *inputs: Built) -> Node:
        """The operator over plain inputs; sums of floats exactly, so that the same bag always gives the same value."""
        if isinstance(self.op, Aggregate):
            partial = self.partial()
            if partial is not None and any(order_sensitive(self.query, self.types, e) for _, e in self.op.calls):
                return Node(Final(partial), (Node(partial, inputs),))
        return Node(self.op, inputs)

    # -- results ------------------------------------------------------------------------------------------------------

    def delta(self, built: Built) -> NewForm:
        """The matched relation's signed change."""
        return NewForm(over(DELTA, self._memo.span), built)

    def snapshot(self, built: Built, *, old: bool = False) -> NewForm:
        """The matched relation's snapshot."""
        return NewForm(at(SNAPSHOT, self._memo.span.old if old else self._memo.span.new), built)

    def attribute(self, built: Built, *, old: bool = False) -> NewForm:
        """The matched relation's snapshot in attribute form."""
        return NewForm(at(ATTRIBUTE, self._memo.span.old if old else self._memo.span.new), built)

    def attribute_delta(self, built: Built) -> NewForm:
        """The matched relation's change in attribute form."""
        return NewForm(over(ATTRIBUTE_DELTA, self._memo.span), built)
