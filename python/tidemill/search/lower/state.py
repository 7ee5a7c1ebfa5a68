"""Lowering of what reads a state: a base, and the segments that came since.

In the base each key has its rows once and for all. So only rows whose keys the segments have too are brought together
with them, and the others are passed on as they are: a scan and a look-up per row instead of a hash table of them all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tidemill.cost.costing import BROADCAST_ROWS
from tidemill.memo.memo import Expression
from tidemill.plan.ops import Merge, Net, StateScan, Sum, Unsign
from tidemill.search.lower.attribute import keys_of
from tidemill.search.lower.choices import Choices
from tidemill.search.lower.lowered import Blocks, Lowered
from tidemill.wire import nodes

TOUCHED_FROM_ROWS = 50_000
"""Estimated rows of a state from which on it pays to look for the keys that something came to, which costs a job."""


def few_touched(rows: float, changed: float) -> bool:
    """Whether to look first for the keys that something came to: of a big state, where little came."""
    return rows >= TOUCHED_FROM_ROWS and changed <= BROADCAST_ROWS


@dataclass(frozen=True, slots=True)
class Touched:
    """A state of which few keys are touched: the group of its pieces, and those that are merged with it."""

    scan: int
    keys: tuple[int, ...]
    others: tuple[int, ...]


def touched(choices: Choices, e: Expression) -> Touched | None:
    """The state of which an expression is a merge, a net or the plain rows; None if it is none of these, or where it
    is no gain to look at the touched keys alone: the state is small, or too much came since its base."""
    found = _read(choices, e)
    if found is None or not found.keys:
        return None
    leaf = choices.expression(found.scan)
    if leaf is None or not isinstance(leaf.op, StateScan):
        return None
    changed = choices.segments(leaf.op.name) + sum(map(choices.rows, found.others))
    return found if few_touched(choices.rows(found.scan), changed) else None


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
    """Rows of a state and of changes to it: counted, so that no row needs to come once."""
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
    """A state among the groups of a merge; all others come with it."""
    for i in groups:
        if (scan := _pieces(choices, i, Merge)) is not None:
            return Touched(scan, keys, tuple(other for other in groups if other != i))
    return None


def _pieces(choices: Choices, group: int, kind: type[Merge] | type[Net]) -> int | None:
    """The group of a state's pieces, if a group brings together these and no others."""
    e = choices.expression(group)
    return e.inputs[0] if e is not None and isinstance(e.op, kind) and e.op.state else None


def together(
    blocks: Blocks,
    whole: Lowered,
    others: Sequence[Lowered],
    keys: tuple[int, ...],
    merged: Callable[[Lowered], Lowered],
) -> Lowered:
    """A state's pieces, and others like them, as `merged` brings the rows of a key together."""
    columns = whole.columns
    base = whole.over(nodes.pieces_until(whole.node, 1))
    segments = whole.over(nodes.pieces_from(whole.node, 1))
    since = blocks.all_of(columns, [segments, *others])
    alone, met = (blocks.among(kind, base, keys, since) for kind in ("anti", "semi"))
    return blocks.all_of(columns, [alone, merged(blocks.all_of(columns, [met, since]))])
