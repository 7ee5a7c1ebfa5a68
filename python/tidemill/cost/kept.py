"""Rows of what earlier runs kept: states, the view's content, and its change that is held back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidemill.cost.guesses import UNCOUNTED_ROWS
from tidemill.plan.ops import HeldScan, ResultScan, StateScan


@dataclass(frozen=True, slots=True)
class StateRows:
    """Rows of a state; what is None was not counted.

    Attributes:
        whole: of all its pieces.
        segments: of all pieces but the first.
        before: of the pieces that were there when the view's content was made.
        since: of those that have come since.
    """

    whole: float | None = None
    segments: float = 0.0
    before: float | None = None
    since: float | None = None

    def part(self, name: str) -> float | None:
        """Rows of a part as a `StateScan` names it; of the whole, if the part was not counted."""
        apart = {"before": self.before, "since": self.since}.get(name)
        return self.whole if apart is None else apart


@dataclass(frozen=True, slots=True)
class KeptRows:
    """Rows of what is kept; what is None was not counted.

    Attributes:
        states: by their names.
        content: the view's content.
        held: the view's change that is held back.
    """

    states: Mapping[str, StateRows] = field(default_factory=dict)
    content: float | None = None
    held: float | None = None

    def state(self, name: str) -> StateRows:
        """Rows of a state, also of one of which nothing is known."""
        return self.states.get(name, UNKNOWN)

    def size(self, name: str) -> float:
        """Rows of all pieces of a state; 0 if they were not counted."""
        return self.state(name).whole or 0.0

    def read(self, op: StateScan | ResultScan | HeldScan) -> float:
        """Rows of what a scan of something kept reads."""
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
