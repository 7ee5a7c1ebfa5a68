"""Sizes of changes against rows that were counted, on random data; and where the formulas are off."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from math import exp
from typing import Any

import pytest

from tidemill.cost.changes import (
    NONE,
    Change,
    Groups,
    Reach,
    Side,
    anti_joined,
    crossed,
    filtered,
    flips,
    grouped,
    joined,
    limited,
    marked,
    semi_joined,
    unknown,
    windowed,
)
from tidemill.cost.distinct import met

Row = tuple[int, ...]
Table = Mapping[int, Row]
"""Rows by an identity: a row that changes keeps it."""


@dataclass(frozen=True)
class Data:
    """A table before and after, in which rows come, leave and change."""

    before: Table
    after: Table

    @property
    def side(self) -> Side:
        return Side(len(self.before), len(self.after), counted(self.before, self.after))


def counted(before: Mapping[Any, object], after: Mapping[Any, object]) -> Change:
    """The change of rows with an identity."""
    both = before.keys() & after.keys()
    return Change(len(after) - len(both), len(before) - len(both), sum(before[k] != after[k] for k in both))


def table(rng: random.Random, rows: int, change: Change, draw: Callable[[], Row]) -> Data:
    """A table of `rows` random rows and a change of it."""
    before = {number: draw() for number in range(rows)}
    chosen = rng.sample(sorted(before), round(change.deletes + change.updates))
    gone, updated = chosen[: round(change.deletes)], chosen[round(change.deletes) :]
    after = {k: row for k, row in before.items() if k not in set(gone)}
    after |= {k: draw() for k in updated}
    after |= {rows + k: draw() for k in range(round(change.inserts))}
    return Data(before, after)


def about(expected: Change, within: float = 0.1) -> object:
    """Rows that are this far from the expected ones, or few."""
    numbers = (expected.inserts, expected.deletes, expected.updates)
    return pytest.approx(numbers, rel=within, abs=6 + 3 * max(numbers) ** 0.5 * 0.5)


def numbers(change: Change) -> tuple[float, float, float]:
    return change.inserts, change.deletes, change.updates


CHANGES = [Change(inserts=900), Change(deletes=900), Change(updates=900), Change(2000, 1000, 3000)]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("share", [10, 50, 95])
def test_an_update_may_cross_a_filter(change: Change, share: int) -> None:
    rng = random.Random(1)
    data = table(rng, 10_000, change, lambda: (rng.randrange(100), rng.randrange(1 << 30)))
    left = [{k: r for k, r in rows.items() if r[0] < share} for rows in (data.before, data.after)]
    assert numbers(filtered(data.side.change, share / 100)) == about(counted(*left))


def test_a_condition_that_moves_takes_as_many_rows_as_it_gives() -> None:
    """Days 100 to 199 are shown, then days 105 to 204, of 400 days: five leave and five come."""
    days = range(400)
    before, after = ({d: d for d in days if d in shown} for shown in (range(100, 200), range(105, 205)))
    assert numbers(crossed(400, 10 / 400)) == numbers(counted(before, after))


def pairs(left: Table, right: Table, *, outer: bool = False) -> dict[Hashable, object]:
    """Pairs whose first fields are equal."""
    by_key: dict[int, list[int]] = {}
    for k, row in right.items():
        by_key.setdefault(row[0], []).append(k)
    found: dict[Hashable, object] = {}
    for k, row in left.items():
        partners = by_key.get(row[0], [])
        found |= {(k, other): (row, right[other]) for other in partners}
        if outer and not partners:
            found[k, None] = (row, None)
    return found


@pytest.mark.parametrize("left", CHANGES)
@pytest.mark.parametrize("right", [NONE, Change(inserts=300), Change(deletes=300), Change(100, 200, 300)])
def test_pairs_of_a_join_of_many_with_many(left: Change, right: Change) -> None:
    """Keys are drawn from 1,000; updates change other fields."""
    rng = random.Random(2)
    a, b = (table_with_keys(rng, rows, change, 1_000) for rows, change in ((10_000, left), (3_000, right)))
    found = joined([a.side, b.side], 1 / 1_000, 1 / 1_000, keyed=False)
    assert numbers(found) == about(counted(pairs(a.before, b.before), pairs(a.after, b.after)))


def table_with_keys(rng: random.Random, rows: int, change: Change, keys: int) -> Data:
    """Rows (key, value): an update changes the value alone."""
    data = table(rng, rows, change, lambda: (rng.randrange(keys), rng.randrange(1 << 30)))
    kept = {k: (data.before[k][0], row[1]) if k in data.before else row for k, row in data.after.items()}
    return Data(data.before, kept)


def orders_and_lines(rng: random.Random, new: int, gone: int) -> tuple[Data, Data]:
    """5,000 orders with four lines each; orders come and leave with their lines."""
    orders = {number: (number, rng.randrange(1 << 30)) for number in range(5_000 + new)}
    lines = {4 * number + i: (number, i) for number in orders for i in range(4)}
    leave = set(rng.sample(range(5_000), gone))

    def at(rows: Table, numbers: Iterable[int]) -> Table:
        there = set(numbers)
        return {k: row for k, row in rows.items() if row[0] in there}

    first, last = range(5_000), [n for n in orders if n not in leave]
    return Data(at(orders, first), at(orders, last)), Data(at(lines, first), at(lines, last))


@pytest.mark.parametrize(("new", "gone"), [(500, 0), (0, 500), (500, 300)])
def test_rows_that_come_with_their_key_meet_each_other(new: int, gone: int) -> None:
    """A selectivity for each moment tells that an old line has no new order: 500 orders bring 2,000 pairs, not twice
    as many."""
    orders, lines = orders_and_lines(random.Random(3), new, gone)
    found = joined([lines.side, orders.side], 1 / len(orders.before), 1 / len(orders.after), keyed=True)
    right = counted(pairs(lines.before, orders.before), pairs(lines.after, orders.after))
    assert (found.inserts, found.deletes) == pytest.approx((right.inserts, right.deletes), rel=0.15)


def test_one_selectivity_for_both_moments_counts_pairs_that_cannot_be() -> None:
    orders, lines = orders_and_lines(random.Random(3), 500, 0)
    found = joined([lines.side, orders.side], 1 / 5_000, 1 / 5_000, keyed=True)
    assert found.inserts > 2 * 2_000


def test_rows_that_are_replaced_on_the_side_of_the_key_replace_their_pairs() -> None:
    """An update that a source tells as a row that leaves and one that comes: 100 of 5,000 orders, so 400 pairs."""
    orders, lines = orders_and_lines(random.Random(3), 0, 0)
    replaced = Side(5_000, 5_000, Change(100, 100))
    found = joined([lines.side, replaced], 1 / 5_000, 1 / 5_000, keyed=True)
    assert numbers(found) == pytest.approx((400, 400, 0))
    assert len(pairs(lines.before, {k: row for k, row in orders.before.items() if k < 100})) == 400


@pytest.mark.parametrize("right", [Change(inserts=1_600), Change(deletes=1_600), Change(1_600, 1_600)])
@pytest.mark.parametrize("rows", [2_000, 8_000, 16_000])
def test_rows_find_and_lose_partners(rows: int, right: Change) -> None:
    """Keys are drawn from 8,000: L p (1 - p)^R rows get their first partner from one row of the other side."""
    rng = random.Random(4)
    a = table_with_keys(rng, 20_000, Change(600, 300, 900), 8_000)
    b = table_with_keys(rng, rows, right, 8_000)
    found = flips(b.side, 1 / 8_000, 1 / 8_000, keyed=False)

    def with_partner(left: Table, right: Table, *, wanted: bool) -> dict[int, Row]:
        keys = {row[0] for row in right.values()}
        return {k: row for k, row in left.items() if (row[0] in keys) is wanted}

    for wanted, of in ((True, semi_joined), (False, anti_joined)):
        right_one = counted(
            with_partner(a.before, b.before, wanted=wanted), with_partner(a.after, b.after, wanted=wanted)
        )
        assert numbers(of(a.side, found)) == about(right_one, 0.2)
    marks = [marks_of(left, right) for left, right in ((a.before, b.before), (a.after, b.after))]
    assert numbers(marked(a.side, found)) == about(counted(*marks), 0.2)
    outer = [pairs(left, right, outer=True) for left, right in ((a.before, b.before), (a.after, b.after))]
    both = joined([a.side, b.side], 1 / 8_000, 1 / 8_000, keyed=False) + anti_joined(a.side, found)
    assert numbers(both) == about(counted(*outer), 0.2)


def marks_of(left: Table, right: Table) -> dict[Hashable, object]:
    keys = {row[0] for row in right.values()}
    return {k: (row, row[0] in keys) for k, row in left.items()}


def test_of_a_side_with_keys_each_row_is_the_only_partner() -> None:
    """Returns of sales: each sale is returned at most once, so 300 returns are 300 first partners."""
    rng = random.Random(5)
    sold = range(4_000)
    returned = rng.sample(sold, 2_300)
    before, after = set(returned[:2_000]), set(returned)
    right = Side(2_000, 2_300, Change(inserts=300))
    found = flips(right, 1 / 4_000, 1 / 4_000, keyed=True)
    assert 4_000 * found.found == pytest.approx(len(after - before))
    assert 4_000 * found.alone_after == pytest.approx(4_000 - len(after))
    spread = flips(right, 1 / 4_000, 1 / 4_000, keyed=False)
    assert 4_000 * spread.found == pytest.approx(4_000 * (exp(-0.5) - exp(-0.575))), (
        "a tenth of them would be second ones"
    )
    assert spread.found < 0.6 * found.found


def sums(rows: Table) -> dict[int, int]:
    found: Counter[int] = Counter()
    for key, value in rows.values():
        found[key] += value
    return dict(found)


@pytest.mark.parametrize(
    "change", [Change(inserts=500), Change(deletes=500), Change(updates=500), Change(300, 200, 400)]
)
@pytest.mark.parametrize("keys", [20, 500, 10_000])
def test_new_gone_and_changed_groups(keys: int, change: Change) -> None:
    """10,000 rows in few groups, in some of which all change, and in as many as there are rows."""
    data = table_with_keys(random.Random(6), 10_000, change, keys)
    before, after = sums(data.before), sums(data.after)
    given = data.side
    values = Groups(met(keys, 10_000), met(keys, given.after), met(keys, given.change.touched))
    right = counted(before, after)
    found = grouped(given, values)
    assert found.touched == pytest.approx(right.touched, rel=0.1, abs=3)
    assert found.signed == pytest.approx(right.signed, rel=0.15, abs=6)


def test_rows_that_share_a_key_touch_fewer_groups_than_are_expected() -> None:
    """Where it is off: an order's four lines change together, so 500 lines touch 125 orders."""
    _, lines = orders_and_lines(random.Random(7), 0, 0)
    updated = {k: (row[0], row[1] + 10) if row[0] < 125 else row for k, row in lines.before.items()}
    given = Data(lines.before, updated).side
    found = grouped(given, Groups(5_000, 5_000, met(5_000, given.change.touched)))
    right = counted(sums(lines.before), sums(updated))
    assert (right.updates, round(found.updates)) == (125, 476)


