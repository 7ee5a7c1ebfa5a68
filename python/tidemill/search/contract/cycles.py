"""The last cycles of a view's schedule: what came to each source in each. States are chosen for more of the same.

Each log entry hands them on to the next one, so a run reads no older entries for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Rows: TypeAlias = tuple[float, float]
"""Inserts and deletes."""
REMEMBERED = 7
"""Number of ended cycles that are remembered: a week of days."""


@dataclass(frozen=True, slots=True)
class Cycle:
    """A cycle that has ended: the run that ended it, and by the name of a source what came; None if nobody knows."""

    run: int
    rows: Mapping[str, Rows | None]


@dataclass(frozen=True, slots=True)
class Cycles:
    """The last cycles.

    Attributes:
        ended: those that have ended, the oldest first.
        present: what came in the present one until its last run with output.
    """

    ended: tuple[Cycle, ...] = ()
    present: Mapping[str, Rows | None] = field(default_factory=dict)

    def then(self, run: int, came: Mapping[str, Rows | None], *, last: bool) -> Cycles:
        """The cycles after a run with output: `came` since the one before; `last`: it ends the cycle.

        >>> cycles = Cycles().then(1, {"t": (5, 0)}, last=False).then(2, {"t": (2, 1)}, last=True)
        >>> cycles.ended, cycles.present
        ((Cycle(run=2, rows={'t': (7, 1)}),), {})
        """
        both = dict(self.present)
        for name, rows in came.items():
            before = both.get(name, (0, 0))
            both[name] = None if rows is None or before is None else (before[0] + rows[0], before[1] + rows[1])
        if not last:
            return Cycles(self.ended, both)
        return Cycles((*self.ended, Cycle(run, both))[-REMEMBERED:])

    def to_json(self) -> dict[str, Any]:
        return {
            "ended": [{"run": c.run, "rows": _listed(c.rows)} for c in self.ended],
            "present": _listed(self.present),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Cycles:
        ended = tuple(Cycle(c["run"], _rows(c["rows"])) for c in data["ended"])
        return Cycles(ended, _rows(data["present"]))


def _listed(rows: Mapping[str, Rows | None]) -> dict[str, list[float] | None]:
    return {name: None if known is None else list(known) for name, known in rows.items()}


def _rows(data: Mapping[str, Any]) -> dict[str, Rows | None]:
    return {name: None if known is None else (known[0], known[1]) for name, known in data.items()}


NO_CYCLES = Cycles()
