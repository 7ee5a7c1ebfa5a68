"""Sizes of relations at each moment, and of their changes over each interval, bottom up.

They are those of the query's own operators. Other ways to write a relation, and all ways to compute its change, have
the same rows, whatever they cost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import assert_never

from tidemill.cost import changes
from tidemill.cost.changes import Change, Groups, Reach, Side
from tidemill.cost.distinct import Distinct
from tidemill.cost.guesses import CHANGED_SHARE, CROSSED_SHARE, ROWS_SINCE
from tidemill.memo.memo import Memo
from tidemill.plan.clock import clock_of
from tidemill.plan.expr import Expr
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
from tidemill.tvr.form import Span, Time


@dataclass(frozen=True, slots=True)
class Moment:
    """Sizes at a moment.

    Attributes:
        rows: of each relation, by its number.
        base: the same before filters.
        selectivity: of each join, by its condition: output rows per product of input rows.
        distinct: distinct values of columns.
        estimated: rows of each relation, as they would be if only its inputs had been measured.
    """

    rows: Mapping[int, float]
    base: Mapping[int, float]
    selectivity: Mapping[tuple[Expr, ...], float]
    distinct: Distinct
    estimated: Mapping[int, float]


class Moments:
    """Sizes of the relations of a memo over time.

    Args:
        at: sizes at each moment, in order.
        counted: tells the rows inserted into a source and deleted from it between two moments; None if they were not
            counted.
        learned: by what factors changes of relations had more rows than estimated, by their numbers.
    """

    def __init__(
        self,
        memo: Memo,
        at: Sequence[Moment],
        counted: Callable[[int, Time, Time], tuple[float, float] | None],
        learned: Mapping[int, float],
    ) -> None:
        self._memo = memo
        self._at = at
        self._counted = counted
        self._learned = learned
        self._changes: dict[tuple[int, Time, Time], Change] = {}

    def at(self, time: Time) -> Moment:
        """Sizes at a moment."""
        return self._at[time]

    def rows(self, relation: int, time: Time) -> float | None:
        """Rows of a relation at a moment; None for one that was not there when sizes were estimated."""
        return self._at[time].rows.get(relation)

    def change(self, relation: int, start: Time, end: Time) -> Change | None:
        """The change of a relation over (start, end]; None for one that was not there when sizes were estimated."""
        if relation not in self._at[end].rows:
            return None
        return self._change(relation, start, end)

    def _change(self, relation: int, start: Time, end: Time) -> Change:
        tvr, timeline = self._memo.tvrs[relation], self._memo.timeline
        key = (
            relation,
            timeline.unchanged_until(tvr.props.sources, start),
            timeline.unchanged_until(tvr.props.sources, end),
        )
        if key not in self._changes:
            _, start, end = key
            if start == end:
                found = changes.NONE
            else:
                op, inputs = tvr.expressions[0]
                ends = self._at[start].rows[relation], self._at[end].rows[relation]
                found = self._of(op, inputs, start, end, *ends) * self._learned.get(relation, 1.0)
                found = found.within(*ends)
            self._changes[key] = found
        return self._changes[key]

    def _of(self, op: QueryOp, inputs: Sequence[int], start: Time, end: Time, before: float, after: float) -> Change:
        """The change of the output of an operator that has `before` rows at the start and `after` at the end."""
        sides = [Side(self._at[start].rows[i], self._at[end].rows[i], self._change(i, start, end)) for i in inputs]
        moves = bool(clock_of(op, self._memo.query) & self._memo.timeline.changed(Span(start, end)))
        match op:
            case Scan(source):
                counted = self._counted(source, start, end)
                return Change(max(1.0, after * CHANGED_SHARE)) if counted is None else Change(*counted)
            case Filter():
                own = changes.filtered(sides[0].change, _share(sides[0], before, after))
                return own + changes.crossed(sides[0].kept, CROSSED_SHARE) if moves else own
            case Project():
                own = sides[0].change
                return own + Change(updates=sides[0].kept) if moves else own
            case RowWise():
                return sides[0].change * _ratio(sides[0], before, after)
            case Sort():
                return sides[0].change
            case Union():
                return sum((side.change for side in sides), changes.NONE)
            case Join():
                return self._joined(op, inputs, sides, start, end)
            case Aggregate(keys):
                met = self._met([e for _, e in keys], inputs[0], sides[0].change.touched, end)
                return changes.grouped(sides[0], Groups(before, after, met))
            case Window(partition=partition):
                met = self._met(partition, inputs[0], sides[0].change.touched, end)
                partitions = self._met(partition, inputs[0], sides[0].after, end)
                return changes.windowed(sides[0], partitions, met, _reach(op))
            case Limit():
                return changes.limited(sides[0], before, after)
            case Opaque():
                return changes.unknown(sides, before, after)
            case _:
                assert_never(op)

    def _joined(self, op: Join, inputs: Sequence[int], sides: Sequence[Side], start: Time, end: Time) -> Change:
        before, after = (self._at[t].selectivity[op.condition] for t in (start, end))
        bases = [self._at[end].base[i] for i in inputs]
        keyed = after * prod(bases) <= max(bases) * (1.0 + ROUNDING)
        pairs = changes.joined(sides, before, after, keyed=keyed)
        if op.kind == "inner":
            return pairs
        of_left, of_right = (
            changes.flips(sides[other], before, after, keyed=self._keyed(op, inputs, other, end)) for other in (1, 0)
        )
        return changes.joined_as(op.kind, sides, pairs, of_left, of_right)

    def _keyed(self, op: Join, inputs: Sequence[int], other: int, time: Time) -> bool:
        """True if a row meets at most one of an input, as far as sizes tell: its table has no more rows than keys."""
        at = self._at[time]
        return at.base[inputs[other]] * at.selectivity[op.condition] <= 1.0 + ROUNDING

    def _met(self, keys: Sequence[Expr], relation: int, rows: float, time: Time) -> float:
        """Distinct values of `keys` among some rows of a relation."""
        if rows <= 0:
            return 0.0
        if not keys:
            return 1.0
        columns = {column for key in keys for column in self._memo.query.columns_of(key)}
        return max(min(rows, 1.0), self._at[time].distinct.number(columns, rows))


ROUNDING = 1e-6
"""Relative error of sums and products of sizes."""


def _share(side: Side, before: float, after: float) -> float:
    """Rows that a filter leaves, as a fraction: at the end, or at the start if it then has rows only there."""
    return min(1.0, _ratio(side, before, after))


def _ratio(side: Side, before: float, after: float) -> float:
    if side.after > 0:
        return after / side.after
    return before / side.before if side.before > 0 else 1.0


def _reach(op: Window) -> Reach | None:
    """The rows of a partition whose values depend on a row; None for all of them."""
    bounds = op.bounds
    if bounds is None:
        return None
    return Reach(bounds.before + bounds.behind + (ROWS_SINCE if bounds.since else 0), running=bool(bounds.whole))
