"""Executes the steps of a run's plan. Each step is one write by Spark, whose files later steps can read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Any, assert_never

from tidemill.bridge.jvm import Jvm
from tidemill.cost.costing import LOOKED_UP_KEYS
from tidemill.plan.expr import Col
from tidemill.plan.query import COUNT_FIELD
from tidemill.runtime.before import sessions
from tidemill.runtime.before.situation import Situation
from tidemill.runtime.content import leaving
from tidemill.runtime.content.apply import partition_ids
from tidemill.runtime.content.jobs import SparkJobs, Written
from tidemill.runtime.content.leaving import ResultColumn
from tidemill.runtime.content.places import PLACE, Places, Sought
from tidemill.runtime.content.row_expressions import ROWS, observed_values, signed_counts
from tidemill.runtime.run import side_by_side
from tidemill.runtime.run.binder import Binder
from tidemill.runtime.run.changesets import read_first
from tidemill.runtime.run.metrics import ARRIVED
from tidemill.runtime.run.side_by_side import Task
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
    """Executes the steps of a plan, side by side where they do not wait for each other. Removes the files that only
    later steps read.

    `states`: as the last run left them. `partitions`: the names of columns that partition the result. `sought`: what is
    to be learned of the rows that leave the view. `binder` gets the files of the steps.

    Raises `JvmFailure`.
    """
    outcome = Outcome({}, {name: s.pieces for name, s in states.items()}, Places(sought.files))
    size = partial(_bytes, situation, states, sought)
    steps = read_first(plan.steps, situation.query, situation.changes, size)
    asked = frozenset(pair for step in plan.steps for pair in questions.values_looked_up(step.plan))
    arriving = frozenset(plan.arrivals or ())
    writing = _Writing(situation, execution, binder, stage, partitions, asked, arriving, sought.observed, outcome)
    places = (f"step {number} of {len(steps)}" for number in range(1, len(steps) + 1))
    tasks = [writing.task(*told) for told in zip(steps, waits_for(steps), places, strict=True)]
    side_by_side.carry_out(execution.jvm, tasks, situation.settings.side_by_side)
    numbers = {step.name: number for number, step in enumerate(steps)}
    execution.spent.sort(key=lambda spent: numbers.get(spent.step, -1))
    with execution.jvm.walls.part("writing"):
        stage.drop_shared()
    return outcome


def waits_for(steps: Sequence[Step]) -> list[frozenset[int]]:
    """Returns for each step the numbers of those before it that it waits for.

    A step waits for those whose rows it reads. Pieces of a state are numbered in the order of the steps: so one that
    puts pieces together keeps its place among all that read or write the state.
    """
    found: list[frozenset[int]] = []
    for number, step in enumerate(steps):
        read = questions.steps_read(step.plan)
        earlier = enumerate(steps[:number])
        found.append(frozenset(n for n, other in earlier if other.name in read or _same_pieces(other, step)))
    return found


def _same_pieces(one: Step, other: Step) -> bool:
    """True if both have to do with the pieces of one state, and at least one changes what those of the other are."""
    written = one.state is not None and one.state == other.state
    return written or any(
        a.mode == "compact" and a.state in questions.states_read(b.plan) for a, b in ((one, other), (other, one))
    )


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
    shuffled, joins = max(step.volume.shuffled, told), questions.count(step.plan, "join")
    return sessions.fit(jvm, source_bytes, shuffled, read, joins, _scanned(situation, step))


def _scanned(situation: Situation, step: Step) -> float:
    """Returns at most how many rows the snapshots have that a step scans, whichever moment they are of."""
    return sum((situation.changes[n].most_rows for n in questions.sources_scanned(step.plan)), 0.0)


@dataclass(frozen=True, slots=True)
class _Writing:
    """Writes the rows of a run's steps.

    `asked`: steps and fields whose values later steps look up; `arriving`: steps whose signed rows are counted;
    `watched`: the columns that are observed of the delta.
    """

    situation: Situation
    execution: SparkJobs
    binder: Binder
    stage: Stage
    partitions: Sequence[str]
    asked: Collection[tuple[str, str]]
    arriving: Collection[str]
    watched: Sequence[ResultColumn]
    outcome: Outcome

    def task(self, step: Step, waits: frozenset[int], place: str) -> Task[Written]:
        """Returns a step as a part of the run that waits for others. `place`: which of the steps it is."""
        return Task(waits, partial(self._begin, step, place), partial(self._end, step))

    def _begin(self, step: Step, place: str) -> Callable[[Jvm], Written]:
        """Binds a step to the run. Returns what executes it."""
        if step.mode == "compact":  # it may come after the piece that this run adds
            self.binder.states[str(step.state)] = [p.files for p in self.outcome.pieces[str(step.state)]]
        settings = _fitting(self.execution.jvm, self.situation, self.binder, step)
        placed = _placed(step, self.outcome.places)
        plan = self.binder.bind(placed.plan)
        columns = [(c, n) for c, n in placed.columns]
        values = [(n, observed_values(Col(c), LOOKED_UP_KEYS)) for c, n in columns if (step.name, n) in self.asked]
        if values:
            plan = nodes.observe(VALUES, values, plan)
        parted: dict[int, str] = {}
        match step.target:
            case "state":
                path = self.stage.state(str(step.state))
            case "result":
                path = self.stage.data()
                parted = partition_ids([c for c, _ in columns], [n for _, n in columns], self.partitions)
                plan = nodes.observe("result", [ROWS], plan)
            case "shared":
                path = self.stage.shared()
                counts = [c for c, n in columns if n == COUNT_FIELD]
                if step.name in self.arriving and counts:
                    plan = nodes.observe(ARRIVED, signed_counts(counts[-1]), plan)
            case "delta" | "held":
                path = self.stage.delta()
                count, _ = columns[-1]
                plan = nodes.observe("delta", signed_counts(count), plan)
                if step.target == "delta" and self.watched:
                    by_name = {n: c for c, n in columns}
                    plan = nodes.observe(
                        leaving.OBSERVATION, leaving.metrics([(by_name[w.name], w) for w in self.watched], count), plan
                    )

        def executed(jvm: Jvm) -> Written:
            return replace(self.execution, jvm=jvm, settings=settings, place=place).write(
                plan,
                path,
                columns,
                step=step.name,
                partitions=parted,
                order=step.order,
                content=step.target == "result",
                memory=step.target == "shared",
            )

        return executed

    def _end(self, step: Step, written: Written) -> None:
        """Lets later steps know what a step wrote."""
        self.binder.staged[step.name] = written.files
        found = (written.observed.get(VALUES) or {}).items()
        self.binder.values |= {(step.name, field): list(known) for field, known in found if known is not None}
        self.outcome.take(step, written)
        if step.mode == "compact":
            self.binder.states[str(step.state)] = [p.files for p in self.outcome.pieces[str(step.state)]]


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
