"""One run of a view: executes the steps, applies the delta and commits. The caller publishes the run.

Everything before the commit can be thrown away; everything after it can be done again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from tidemill.bridge.jvm import Jvm, JvmFailure
from tidemill.cost.guesses import FILE_ROW_BYTES
from tidemill.plan.datatype import type_to_text
from tidemill.plan.query import count_field
from tidemill.runtime.before.situation import Situation
from tidemill.runtime.content import leaving
from tidemill.runtime.content import mark as marking
from tidemill.runtime.content.apply import Delta, apply_delta, is_small
from tidemill.runtime.content.jobs import SparkJobs
from tidemill.runtime.content.leaving import ResultColumn
from tidemill.runtime.content.places import PLACES, Sought
from tidemill.runtime.run import metrics
from tidemill.runtime.run.binder import Binder, binder_of
from tidemill.runtime.run.occasion import Occasion, beside_estimates, cycles_after, fired_after, lessons, with_split
from tidemill.runtime.run.steps import Outcome, carry_out
from tidemill.runtime.storage import writers
from tidemill.runtime.storage.files import UndecidedError, parent
from tidemill.runtime.storage.stage import Stage
from tidemill.runtime.view import leases
from tidemill.runtime.view.arrivals import Arrived
from tidemill.runtime.view.budget import over, within
from tidemill.runtime.view.history import ChangeCounts, RunRow
from tidemill.runtime.view.record import File, RunRecord, StoredPiece, StoredState
from tidemill.runtime.view.views import Lost, View
from tidemill.search.contract.learned import Learned
from tidemill.search.contract.lessons import likely_cost
from tidemill.search.contract.run_kinds import RunKind
from tidemill.search.contract.run_plan import RunPlan, StateSpec
from tidemill.sources.adapters import check_undisturbed


def row_of(view: View, occasion: Occasion, kind: RunKind, situation: Situation) -> RunRow:
    """Returns the row of a run of this kind, with the cells that are known before it runs."""
    return RunRow(
        run=None,
        view=view.definition.qualified,
        point=occasion.point,
        trigger=occasion.trigger,
        kind=kind,
        started_at=occasion.started_at,
        positions=situation.position_texts(),
    )


NOTHING_LOST = Lost(None, {})


def run(
    jvm: Jvm,
    view: View,
    situation: Situation,
    planned: Callable[[Lost], RunPlan],
    occasion: Occasion,
    lost: Lost = NOTHING_LOST,
    merging: Callable[[Lost], RunPlan] | None = None,
) -> RunRecord:
    """Executes the plan that `planned` makes, and commits the run. `jvm`: the working session.

    `lost`: the files of the last run that are known to be unreadable. If a job finds further damage, the run is planned
    and executed again without the damaged files. If states took more than the budget, it is executed once more by the
    plan of `merging`, which merges their pieces. The row counts all jobs.

    Raises TIDEMILL_CONCURRENT_REFRESH if another run committed first, TIDEMILL_RUN_GIVEN_UP if this one was taken for
    dead, and TIDEMILL_SOURCE_DISTURBED if a source changed under the run. After any error the run's files are gone.
    """
    while True:
        try:
            return _attempt(jvm, view, situation, planned(lost), occasion, may_merge=merging is not None)
        except _CrowdedError:
            assert merging is not None
            planned, merging = merging, None
        except JvmFailure as failure:
            found = lost | view.damaged(failure)
            if found == lost:
                with suppress(JvmFailure):  # a source may be gone
                    _check_undisturbed(jvm, view, situation)  # a disturbed source explains the failure better
                raise
            lost = found


class _CrowdedError(Exception):
    """The states of a run take more than the budget, and merging their pieces may make room."""


def _attempt(
    jvm: Jvm, view: View, situation: Situation, plan: RunPlan, occasion: Occasion, *, may_merge: bool
) -> RunRecord:
    """Returns the record of the committed run. Raises _CrowdedError if states `may_merge` instead of being given up."""
    number = view.next_run
    marked = writers.writing(view.files, view.location, view.definition.qualified)
    with jvm.walls.borders("commit", marked) as writer, Stage(view.files, view.location, number) as stage:
        query, name = situation.document["query"], view.definition.qualified
        execution = SparkJobs(jvm, query, name, number, situation.clock)
        binder, states = binder_of(view.head, situation), view.head.states if view.head else {}
        partitions = view.definition.create.partitioned_by
        outcome = carry_out(plan, situation, execution, binder, stage, states, partitions, _sought(view, plan))
        with jvm.walls.part("writing"):
            view.files.delete(outcome.emptied(plan))
        # Everything that reads the sources is done; what is looked at here is part of what the run costs.
        _check_undisturbed(jvm, view, situation)
        executed = _Executed(view, situation, plan, execution, binder, stage, number, outcome)
        if may_merge and executed.crowded:
            raise _CrowdedError
        record = _within_budget(executed, occasion)
        record = with_split(jvm, view, record, occasion, beside_estimates(executed.learned, plan, execution.spent))
        with jvm.walls.part("commit"):
            writer.confirm()
            try:
                view.log.commit(record)
            except UndecidedError:
                stage.keep()  # VACUUM removes the files if no commit names them
                raise
        stage.keep()
    with jvm.walls.part("commit"):
        leases.take(view, (s.entry for s in situation.query.sources.values()), record)
    return record


def _sought(view: View, plan: RunPlan) -> Sought:
    """Returns what the steps of a plan learn of rows that leave; nothing if no delta is applied."""
    head, columns = view.head, _columns(view)
    if head is None or not head.filled or any(s.target == "result" for s in plan.steps):
        return Sought()
    observed = leaving.observed_columns(columns, _keys(head, plan))
    return Sought(tuple(observed), () if is_small(head.files) else head.files)


def _columns(view: View) -> list[ResultColumn]:
    return [ResultColumn(c.name, type_to_text(c.type)) for c in view.definition.columns]


def _keys(head: RunRecord, plan: RunPlan) -> tuple[str, ...] | None:
    """Returns the columns that are a key of the view before and after the run; None if there is none."""
    return tuple(plan.keys) if plan.keys and head.keys and set(plan.keys) == set(head.keys) else None


def _check_undisturbed(jvm: Jvm, view: View, situation: Situation) -> None:
    entries = {n: s.entry for n, s in situation.query.sources.items()}
    with jvm.walls.part("sources"):
        check_undisturbed(jvm, view.definition.qualified, [*entries.values()], [situation.new[n] for n in entries])


def run_without_output(jvm: Jvm, view: View, situation: Situation, occasion: Occasion) -> RunRecord:
    """Commits a run without output at which no early work pays: it changes neither content nor positions."""
    head, spent = view.head, jvm.spent.take()
    row = replace(
        row_of(view, occasion, "PARTIAL", situation),
        run=view.next_run,
        rows_out=ChangeCounts(0, 0),
        duration_ms=occasion.elapsed_ms(),
        cpu_ms=round(spent.cpu_ms),
        jobs=spent.jobs,
        estimated_cost=0.0,
        measured_cost=0.0,
        state_bytes=head.state_bytes if head else 0,
        rows_read=0,
        positions=situation.old_position_texts(),
    )
    before = within(replace(_before(view, situation), row=row), situation.terms.budget, situation.policy)
    record = replace(
        before,
        run=view.next_run,
        delta=(),
        compacted=(),
        arrived=situation.arrived(view.definition.create.schedule, occasion.point),
        fired=fired_after(view, situation, occasion),
    )
    record = with_split(jvm, view, record, occasion)
    with jvm.walls.part("commit"):
        view.log.commit(record)
    return record


def _before(view: View, situation: Situation) -> RunRecord:
    """Returns the last record; for a view without runs, an empty record."""
    row = RunRow(run=None, view="", point=1, trigger="", kind="NO_DATA")
    return view.head or RunRecord(0, row, None, None, (), {}, (), situation.fingerprint, situation.functions)


@dataclass(frozen=True, slots=True)
class _Executed:
    """A plan whose steps were executed."""

    view: View
    situation: Situation
    plan: RunPlan
    execution: SparkJobs
    binder: Binder
    stage: Stage
    number: int
    outcome: Outcome

    @property
    def head(self) -> RunRecord | None:
        """The last run; None before the initial load."""
        return self.view.head if self.view.head and self.view.head.filled else None

    @property
    def learned(self) -> Learned:
        """By what factors earlier estimates were off."""
        return self.view.learned(self.situation.settings)

    @property
    def fresh(self) -> bool:
        """True if neither content nor states were there before."""
        return self.situation.first and not self.situation.prepared

    def state(self, spec: StateSpec) -> StoredState:
        """Returns a state after the run, at the positions of the content."""
        pieces = self.outcome.pieces.get(spec.name, ())
        return StoredState(spec.form, spec.columns, spec.text, pieces, spec.group, spec.parts)

    @property
    def crowded(self) -> bool:
        """True if the states take more than the budget, and some lie in several pieces; never of early work."""
        states, budget = [self.state(spec) for spec in self.plan.states], self.situation.terms.budget
        taken, several = sum(s.bytes for s in states), any(len(s.pieces) > 1 for s in states)
        return budget is not None and self.plan.kind != "PARTIAL" and several and taken > budget

    def moved(self, files: Sequence[File]) -> list[dict[str, Any]]:
        """Moves result files into their places. Returns their listing there."""
        with self.execution.jvm.walls.part("writing"):
            return self.stage.move_into_place(files)

    def arrived(self, occasion: Occasion) -> Arrived:
        """Returns the arrivals at the sources."""
        return self.situation.arrived(self.view.definition.create.schedule, occasion.point)

    def row(self, occasion: Occasion, states: Iterable[StoredState], rows_out: ChangeCounts | None) -> RunRow:
        """Returns the run's row."""
        plan, spent = self.plan, self.execution.jvm.spent.take()
        # Of the steps alone, as the estimate: what Delta reads to know its tables is no way's own cost.
        measured: float | None = spent.steps_ms if self.situation.settings.cost_model == "default" else None
        regret = None if measured is None or plan.rejected is None else max(0.0, measured - plan.rejected)
        if plan.arrivals is not None:
            measured = metrics.arrived(plan.arrivals, self.outcome.written)
        return replace(
            row_of(self.view, occasion, plan.kind, self.situation),
            run=self.number,
            reason=plan.reason,
            methods=tuple(plan.methods),
            rows_in=metrics.rows_in(
                self.binder, self.outcome.written.values(), self.fresh, self.situation.unseen.values()
            ),
            rows_out=rows_out,
            duration_ms=occasion.elapsed_ms(),
            cpu_ms=round(spent.cpu_ms),
            jobs=spent.jobs,
            estimated_cost=likely_cost(self.learned, plan),
            measured_cost=measured,
            regret=regret,
            state_bytes=sum(s.bytes for s in states),
            rows_read=spent.rows_read,
        )


