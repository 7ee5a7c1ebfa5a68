"""Judges the history of a view after a month by the almanac and by the list of what happened: which runs there must be,
which there may be, and which not.

Where a service was killed, nobody knows if it had noted that there was no data. So instants are known to be dealt with
up to one time, and perhaps up to a later one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from pyspark.sql import Row

from tests.scheduler.months.almanac import Due, Timed, allowed

LONGEST_WAIT = 3600.0
"""Most seconds for which a view is left alone that failed."""
FIRST_WAIT = 60.0


@dataclass(frozen=True)
class Kept:
    """A view of the month. `reads`: its tables. `above`: the view that it reads."""

    name: str
    query: str
    reads: frozenset[str]
    schedule: Sequence[Timed]
    zone: str = "UTC"
    above: str | None = None
    clauses: str = ""


@dataclass(frozen=True)
class Step:
    """A moment at which services looked. `at`: what their clock showed. `services`: how many there were. `killed`: one
    of them was killed before it had done all.

    `changed`: of each table the rows that came or went since the step before. `broken`, `resting`, `by_hand`: views
    that cannot be run, that are suspended, and that were refreshed by hand right before it.
    """

    at: float
    services: int
    killed: bool
    changed: Mapping[str, int]
    broken: frozenset[str] = frozenset()
    resting: frozenset[str] = frozenset()
    by_hand: frozenset[str] = frozenset()


@dataclass
class Standing:
    """How a view stands. `surely`, `perhaps`: up to when the instants of its points are dealt with. `unread`: tables
    have changed since its last run; `untold`: since its last output. `rows`: that came since then."""

    surely: float
    perhaps: float
    unread: bool = False
    untold: bool = False
    rows: int = 0
    progressed: bool = False
    """The point of progress has fired in this cycle."""
    retried: float = float("-inf")
    """A view that failed is tried again by then."""
    fresh: bool = False
    """The view that it reads was run at this very step, by a service that need not know of this view's run."""
    doubt: bool = False
    """Its last run may have read less than there was."""
    outputs: dict[int, bool | None] = field(default_factory=dict)
    """By step, whether the run there changed the content; None: nobody counted."""


def judge(kept: Kept, points: Due, steps: Sequence[Step], history: Sequence[Row], below: Standing | None) -> Standing:
    """Goes through the month of a view. Returns how it stands in the end.

    `history`: the rows of SHOW REFRESHES, oldest first. `below`: how the view stands that it reads.
    """
    runs = [row for row in history if row.kind != "FAILED"]
    assert [row.run for row in runs] == list(range(len(runs))), f"{kept.name}: a gap in its history"
    fired = [row for row in runs if row.trigger not in ("CREATE", "MANUAL")]
    found = {seconds(row): row for row in fired}
    assert len(found) == len(fired), f"{kept.name}: two runs at one time"
    assert found.keys() <= {step.at for step in steps}, f"{kept.name}: a run at no step"
    standing = Standing(float("-inf"), float("-inf"))
    for number, step in enumerate(steps):
        _arrive(kept, standing, step, number, below)
        if kept.name in step.broken:
            standing.retried = max(standing.retried, step.at + LONGEST_WAIT)
        if (row := found.get(step.at)) is not None:
            _ran(kept, standing, points, step, row)
            out = row.rows_out
            standing.outputs[number] = None if out is None or out.inserts is None else out.inserts + out.deletes > 0
        else:
            _did_not_run(kept, standing, points, step)
    return standing


def seconds(row: Row) -> float:
    """When a run began, to the millisecond."""
    return round(float(row.started_at.timestamp()), 3)


def _arrive(kept: Kept, standing: Standing, step: Step, number: int, below: Standing | None) -> None:
    came = sum(rows for table, rows in step.changed.items() if table in kept.reads)
    told = below.outputs.get(number, False) if below is not None else False
    if came or (told and step.services == 1 and not step.killed):
        standing.unread = standing.untold = True
        standing.rows += came
    elif told or told is None:
        standing.fresh = True
    if kept.name in step.by_hand:
        standing.unread = standing.untold = standing.progressed = False
        standing.rows = 0


def _ran(kept: Kept, standing: Standing, points: Due, step: Step, row: Row) -> None:
    where = f"{kept.name} at {step}: {row}"
    assert kept.name not in step.broken | step.resting, where
    assert row.view.rsplit(".", 1)[1] == kept.name
    may = set[int]()
    for dealt in (standing.surely, standing.perhaps):
        for arrived in _arrivals(kept, standing, perhaps=True):
            due = points.between(dealt, step.at) | dict.fromkeys(arrived, step.at)
            if due:
                may |= set(allowed(kept.schedule, due))
    assert row.point in may, f"doubled, or at another point than {may}: {where}"
    point = kept.schedule[row.point - 1]
    assert row.trigger == ("CHANGE" if point.text.startswith("ON CHANGE") else "SCHEDULE"), where
    assert row.kind in (("FULL", "INCREMENTAL") if point.output else ("PARTIAL",)), where
    standing.surely, standing.perhaps = max(standing.surely, step.at), max(standing.perhaps, step.at)
    standing.unread, standing.doubt, standing.fresh = False, standing.fresh, False
    if point.text.startswith("AT PROGRESS"):
        assert not standing.progressed, f"twice in a cycle: {where}"
        standing.progressed = True
    if row.point == len(kept.schedule):
        standing.progressed = False
    if point.output:
        standing.untold, standing.rows = False, 0


def _did_not_run(kept: Kept, standing: Standing, points: Due, step: Step) -> None:
    _owed(kept, standing, points, step)
    if standing.fresh:  # it was not read
        standing.unread = standing.untold = True
        standing.fresh = False


def _owed(kept: Kept, standing: Standing, points: Due, step: Step) -> None:
    if kept.name in step.broken | step.resting or step.at <= standing.retried:
        return
    if step.killed:
        standing.perhaps = max(standing.perhaps, step.at)
        return
    for arrived in _arrivals(kept, standing, perhaps=False):
        due = points.between(standing.perhaps, step.at) | dict.fromkeys(arrived, step.at)
        if due:
            output = all(kept.schedule[n - 1].output for n in allowed(kept.schedule, due))
            assert not (standing.untold if output else standing.unread), f"lost: {kept.name} at {step}, {standing}"
    standing.surely, standing.perhaps = max(standing.surely, step.at), max(standing.perhaps, step.at)


def _arrivals(kept: Kept, standing: Standing, *, perhaps: bool) -> Iterator[Collection[int]]:
    """The points whose data is there. `perhaps`: all that may be, in any way; else only those that surely are."""
    surely, may = set[int](), set[int]()
    for number, point in enumerate(kept.schedule, 1):
        if point.text.startswith("ON CHANGE"):
            wanted = re.search(r"AFTER (\d+) ROWS", point.text)
            if standing.unread and (wanted is None or standing.rows >= int(wanted[1])):
                surely.add(number)
            elif standing.fresh or standing.doubt:
                may.add(number)
        elif point.text.startswith("AT PROGRESS") and standing.untold and not standing.progressed:
            may.add(number)
    yield surely
    if perhaps:
        yield surely | may


def waits(failures: Sequence[Row]) -> list[float]:
    """Between one failure of a view and the next the seconds of the clock, those of one moment left out."""
    return [later - earlier for earlier, later in pairwise(sorted({seconds(row) for row in failures}))]
