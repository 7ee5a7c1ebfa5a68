"""Changes that runs to come are likely to meet: what states are chosen for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

from tidemill.cost.guesses import CHANGED_SHARE, GROWN_ROWS, HELD_CYCLES, LARGE_SHARE
from tidemill.plan.change import SourceChange
from tidemill.search.contract.request import PlanRequest

Changes: TypeAlias = Mapping[int, SourceChange]


def likely_changes(request: PlanRequest) -> list[Changes]:
    """Changes of the sources from run to run, in cases that count the same; none if no source ever changes.

    What is expected in a cycle, if that is known. If not, a share of each source, and the same of large ones alone.
    """
    kinds, cycle = request.query.sources, request.cycle
    sizes = {n: _size(s.rows, cycle.get(n)) for n, s in request.sources.items()}
    grown = max(1.0, GROWN_ROWS / max(sizes.values(), default=GROWN_ROWS))
    every = {n: _assumed(s, kinds[n].kind, cycle.get(n), sizes[n], grown) for n, s in request.sources.items()}
    if not any(change.changed for change in every.values()):
        return []
    return [every, *([] if cycle else _large_alone(every))]


def _size(rows: float | None, cycle: tuple[float, float] | None) -> float:
    """Rows that a source is taken to have before it grows: what is there, or what a few cycles leave in it."""
    left = HELD_CYCLES * (cycle[0] - cycle[1]) if cycle else 0.0
    return max(GROWN_ROWS if rows is None else rows, left, 1.0)


def _large_alone(changes: Changes) -> list[Changes]:
    """The same with changes of the large sources alone, if there are small ones that change.

    >>> sizes = {0: 1e6, 1: 2e5, 2: 9e4}
    >>> (alone,) = _large_alone({n: SourceChange(True, True, rows=rows) for n, rows in sizes.items()})
    >>> [n for n, source in alone.items() if source.changed]
    [0, 1]
    """
    most = max(s.rows or 0.0 for s in changes.values() if s.changed)
    small = {n for n, s in changes.items() if s.changed and (s.rows or 0.0) < LARGE_SHARE * most}
    return [{n: replace(s, changed=s.changed and n not in small) for n, s in changes.items()}] if small else []


def _assumed(
    source: SourceChange, kind: str, cycle: tuple[float, float] | None, size: float, grown: float
) -> SourceChange:
    """What is taken to happen to a source from run to run.

    `cycle`: inserts and deletes, if they are expected; `grown`: how many times larger all sources are taken to become.
    """
    rows = size * grown
    inserts, deletes = (n * grown for n in cycle) if cycle else (rows * CHANGED_SHARE, rows * CHANGED_SHARE)
    changed = kind != "static" and inserts + deletes > 0
    return replace(source, changed=changed, old_readable=True, reason=None, rows=rows, inserts=inserts, deletes=deletes)
