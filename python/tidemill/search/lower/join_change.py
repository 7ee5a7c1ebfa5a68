"""Lowering of the change of an inner join that comes from one join of all its inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

from tidemill.cost.costing import is_broadcast
from tidemill.plan.expr import ONE, Cast, Col, Expr, Lit, fn
from tidemill.plan.ops import JoinChange
from tidemill.plan.props import equi_keys
from tidemill.plan.query import Query
from tidemill.search.lower.choices import Choices
from tidemill.search.lower.join_order import Input, join_order
from tidemill.search.lower.lowered import Blocks, Lowered
from tidemill.wire import nodes
from tidemill.wire.nodes import Side, WireNode


@dataclass(frozen=True, slots=True)
class _Side:
    """An input of the join.

    Attributes:
        old: its old rows.
        change: its change; None if it does not change.
        mark: the column with the counts of its change.
        known: what the order of the join goes by.
        share: rows of its change, as a fraction of all.
        small: its change is broadcast.
    """

    old: Lowered
    change: Lowered | None
    mark: int | None
    known: Input
    share: float
    small: bool


@dataclass(frozen=True, slots=True)
class _Part:
    """Rows to join: what the order goes by, and the node."""

    known: Input
    node: WireNode


def join_change(
    blocks: Blocks, choices: Choices, op: JoinChange, groups: Sequence[int], inputs: Sequence[Lowered]
) -> Lowered:
    """The pairs with a row of a change in them, each as often as the product of the counts of these rows.

    The changes pick rows where they can; these lead the join. Where they cannot, the changed inputs are joined first,
    with those that lead from one to another, and the few rows that are left then meet the other inputs.
    """
    query = choices.memo.query
    sides = _sides(choices, op, groups, inputs)
    share = min(1.0, sum(side.share for side in sides))
    changes = {i for i, side in enumerate(sides) if side.change is not None}
    for i in op.picked:
        sides[i] = _picked(blocks, query, op.condition, sides[i], [sides[j] for j in changes - {i}], share)
    marks = [side.mark for side in sides if side.mark is not None]
    changed = reduce(lambda a, b: fn("or", a, b), [fn("isnotnull", Col(mark)) for mark in marks])
    count = reduce(lambda a, b: fn("*", a, b), [fn("coalesce", Col(mark), ONE) for mark in marks])

    between = changes | set(op.picked) if op.picked else _between(query, [side.known for side in sides], op.condition)
    parts = [_Part(side.known, _marked(blocks, side)) for side in sides]
    first = [part for i, part in enumerate(parts) if i in between]
    later = [part for i, part in enumerate(parts) if i not in between]
    columns = frozenset[int]().union(*(part.known.columns for part in first))
    now = [e for e in op.condition if query.columns_of(e) <= columns]
    node = _joined(query, first, (*now, changed))
    if later:
        most = max((part.known for part in first), key=lambda known: known.base)
        rows = most.rows if op.picked else most.rows * share
        left = Input(columns, rows, most.base, leads=True, row_bytes=sum(part.known.row_bytes for part in first))
        node = _joined(query, [_Part(left, node), *later], [e for e in op.condition if e not in now])
    shown = tuple(c for side in sides for c in side.old.columns)
    return Lowered(nodes.project((*nodes.same(shown), (blocks.count, count)), node), shown, blocks.count)


def _sides(choices: Choices, op: JoinChange, groups: Sequence[int], inputs: Sequence[Lowered]) -> list[_Side]:
    found = []
    for (mark, lowered), (_, of) in zip(op.sides(inputs), op.sides(groups), strict=True):
        change = None if mark is None else lowered[1]
        own = {*lowered[0].columns} if mark is None else {*lowered[0].columns, mark}
        rows = [choices.rows(group) for group in of]
        base, width = choices.rows_before_filters(of[0]), choices.row_bytes(of[0])
        known = Input(frozenset(own), sum(rows), base, leads=mark is not None, row_bytes=width)
        share, small = sum(rows[1:]) / max(sum(rows), 1.0), choices.is_small(of[-1])
        found.append(_Side(lowered[0], change, mark, known, share, small))
    return found


def _picked(
    blocks: Blocks, query: Query, condition: Sequence[Expr], side: _Side, others: Sequence[_Side], share: float
) -> _Side:
    """An input of whose old rows only those are left that meet a row of one of the changes of others."""
    node, met = side.old.node, list[Expr]()
    own = frozenset(side.old.columns)
    for other in others:
        assert other.change is not None
        both = own | frozenset(other.change.columns)
        linked = [e for e in condition if query.columns_of(e) <= both and query.columns_of(e) & own]
        found = blocks.column("boolean", "met")
        broadcast: Side | None = "right" if other.small else None
        node = nodes.join("existence", linked, node, other.change.node, broadcast, found)
        met.append(Col(found))
    any_met: Expr = reduce(lambda a, b: fn("or", a, b), met)
    old = side.old.over(nodes.project(nodes.same(side.old.columns), nodes.where((any_met,), node)))
    return replace(side, old=old, known=replace(side.known, rows=side.known.rows * share, leads=True))


def _marked(blocks: Blocks, side: _Side) -> WireNode:
    """The rows of an input: its old rows, and those of its change with their counts in the column of its mark."""
    if side.change is None or side.mark is None:
        return side.old.node
    none: Expr = Cast(Lit(None, "void"), "long")
    shown = (*side.old.columns, side.mark)
    old = nodes.project((*nodes.same(side.old.columns), (side.mark, none)), side.old.node)
    counted = (*nodes.same(side.old.columns), (side.mark, Col(blocks.count)))
    return nodes.union(shown, (shown, old), (shown, nodes.project(counted, blocks.signed(side.change).node)))


def _joined(query: Query, parts: Sequence[_Part], condition: Sequence[Expr]) -> WireNode:
    first, steps = join_order(query, [part.known for part in parts], condition)
    node = parts[first].node
    for step in steps:
        other = parts[step.input]
        small = other.known.leads and is_broadcast(other.known.rows, other.known.row_bytes)
        broadcast: Side | None = "left" if step.broadcast else "right" if small else None
        node = nodes.join("inner", step.condition, node, other.node, broadcast, few=step.few)
    return node


def _between(query: Query, parts: Sequence[Input], condition: Sequence[Expr]) -> set[int]:
    """The changed inputs, and those on the shortest ways of equalities between them; all inputs if there is no way."""
    linked = {
        i: [j for j, other in enumerate(parts) if i != j and equi_keys(condition, one.columns, other.columns, query)]
        for i, one in enumerate(parts)
    }
    start, *goals = [i for i, part in enumerate(parts) if part.leads]
    found = {start}
    for goal in goals:
        ways = [[i] for i in sorted(found)]
        seen = set(found)
        for way in ways:  # it grows: the shortest ways come first
            if way[-1] == goal:
                found |= set(way)
                break
            ways += [[*way, i] for i in linked[way[-1]] if i not in seen]
            seen.update(linked[way[-1]])
        else:
            return set(range(len(parts)))
    return found
