"""The occasion of a run, and where its time went since then."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from tidemill.bridge.jvm import Jvm
from tidemill.bridge.walls import NANOSECONDS, Part
from tidemill.recent import Recent
from tidemill.runtime.before.situation import Situation
from tidemill.runtime.run import reports
from tidemill.runtime.view import leases, split
from tidemill.runtime.view.fired import NOTHING_FIRED, Fired
from tidemill.runtime.view.history import RunRow
from tidemill.runtime.view.record import RunRecord
from tidemill.runtime.view.split import StepSpent
from tidemill.runtime.view.views import Lost, View
from tidemill.search.contract.past import NOTHING_PAST, Past, PastRun
from tidemill.search.contract.run_plan import RunPlan, Volume

_WARM: Recent[tuple[str, str], bool] = Recent(most=10_000)
"""The kinds of runs that this process has executed, by the locations of views."""


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


def beside_estimates(plan: RunPlan, spent: Iterable[StepSpent]) -> Iterator[StepSpent]:
    """Yields what each step took, with what the plan estimates of it; of applying, in the first step that does so."""
    volumes = {step.name: step.volume for step in plan.steps}
    applying = Volume(cost=plan.applying)
    for step in spent:
        if (volume := volumes.get(step.step)) is None:
            volume, applying = applying, Volume()
        rows = None if volume.written is None else round(volume.written)
        cost = None if volume.cost is None else round(volume.cost, 3)
        yield replace(step, estimated_cost=cost, estimated_rows=rows)


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


def past_with(view: View, plan: RunPlan, row: RunRow) -> Past:
    """Returns what runs of the view's definition took, this one included. A run that fills it does not count."""
    head = view.head if view.head is not None and view.head.filled else None
    if head is None or head.definition != view.definition.number:
        return NOTHING_PAST
    if row.measured_cost is None or plan.arrivals is not None or plan.kind == "PARTIAL":  # only times are compared
        return head.past
    key = (view.location, plan.kind)
    cold = _WARM.get(key) is None
    _WARM.put(key, True)
    return head.past.then(PastRun(plan.kind, plan.estimated, row.measured_cost, cold))


def tells_readers(view: View, situation: Situation, lost: Lost) -> bool:
    """Returns True if a run that makes the content anew tells the views above what it changes.

    There must be such views, and the content must be readable and have the columns of the new one.
    """
    head = view.head
    if head is None or not head.filled or lost.content is not None or not situation.settings.tell_changes:
        return False
    return view.columns_stay and leases.taken(view)
