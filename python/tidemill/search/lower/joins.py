"""Lowering of joins, and of operators that select the rows of some keys."""

from __future__ import annotations

from collections.abc import Sequence

from tidemill.plan.expr import Col
from tidemill.plan.ops import Join, KeyFilter, Keys, LookUp
from tidemill.search.lower.choices import Choices
from tidemill.search.lower.join_order import Input, join_order
from tidemill.search.lower.lowered import Blocks, Lowered, Staged
from tidemill.wire import nodes
from tidemill.wire.nodes import Among, Side


def join(blocks: Blocks, choices: Choices, op: Join, groups: Sequence[int], inputs: Sequence[Lowered]) -> Lowered:
    """The join of some groups, lowered as `inputs`; signed if a side whose rows it keeps is signed."""
    if op.kind == "inner":
        return _inner(blocks, choices, op, groups, inputs)
    left, right = inputs
    columns = left.columns
    if op.kind in {"left", "full"}:
        columns = (*left.columns, *right.columns)
    if op.exists is not None:
        columns = (*left.columns, op.exists)
    few = (right.count is not None and choices.is_small(groups[1])) or choices.is_picked(groups[1])
    small = op.kind != "full" and few
    broadcast: Side | None = "right" if small else None
    node = nodes.join(op.kind, op.condition, left.node, right.node, broadcast, op.exists)
    return Lowered(node, columns, left.count)


def _inner(blocks: Blocks, choices: Choices, op: Join, groups: Sequence[int], inputs: Sequence[Lowered]) -> Lowered:
    parts = [
        Input(
            frozenset(x.columns),
            choices.rows(group),
            choices.rows_before_filters(group),
            leads=x.count is not None or choices.is_change(group) or choices.is_picked(group),
            row_bytes=choices.row_bytes(group),
        )
        for group, x in zip(groups, inputs, strict=True)
    ]
    first, steps = join_order(choices.memo.query, parts, op.condition)
    node = inputs[first].node
    for step in steps:
        broadcast: Side | None = "left" if step.broadcast else None
        node = nodes.join("inner", step.condition, node, inputs[step.input].node, broadcast, few=step.few)
    count = blocks.count if any(x.count is not None for x in inputs) else None
    return Lowered(node, tuple(c for x in inputs for c in x.columns), count)


def key_filter(blocks: Blocks, op: KeyFilter, rows: Lowered, wanted: Lowered, *, broadcast: bool) -> Lowered:
    """The rows whose key is in `wanted`."""
    condition = blocks.equal(op.on, nulls=op.nulls)
    return rows.over(nodes.join("semi", condition, rows.node, wanted.node, "right" if broadcast else None))


def look_up(
    blocks: Blocks, op: LookUp, state: Lowered, wanted: Lowered, written: Staged, *, broadcast: bool
) -> Lowered:
    """The rows of a state whose keys an earlier step wrote; the leaf names that step, so that Spark can skip pages."""
    first, key = op.on[0]
    assert isinstance(first, Col)
    field = dict(written.columns)[key]
    rows = state.over(nodes.looked_up(state.node, Among(first.id, written.step, field, op.nulls)))
    return blocks.having(rows, op.on, wanted, nulls=op.nulls, broadcast=broadcast)


def keys(blocks: Blocks, op: Keys, inputs: Sequence[Lowered]) -> Lowered:
    """The distinct keys of the rows of all inputs."""
    columns = tuple(c for c, _ in op.columns[0])
    parts = [
        (tuple(c for c, _ in named), Lowered(nodes.project(named, x.node), tuple(c for c, _ in named), None))
        for named, x in zip(op.columns, inputs, strict=True)
    ]
    united = parts[0][1] if len(parts) == 1 else blocks.union(columns, parts)
    return blocks.aggregate(nodes.same(columns), (), united.node)
