"""Performs one run of a view with pinned sources: decides if there is anything to do, plans, runs, makes the row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from tidemill.bridge.jvm import Jvm
from tidemill.runtime.before import planning
from tidemill.runtime.before.planning import PlanInputs
from tidemill.runtime.before.situation import Situation
from tidemill.runtime.run import attempt, reports
from tidemill.runtime.run.netting import without_unseen_changes
from tidemill.runtime.run.occasion import Occasion, publish, tells_readers
from tidemill.runtime.view.arrivals import ObservedRun
from tidemill.runtime.view.budget import over
from tidemill.runtime.view.history import RunRow
from tidemill.runtime.view.record import RunRecord
from tidemill.runtime.view.views import Lost, View
from tidemill.search.contract.lessons import likely_cost
from tidemill.search.contract.run_kinds import GRADUAL
from tidemill.search.contract.run_plan import RunPlan


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of a run. `full`: recompute. `output`: change the content. `dry`: only plan."""

    occasion: Occasion
    full: bool = False
    output: bool = True
    dry: bool = False


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """The row of a run, and the newest record of the view after it (None: the view has none)."""

    row: RunRow
    head: RunRecord | None


def perform(jvm: Jvm, working: Jvm, view: View, situation: Situation, wanted: RunOptions) -> RunOutcome:
    """Runs `view` at the positions of `situation`. `jvm`: the caller's session, which is told of the new content.

    Raises TIDEMILL_NOT_INCREMENTAL (STRICT), TIDEMILL_CONCURRENT_REFRESH. After any error nothing of the run is left.
    """
    occasion = wanted.occasion
    with jvm.walls.part("opening"):
        lost = view.lost() if situation.head is not None else Lost(None, {})
    if situation.idle and not (wanted.full or lost or over(situation.head, situation.terms.budget)):
        row = _no_data(jvm, view, situation, occasion)
        if not wanted.dry:
            reports.tell(row)
        return RunOutcome(row, view.head)

    def inputs(lost: Lost, *, crowded: bool = False) -> PlanInputs:
        refill = f"STATE_LOST: {lost.content}" if lost.content is not None else None
        forced = planning.forced(situation, wanted.full)
        tells = tells_readers(view, situation, lost) and not (forced is None and situation.policy in GRADUAL)
        return PlanInputs(
            forced,
            lost.states,
            refill,
            past=view.past(),
            learned=view.learned(situation.settings),
            tells=tells,
            crowded=crowded,
        )

    def planned(lost: Lost, *, crowded: bool = False) -> RunPlan:
        with jvm.walls.part("planning"):
            if not wanted.output:
                return _early(view, situation, occasion, lost)
            return planning.plan_again(situation, inputs(lost, crowded=crowded))

    may_work = lost.content is None and planning.may_work_early(situation)
    plan = planned(lost) if wanted.output or may_work else None
    if plan is None or not (plan.steps or wanted.output):
        if wanted.dry:
            return RunOutcome(attempt.row_of(view, occasion, "PARTIAL", situation), view.head)
        record = attempt.run_without_output(jvm, view, situation, occasion)
        publish(jvm, view, record, occasion)
        return RunOutcome(record.row, record)
    if wanted.dry:
        row = attempt.row_of(view, occasion, plan.kind, situation)
        row = replace(
            row,
            reason=plan.reason,
            methods=tuple(plan.methods),
            estimated_cost=likely_cost(view.learned(situation.settings), plan),
        )
        return RunOutcome(row, view.head)
    if wanted.output and (seen := without_unseen_changes(working, view, situation, plan)) is not situation:
        with jvm.walls.part("planning"):
            situation, plan = seen, planning.plan_again(seen, inputs(lost))

    def made(now: Lost) -> RunPlan:
        return plan if now == lost else planned(now)

    record = attempt.run(working, view, situation, made, occasion, lost, partial(planned, crowded=True))
    publish(jvm, view, record, occasion, jvm if wanted.output else None)
    return RunOutcome(record.row, record)


def _early(view: View, situation: Situation, occasion: Occasion, lost: Lost) -> RunPlan:
    arrived = situation.arrived(view.definition.create.schedule, occasion.point)
    outlook = view.outlook(ObservedRun(None, occasion.started_at / 1e6, arrived))
    return planning.early(situation, occasion.point, outlook, lost.states)


def _no_data(jvm: Jvm, view: View, situation: Situation, occasion: Occasion) -> RunRow:
    """Returns the row of a run that had nothing to do: it has no files and no number. Jobs are Delta's, which may read
    the log of a table that the session has not seen before."""
    head, spent = view.head, jvm.spent.take()
    assert head is not None, "a view that was never run always has something to do"
    return replace(
        attempt.row_of(view, occasion, "NO_DATA", situation),
        run=head.run,
        duration_ms=occasion.elapsed_ms(),
        cpu_ms=round(spent.cpu_ms),
        jobs=spent.jobs,
        estimated_cost=0.0,
        measured_cost=0.0,
        state_bytes=head.state_bytes,
        rows_read=0,
    )
