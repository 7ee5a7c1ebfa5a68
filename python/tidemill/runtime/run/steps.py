"""Executes the steps of a run's plan. Each step is one write by Spark, whose files later steps can read."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Any, assert_never

from tidemill.bridge.jvm import Jvm
from tidemill.cost.costing import LOOKED_UP_KEYS
from tidemill.plan.expr import Col
from tidemill.runtime.before import sessions
from tidemill.runtime.before.situation import Situation
from tidemill.runtime.content import leaving
from tidemill.runtime.content.apply import partition_ids
from tidemill.runtime.content.jobs import SparkJobs, Written
from tidemill.runtime.content.leaving import ResultColumn
from tidemill.runtime.content.places import PLACE, Places, Sought
from tidemill.runtime.content.row_expressions import ROWS, observed_values, signed_counts
from tidemill.runtime.run.binder import Binder
from tidemill.runtime.run.changesets import read_first
from tidemill.runtime.storage.files import parent
from tidemill.runtime.storage.stage import Stage
from tidemill.runtime.view.record import StoredPiece, StoredState
from tidemill.search.contract.run_plan import RunPlan, Step
from tidemill.wire import nodes, questions

FEW_KEYS = 50
"""Most keys of a look-up that is interpreted: the rows of their pages are too few for compiled code to pay."""
VALUES = "values"
"""The observation of the keys that a step writes."""


@dataclass(slots=True)
class Outcome:
    """The output of the steps, by step and by target.

    `pieces`: the present pieces of each state. `places`: what the steps know of places of rows of the content.
    """

    written: dict[str, Written]
    pieces: dict[str, tuple[StoredPiece, ...]]
    places: Places
    result: Written | None = None
    delta: Written | None = None
    held: Written | None = None

    def emptied(self, plan: RunPlan) -> set[str]:
        """Returns the folders of segments without rows, which belong to no state."""
        segments = (self.written[s.name] for s in plan.steps if s.mode == "segment")
        return {parent(str(f["path"])) for written in segments if written.rows == 0 for f in written.files}

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
            case "held":
                self.held = written
            case "shared":
                pass  # later steps find it by the step's name
            case _:
                assert_never(step.target)


def carry_out(
    plan: RunPlan,
    situation: Situation,
    execution: SparkJobs,
    binder: Binder,
    stage: Stage,
    states: Mapping[str, StoredState],
    partitions: Sequence[str],
    sought: Sought,
) -> Outcome:
    """Executes the steps of a plan one after the other. Removes the files that only later steps read.

    `states`: as the last run left them. `partitions`: the names of columns that partition the result. `sought`: what is
    to be learned of the rows that leave the view. `binder` gets the files of the steps.

    Raises `JvmFailure`.
    """
    outcome = Outcome({}, {name: s.pieces for name, s in states.items()}, Places(sought.files))
    asked = {pair for step in plan.steps for pair in questions.values_looked_up(step.plan)}
    size = partial(_bytes, situation, states, sought)
    for step in read_first(plan.steps, situation.query, situation.changes, size):
        execution.settings.update(_fitting(execution.jvm, situation, binder, step))
        placed = _placed(step, outcome.places)
        outcome.take(placed, _written(execution, binder, placed, stage, partitions, asked, sought.observed))
        if step.mode == "compact":
            binder.states[str(step.state)] = [p.files for p in outcome.pieces[str(step.state)]]
    with execution.jvm.walls.part("writing"):
        stage.drop_shared()
    return outcome


def _bytes(situation: Situation, states: Mapping[str, StoredState], sought: Sought, leaf: Mapping[str, Any]) -> float:
    """Returns the bytes behind a leaf that reads a source, a state or the content."""
    match leaf:
        case {"op": "scan", "source": source}:
            return situation.changes[source].bytes or 0.0
        case {"op": "state", "name": name} if name in states:
            return states[name].bytes
        case {"op": "result"}:
            return sum(int(f["bytes"]) for f in sought.files)
        case _:
            return 0.0


def _placed(step: Step, places: Places) -> Step:
    """Returns a step that tells places of the rows of the content that it reads, if it can."""
    if step.target == "shared" and (noted := places.noting(step.name, step.plan, step.columns)) is not None:
        plan, place = noted
        return replace(step, plan=plan, columns=(*step.columns, (place, PLACE)))
    if step.target == "delta" and (netted := places.netting(step.plan, step.columns)) is not None:
        return replace(step, plan=netted)
    return step


def _fitting(jvm: Jvm, situation: Situation, binder: Binder, step: Step) -> dict[str, str]:
    """Returns the settings that fit the session to a step."""
    source_bytes = situation.source_bytes if questions.count(step.plan, "scan") else 0.0
    told = sum(situation.changes[n].read or 0.0 for n in questions.sources_changed(step.plan))
    known = [binder.values.get(pair) for pair in questions.values_looked_up(step.plan)]
    many = any(values is None or len(values) > FEW_KEYS for values in known)  # None: all of the state is read
    read = inf if many else max(step.volume.read, told)
    return sessions.fit(jvm, source_bytes, max(step.volume.shuffled, told), read, questions.count(step.plan, "join"))


def _written(
    execution: SparkJobs,
    binder: Binder,
    step: Step,
    stage: Stage,
    partitions: Sequence[str],
    asked: Collection[tuple[str, str]],
    watched: Sequence[ResultColumn],
) -> Written:
    """Executes a step. `asked`: steps and fields whose values later steps look up; `watched`: the columns observed."""
    plan = binder.bind(step.plan)
    columns = [(c, n) for c, n in step.columns]
    values = [(n, observed_values(Col(c), LOOKED_UP_KEYS)) for c, n in columns if (step.name, n) in asked]
    if values:
        plan = nodes.observe(VALUES, values, plan)
    parted: dict[int, str] = {}
    match step.target:
        case "state":
            path = stage.state(str(step.state))
        case "result":
            path = stage.data()
            parted = partition_ids([c for c, _ in columns], [n for _, n in columns], partitions)
            plan = nodes.observe("result", [ROWS], plan)
        case "shared":
            path = stage.shared()
        case "delta" | "held":
            path = stage.delta()
            count, _ = columns[-1]
            plan = nodes.observe("delta", signed_counts(count), plan)
            if step.target == "delta" and watched:
                by_name = {n: c for c, n in columns}
                plan = nodes.observe(
                    leaving.OBSERVATION, leaving.metrics([(by_name[w.name], w) for w in watched], count), plan
                )
    written = execution.write(
        plan,
        path,
        columns,
        step=step.name,
        partitions=parted,
        order=step.order,
        content=step.target == "result",
        memory=step.target == "shared",
    )
    binder.staged[step.name] = written.files
    found = (written.observed.get(VALUES) or {}).items()
    binder.values |= {(step.name, field): list(known) for field, known in found if known is not None}
    return written


def _pieces(step: Step, before: tuple[StoredPiece, ...], written: Written) -> tuple[StoredPiece, ...]:
    """Returns the pieces of a state after a step that wrote one. A segment without rows is no piece."""
    match step.mode:
        case "segment" if written.rows == 0:
            return before
        case "segment":
            return (*before, StoredPiece(written.files, written.rows, written.rows, 1))
        case "compact":
            tail = before[step.first :]
            taken, segments = sum(p.rows for p in tail), sum(p.segments for p in tail)
            return (*before[: step.first], StoredPiece(written.files, written.rows, taken, segments, step.order))
        case "base" | None:
            return (StoredPiece(written.files, written.rows, written.rows, 0, step.order),)