def _within_budget(run: _Executed, occasion: Occasion) -> RunRecord:
    """Returns the record of a run with no more states than the budget holds: early work without room is not done. What
    the run has written and gives up is deleted."""
    budget, policy, view = run.situation.terms.budget, run.situation.policy, run.view
    record = (_held_back if run.plan.kind == "PARTIAL" else _with_output)(run, occasion)
    if run.plan.kind == "PARTIAL" and over(record, budget):
        before = replace(
            _before(view, run.situation), delta=(), compacted=(), arrived=record.arrived, fired=record.fired
        )
        told = "there is no room for what was done early"
        run.stage.discard()
        kept = within(replace(before, run=run.number, row=record.row), budget, policy)
        row = replace(record.row, state_bytes=kept.state_bytes, positions=run.situation.old_position_texts())
        return replace(kept, row=row, dropped={**kept.dropped, "early work": told})
    kept = within(record, budget, policy)
    gone = {f["path"] for name in record.states.keys() - kept.states.keys() for f in record.states[name].files}
    if gone:
        old = {f["path"] for s in _before(view, run.situation).states.values() for f in s.files}
        view.files.delete(sorted({parent(str(path)) for path in gone - old}))
    return kept


def _held_back(run: _Executed, occasion: Occasion) -> RunRecord:
    """Returns the record of a run without output: what it wrote has its positions, everything else stays as it was."""
    before, outcome = _before(run.view, run.situation), run.outcome
    states = dict(before.states)
    for spec in run.plan.states:
        known = before.states.get(spec.name)
        if spec.name in run.plan.behind:
            continue
        boundary = None
        # Only content has a moment of its own, at which the state had these pieces.
        if known is not None and before.filled:
            boundary = len(known.pieces) if known.before is None else known.before
        states[spec.name] = replace(run.state(spec), run=run.number, before=boundary)
    held, held_run = before.held, before.held_run
    if outcome.held is not None:
        files = outcome.held.files if outcome.held.rows else ()
        earlier = held if any(s.target == "held" and s.mode == "segment" for s in run.plan.steps) else ()
        held = (*earlier, StoredPiece(files, outcome.held.rows, outcome.held.rows, 1))
        held_run = run.number
    standing = {held_run, *(s.run for s in states.values())}
    moments = {**before.moments, run.number: run.situation.sources_at()}
    row = run.row(occasion, states.values(), ChangeCounts(0, 0))
    record = replace(
        before,
        run=run.number,
        row=row,
        states=states,
        delta=(),
        compacted=(),
        moments={number: at for number, at in moments.items() if number in standing},
        held=held,
        held_run=held_run,
        fingerprint=before.fingerprint if before.filled else run.situation.fingerprint,
        functions=before.functions if before.filled else run.situation.functions,
        arrived=run.arrived(occasion),
        fired=fired_after(run.view, run.situation, occasion),
    )
    return replace(record, row=replace(row, state_bytes=record.state_bytes))