def windows(rows: Table, value: Callable[[list[int], int], int]) -> dict[int, object]:
    """The value of a window function for each row, in the order of identities within a partition."""
    partitions: dict[int, list[int]] = {}
    for k in sorted(rows, key=lambda k: (rows[k][1], k)):
        partitions.setdefault(rows[k][0], []).append(k)
    return {k: (rows[k], value(part, i)) for part in partitions.values() for i, k in enumerate(part)}


@pytest.mark.parametrize("change", [Change(inserts=100), Change(deletes=100), Change(60, 40)])
def test_windows_change_as_far_as_frames_reach(change: Change) -> None:
    """200 partitions of 50 rows in a random order: the row before, three rows around, the number, and the last row."""
    rng = random.Random(8)
    data = table(rng, 10_000, change, lambda: (rng.randrange(200), rng.randrange(1 << 30)))
    given = data.side
    touched = met(200, given.change.touched)

    def lag(part: list[int], i: int) -> int:
        return part[i - 1] if i else -1

    def around(part: list[int], i: int) -> int:
        return hash(tuple(part[max(0, i - 1) : i + 2]))

    kinds: list[tuple[Callable[[list[int], int], int], Reach | None, float]] = [
        (lag, Reach(1), 0.1),
        (around, Reach(2), 0.1),
        (lambda _part, i: i, Reach(running=True), 0.15),
        (lambda part, _i: part[-1] * 1000 + len(part), None, 0.1),
    ]
    for value, reach, error in kinds:
        right = counted(windows(data.before, value), windows(data.after, value))
        found = windowed(given, 200, touched, reach)
        assert found.signed == pytest.approx(right.signed, rel=error), (reach, found, right)


