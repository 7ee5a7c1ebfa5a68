"""One run of a view: plan steps, stage, apply, one commit, publish.

Everything before the commit can be thrown away, everything after it can be done again (design 9a.1, 9a.2).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tidemill.bridge.jvm import Jvm, JvmFailure
from tidemill.runtime import leases, metrics, sessions, wire, writers
from tidemill.runtime.apply import Delta, ResultColumn, apply_delta, partition_ids
from tidemill.runtime.binder import Binder
from tidemill.runtime.execution import Execution, Work, Written
from tidemill.runtime.files import UndecidedError, parent
from tidemill.runtime.history import Counts, RunRow
from tidemill.runtime.planning import Situation
from tidemill.runtime.record import File, Record, StoredPiece, StoredState
from tidemill.runtime.stage import Stage
from tidemill.runtime.views import Lost, View
from tidemill.runtime.wire import COUNT
from tidemill.search.run_plan import RunPlan, Step
from tidemill.sources.registry import check_undisturbed

BYTES_OF_A_ROW = 50
"""In a Parquet file, roughly."""


@dataclass(frozen=True, slots=True)
class Occasion:
    """What fired a run: number of the point, its trigger as SHOW REFRESHES names it, and when (epoch microseconds)."""

    point: int
    trigger: str
    started_at: int

    @staticmethod
    def now(point: int, trigger: str) -> Occasion:
        return Occasion(point, trigger, time.time_ns() // 1000)

    def elapsed_ms(self) -> int:
        return max(0, (time.time_ns() // 1000 - self.started_at) // 1000)


def row_of(view: View, occasion: Occasion, kind: str, situation: Situation) -> RunRow:
    """The row of a run of this kind, with what is known before it runs."""
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


def run_with_output(
    jvm: Jvm,
    view: View,
    situation: Situation,
    planned: Callable[[Lost], RunPlan],
    occasion: Occasion,
    lost: Lost = NOTHING_LOST,
) -> Record:
    """Executes the plan that `planned` makes, and commits it.  `jvm`: the working session.

    `lost`: what is known not to be readable of what the last run left. Where a job finds that more of it is damaged,
    the run is planned and executed again without that; its row counts all jobs.

    Raises TIDEMILL_CONCURRENT_REFRESH if another run committed first, TIDEMILL_SOURCE_DISTURBED if a source was
    not left alone; whatever is raised, the run's files are gone.
    """
    work = Work()
    while True:
        try:
            return _attempt(jvm, view, situation, planned(lost), occasion, work)
        except JvmFailure as failure:
            found = lost | view.damaged(failure)
            if found == lost:
                raise
            lost = found


def _attempt(jvm: Jvm, view: View, situation: Situation, plan: RunPlan, occasion: Occasion, work: Work) -> Record:
    number = view.next_run
    with writers.writing(view.files, view.location), Stage(view.files, view.location, number) as stage:
        record = _executed(jvm, view, situation, plan, occasion, stage, number, work)
        entries = {n: s.entry for n, s in situation.query.sources.items()}
        check_undisturbed(jvm, view.definition.qualified, [*entries.values()], [situation.new[n] for n in entries])
        try:
            view.log.commit(record)
        except UndecidedError:
            stage.keep()  # VACUUM finds the files if they are nobody's
            raise
        stage.keep()
    leases.take(view, (s.entry for s in situation.query.sources.values()), record)
    return record


def run_without_output(view: View, situation: Situation, occasion: Occasion) -> Record:
    """Commits a run of a point without output: the data is held back, positions stay where they are.

    Early work would pay only with a plan over several points; holding everything back is right at any price.
    """
    head = view.head
    row = replace(
        row_of(view, occasion, "PARTIAL", situation),
        run=view.next_run,
        rows_out=Counts(0, 0),
        duration_ms=occasion.elapsed_ms(),
        cpu_ms=0,
        jobs=0,
        estimated_cost=0.0,
        measured_cost=0.0,
        state_bytes=head.state_bytes if head else 0,
        positions=situation.old_position_texts(),
    )
    if head is None:
        record = Record(view.next_run, row, None, None, (), {}, (), situation.fingerprint, situation.functions)
    else:
        record = replace(head, run=view.next_run, row=row, delta=(), compacted=())
    view.log.commit(record)
    return record


def _executed(
    jvm: Jvm,
    view: View,
    situation: Situation,
    plan: RunPlan,
    occasion: Occasion,
    stage: Stage,
    number: int,
    work: Work,
) -> Record:
    head = view.head if view.head and view.head.filled else None
    execution = Execution(jvm, situation.document["query"], view.definition.qualified, number, work)
    binder = Binder(
        old=situation.old,
        new=situation.new,
        states={name: [p.files for p in s.pieces] for name, s in head.states.items()} if head else {},
        result=head.files if head else (),
        observe_scans=head is None,
    )
    outcome = _Outcome({}, {name: s.pieces for name, s in head.states.items()} if head else {})
    partitions = view.definition.create.partitioned_by
    for step in plan.steps:
        sessions.fit(jvm, situation.source_bytes if wire.holds(step.plan, "scan") else 0.0, step.rows)
        outcome.take(step, _written(execution, binder, step, stage, partitions))
        if step.mode == "compact":
            binder.states[str(step.state)] = [p.files for p in outcome.pieces[str(step.state)]]
    columns = [ResultColumn(c.name, c.type) for c in view.definition.columns]
    rows_out: Counts | None
    delta_files: tuple[File, ...] | None
    if outcome.result is not None:
        data: tuple[File, ...] = tuple(stage.settle(outcome.result.files))
        rows_out = Counts(metrics.value(outcome.result, "result", "rows"), 0) if head is None else None
        delta_files = None
    else:
        assert outcome.delta is not None, "a plan without output for a point with output"
        assert head is not None, "a first run is full"
        rows_out = metrics.net(outcome.delta, "delta")
        delta = Delta(outcome.delta.files, rows_out.inserts, rows_out.deletes)
        keys = plan.keys if plan.keys and head.keys and set(plan.keys) == set(head.keys) else None
        sessions.fit(jvm, 0.0, rows_out.inserts + rows_out.deletes + _rows(head.files))
        applied = apply_delta(execution, columns, keys, head.files, delta, stage.data(), partitions)
        data = (*applied.kept, *stage.settle(applied.added))
        delta_files = delta.files
    states = {
        s.name: StoredState(s.form, s.columns, s.text, outcome.pieces.get(s.name, ()), s.group, s.parts)
        for s in plan.states
    }
    segments = (outcome.written[s.name] for s in plan.steps if s.mode == "segment")
    view.files.delete({parent(str(f["path"])) for written in segments if written.rows == 0 for f in written.files})
    full = plan.kind == "FULL"
    row = replace(
        row_of(view, occasion, plan.kind, situation),
        run=number,
        reason=plan.reason,
        methods=tuple(plan.methods),
        rows_in=metrics.rows_in(binder, outcome.written.values(), first=head is None),
        rows_out=rows_out,
        duration_ms=occasion.elapsed_ms(),
        cpu_ms=round(work.cpu_ms),
        jobs=work.jobs,
        estimated_cost=float(plan.estimated),
        measured_cost=work.cpu_ms if situation.settings.cost_model == "default" else None,
        state_bytes=sum(s.bytes for s in states.values()),
    )
    if full and head is not None:
        row = replace(row, rows_in=None)
    return Record(
        run=number,
        row=row,
        output_run=number,
        output_at=time.time_ns() // 1000,
        files=tuple(data),
        states=states,
        sources=situation.sources_at(),
        fingerprint=situation.fingerprint,
        functions=situation.functions,
        keys=tuple(plan.keys) if plan.keys else None,
        delta=delta_files,
        definition=view.definition.number,
        compacted=tuple(str(s.state) for s in plan.steps if s.mode == "compact"),
    )


def _rows(files: Sequence[File]) -> float:
    """About how many rows are in result files."""
    return sum(int(f["bytes"]) for f in files) / BYTES_OF_A_ROW


@dataclass(slots=True)
class _Outcome:
    """What the steps wrote, by step and by target; `pieces`: of each state, as they are by now."""

    written: dict[str, Written]
    pieces: dict[str, tuple[StoredPiece, ...]]
    result: Written | None = None
    delta: Written | None = None

    def take(self, step: Step, written: Written) -> None:
        self.written[step.name] = written
        match step.target:
            case "state":
                name = str(step.state)
                self.pieces[name] = _pieces(step, self.pieces.get(name, ()), written)
            case "result":
                self.result = written
            case "delta":
                self.delta = written


def _written(execution: Execution, binder: Binder, step: Step, stage: Stage, partitions: Sequence[str]) -> Written:
    plan = binder.bind(step.plan)
    columns = [(c, n) for c, n in step.columns]
    parted: dict[int, str] = {}
    match step.target:
        case "state":
            path = stage.state(str(step.state))
        case "result":
            path = stage.data()
            parted = partition_ids([c for c, _ in columns], [n for _, n in columns], partitions)
            plan = wire.observe("result", [("rows", wire.observed_sum(wire.long(1)))], plan)
        case _:
            path = stage.delta()
            count = next(c for c, name in columns if name == COUNT)
            plan = wire.observe("delta", wire.signed_counts(count), plan)
    written = execution.write(plan, path, columns, step=step.name, partitions=parted)
    binder.staged[step.name] = written.files
    return written


def _pieces(step: Step, before: tuple[StoredPiece, ...], written: Written) -> tuple[StoredPiece, ...]:
    """The pieces of a state after a step that wrote one; a segment without rows is none."""
    match step.mode:
        case "segment" if written.rows == 0:
            return before
        case "segment":
            return (*before, StoredPiece(written.files, written.rows, written.rows, 1))
        case "compact":
            tail = before[step.first :]
            taken, segments = sum(p.rows for p in tail), sum(p.segments for p in tail)
            return (*before[: step.first], StoredPiece(written.files, written.rows, taken, segments))
        case _:
            return (StoredPiece(written.files, written.rows, written.rows, 0),)
