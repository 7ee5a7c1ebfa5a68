"""Lowering of leaves: sources, states, the view's content, and what earlier steps wrote."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias, assert_never

from tidemill.plan.ops import Changes, Empty, HeldScan, ResultScan, Scan, StateScan
from tidemill.plan.query import COUNT_FIELD, count_field
from tidemill.search.lower.lowered import Blocks, Lowered, Staged
from tidemill.wire import nodes
from tidemill.wire.nodes import Stored

Leaf: TypeAlias = Scan | Changes | Empty | StateScan | HeldScan | ResultScan


def leaf(blocks: Blocks, op: Leaf, now: int) -> Lowered:
    """The rows of a leaf in a run at the moment `now`: what stands still after it is there at it."""
    count = blocks.count
    match op:
        case Scan(source, columns, time):
            assert time is not None
            return Lowered(nodes.scan(source, columns, min(time, now)), _ids(columns), None)
        case Changes(source, columns, start, end):
            return Lowered(nodes.changes(source, columns, count, start, min(end, now)), _ids(columns), count)
        case Empty(ids, signed):
            shown = (*ids, count) if signed else ids
            node = nodes.empty((c, blocks.columns.type(c)) for c in shown)
            return Lowered(node, ids, count if signed else None)
        case StateScan(name, form, stored, part):
            signed = form == "snapshot"
            fields = (*stored, (count, COUNT_FIELD, "long")) if signed else stored
            return Lowered(nodes.state(name, fields, part), _fields(stored), count if signed else None)
        case HeldScan(stored):
            counted = (count, count_field(f for _, f, _ in stored), "long")
            return Lowered(nodes.held((*stored, counted)), _fields(stored), count)
        case ResultScan(stored):
            return Lowered(nodes.result(stored), _fields(stored), None)
        case _:
            assert_never(op)


def read_staged(blocks: Blocks, staged: Staged) -> Lowered:
    """What an earlier step wrote."""
    fields: list[Stored] = [(c, f, blocks.columns.type(c)) for c, f in staged.columns]
    count = blocks.count if staged.count else None
    if count is not None:
        fields.append((count, COUNT_FIELD, "long"))
    return Lowered(nodes.staged(staged.step, fields), _ids(staged.columns), count)


def _ids(columns: Iterable[tuple[int, str]]) -> tuple[int, ...]:
    return tuple(c for c, _ in columns)


def _fields(stored: Iterable[Stored]) -> tuple[int, ...]:
    return tuple(c for c, _, _ in stored)
