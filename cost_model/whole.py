"""Whole rows of relations at each moment, and of their changes over each interval, for models that count rows.

A row arrives or does not, so every estimate is rounded to whole rows before the next one builds upon it. Sizes belong
to a relation and an interval: every way to compute them has the same rows.

An outer join whose right side has no more rows than the left one is taken to look up few of many: each right row meets
one left row, and a left row at most one right row, as a sale its return. Other equalities join keys with foreign keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import floor, prod
from typing import TypeAlias

from tidemill.cost.changes import NONE, Change, Flips, Side, filtered, flips, joined, joined_as
from tidemill.cost.costing import Facts, RowCount
from tidemill.cost.guesses import CONDITION_SHARE
from tidemill.memo.memo import Memo
from tidemill.plan.expr import Expr
from tidemill.plan.ops import Filter, Join, Project, QueryOp, RowWise, Scan, Sort, Union
from tidemill.tvr.form import DELTA, SNAPSHOT, Time

RowsOf: TypeAlias = Callable[[QueryOp, Sequence[RowCount], Facts], RowCount]
Condition: TypeAlias = tuple[Expr, ...]
PADDING = ("left", "full")
"""Kinds of joins that keep rows without a partner."""


def known_rows(memo: Memo, rows: RowsOf, facts: Facts) -> dict[int, RowCount]:
    """Whole rows of snapshots and changes, by group, as far as operators are understood.

    Args:
        rows: the output rows of an operator.
    """
    found: dict[int, RowCount] = {}
    for group, known in _known(memo, _WholeRows(memo, rows, facts)):
        found.setdefault(group, known)  # the query's own relations come first, then equal ones that rules derive
    return found


def _known(memo: Memo, sizes: _WholeRows) -> Iterator[tuple[int, RowCount]]:
    for tvr in memo.tvrs:
        for form, group in tvr.forms.items():
            if form.kind == SNAPSHOT:
                yield memo.find(group), RowCount(sizes.rows(tvr.number, form.end))
            elif form.kind == DELTA and form.start is not None:
                change = sizes.change(tvr.number, form.start, form.end)
                if change is not None:
                    yield memo.find(group), RowCount(change.signed)


def _whole(rows: float) -> float:
    """The nearest whole number of rows; a half is one."""
    return float(floor(rows + 0.5 + 1e-9))


class _WholeRows:
    """Sizes of the relations of a memo, computed once each."""

    def __init__(self, memo: Memo, rows: RowsOf, facts: Facts) -> None:
        self._memo = memo
        self._rows_of = rows
        self._facts = [facts.at(time) for time in memo.timeline.moments]
        self._rows: dict[tuple[int, Time], float] = {}
        self._changes: dict[tuple[int, Time, Time], Change | None] = {}
        self._padding: dict[Condition, tuple[int, ...]] = {}
        """The inputs of the query's outer join with a condition; other joins with it are parts of that one."""
        for op, inputs in (tvr.expressions[0] for tvr in memo.tvrs):
            if isinstance(op, Join) and op.kind in PADDING:
                self._padding.setdefault(op.condition, inputs)

    def rows(self, relation: int, time: Time) -> float:
        """Rows of a relation at a moment."""
        key = relation, time
        if key not in self._rows:
            op, inputs = self._memo.tvrs[relation].expressions[0]
            self._rows[key] = _whole(self._estimated(op, inputs, time))
        return self._rows[key]

    def change(self, relation: int, start: Time, end: Time) -> Change | None:
        """The change of a relation over (start, end]; None if it is not estimated in whole rows."""
        sources = self._memo.tvrs[relation].props.sources
        start, end = (self._memo.timeline.unchanged_until(sources, time) for time in (start, end))
        key = relation, start, end
        if key not in self._changes:
            op, inputs = self._memo.tvrs[relation].expressions[0]
            found = NONE if start == end else self._changed(relation, op, inputs, start, end)
            whole = None if found is None else Change(_whole(found.inserts), _whole(found.deletes))
            self._changes[key] = whole
        return self._changes[key]

    def _estimated(self, op: QueryOp, inputs: Sequence[int], time: Time) -> float:
        if isinstance(op, Scan):
            op = Scan(op.source, op.columns, time)
        sizes = [self.rows(i, time) for i in inputs]
        if isinstance(op, Join) and self._looks_up(op.condition, time):
            share = self._share(op.condition, time)
            match op.kind:
                case "anti":
                    return sizes[0] * _alone(share * sizes[1])
                case "semi":
                    return sizes[0] * (1.0 - _alone(share * sizes[1]))
                case "inner":
                    return prod(sizes) * share
                case _:
                    return max(sizes)  # each right row has its left row
        return float(self._rows_of(op, [RowCount(n) for n in sizes], self._facts[time]))

    def _looks_up(self, condition: Condition, time: Time) -> bool:
        """True for an outer join, or a part of one, whose right side has no more rows than the left one."""
        if condition not in self._padding or not self._equalities(condition):
            return False
        left, right = (self.rows(i, time) for i in self._padding[condition])
        return right <= left

    def _equalities(self, condition: Condition) -> int:
        infos = map(self._memo.query.info, condition)
        return sum(info is not None and info.equal is not None for info in infos)

    def _share(self, condition: Condition, time: Time) -> float:
        """Pairs that a condition leaves, as a fraction of all."""
        if self._looks_up(condition, time):
            others = len(condition) - self._equalities(condition)
            left, _ = self._padding[condition]
            return CONDITION_SHARE**others / max(1.0, self.rows(left, time))
        return self._facts[time].selectivity.get(condition, 1.0)

    def _changed(self, relation: int, op: QueryOp, inputs: Sequence[int], start: Time, end: Time) -> Change | None:
        changes = [self.change(i, start, end) for i in inputs]
        known = [change for change in changes if change is not None]
        if len(known) < len(changes):
            return None
        match op:
            case Scan(source):
                told = self._facts[end].change_over(source, start, end)
                return None if told is None else Change(*told)
            case Filter():
                return filtered(known[0], _ratio(self.rows(relation, end), self.rows(inputs[0], end)))
            case Project() | RowWise() | Sort():
                return known[0]
            case Union():
                return sum(known, NONE)
            case Join():
                ends = [(self.rows(i, start), self.rows(i, end)) for i in inputs]
                sides = [Side(*rows, change) for rows, change in zip(ends, known, strict=True)]
                return self._joined(op, sides, start, end)
            case _:
                return None

    def _joined(self, op: Join, sides: Sequence[Side], start: Time, end: Time) -> Change:
        first, last = self._share(op.condition, start), self._share(op.condition, end)
        pairs = joined(sides, first, last, keyed=False)
        if op.kind == "inner":
            return pairs
        left, right = sides
        of_left, of_right = (flips(other, first, last, keyed=False) for other in (right, left))
        if self._looks_up(op.condition, end):
            of_left = _flips_once(left, right, pairs, first)
        return joined_as(op.kind, sides, pairs, of_left, of_right)


def _alone(partners: float) -> float:
    """Fraction of rows without a partner, if rows have so many on average and none has two."""
    return max(0.0, 1.0 - partners)


def _flips_once(rows: Side, others: Side, pairs: Change, first: float) -> Flips:
    """Fractions of rows that find and lose partners where none has two.

    New pairs fall evenly on old rows without a partner, and on new rows.
    """
    alone = _alone(first * others.before)
    share = min(1.0, _ratio(pairs.inserts, alone * rows.stay + rows.change.inserts))
    return Flips(alone, 1.0 - share, alone * share, first * min(others.change.deletes, others.before))


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0
