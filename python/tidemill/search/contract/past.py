"""What earlier runs of a view took, beside what was estimated for them: it corrects the next choice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from tidemill.search.contract.kinds import RunKind

LEAST = 500.0
"""CPU milliseconds below which a run's fixed costs say more than its plan."""
ALIKE = 4.0
"""Runs whose estimates differ by no more than this factor are alike; of others nothing follows."""
LATEST = 5
"""Runs alike that count, the newest."""


@dataclass(frozen=True, slots=True)
class PastRun:
    """A run that was carried out; costs in CPU milliseconds."""

    kind: RunKind
    estimated: float
    measured: float


@dataclass(frozen=True, slots=True)
class Past:
    """The view's last runs, the newest first. What is not among them is forgotten, so that it can be tried again."""

    runs: Sequence[PastRun] = ()

    def likely(self, kind: RunKind, estimated: float) -> float | None:
        """What a run of a kind and an estimate is likely to take; None if no run like it was measured.

        Its estimate times the median of measured by estimated cost over the latest runs alike.

        >>> past = Past([PastRun("FULL", 1000, 3000), PastRun("FULL", 1000, 2000), PastRun("FULL", 9000, 9000)])
        >>> past.likely("FULL", 2000), past.likely("FULL", 100), past.likely("INCREMENTAL", 1000)
        (5000.0, None, None)
        """
        alike = [
            run.measured / run.estimated
            for run in self.runs
            if run.kind == kind
            and run.measured >= LEAST
            and 0 < run.estimated <= ALIKE * estimated
            and estimated <= ALIKE * run.estimated
        ]
        return estimated * median(alike[:LATEST]) if alike else None


NOTHING_PAST = Past()
