"""Measured costs of earlier runs of a view, beside their estimates; they correct later choices."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from statistics import median

from tidemill.search.contract.run_kinds import RunKind

LEAST = 500.0
"""Smallest CPU milliseconds of a run that count: below, fixed costs hide those of its plan."""
ALIKE = 4.0
"""Largest factor between the estimates of two comparable runs."""
LATEST = 5
"""Largest number of comparable runs that count, the newest first."""


@dataclass(frozen=True, slots=True)
class PastRun:
    """An executed run; costs in CPU milliseconds."""

    kind: RunKind
    estimated: float
    measured: float


@dataclass(frozen=True, slots=True)
class Past:
    """The view's last runs, the newest first. Older runs are forgotten, so that their plans can be tried again."""

    runs: Sequence[PastRun] = ()

    def counting(self, kinds: Collection[RunKind]) -> list[PastRun]:
        """Returns the runs of these kinds that are large enough to count."""
        return [run for run in self.runs if run.kind in kinds and run.measured >= LEAST and run.estimated > 0]

    def likely(self, kind: RunKind, estimated: float) -> float | None:
        """Likely CPU milliseconds of a run of this kind and estimate; None if no comparable run was measured.

        The estimate times the median ratio of measured to estimated cost over the latest comparable runs.

        >>> past = Past([PastRun("FULL", 1000, 3000), PastRun("FULL", 1000, 2000), PastRun("FULL", 9000, 9000)])
        >>> past.likely("FULL", 2000), past.likely("FULL", 100), past.likely("INCREMENTAL", 1000)
        (5000.0, None, None)
        """
        alike = [
            run.measured / run.estimated
            for run in self.counting({kind})
            if run.estimated <= ALIKE * estimated and estimated <= ALIKE * run.estimated
        ]
        return estimated * median(alike[:LATEST]) if alike else None


NOTHING_PAST = Past()
