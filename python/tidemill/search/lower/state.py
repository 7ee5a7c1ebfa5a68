"""Lowering of reads of a state: a base, and the segments added since.

The base has each key once. So only rows whose keys occur in the segments too are merged with these; the others pass
through: a scan and a look-up per row instead of a hash table of all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tidemill.cost.costing import few_touched
from tidemill.memo.memo import Expression
from tidemill.plan.ops import Merge, Net, StateScan, Sum, Unsign
from tidemill.search.lower.attribute import keys_of
from tidemill.search.lower.choices import Choices
from tidemill.search.lower.lowered import Blocks, Lowered
from tidemill.wire import nodes


@dataclass(frozen=True, slots=True)
class Touched:
    """A state with few touched keys: the group of its pieces, and the groups that are merged with it."""

    scan: int
    keys: tuple[int, ...]
    others: tuple[int, ...]


def touched(choices: Choices, e: Expression) -> Touched | None:
    """The state whose merge, net or plain rows an expression computes.

    None if it computes something else, or if handling the touched keys alone gains nothing: the state is small, or too
    many rows were added since its base.
    """
    found = _read(choices, e)
    if found is None or not found.keys:
        return None
    leaf = choices.expression(found.scan)
    if leaf is None or not isinstance(leaf.op, StateScan):
        return None
    changed = choices.segments(leaf.op.name) + sum(map(choices.rows, found.others))
    return found if few_touched(choices.rows(found.scan), changed, len(found.keys)) else None


def _read(choices: Choices, e: Expression) -> Touched | None:
    match e.op:
        case Merge(partial, state) if state:
            return Touched(e.inputs[0], keys_of(partial), ())
        case Merge(partial):
            return _merged(choices, e.inputs, keys_of(partial))
        case Net(columns, state) if state:
            return Touched(e.inputs[0], columns, ())
        case Unsign(columns):
            return _counted(choices, columns, e.inputs[0])
        case _:
            return None


def _counted(choices: Choices, columns: tuple[int, ...], group: int) -> Touched | None:
    """The state in the plain rows of a state and its changes; rows are merged by their counts."""
    net = choices.expression(group)
    if net is None or not isinstance(net.op, Net) or net.op.state:
        return None
    total = choices.expression(net.inputs[0])
    if total is None or not isinstance(total.op, Sum):
        return None
    for i in total.inputs:
        old = choices.expression(i)
        if old is None or not isinstance(old.op, Unsign):
            continue
        if (scan := _pieces(choices, old.inputs[0], Net)) is not None:
            return Touched(scan, columns, tuple(other for other in total.inputs if other != i))
    return None


def _merged(choices: Choices, groups: Sequence[int], keys: tuple[int, ...]) -> Touched | None:
    """The state among the inputs of a merge; the other inputs are added to it."""
    for i in groups:
        if (scan := _pieces(choices, i, Merge)) is not None:
            return Touched(scan, keys, tuple(other for other in groups if other != i))
    return None


def _pieces(choices: Choices, group: int, kind: type[Merge] | type[Net]) -> int | None:
    """The group of a state's pieces, if `group` merges these and nothing else."""
    e = choices.expression(group)
    return e.inputs[0] if e is not None and isinstance(e.op, kind) and e.op.state else None


def together(
    blocks: Blocks,
    whole: Lowered,
    others: Sequence[Lowered],
    keys: tuple[int, ...],
    merged: Callable[[Lowered], Lowered],
) -> Lowered:
    """The rows of a state and of `others`; `merged` combines the rows of touched keys only."""
    columns = whole.columns
    base = whole.over(nodes.pieces_until(whole.node, 1))
    segments = whole.over(nodes.pieces_from(whole.node, 1))
    since = blocks.all_of(columns, [segments, *others])
    alone, met = (blocks.among(kind, base, keys, since) for kind in ("anti", "semi"))
    return blocks.all_of(columns, [alone, merged(blocks.all_of(columns, [met, since]))])
