"""The progress of a cycle, for AT PROGRESS: the rows that arrived in it, as a share of those that are expected."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from tidemill.runtime.view.arrivals import CYCLES, ObservedRun, Outlook, intervals
from tidemill.sql.schedule import DAY


def progress(outlook: Outlook, sources: Iterable[str]) -> float | None:
    """Returns the share that has arrived at `sources` in this cycle (more than 1: more than expected); None if nobody
    knows what to expect, or nothing is expected.

    The last run of `outlook` is the present, with the arrivals up to now. What EXPECT says counts first, else the
    median of the last finished cycles.

    >>> from tidemill.runtime.view.arrivals import Arrived, ObservedRun
    >>> from tidemill.sql.statements import Expectation, OnDemand, Point
    >>> present = Arrived("", False, 0, {"t": (3, 1)})
    >>> runs = (ObservedRun(0, 0.0, Arrived("", True, None, {})), ObservedRun(None, 9.0, present))
    >>> progress(Outlook([Point(OnDemand())], {"t": Expectation(("t",), 16)}, runs), ["t"])
    0.25
    >>> progress(Outlook([Point(OnDemand())], {}, runs), ["t"])
    """
    arrived, expected = 0.0, 0.0
    for source in sources:
        wanted = _expected(outlook, source)
        if wanted is None:
            return None
        expected += wanted
        # Of a long cycle the outlook may not have all runs; the content is of this cycle, or of the run that ended it.
        known = outlook.runs[-1].arrived.rows.get(source) if outlook.runs else None
        arrived += max(_rows(outlook.present_cycle, source), sum(known or ()))
    return arrived / expected if expected > 0 else None


def _expected(outlook: Outlook, source: str) -> float | None:
    """Returns the rows that a cycle brings; None if nobody knows."""
    said, finished = outlook.expect.get(source), outlook.cycles[-CYCLES:]
    if said is None or (said.rows is None and outlook.over):
        return median(_rows(runs, source) for runs in finished) if finished else None
    if said.rows is None:
        return 0.0
    if said.per != "DAY":
        return float(said.rows)
    return said.rows * (median(runs[-1].at - runs[0].at for runs in finished) / DAY if finished else 1.0)


def _rows(runs: Sequence[ObservedRun], source: str) -> float:
    return sum(sum(interval.rows) for interval in intervals(runs, source))
