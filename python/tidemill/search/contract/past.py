"""Measured costs of earlier runs of a view, beside their estimates; they correct later choices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from tidemill.search.contract.run_kinds import RunKind

LEAST = 500.0
"""Smallest CPU milliseconds of a run that count: below, fixed costs hide those of its plan."""
ALIKE = 4.0
"""Largest factor between the estimates of two comparable runs."""
LATEST = 5
"""Largest number of comparable runs that count, the newest first."""
SHARED_ERROR = 0.5
"""Fraction of an estimate's error, as a logarithm, that the estimate of the other kind of run is taken to share. Errors
in sizes, and how fast the machine is, concern both kinds; errors in the costs of operators concern one. A wrong guess
is measured once and then known of both kinds, while a kind that is never tried is never measured."""


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

    def likely(self, kind: RunKind, estimated: float) -> float | None:
        """Likely CPU milliseconds of a run of this kind and estimate; None if no comparable run was measured.

        The estimate times the median ratio of measured to estimated cost over the latest comparable runs.

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

    def compared(self, one: tuple[RunKind, float], other: tuple[RunKind, float]) -> tuple[float, float]:
        """Likely CPU milliseconds of two runs, each given by its kind and estimate.

        If only one kind was measured, the estimate of the other is corrected by a part of the same error; if none was,
        the estimates stay as they are.

        >>> Past([PastRun("FULL", 1000, 4000)]).compared(("FULL", 1000), ("INCREMENTAL", 1500))
        (4000.0, 3000.0)
        """
        found = [(self.likely(kind, estimated), estimated) for kind, estimated in (one, other)]
        errors = [likely / estimated for likely, estimated in found if likely is not None]
        shared = errors[0] ** SHARED_ERROR if errors else 1.0
        first, second = (estimated * shared if likely is None else likely for likely, estimated in found)
        return first, second


NOTHING_PAST = Past()
