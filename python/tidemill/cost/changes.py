"""Sizes of changes: how the rows that an operator's inputs gain, lose and update show in its output.

They belong to a relation and an interval, so every way to compute a change has the same rows. Each function is one kind
of operator; all expect values that are spread evenly and independently, as textbooks do. The net change is meant: a row
that leaves and comes again within the interval is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, prod
from typing import assert_never

from tidemill.plan.kinds import JoinKind


@dataclass(frozen=True, slots=True)
class Change:
    """Expected rows of a change of a relation.

    Attributes:
        inserts: rows that only the new relation has, and that replace none.
        deletes: rows that only the old relation has, and that none replaces.
        updates: rows of the old relation that one row each replaces.
    """

    inserts: float = 0.0
    deletes: float = 0.0
    updates: float = 0.0

    @property
    def signed(self) -> float:
        """Signed rows: an update is a row that leaves and one that comes."""
        return self.inserts + self.deletes + 2 * self.updates

    @property
    def touched(self) -> float:
        """Rows that are told of, each once."""
        return self.inserts + self.deletes + self.updates

    def __add__(self, other: Change) -> Change:
        """Both changes, of different rows."""
        return Change(self.inserts + other.inserts, self.deletes + other.deletes, self.updates + other.updates)

    def __mul__(self, share: float) -> Change:
        """This share of each kind of rows."""
        return Change(self.inserts * share, self.deletes * share, self.updates * share)

    def within(self, before: float, after: float) -> Change:
        """This change, with no more rows of a kind than a relation has that grows from `before` to `after` rows."""
        inserts, deletes = min(self.inserts, after), min(self.deletes, before)
        return Change(inserts, deletes, max(0.0, min(self.updates, before - deletes, after - inserts)))


NONE = Change()


@dataclass(frozen=True, slots=True)
class Side:
    """An input of an operator: rows before and after an interval, and its change."""

    before: float
    after: float
    change: Change

    @property
    def stay(self) -> float:
        """Old rows that do not leave: kept as they are, or updated."""
        return max(0.0, self.before - self.change.deletes)

    @property
    def kept(self) -> float:
        """Old rows that stay as they are."""
        return max(0.0, self.stay - self.change.updates)


def filtered(change: Change, share: float) -> Change:
    """The change of a filter that a row passes with probability `share`: an update may cross its condition."""
    crossing = change.updates * share * (1.0 - share)
    return Change(change.inserts * share + crossing, change.deletes * share + crossing, change.updates * share * share)


def crossed(rows: float, share: float) -> Change:
    """The change of a condition that moves over `rows` rows that stay: it reaches `share` of them, and half come."""
    return Change(rows * share / 2, rows * share / 2)


def joined(sides: Sequence[Side], before: float, after: float, *, keyed: bool) -> Change:
    """The change of an inner join.

    Where a row of the largest input meets at most one of each other (`keyed`), rows are taken to come and leave with
    the row that they meet: then a pair is lost where the input that loses most loses a row. Else rows leave
    independently of each other.

    Args:
        before, after: output rows per product of input rows, before and after. They differ where keys come: new rows
            of a table with a key meet new rows of the other, so old pairs do not get more.
    """
    old, new = before * prod(s.before for s in sides), after * prod(s.after for s in sides)
    shares = [s.stay / s.before if s.before > 0 else 0.0 for s in sides]
    lasting = min(old * (min(shares) if keyed else prod(shares)), new)
    same = prod(s.kept / s.stay if s.stay > 0 else 0.0 for s in sides)
    return Change(new - lasting, old - lasting, lasting * (1.0 - same))


@dataclass(frozen=True, slots=True)
class Flips:
    """Fractions of the rows of one side of a join that have no partner, find one, or lose it.

    Attributes:
        alone_before, alone_after: of all rows, those without a partner.
        found, lost: of the rows that stay, those that get their first partner, and those that lose their last one.
    """

    alone_before: float
    alone_after: float
    found: float
    lost: float


def flips(other: Side, before: float, after: float, *, keyed: bool) -> Flips:
    """Fractions of rows that find and lose partners on the other side of a join (InQP section 3.1).

    A row with m partners on average has none with probability e^-m, the limit of (1 - p)^rows; where the other side has
    each key once (`keyed`), it has none with probability 1 - m. Insertions come first, then deletions; updates keep
    keys.

    Args:
        before, after: pairs that the condition leaves, as a fraction of all, before and after.
    """

    def alone(partners: float) -> float:
        return max(0.0, 1.0 - partners) if keyed else exp(-partners)

    first, last = alone(before * other.before), alone(after * other.after)
    between = alone(after * (other.before + other.change.inserts))
    return Flips(first, last, max(0.0, first - between), max(0.0, last - between))


def semi_joined(side: Side, flips: Flips) -> Change:
    """The change of the rows of a side that have a partner."""
    change = side.change
    return Change(
        change.inserts * (1.0 - flips.alone_after) + side.stay * flips.found,
        change.deletes * (1.0 - flips.alone_before) + side.stay * flips.lost,
        change.updates * max(0.0, 1.0 - flips.alone_after - flips.found),
    )


def anti_joined(side: Side, flips: Flips) -> Change:
    """The change of the rows of a side that have no partner."""
    change = side.change
    return Change(
        change.inserts * flips.alone_after + side.stay * flips.lost,
        change.deletes * flips.alone_before + side.stay * flips.found,
        change.updates * max(0.0, flips.alone_after - flips.lost),
    )


def marked(side: Side, flips: Flips) -> Change:
    """The change of the rows of a side with a column that tells whether they have a partner."""
    return side.change + Change(updates=side.kept * (flips.found + flips.lost))


def joined_as(kind: JoinKind, sides: Sequence[Side], pairs: Change, of_left: Flips, of_right: Flips) -> Change:
    """The change of a join of two inputs of this kind.

    Args:
        pairs: the change of the inner join.
        of_left, of_right: how rows of an input find and lose partners in the other one.
    """
    left, right = sides
    match kind:
        case "inner":
            return pairs
        case "semi":
            return semi_joined(left, of_left)
        case "anti":
            return anti_joined(left, of_left)
        case "existence":
            return marked(left, of_left)
        case "left":
            return pairs + anti_joined(left, of_left)
        case "right":
            return pairs + anti_joined(right, of_right)
        case "full":
            return pairs + anti_joined(left, of_left) + anti_joined(right, of_right)
        case _:
            assert_never(kind)


@dataclass(frozen=True, slots=True)
class Groups:
    """Groups at both ends of an interval, and those that its changed rows are in.

    Attributes:
        before, after: groups that there are.
        met: groups that rows which are inserted, deleted or updated are in.
    """

    before: float
    after: float
    met: float


def grouped(rows: Side, groups: Groups) -> Change:
    """The change of groups: new ones, those that have lost all rows, and those whose values change."""
    if rows.change.touched <= 0:
        return NONE
    gone = max(0.0, groups.before - groups.after)
    if groups.before > 0 and rows.before > 0:
        share = min(1.0, rows.change.deletes / rows.before)
        size = max(1.0, rows.before / groups.before)
        gone = min(max(gone, groups.before * share**size), groups.before)
    new = max(0.0, groups.after - (groups.before - gone))
    return Change(new, gone, max(0.0, min(groups.met - new - gone, groups.before - gone)))


@dataclass(frozen=True, slots=True)
class Reach:
    """The rows of its partition whose values may depend on a row: `rows` others, and all that follow if `running`."""

    rows: float = 0.0
    running: bool = False


def windowed(rows: Side, partitions: float, met: float, reach: Reach | None) -> Change:
    """The change of window functions over the rows of partitions.

    From the first of k changed rows on, k / (k + 1) of a partition follow.

    Args:
        partitions: how many there are, of equal size.
        met: partitions with changed rows.
        reach: of each row; None for all rows of its partition.
    """
    own, touched = rows.change.inserts + rows.change.updates, rows.change.touched
    reached = most = met * rows.after / max(partitions, 1.0)
    if reach is not None:
        following = most * touched / (touched + met) if reach.running and met > 0 else 0.0
        reached = min(most, max(own, following) + touched * reach.rows)
    return rows.change + Change(updates=min(max(0.0, reached - own), rows.kept))


def limited(rows: Side, before: float, after: float) -> Change:
    """The change of the first rows in an order, of which there are `before` and `after`: one that comes above the cut
    pushes another one below it, and one that leaves lets one in."""
    if rows.before <= before and rows.after <= after:
        return rows.change
    share = min(1.0, after / max(rows.after, 1.0))
    above = filtered(replace(rows.change, deletes=0.0), share)
    gone = above.deletes + rows.change.deletes * min(1.0, before / max(rows.before, 1.0))
    moved = min(after, max(above.inserts, gone))
    return Change(moved + max(0.0, after - before), moved + max(0.0, before - after), above.updates)


def unknown(rows: Sequence[Side], before: float, after: float) -> Change:
    """The change of an operator of which nothing is known: as large a part of its rows as of the input's that changes
    most."""
    most = max((min(1.0, s.change.touched / max(s.before, s.after, 1.0)) for s in rows), default=0.0)
    changing = most * min(before, after)
    return Change(max(0.0, after - before), max(0.0, before - after), changing)
