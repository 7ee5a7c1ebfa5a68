"""The occasion of a run, and where its time went since then."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log10

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
from tidemill.search.contract.learned import APPLYING, NOTHING_LEARNED, Learned, Seen
from tidemill.search.contract.past import NOTHING_PAST, Past, PastRun
from tidemill.search.contract.run_plan import RunPlan

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


def likely_cost(view: View, plan: RunPlan) -> float:
    """Returns the estimate of a run: its plan's, corrected by what its steps took in earlier runs."""
    likely, more = _lessons_for(view, plan), 0.0
    for names, estimate in (*_estimates(plan).values(), (_names(plan, APPLYING), plan.applying)):
        corrected = likely.cost(plan.kind, names, estimate)
        more += 0.0 if corrected is None else corrected - estimate
    return float(plan.estimated) + more


def beside_estimates(view: View, plan: RunPlan, spent: Iterable[StepSpent]) -> Iterator[StepSpent]:
    """Yields what each step took, with what was expected of it; of applying the first time in the first step of it."""
    planned, likely, applying = {step.name: step for step in plan.steps}, _lessons_for(view, plan), plan.applying
    estimates = _estimates(plan)
    for each in spent:
        step, cost = planned.get(each.step), None
        if step is None:
            cost = likely.cost(plan.kind, _names(plan, f"{APPLYING}: {each.step}"), plan.applying)
            cost, applying = (cost, 0.0) if cost is not None else (applying or None, 0.0)
        elif each.step in estimates:
            names, estimate = estimates[each.step]
            corrected = likely.cost(plan.kind, names, estimate)
            cost = estimate if corrected is None else corrected
        rows = None if step is None or step.volume.written is None else round(step.volume.written)
        yield replace(each, estimated_cost=None if cost is None else round(cost, 3), estimated_rows=rows)


def _estimates(plan: RunPlan) -> dict[str, tuple[Sequence[str], float]]:
    """Returns the plan's estimates in CPU milliseconds of its steps, by name, each with the names of its lessons."""
    return {s.name: (_names(plan, s.name), s.volume.cost) for s in plan.steps if s.volume.cost is not None}


def _names(plan: RunPlan, name: str) -> Sequence[str]:
    """Returns the names of the lessons of a step, or of applying: among steps of as many rows, and among all."""
    volumes = [s.volume for s in plan.steps if s.name == name] or [s.volume for s in plan.steps if s.target == "delta"]
    rows = max((max(v.read, v.written or 0.0) for v in volumes), default=0.0)
    return f"{name} of 10^{int(log10(max(1.0, rows)))} rows", name


def _lessons_for(view: View, plan: RunPlan) -> Learned:
    """Returns the lessons that correct a plan's estimates: none where the unit of cost is not time, whose estimates
    are counts."""
    head = view.head
    if plan.counts or head is None or head.definition != view.definition.number:
        return NOTHING_LEARNED
    return head.learned


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


def lessons(view: View, plan: RunPlan, row: RunRow, spent: Iterable[StepSpent]) -> tuple[Past, Learned]:
    """Returns what runs of the view's definition took, and by what factors their estimates were off, this run included.
    A run that fills the view does not count."""
    head = view.head if view.head is not None and view.head.filled else None
    if head is None or head.definition != view.definition.number:
        return NOTHING_PAST, NOTHING_LEARNED
    if row.measured_cost is None or plan.counts or plan.kind == "PARTIAL":  # only times are compared
        return head.past, head.learned
    key = (view.location, plan.kind)
    cold = _WARM.get(key) is None
    _WARM.put(key, True)
    past = head.past.then(PastRun(plan.kind, plan.estimated, row.measured_cost, cold))
    spent = list(spent)
    learned = head.learned.costs_after(plan.kind, _costs(plan, spent), cold=cold)
    if plan.kind == "INCREMENTAL":
        learned = learned.sizes_after(_changes(plan, {each.step: each.rows for each in spent}))
    return past, learned


def _costs(plan: RunPlan, spent: Iterable[StepSpent]) -> Iterator[Seen]:
    """Yields what steps took beside their estimates, under each of their names; and what applying took, in sum, and of
    each of its steps as a part of that."""
    estimates, applying = _estimates(plan), 0.0
    for each in spent:
        names, estimate = estimates.get(each.step) or (_names(plan, f"{APPLYING}: {each.step}"), plan.applying)
        yield from (Seen(name, estimate, each.cpu_ms) for name in names)
        applying += 0.0 if each.step in estimates else each.cpu_ms
    if applying or plan.applying:
        yield from (Seen(name, plan.applying, applying) for name in _names(plan, APPLYING))


def _changes(plan: RunPlan, written: Mapping[str, int | None]) -> Iterator[Seen]:
    """Yields the rows of the changes of the view and of states: as expected, and as written by steps."""
    for step in plan.steps:
        expected, counted = step.volume.written, written.get(step.name)
        if step.change_of is not None and expected is not None and counted is not None:
            yield Seen(step.change_of, expected, counted)


def tells_readers(view: View, situation: Situation, lost: Lost) -> bool:
    """Returns True if a run that makes the content anew tells the views above what it changes.

    There must be such views, and the content must be readable and have the columns of the new one.
    """
    head = view.head
    if head is None or not head.filled or lost.content is not None or not situation.settings.tell_changes:
        return False
    return view.columns_stay and leases.taken(view)
