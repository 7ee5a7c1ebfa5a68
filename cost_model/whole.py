"""Whole rows of relations at each moment, and of their changes over each interval, for models that count rows.

A row arrives or does not, so every estimate is rounded to whole rows before the next one builds upon it. Sizes belong
to a relation and an interval: every way to compute them has the same rows.

An outer join whose right side has no more rows than the left one is taken to look up few of many: each right row meets
one left row, and a left row at most one right row, as a sale its return. Other equalities join keys with foreign keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import exp, floor, prod
from typing import NamedTuple, TypeAlias

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


class Change(NamedTuple):
    """Rows that come and rows that leave; an update is one of each."""

    inserts: float
    deletes: float

    def __add__(self, other: Change) -> Change:  # type: ignore[override]  # not the concatenation of tuples
        return Change(self.inserts + other.inserts, self.deletes + other.deletes)

    def times(self, share: float) -> Change:
        """This share of both."""
        return Change(self.inserts * share, self.deletes * share)


NOTHING = Change(0.0, 0.0)


class Side(NamedTuple):
    """An input of a join over an interval: its rows at both ends, and its change."""

    before: float
    after: float
    change: Change

    @property
    def stay(self) -> float:
        """Fraction of the old rows that do not leave."""
        return max(0.0, 1.0 - self.change.deletes / self.before) if self.before > 0 else 0.0


class Partners(NamedTuple):
    """Rows of one side of a join that find or lose partners, or have none.

    Attributes:
        new: rows that come, without a partner.
        found: rows that stay and get their first partner.
        lost: rows that stay and lose their last one.
        gone: rows that leave and had none.
    """

    new: float
    found: float
    lost: float
    gone: float

    @property
    def alone(self) -> Change:
        """The change of the rows without a partner."""
        return Change(self.new + self.lost, self.gone + self.found)

    def among(self, rows: Change) -> Change:
        """The change of the rows with a partner, of a side that changes by `rows`."""
        return Change(rows.inserts - self.new + self.found, rows.deletes - self.gone + self.lost)


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
                    yield memo.find(group), RowCount(change.inserts + change.deletes)


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
            found = NOTHING if start == end else self._changed(relation, op, inputs, start, end)
            self._changes[key] = None if found is None else Change(_whole(found.inserts), _whole(found.deletes))
        return self._changes[key]

    def _estimated(self, op: QueryOp, inputs: Sequence[int], time: Time) -> float:
        if isinstance(op, Scan):
            op = Scan(op.source, op.columns, time)
        sizes = [self.rows(i, time) for i in inputs]
        if isinstance(op, Join) and self._looks_up(op.condition, time):
            share = self._share(op.condition, time)
            match op.kind:
                case "anti":
                    return sizes[0] * _alone(share * sizes[1], once=True)
                case "semi":
                    return sizes[0] * (1.0 - _alone(share * sizes[1], once=True))
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
                return known[0].times(_ratio(self.rows(relation, end), self.rows(inputs[0], end)))
            case Project() | RowWise() | Sort():
                return known[0]
            case Union():
                return sum(known, NOTHING)
            case Join():
                ends = [(self.rows(i, start), self.rows(i, end)) for i in inputs]
                sides = [Side(*rows, change) for rows, change in zip(ends, known, strict=True)]
                return self._joined(op, sides, start, end)
            case _:
                return None

    def _joined(self, op: Join, sides: Sequence[Side], start: Time, end: Time) -> Change | None:
        first, last = self._share(op.condition, start), self._share(op.condition, end)
        pairs = _pairs(sides, first, last)
        if op.kind == "inner":
            return pairs
        left, right = sides
        if self._looks_up(op.condition, end):
            found = _found_once(left, right, pairs, first)
        else:
            found = _found(left, right, first, last)
        match op.kind:
            case "anti":
                return found.alone
            case "semi":
                return found.among(left.change)
            case "left":
                return pairs + found.alone
            case "full":
                return pairs + found.alone + _found(right, left, first, last).alone
            case _:
                return None


def _pairs(sides: Sequence[Side], first: float, last: float) -> Change:
    """The change of the pairs of an inner join, of which the condition leaves a fraction, before and after.

    Where new rows bring new keys, old rows do not get partners: then the fraction falls.
    """
    old, new = first * prod(s.before for s in sides), last * prod(s.after for s in sides)
    lasting = min(max(first, last) * prod(s.before * s.stay for s in sides), old, new)
    return Change(new - lasting, old - lasting)


def _alone(partners: float, *, once: bool) -> float:
    """Fraction of rows without a partner, if rows have so many on average; `once`: no row has two."""
    return max(0.0, 1.0 - partners) if once else exp(-partners)


def _found(rows: Side, others: Side, first: float, last: float) -> Partners:
    """Rows that find and lose partners, where these are spread evenly. Insertions come first, then deletions."""
    before, after = _alone(first * others.before, once=False), _alone(last * others.after, once=False)
    between = _alone(last * (others.before + others.change.inserts), once=False)
    stay = rows.before * rows.stay
    return Partners(
        rows.change.inserts * after,
        stay * max(0.0, before - between),
        stay * max(0.0, after - between),
        rows.change.deletes * before,
    )


def _found_once(rows: Side, others: Side, pairs: Change, first: float) -> Partners:
    """The same where no row has two partners: new pairs fall evenly on old rows without a partner and on new rows."""
    alone = rows.before * _alone(first * others.before, once=True)
    waiting = alone * rows.stay
    share = min(1.0, _ratio(pairs.inserts, waiting + rows.change.inserts))
    lost = rows.stay * first * rows.before * min(others.change.deletes, others.before)
    return Partners(rows.change.inserts * (1.0 - share), waiting * share, lost, alone - waiting)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0
