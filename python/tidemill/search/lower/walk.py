"""Lowering: from the chosen expressions to the plan nodes that the JVM decodes (wire format 1).

Operators of the rewriter become plain relational ones here, so that the JVM needs to know nothing of deltas, parts or
times. This file walks down the chosen expressions; the other files lower each operator over its lowered inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar, assert_never

from tidemill.cost.costing import few_touched
from tidemill.memo.memo import Expression
from tidemill.plan.clock import mapped
from tidemill.plan.expr import Timed
from tidemill.plan.ops import (
    Aggregate,
    Answer,
    Changes,
    Combine,
    Crossing,
    Empty,
    Filter,
    Final,
    FinalChange,
    FromStart,
    Gather,
    HeldScan,
    Join,
    JoinChange,
    KeyFilter,
    Keys,
    Less,
    Limit,
    LookUp,
    Merge,
    Negate,
    Net,
    Opaque,
    Pad,
    Partial,
    Project,
    Reach,
    ReachedWindow,
    ResultScan,
    RowWise,
    Scan,
    Sort,
    StateScan,
    Sum,
    Union,
    Unsign,
    Window,
)
from tidemill.search.lower import joins
from tidemill.search.lower.attribute import AttributeForm
from tidemill.search.lower.choices import Choices, NotComputableError
from tidemill.search.lower.crossings import crossing
from tidemill.search.lower.join_change import join_change
from tidemill.search.lower.leaves import leaf, read_staged
from tidemill.search.lower.lowered import Blocks, Lowered, null_of
from tidemill.search.lower.reach import from_start, reach, reached_rows, read_rows
from tidemill.search.lower.state import Touched, together, touched
from tidemill.wire import nodes

ReadsClock = TypeVar("ReadsClock", Filter, Project)


class Lowerer:
    """Lowers the chosen groups of one plan.

    `used`: the lowered expressions with their groups. `staged_used`: the groups that are read from earlier steps.
    """

    def __init__(self, choices: Choices) -> None:
        self.used: list[tuple[int, Expression]] = []
        self.staged_used: list[int] = []
        self.blocks = Blocks(choices.memo.columns)
        self._choices = choices
        self._attribute = AttributeForm(self.blocks, choices.memo.query)

    def group(self, number: int) -> Lowered:
        """The rows of a group.

        Raises:
            NotComputableError: if nothing computes it.
        """
        number = self._choices.memo.find(number)
        staged = self._choices.written(number)
        if staged is not None:
            self.staged_used.append(number)
            return read_staged(self.blocks, staged)
        e = self._choices.expression(number)
        if e is None:
            raise NotComputableError(f"group {number}: {self._choices.memo.group(number).about}")
        self._use(number, e)
        return self._expression(e)

    def compacted(self, scan: StateScan, partial: Partial | None, first: int) -> Lowered:
        """The pieces of a state from number `first` on, merged.

        Groups that add up to no rows are dropped only if the base is among the pieces; in segments alone they may take
        away rows of the base.
        """
        whole = leaf(self.blocks, scan, self._choices.now)
        pieces = whole.over(nodes.pieces_from(whole.node, first))
        if partial is None:
            return self.blocks.net(pieces.columns, pieces)
        merged = self._attribute.merge(partial, [pieces])
        return merged if first > 0 else self._attribute.without_empty(partial, merged)

    def nothing(self, columns: tuple[int, ...]) -> Lowered:
        """The empty change of a relation that does not change."""
        return leaf(self.blocks, Empty(columns, signed=True), self._choices.now)

    def _use(self, number: int, e: Expression) -> None:
        if (number, e) not in self.used:
            self.used.append((number, e))

    # -- one operator -------------------------------------------------------------------------------------------------

    def _expression(self, e: Expression) -> Lowered:
        """Lowers an expression; operators that depend on how their inputs are computed are handled here."""
        match e.op:
            case FinalChange(partial):
                old, change = e.inputs
                few = few_touched(self._choices.rows(old), self._choices.rows(change), len(partial.keys))
                return self._attribute.final_change(partial, self._unmerged(old), self.group(change), few=few)
            case LookUp():
                return self._look_up(e.op, e.inputs[0])
            case Merge() | Net() | Unsign() if (found := touched(self._choices, e)) is not None:
                return self._touched(e.op, found)
            case _:
                return self._over(e, [self.group(i) for i in e.inputs])

    def _over(self, e: Expression, inputs: Sequence[Lowered]) -> Lowered:
        blocks, attribute, op = self.blocks, self._attribute, e.op
        match op:
            case Scan() | Changes() | Empty() | StateScan() | HeldScan() | ResultScan():
                return leaf(blocks, op, self._choices.now)
            case Filter():
                return inputs[0].over(nodes.where(self._by_now(op).condition, inputs[0].node))
            case Project():
                return blocks.project(self._by_now(op).columns, inputs[0])
            case Crossing(of, start, end):
                query, now = self._choices.memo.query, self._choices.now
                return crossing(blocks, query, of, inputs[0], start, min(end, now))
            case Pad(nulls):
                padded = ((c, null_of(t)) for c, t in nulls)
                return blocks.project((*nodes.same(inputs[0].columns), *padded), inputs[0])
            case Join():
                return joins.join(blocks, self._choices, op, e.inputs, inputs)
            case JoinChange():
                return join_change(blocks, self._choices, op, e.inputs, inputs)
            case KeyFilter():
                return joins.key_filter(blocks, op, *inputs, broadcast=self._choices.is_small(e.inputs[1]))
            case Keys():
                return joins.keys(blocks, op, inputs)
            case Reach():
                *rows, change = inputs
                near = _plain(op, rows[0]) if rows else None
                return reach(blocks, op, near, change, few=self._choices.is_small(e.inputs[-1]))
            case FromStart():
                return from_start(blocks, op, *inputs, broadcast=self._choices.is_small(e.inputs[1]))
            case ReachedWindow(window):
                small, some = self._choices.is_small(e.inputs[1]), _plain(op, inputs[0])
                read = read_rows(blocks, op, some, inputs[1], broadcast=small)
                computed = _kept_in_jvm(window.node, (*window.columns, op.reached), [read], None)
                return reached_rows(op, computed)
            case Aggregate(keys, calls):
                return blocks.aggregate(keys, calls, _plain(op, inputs[0]).node)
            case Limit(limit, offset, order):
                return inputs[0].over(nodes.limit(limit, offset, order, _plain(op, inputs[0]).node))
            case Union(ids, branches):
                return blocks.union(ids, list(zip(branches, inputs, strict=True)))
            case Sum():
                ids = inputs[0].columns
                return blocks.union(ids, [(ids, blocks.signed(i)) for i in inputs])
            case Negate():
                return blocks.negate(inputs[0])
            case Net(ids):
                return blocks.net(ids, inputs[0])
            case Unsign(ids):
                return blocks.unsign(ids, inputs[0])
            case Less(ids):
                both = blocks.union(ids, [(ids, blocks.signed(inputs[0])), (ids, blocks.negate(inputs[1]))])
                return blocks.unsign(ids, blocks.net(ids, both))
            case Partial():
                return attribute.partial(op, inputs[0])
            case Merge(partial):
                return attribute.merge(partial, inputs)
            case Combine():
                return attribute.combine(op, inputs[0])
            case Final(partial):
                return attribute.final(partial, inputs[0])
            case Gather(partial):
                return attribute.gather(partial, inputs)
            case Answer(partial, calls):
                return attribute.answer(partial, calls, inputs[0])
            case RowWise(node=number, columns=ids):
                return _kept_in_jvm(number, ids, inputs, inputs[0].count)
            case Window(node=number, columns=ids):
                return _kept_in_jvm(number, ids, [_plain(op, inputs[0])], None)
            case Opaque(node=number, columns=ids, children=children):
                return _kept_in_jvm(number, ids, inputs, None, children if inputs else 0)
            case Sort() | FinalChange() | LookUp():
                raise TypeError(f"{type(op).__name__} cannot be lowered over its inputs")
            case _:
                assert_never(op)

    def _by_now(self, op: ReadsClock) -> ReadsClock:
        """The operator with no moment later than the run; one up to which the clock does not change counts as now."""
        now = self._choices.now
        return mapped(op, lambda e: Timed(e.number, min(e.at, now)) if isinstance(e, Timed) else e)

    def _unmerged(self, number: int) -> Lowered:
        """The unmerged pieces of an attribute form, for a reader that merges anyway; else the form itself."""
        number = self._choices.memo.find(number)
        e = self._choices.expression(number)
        if e is None or not isinstance(e.op, Merge):
            return self.group(number)
        self._use(number, e)
        return self._attribute.pieces(e.op.partial, [self.group(i) for i in e.inputs])

    def _touched(self, op: Merge | Net | Unsign, found: Touched) -> Lowered:
        blocks, attribute = self.blocks, self._attribute
        whole, others = self.group(found.scan), [self.group(i) for i in found.others]
        if isinstance(op, Merge):
            partial = op.partial
            return together(blocks, whole, others, found.keys, lambda p: attribute.merge_as_stored(partial, p))
        signed = list(map(blocks.signed, others))
        rows = together(blocks, whole, signed, found.keys, lambda pieces: blocks.net(pieces.columns, pieces))
        return blocks.unsign(op.columns, rows) if isinstance(op, Unsign) else rows

    def _look_up(self, op: LookUp, wanted: int) -> Lowered:
        """The rows of a state whose keys an earlier step wrote.

        Raises:
            NotComputableError: if no earlier step wrote the keys.
        """
        written = self._choices.written(wanted)
        if written is None:
            raise NotComputableError(f"group {wanted}: no step has written the keys that are looked up")
        state, keys = leaf(self.blocks, op.scan, self._choices.now), self.group(wanted)
        return joins.look_up(self.blocks, op, state, keys, written, broadcast=self._choices.is_small(wanted))


def _plain(op: Aggregate | Limit | Window | Reach | ReachedWindow, rows: Lowered) -> Lowered:
    """The rows themselves; raises TypeError if they have counts, which the operator would ignore."""
    if rows.count is not None:
        raise TypeError(f"{type(op).__name__.lower()} over a signed relation")
    return rows


def _kept_in_jvm(
    number: int, columns: tuple[int, ...], inputs: Sequence[Lowered], count: int | None, children: int = 1
) -> Lowered:
    """An operator that stays in the JVM, by its number there; counts pass through as an additional column."""
    shown = (*columns, count) if count is not None else columns
    return Lowered(nodes.opaque(number, children, shown, (i.node for i in inputs)), columns, count)