def _with_output(run: _Executed, occasion: Occasion) -> RunRecord:
    """Returns the record of a run with output: its content, and its states at the same positions."""
    view, situation, plan, outcome, head, stage = run.view, run.situation, run.plan, run.outcome, run.head, run.stage
    columns = _columns(view)
    rows: int | None
    rows_out: ChangeCounts | None
    delta_files: tuple[File, ...] | None
    if outcome.result is not None:
        data: tuple[File, ...] = tuple(run.moved(outcome.result.files))
        rows = metrics.value(outcome.result, "result", "rows")
        rows_out = ChangeCounts(rows, 0) if head is None else None
        delta_files = None
        if outcome.delta is not None:
            rows_out, delta_files = metrics.net(outcome.delta, "delta"), outcome.delta.files
    else:
        assert outcome.delta is not None, "a plan without output for a point with output"
        assert head is not None, "a first run writes the whole result"
        rows_out = metrics.net(outcome.delta, "delta")
        rows = None if head.rows is None else head.rows + rows_out.inserts - rows_out.deletes
        keys = _keys(head, plan)
        observed = outcome.delta.observed.get(leaving.OBSERVATION) or {}
        left = leaving.left_values(leaving.observed_columns(columns, keys), observed)
        count = count_field(c.name for c in columns)
        found = outcome.places.found(outcome.delta.observed.get(PLACES) or {}, rows_out.deletes)
        delta = Delta(outcome.delta.files, rows_out.inserts, rows_out.deletes, count, left, found)
        size = float(sum(int(f["bytes"]) for f in head.files))
        content = size / FILE_ROW_BYTES if head.rows is None else head.rows
        partitions = view.definition.create.partitioned_by
        marks = view.definition.marks_rows and marking.pays(delta.deletes, content)
        vectors = stage.vectors if marks else None
        applied = apply_delta(run.execution, columns, keys, head.files, delta, stage.data(), partitions, vectors)
        data = (*applied.kept, *run.moved(applied.added))
        delta_files = delta.files
    states = {s.name: run.state(s) for s in plan.states}
    row = run.row(occasion, states.values(), rows_out)
    if plan.kind == "FULL" and head is not None:
        row = replace(row, rows_in=None)
    past, learned = lessons(view, plan, row, run.execution.spent)
    return RunRecord(
        run=run.number,
        row=row,
        output_run=run.number,
        output_at=time.time_ns() // 1000,
        files=tuple(data),
        states=states,
        sources=situation.sources_at(metrics.values(run.binder, outcome.written.values())),
        fingerprint=situation.fingerprint,
        functions=situation.functions,
        keys=tuple(plan.keys) if plan.keys else None,
        delta=delta_files,
        definition=view.definition.number,
        compacted=tuple(str(s.state) for s in plan.steps if s.mode == "compact"),
        arrived=run.arrived(occasion),
        chosen=plan.chosen,
        cycles=cycles_after(view, run.number, run.arrived(occasion), occasion),
        rows=rows,
        past=past,
        learned=learned,
        fired=fired_after(view, situation, occasion),
    )
