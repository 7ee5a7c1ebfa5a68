"""Constructors for what rules build. They drop terms that are empty, so that no rule needs to."""

from __future__ import annotations

from tidemill.memo.memo import Built, Node
from tidemill.plan.expr import Expr
from tidemill.plan.kinds import JoinKind
from tidemill.plan.ops import (
    Empty,
    Filter,
    Join,
    KeyFilter,
    Keys,
    Named,
    Negate,
    Net,
    Op,
    Pad,
    Project,
    RowWise,
    Sum,
    Union,
    Unsign,
)


def is_empty(built: Built) -> bool:
    """True for a term that is known to hold no row."""
    return isinstance(built, Node) and isinstance(built.op, Empty)


def node(op: Op, *inputs: Built) -> Node:
    """An operator over its inputs; empty if the input that carries its rows is."""
    if isinstance(op, Filter | Negate | Net | Unsign) and is_empty(inputs[0]):
        assert isinstance(inputs[0], Node)
        return inputs[0]
    if isinstance(op, Project) and is_empty(inputs[0]):
        return Node(Empty(tuple(c for c, _ in op.columns), signed=True))
    if isinstance(op, RowWise) and is_empty(inputs[0]):
        return Node(Empty(op.columns, signed=True))
    if isinstance(op, Union) and all(is_empty(i) for i in inputs):
        return Node(Empty(op.columns, signed=True))
    if isinstance(op, Union) and any(is_empty(i) for i in inputs):
        kept = [(b, i) for b, i in zip(op.branches, inputs, strict=True) if not is_empty(i)]
        return Node(Union(op.columns, tuple(b for b, _ in kept)), tuple(i for _, i in kept))
    return Node(op, inputs)


def join(kind: JoinKind, condition: tuple[Expr, ...], columns: tuple[int, ...], *inputs: Built) -> Node:
    """A join; an inner or semi join with an empty input is empty, as is any other with an empty left side."""
    strict = kind in {"inner", "semi"}
    if any(is_empty(i) for i in (inputs if strict else inputs[:1])):
        return Node(Empty(columns, signed=True))
    return Node(Join(kind, condition), inputs)


def total(columns: tuple[int, ...], *terms: Built) -> Built:
    """The additive union of signed terms."""
    kept = tuple(t for t in terms if not is_empty(t))
    if not kept:
        return Node(Empty(columns, signed=True))
    return kept[0] if len(kept) == 1 else Node(Sum(), kept)


def negate(term: Built) -> Node:
    """A term with its counts negated."""
    return node(Negate(), term)


def pad(columns: tuple[tuple[int, str], ...], term: Built) -> Node:
    """A term with columns of NULLs."""
    if is_empty(term):
        assert isinstance(term, Node)
        assert isinstance(term.op, Empty)
        return Node(Empty((*term.op.columns, *(c for c, _ in columns)), term.op.signed))
    return Node(Pad(columns), (term,))


def keys(*branches: tuple[Named, Built]) -> Built:
    """The distinct key values of one or more relations."""
    kept = [b for b in branches if not is_empty(b[1])]
    if not kept:
        return Node(Empty(tuple(c for c, _ in branches[0][0]), signed=False))
    return Node(Keys(tuple(named for named, _ in kept)), tuple(b for _, b in kept))


def with_keys(on: tuple[tuple[Expr, int], ...], rows: Built, wanted: Built, *, nulls: bool = True) -> Built:
    """The rows whose key is among the wanted; all of them if there is no key. `nulls`: see `KeyFilter`."""
    return Node(KeyFilter(on, nulls), (rows, wanted)) if on else rows
