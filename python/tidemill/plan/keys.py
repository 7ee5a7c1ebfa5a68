"""Requests for the rows of some keys, and the requests for an operator's inputs that follow from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from tidemill.plan.expr import Col, Expr
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
)
from tidemill.plan.props import equi_keys
from tidemill.plan.query import Query

On: TypeAlias = tuple[tuple[Expr, int], ...]
"""A key: ((expression over a relation's columns, column with the requested values), ...)."""


@dataclass(frozen=True, slots=True)
class KeyRequest:
    """A request for rows by key. `nulls`: NULLs are equal to each other; otherwise keys with a NULL are left out."""

    on: On
    nulls: bool = True


def request_below(
    op: QueryOp, asked: KeyRequest, inputs: Sequence[frozenset[int]], query: Query
) -> tuple[KeyRequest | None, ...] | None:
    """The key requests for the inputs of an operator that suffice for its own rows of some keys.

    Args:
        inputs: the columns of each input.

    Returns:
        One request per input, None for an input that is needed whole. None altogether if rows of one key may depend on
        rows of all keys.
    """
    if not read(asked.on, query):
        return None  # all rows or none, as in a global group
    match op:
        case Filter():
            return (asked,)
        case Window(partition=partition):
            return (asked,) if all(e in partition for e, _ in asked.on) else None
        case Project(named) | Aggregate(keys=named):
            on = _renamed(asked.on, dict(named), query)
            return None if on is None else (KeyRequest(on, asked.nulls),)
        case Union(columns, branches):
            ways = [dict(zip(columns, map(Col, branch), strict=True)) for branch in branches]
            found = [_renamed(asked.on, way, query) for way in ways]
            return None if None in found else tuple(KeyRequest(on, asked.nulls) for on in found if on is not None)
        case Join(kind="inner"):
            return _of_an_inner_join(op, asked, inputs, query)
        case Join(kind) if kind != "full":
            return _of_a_left_side(op, asked, inputs, query)
        case Join() | Scan() | Sort() | Limit() | RowWise() | Opaque():
            return None
        case _:
            assert_never(op)


def read(on: On, query: Query) -> frozenset[int]:
    """The columns that a key reads."""
    return frozenset[int]().union(*(query.columns_of(e) for e, _ in on))


def equated(condition: Sequence[Expr], query: Query) -> list[tuple[tuple[Expr, ...], bool]]:
    """The classes of expressions that the conjuncts of a condition equate, each with True if NULLs may be equal too."""
    classes: list[tuple[tuple[Expr, ...], bool]] = []
    for conjunct in condition:
        info = query.info(conjunct)
        if info is None or info.equal is None:
            continue
        pair = (info.equal.left, info.equal.right)
        met = [c for c in classes if not {*pair}.isdisjoint(c[0])]
        classes = [c for c in classes if c not in met]
        together = tuple(dict.fromkeys(e for exprs in (*(exprs for exprs, _ in met), pair) for e in exprs))
        classes.append((together, info.equal.null_safe or any(safe for _, safe in met)))
    return classes


def _renamed(on: On, named: Mapping[int, Expr], query: Query) -> On | None:
    """The key with each column replaced by the expression that defines it below; None if that is not possible."""
    found = []
    for e, c in on:
        if isinstance(e, Col) and e.id in named:
            found.append((named[e.id], c))
        elif all(named.get(column) == Col(column) for column in query.columns_of(e)):
            found.append((e, c))
        else:
            return None
    return tuple(found)


def _of_a_left_side(
    op: Join, asked: KeyRequest, inputs: Sequence[frozenset[int]], query: Query
) -> tuple[KeyRequest | None, ...] | None:
    """The requests for a join that keeps left rows: for the left, and for the right if the key is equated there."""
    on, nulls = asked.on, asked.nulls
    left, right = inputs
    if not read(on, query) <= left:
        return None
    pairs = {near: (far, safe) for near, far, safe in equi_keys(op.condition, left, right, query)}
    if not all(e in pairs for e, _ in on):
        return asked, None
    equal = nulls and any(pairs[e][1] for e, _ in on)  # without a null-safe equality NULLs never match
    far = tuple((pairs[e][0], c) for e, c in on)
    return KeyRequest(on, equal if op.kind == "semi" else nulls), KeyRequest(far, equal)


def _of_an_inner_join(
    op: Join, asked: KeyRequest, inputs: Sequence[frozenset[int]], query: Query
) -> tuple[KeyRequest | None, ...] | None:
    """The requests for an inner join: for the input that has the key, and for the inputs equated with it in the key."""
    of = next((n for n, ids in enumerate(inputs) if read(asked.on, query) <= ids), None)
    if of is None:
        return None
    found = {of: asked}
    reached = [of]
    while reached:
        near = reached.pop()
        on, nulls = found[near].on, found[near].nulls
        for n, ids in enumerate(inputs):
            pairs = {e: (far, safe) for e, far, safe in equi_keys(op.condition, inputs[near], ids, query)}
            if n in found or not all(e in pairs for e, _ in on):
                continue
            equal = nulls and any(pairs[e][1] for e, _ in on)  # without a null-safe equality NULLs never match
            found[n] = KeyRequest(tuple((pairs[e][0], c) for e, c in on), equal)
            found[near] = KeyRequest(on, found[near].nulls and equal)
            reached.append(n)
    return tuple(found.get(n) for n in range(len(inputs)))
