"""The occasion of a run, where its time went since then, and what that teaches."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tidemill.bridge.jvm import Jvm
from tidemill.bridge.walls import NANOSECONDS, Part
from tidemill.recent import Recent
from tidemill.runtime.before.situation import Situation
from tidemill.runtime.run import reports
from tidemill.runtime.view import leases, split
from tidemill.runtime.view.arrivals import Arrived
from tidemill.runtime.view.fired import NOTHING_FIRED, Fired, other_tables
from tidemill.runtime.view.history import RunRow
from tidemill.runtime.view.record import RunRecord
from tidemill.runtime.view.split import StepSpent
from tidemill.runtime.view.views import Lost, View
from tidemill.search.contract.cycles import NO_CYCLES, Cycles
from tidemill.search.contract.learned import NOTHING_LEARNED, Learned
from tidemill.search.contract.lessons import likely_costs, taught
from tidemill.search.contract.past import NOTHING_PAST, Past, PastRun
from tidemill.search.contract.run_plan import RunPlan
from tidemill.sources.adapters import mark
from tidemill.sql.statements import OnChange

_WARM: Recent[tuple[str, ...], bool] = Recent(most=10_000)
"""The kinds of runs that this process has executed, and the methods of incremental ones, by the locations of views."""


@dataclass(frozen=True, slots=True)
class Occasion:
    """The cause of a run: number of the point, its trigger as in SHOW REFRESHES, and the time (epoch microseconds).

    `began`: the same by the clock that durations are measured with, in nanoseconds. `walls`: the nanoseconds of parts
    that its thread had spent before. `deals`: with what of the schedule the run deals; nothing if a user asked for it.
    """

    point: int
    trigger: str
    started_at: int
    began: int
    walls: Mapping[Part, int]
    deals: Fired = NOTHING_FIRED

    @staticmethod
    def now(jvm: Jvm, point: int, trigger: str) -> Occasion:
        return Occasion(point, trigger, time.time_ns() // 1000, time.perf_counter_ns(), jvm.walls.totals())

    def elapsed_ms(self) -> int:
        return (time.perf_counter_ns() - self.began) // NANOSECONDS


def with_split(
    jvm: Jvm, view: View, record: RunRecord, occasion: Occasion, steps: Iterable[StepSpent] = ()
) -> RunRecord:
    """Returns the record of a run, whose duration has just ended, with where its time went."""
    told = split.split_of(view.location, record.row.duration_ms or 0, jvm.walls.since(occasion.walls))
    return replace(record, split=told, steps=tuple(steps))


def beside_estimates(learned: Learned, plan: RunPlan, spent: Sequence[StepSpent]) -> Iterator[StepSpent]:
    """Yields what each step took, with what was expected of it."""
    written = {step.name: step.volume.written for step in plan.steps}
    for each, cost in zip(spent, likely_costs(learned, plan, spent), strict=True):
        rows = written.get(each.step)
        yield replace(
            each,
            estimated_cost=None if cost is None else round(cost, 3),
            estimated_rows=None if rows is None else round(rows),
        )


def publish(jvm: Jvm, view: View, record: RunRecord, occasion: Occasion, readers: Jvm | None = None) -> None:
    """Publishes a run, and tells observers of it. The process remembers what it has taken, by part, since its duration
    ended.

    `readers`: a session that is to read the new content, in cached plans too.
    """
    try:
        with jvm.walls.part("publishing"):
            view.publish(record)
            if readers is not None:
                view.refresh_readers(readers)
        told = record.split.wall_ms if record.split is not None else {}
        since = {part: ms - told.get(part, 0) for part, ms in jvm.walls.since(occasion.walls).items()}
        split.note_after(view.location, record.run, {part: ms for part, ms in since.items() if ms > 0})
    finally:  # it is committed
        reports.tell(record.row, record.steps)


def lessons(view: View, plan: RunPlan, row: RunRow, spent: Sequence[StepSpent]) -> tuple[Past, Learned]:
    """Returns what runs of the view's definition took, and by what factors their estimates were off, this run included.
    A run that fills the view does not count."""
    head = view.head if view.head is not None and view.head.filled else None
    if head is None or head.definition != view.definition.number:
        return NOTHING_PAST, NOTHING_LEARNED
    if row.measured_cost is None or plan.arrivals is not None or plan.kind == "PARTIAL":  # only times are compared
        return head.past, head.learned
    methods = () if plan.kind == "FULL" else plan.methods
    # Methods change with sizes: lessons are by step, so they need no run of the same methods before.
    cold = _is_new(view.location, plan.kind)
    new = _is_new(view.location, plan.kind, *methods) if methods else cold
    past = head.past.then(PastRun(plan.kind, plan.estimated, row.measured_cost, new, methods))
    return past, taught(head.learned, plan, spent, cold=cold)


def _is_new(*what: str) -> bool:
    """Returns True if this process asks for the first time."""
    new = _WARM.get(what) is None
    _WARM.put(what, True)
    return new


def fired_after(view: View, situation: Situation, occasion: Occasion) -> Fired:
    """Returns what of the schedule was dealt with after the run."""
    before = view.head.fired if view.head is not None else NOTHING_FIRED
    points = view.definition.create.schedule
    watches = any(isinstance(point.trigger, OnChange) for point in points)
    seen = {s.name: mark(s.position) for s in situation.sources_at()} if watches else {}
    ended = view.next_run if occasion.point == len(points) else before.ended
    entries = other_tables(view.definition.sources, (s.entry for s in situation.query.sources.values()))
    return replace(before.then(occasion.deals), seen=seen, ended=ended, entries=entries)


def cycles_after(view: View, number: int, arrived: Arrived, occasion: Occasion) -> Cycles:
    """Returns what came in the last cycles of the view's definition, with the rows that this run has read."""
    head = view.head if view.head is not None and view.head.filled else None
    if head is None or head.definition != view.definition.number:
        return NO_CYCLES
    price = view.definition.create.schedule[occasion.point - 1].cost
    return head.cycles.then(number, arrived.rows, last=arrived.last, price=price)


def tells_readers(view: View, situation: Situation, lost: Lost) -> bool:
    """Returns True if a run that makes the content anew tells the views above what it changes.

    There must be such views, and the content must be readable and have the columns of the new one.
    """
    head = view.head
    if head is None or not head.filled or lost.content is not None or not situation.settings.tell_changes:
        return False
    return view.columns_stay and leases.taken(view)
