"""Orders of states: a physical property of equal expressions (Tempura 6.1).

A run that needs few keys of a large state need not read all of it: if each file of the base is sorted by the key,
Parquet's page index tells which pages to read. `LookUp` reads the rows of some keys that way. It needs the keys before
Spark plans the read, so it uses only keys that the run has already written; the search counts it as another reader of
them.

A base is written in the order of a column where that pays: at the initial load, if likely runs ask for few of its keys
(`keeping.worth_ordering`); later, if enough past runs have read all of it for few keys (`compaction.due`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import inf

from tidemill.cost.costing import LOOKED_UP_KEYS, Facts
from tidemill.cost.guesses import LOOK_UP_FROM_ROWS
from tidemill.memo.memo import Expression, Memo
from tidemill.plan.expr import Col, Expr
from tidemill.plan.grouping import is_plain
from tidemill.plan.ops import FinalChange, KeyFilter, LookUp, Merge, StateScan
from tidemill.search.contract.stored import KeyedRead

RULE = "look_up"
ORDERED = frozenset({"byte", "short", "integer", "long", "string"})
"""Types of columns whose values Parquet compares as Spark does, and whose values JSON represents exactly."""


@dataclass(frozen=True, slots=True)
class _KeyedReadSite:
    """A read of a state by keys: its expression, and the group `wanted` that holds the keys."""

    group: int
    expression: Expression
    scan: StateScan
    wanted: int
    on: tuple[tuple[Expr, int], ...]
    nulls: bool

    def columns(self, memo: Memo) -> Iterator[tuple[int, str]]:
        """The key columns of the state that can be ordered, with their fields."""
        asked = {expr.id: memo.columns.type(key) for expr, key in self.on if isinstance(expr, Col)}
        yield from ((c, field) for c, field, kind in self.scan.columns if kind in ORDERED and asked.get(c) == kind)


def orders(memo: Memo, facts: Facts) -> dict[str, str]:
    """By a state's name the field by which its rows are read; of several the one with the most distinct values."""
    fields: dict[str, dict[str, float]] = defaultdict(dict)
    for group in memo.live_groups():
        for e in group.expressions:
            for asking in _asking(memo, group.number, e):
                for column, field in asking.columns(memo):
                    fields[asking.scan.name].setdefault(field, _values(facts, column))
    return {name: _most(found) for name, found in fields.items()}


def keyed_reads(
    memo: Memo, facts: Facts, used: Iterable[tuple[int, Expression]], rows: Callable[[int], float]
) -> dict[str, KeyedRead]:
    """The reads of large states by few keys in a plan, by the states' names.

    `used`: the expressions of the plan with their groups; `rows`: returns the rows of a group.
    """
    fields: dict[str, dict[str, float]] = defaultdict(dict)
    keys: dict[tuple[str, str], dict[int, float]] = defaultdict(dict)
    for number, e in used:
        for asking in _asking(memo, number, e):
            name, some = asking.scan.name, rows(asking.wanted)
            if some > LOOKED_UP_KEYS or facts.kept.size(name) < LOOK_UP_FROM_ROWS:
                continue
            for column, field in asking.columns(memo):
                fields[name].setdefault(field, _values(facts, column))
                keys[name, field][asking.wanted] = some
    ordered = ((name, _most(found)) for name, found in fields.items())
    return {name: KeyedRead(field, sum(keys[name, field].values())) for name, field in ordered}


def look_up(memo: Memo, facts: Facts, order: Mapping[str, str]) -> None:
    """Adds look-ups in large states to the groups that need rows of some keys.

    `order`: by a state's name the field that its base is ordered by.
    """
    places = [(group.number, e) for group in memo.live_groups() for e in group.expressions]
    for asking in [asking for number, e in places for asking in _asking(memo, number, e)]:
        name = asking.scan.name
        first = next((c for c, field in asking.columns(memo) if order.get(name) == field), None)
        if first is None or facts.kept.size(name) < LOOK_UP_FROM_ROWS:
            continue
        on = tuple(sorted(asking.on, key=lambda pair: pair[0] != Col(first)))
        pack, found = asking.expression.pack, LookUp(asking.scan, on, asking.nulls)
        if not isinstance(asking.expression.op, FinalChange):
            memo.put(asking.group, found, (asking.wanted,), RULE, pack)
            continue
        some = memo.part(found, (asking.wanted,), RULE, pack)
        merged = memo.part(Merge(asking.expression.op.partial), (some,), RULE, pack)
        memo.put(asking.group, asking.expression.op, (merged, asking.wanted), RULE, pack)


def _values(facts: Facts, column: int) -> float:
    return facts.groups([Col(column)], inf)


def _most(values: Mapping[str, float]) -> str:
    return max(sorted(values), key=values.__getitem__)


def _asking(memo: Memo, group: int, e: Expression) -> Iterator[_KeyedReadSite]:
    """The reads of states by keys in an expression, as a look-up or a full read."""
    match e.op:
        case LookUp(scan, on, nulls):
            yield _KeyedReadSite(group, e, scan, e.inputs[0], on, nulls)
        case KeyFilter(on, nulls):
            rows, wanted = e.inputs
            for scan in _scans(memo, rows):
                yield _KeyedReadSite(group, e, scan, wanted, on, nulls)
        case FinalChange(partial):
            keys = tuple((Col(c), c) for c, _ in partial.keys)
            if not all(is_plain(memo.columns.type(c)) for _, c in keys):
                return
            old, change = e.inputs
            merges = [x.inputs[0] for x in memo.group(old).expressions if isinstance(x.op, Merge) and x.op.state]
            for scan in (scan for pieces in merges for scan in _scans(memo, pieces)):
                yield _KeyedReadSite(group, e, scan, change, keys, nulls=True)


def _scans(memo: Memo, group: int) -> Iterator[StateScan]:
    """The scans of a whole state, or of its part before the content, that compute a group."""
    yield from (e.op for e in memo.group(group).expressions if isinstance(e.op, StateScan) and e.op.part != "since")
