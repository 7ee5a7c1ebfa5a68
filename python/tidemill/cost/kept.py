"""Rows that earlier runs kept: those of states, of the view's content, and of its held change; and what they taught of
changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidemill.cost.guesses import UNCOUNTED_ROWS
from tidemill.plan.ops import HeldScan, ResultScan, StateScan

CONTENT = ""
"""The view's own relation, among those that are called by the names of states."""


@dataclass(frozen=True, slots=True)
class StateRows:
    """Rows of a state; None if they were not counted.

    Attributes:
        whole: rows of all pieces.
        segments: rows of all pieces but the first.
        before: rows of the pieces that existed when the view's content was made.
        since: rows of the pieces added since.
    """

    whole: float | None = None
    segments: float = 0.0
    before: float | None = None
    since: float | None = None

    def part(self, name: str) -> float | None:
        """Rows of a part as a `StateScan` names it; of the whole state if the part was not counted."""
        apart = {"before": self.before, "since": self.since}.get(name)
        return self.whole if apart is None else apart


@dataclass(frozen=True, slots=True)
class KeptRows:
    """Rows of states, content and held change; None if they were not counted.

    Attributes:
        states: by the names of states.
        content: rows of the view's content.
        held: rows of the view's held change.
        learned: by what factors the changes of relations had more rows than estimated, by the names of their states, or
            `CONTENT`.
    """

    states: Mapping[str, StateRows] = field(default_factory=dict)
    content: float | None = None
    held: float | None = None
    learned: Mapping[str, float] = field(default_factory=dict)

    def state(self, name: str) -> StateRows:
        """Rows of a state; all None for an unknown state."""
        return self.states.get(name, UNKNOWN)

    def size(self, name: str) -> float:
        """Rows of all pieces of a state; 0 if they were not counted."""
        return self.state(name).whole or 0.0

    def read(self, op: StateScan | ResultScan | HeldScan) -> float:
        """Rows that a scan of a state, the content or the held change reads."""
        match op:
            case StateScan(name, _, _, part):
                rows = self.state(name).part(part)
            case HeldScan():
                rows = self.held
            case ResultScan():
                rows = self.content
        return UNCOUNTED_ROWS if rows is None else rows


UNKNOWN = StateRows()
NOTHING_COUNTED = KeptRows()
