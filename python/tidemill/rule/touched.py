"""Which keys of a relation a change may touch, as told by what changed far below it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tidemill.memo.memo import Built
from tidemill.plan.expr import Col, Expr
from tidemill.plan.keys import KeyRequest, On, request_below
from tidemill.plan.ops import Filter, Project, QueryOp, Scan
from tidemill.rule.build import keys
from tidemill.rule.match import Match, Relation

End: TypeAlias = tuple[On, Relation]
"""A changed relation that a key goes down to, with the key there."""


@dataclass(frozen=True, slots=True)
class Scanned:
    """Rows of a source: what the values of a key are there, and whether they are of some of its rows only."""

    values: tuple[object, ...]
    selected: bool = False


def touched(m: Match[QueryOp], key: Sequence[Expr]) -> tuple[On, Built] | None:
    """A key of the matched relation with values that hold all which its change may have; None if only the changes of
    its inputs tell them.

    A row of a key is made of rows of that key wherever the key goes down, and of what does not change besides. So the
    values that changed rows have at the ends of these ways are enough, whatever lies between.
    """
    once = dict.fromkeys(key)  # of what is compared with several columns, one value will do
    on = tuple((e, m.column(("touched", e), m.types.type_of(e), f"key{i}")) for i, e in enumerate(once))
    found = [*_ends(m, m.relation, KeyRequest(on), 0)]
    if all(operators <= 1 for _, operators in found):
        return None
    branches = [(tuple((c, e) for e, c in there), end.delta) for there, end in _telling(m, [end for end, _ in found])]
    return on, keys(*branches)


def _ends(m: Match[QueryOp], relation: Relation, asked: KeyRequest, operators: int) -> Iterator[tuple[End, int]]:
    """The ends of a key's ways, and how many operators each goes through that look at several rows."""
    if not relation.changed:
        return
    op, inputs = next(m.ways(relation))
    below = None
    if _scanned(m, relation, asked.on) is None:
        below = request_below(op, asked, [frozenset(i.columns) for i in inputs], m.query)
    if below is None or any(a is None and i.changed for a, i in zip(below, inputs, strict=True)):
        yield (asked.on, relation), operators
        return
    for a, i in zip(below, inputs, strict=True):
        if a is not None:
            yield from _ends(m, i, a, operators + (not isinstance(op, Filter | Project)))


def _telling(m: Match[QueryOp], ends: Sequence[End]) -> Iterator[End]:
    """The ends without those that tell nothing more: all rows of a source have the values that some of them have."""
    found = [(end, _scanned(m, end[1], end[0])) for end in ends]
    of_all = {scanned.values for _, scanned in found if scanned is not None and not scanned.selected}
    told = set[tuple[object, ...]]()
    for end, scanned in found:
        if scanned is None or scanned.values not in (told if not scanned.selected else of_all):
            yield end
        if scanned is not None and not scanned.selected:
            told.add(scanned.values)


def _scanned(m: Match[QueryOp], relation: Relation, on: On) -> Scanned | None:
    """What a key is of a source's rows; None if the relation is more than rows and columns selected of a source."""
    op, inputs = next(m.ways(relation))
    match op:
        case Scan(source, columns):
            fields = dict(columns)
            return Scanned((source, *(fields[e.id] if isinstance(e, Col) else e for e, _ in on)))
        case Filter():
            below = _scanned(m, inputs[0], on)
            return below and Scanned(below.values, selected=True)
        case Project():
            asked = request_below(op, KeyRequest(on), [frozenset(inputs[0].columns)], m.query)
            there = asked[0].on if asked and asked[0] else ()
            below = _scanned(m, inputs[0], there)
            return below if there or below is None else Scanned((relation.number,))
        case _:  # anything else is more than rows and columns selected
            return None
