"""Orders of states: a physical property beside what is equal (Tempura 6.1).

A run that asks a large state for a few keys need not read all of it: where each file of the base lies in the order of
the key, Parquet's own index of pages tells which of them to read. So a state is written in the order of a column that
runs ask for, and `LookUp` is one more way to have the rows of some keys. It needs the keys before it is planned by
Spark, so it takes only those that the run has written by then; the search counts that as one more reader of theirs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tidemill.memo.memo import Expression, Memo
from tidemill.plan.expr import Col, Expr
from tidemill.plan.grouping import groupable
from tidemill.plan.ops import FinalChange, KeyFilter, LookUp, Merge, StateScan

RULE = "look_up"
ORDERED = frozenset({"byte", "short", "integer", "long", "string"})
"""Types of columns whose values Parquet compares as Spark does, and that are the same in JSON."""

FROM_ROWS = 50_000
"""Rows of a state from which on it pays to look keys up: what is smaller is read at once."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """What an expression of a group asks a state for: rows that have the keys of the group `wanted`."""

    group: int
    expression: Expression
    scan: StateScan
    wanted: int
    on: tuple[tuple[Expr, int], ...]
    nulls: bool

    def columns(self, memo: Memo) -> Iterator[tuple[int, str]]:
        """The columns of the state that are asked for as they are and can be in order, with their fields."""
        asked = {expr.id: memo.columns.type(key) for expr, key in self.on if isinstance(expr, Col)}
        yield from ((c, field) for c, field, kind in self.scan.columns if kind in ORDERED and asked.get(c) == kind)


def orders(memo: Memo, values: Callable[[int], float]) -> dict[str, str]:
    """By name of a state the field that its base should be in the order of: of those asked for, the one with the most
    values.

    `values`: how many a column has.
    """
    fields: dict[str, dict[str, float]] = defaultdict(dict)
    for asked in _all_asked(memo):
        for column, field in asked.columns(memo):
            fields[asked.scan.name].setdefault(field, values(column))
    return {name: max(sorted(found), key=found.__getitem__) for name, found in fields.items()}


def look_up(memo: Memo, order: Mapping[str, str], rows: Callable[[str], float]) -> None:
    """Adds look-ups in large states to what asks for some of their rows.

    `order`: by name of a state the field that its base is in the order of; `rows`: how many it has.
    """
    for asked in list(_all_asked(memo)):
        name = asked.scan.name
        first = next((c for c, field in asked.columns(memo) if order.get(name) == field), None)
        if first is None or rows(name) < FROM_ROWS:
            continue
        on = tuple(sorted(asked.on, key=lambda pair: pair[0] != Col(first)))
        pack, found = asked.expression.pack, LookUp(asked.scan, on, asked.nulls)
        if not isinstance(asked.expression.op, FinalChange):
            memo.put(asked.group, found, (asked.wanted,), RULE, pack)
            continue
        some = memo.part(found, (asked.wanted,), RULE, pack)
        merged = memo.part(Merge(asked.expression.op.partial), (some,), RULE, pack)
        memo.put(asked.group, asked.expression.op, (merged, asked.wanted), RULE, pack)


def _all_asked(memo: Memo) -> Iterator[_Asked]:
    for group in memo.live_groups():
        for e in group.expressions:
            match e.op:
                case KeyFilter(on, nulls):
                    rows, wanted = e.inputs
                    for scan in _scans(memo, rows):
                        yield _Asked(group.number, e, scan, wanted, on, nulls)
                case FinalChange(partial):
                    keys = tuple((Col(c), c) for c, _ in partial.keys)
                    if any(groupable(c, memo.columns.type(c)) != key for key, c in keys):
                        continue
                    old, change = e.inputs
                    merges = [
                        x.inputs[0] for x in memo.group(old).expressions if isinstance(x.op, Merge) and x.op.state
                    ]
                    for scan in (scan for pieces in merges for scan in _scans(memo, pieces)):
                        yield _Asked(group.number, e, scan, change, keys, nulls=True)


def _scans(memo: Memo, group: int) -> Iterator[StateScan]:
    """How all of a state, or what was there before, is read as a group."""
    yield from (e.op for e in memo.group(group).expressions if isinstance(e.op, StateScan) and e.op.part != "since")
