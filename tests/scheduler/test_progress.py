"""How far a cycle has come, by EXPECT and by earlier cycles."""

from __future__ import annotations

from collections.abc import Mapping

from tidemill.runtime.scheduler.progress import progress
from tidemill.runtime.view.arrivals import Arrived, ArrivedRows, ObservedRun, Outlook
from tidemill.sql.statements import Expectation, OnDemand, Point

TWO = (Point(OnDemand(), output=False), Point(OnDemand()))
DAY = 86400.0


def run(number: int | None, at: float, last: bool, since: int | None, **rows: ArrivedRows | None) -> ObservedRun:
    return ObservedRun(number, at, Arrived("", last, since, rows), created=number == 0)


def outlook(*runs: ObservedRun, expect: Mapping[str, Expectation] | None = None) -> Outlook:
    return Outlook(TWO, expect or {}, runs)


CREATED = run(0, 0.0, True, None)


def test_expected_rows() -> None:
    both = {"t": Expectation(("t",), 80), "u": Expectation(("u",), 20)}
    now = run(None, 10.0, False, 0, t=(20, 10), u=(20, 0))
    assert progress(outlook(CREATED, now, expect=both), ["t", "u"]) == 0.5
    none = {**both, "u": Expectation(("u",), 0)}
    assert progress(outlook(CREATED, now, expect=none), ["t", "u"]) == 50 / 80
    complete = {**both, "u": Expectation(("u",))}
    assert progress(outlook(CREATED, now, expect=complete), ["t"]) == 30 / 80


def test_nobody_knows() -> None:
    now = run(None, 10.0, False, 0, t=(20, 10))
    assert progress(outlook(CREATED, now), ["t"]) is None
    assert progress(outlook(CREATED, now, expect={"t": Expectation(("t",), 0)}), ["t"]) is None
    assert progress(outlook(), ["t"]) is None


def test_earlier_cycles() -> None:
    runs = (
        CREATED,
        run(1, 10.0, False, 0, t=(5, 0)),
        run(2, 20.0, True, 0, t=(10, 0)),
        run(3, 40.0, True, 2, t=(30, 0)),
        run(4, 60.0, True, 3, t=(20, 0)),
    )
    assert progress(outlook(*runs, run(None, 70.0, False, 4, t=(5, 0))), ["t"]) == 5 / 20
    # a run with output within the cycle does not begin another one
    within = run(5, 70.0, False, 4, t=(5, 0))
    assert progress(outlook(*runs, within, run(None, 80.0, False, 5, t=(5, 0))), ["t"]) == 10 / 20


def test_rows_per_day() -> None:
    daily = {"t": Expectation(("t",), 100, "DAY")}
    first = run(None, 10.0, False, 0, t=(50, 0))
    assert progress(outlook(CREATED, first, expect=daily), ["t"]) == 0.5
    runs = (CREATED, run(1, 2 * DAY, True, 0, t=(200, 0)))
    assert progress(outlook(*runs, run(None, 2.5 * DAY, False, 1, t=(50, 0)), expect=daily), ["t"]) == 0.25


def test_a_cycle_of_more_runs_than_are_read() -> None:
    """The run that ended the last cycle is not among them; what came since the content is known all the same."""
    runs = [run(n, 100.0 * n, False, 0, t=(n, 0)) for n in range(30, 90)]
    now = run(None, 9000.0, False, 0, t=(90, 0))
    assert progress(outlook(*runs, now, expect={"t": Expectation(("t",), 100)}), ["t"]) == 0.9