@pytest.mark.parametrize("change", [Change(inserts=1_000), Change(deletes=1_000), Change(updates=1_000)])
def test_a_limit_changes_by_rows_above_its_cut(change: Change) -> None:
    rng = random.Random(9)
    data = table(rng, 50_000, change * 10, lambda: (rng.randrange(1 << 30),))
    right = counted(
        *({k: rows[k] for k in sorted(rows, key=lambda k: rows[k])[:5_000]} for rows in (data.before, data.after))
    )
    found = limited(data.side, 5_000, 5_000)
    assert found.signed == pytest.approx(right.signed, rel=0.15)
    assert limited(Side(90, 100, Change(10)), 90, 100) == Change(10), "below the limit all is shown"


def test_changes_are_bounded_by_what_there_is() -> None:
    assert numbers(Change(50, 60, 70).within(40, 30)) == (30, 40, 0)
    assert numbers(Change(1, 2, 30).within(20, 19)) == (1, 2, 18)
    assert numbers(grouped(Side(10, 10, NONE), Groups(3, 4, 3))) == (0, 0, 0)
    assert numbers(unknown([Side(100, 110, Change(10))], 50, 55)) == pytest.approx((5, 0, 50 / 11))
    assert (Change(1, 2, 3) + Change(updates=1)).signed == 11
    assert (Change(1, 2, 3).touched, (Change(1, 2, 3) * 2).touched) == (6, 12)
