"""Rows of some keys: what asking for them asks of the inputs of an operator."""

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
"""A key: ((expression over a relation's columns, column with the values that are wanted), ...)."""


@dataclass(frozen=True, slots=True)
class KeyRequest:
    """Rows are asked for by a key. `nulls`: NULL is a value like any other; otherwise no row with one is asked for."""

    on: On
    nulls: bool = True


def request_below(
    op: QueryOp, asked: KeyRequest, inputs: Sequence[frozenset[int]], query: Query
) -> tuple[KeyRequest | None, ...] | None:
    """Of which keys an operator needs its inputs' rows to have its own of some keys: per input; None for all rows.

    None altogether where rows of one key may depend on rows of all keys.

    Args:
        inputs: the columns of each.
    """
    if not read(asked.on, query):
        return None  # all rows or none, as of a global group
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


def _renamed(on: On, named: Mapping[int, Expr], query: Query) -> On | None:
    """The key by the expressions that its columns stand for below; None if it cannot be said so."""
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
    """Of a join that keeps to its left side's rows: that side, and the other where the key is equal to one there."""
    on, nulls = asked.on, asked.nulls
    left, right = inputs
    if not read(on, query) <= left:
        return None
    pairs = {near: (far, safe) for near, far, safe in equi_keys(op.condition, left, right, query)}
    if not all(e in pairs for e, _ in on):
        return asked, None
    equal = nulls and any(pairs[e][1] for e, _ in on)  # where none is null-safe, a NULL meets nothing
    far = tuple((pairs[e][0], c) for e, c in on)
    return KeyRequest(on, equal if op.kind == "semi" else nulls), KeyRequest(far, equal)


def _of_an_inner_join(
    op: Join, asked: KeyRequest, inputs: Sequence[frozenset[int]], query: Query
) -> tuple[KeyRequest | None, ...] | None:
    """Of an inner join: the input that has the key, and the others whose rows must be equal to it there."""
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
            equal = nulls and any(pairs[e][1] for e, _ in on)  # where none is null-safe, a NULL meets nothing
            found[n] = KeyRequest(tuple((pairs[e][0], c) for e, c in on), equal)
            found[near] = KeyRequest(on, found[near].nulls and equal)
            reached.append(n)
    return tuple(found.get(n) for n in range(len(inputs)))
