"""The planner's answer: the steps of a run in order, the states it keeps, and the reasons."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from tidemill.cost.costing import CostModel
from tidemill.cost.kept import CONTENT
from tidemill.search.contract.choice import Choice
from tidemill.search.contract.past import Comparison, Rivals
from tidemill.search.contract.run_kinds import Mode, PlanKind, Target
from tidemill.search.contract.stored import KeyedRead
from tidemill.wire import questions
from tidemill.wire.nodes import Kind, WireNode

COST = "COST"
"""The reason of a full run that is cheaper than an incremental one."""


@dataclass(frozen=True, slots=True)
class Volume:
    """Estimated numbers of rows that a step handles, and what that costs.

    `shuffled`: rows of its largest shuffle. `read`: rows of the largest delta, state or result of an earlier step that
    it reads; snapshots of sources do not count. `written`: rows that it writes. `cost`: CPU milliseconds, not priced;
    what it computes for several steps is counted in the first one. None: not estimated.
    """

    shuffled: float = 0.0
    read: float = 0.0
    written: float | None = None
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that a run executes and writes.

    Attributes:
        name: unique in the run.
        target: "state" for a piece of a state, "delta" for the signed delta to apply, "held" for the held change,
            "result" for the whole result, "shared" for rows that several later steps of the run read; shared files do
            not outlive the run.
        state: the name of the state; None for other targets.
        mode: "base", "segment" or "compact" for a piece; None for other targets.
        plan: the wire plan to execute.
        columns: the written columns, as (column of the plan, field).
        volume: estimates of what it handles.
        first: of a compaction, the number of the first piece that it merges, with all later ones.
        order: the field that sorts each file of a piece; None if there is none.
    """

    name: str
    target: Target
    state: str | None
    mode: Mode | None
    plan: WireNode
    columns: tuple[tuple[int, str], ...]
    volume: Volume
    first: int = 0
    order: str | None = None

    @property
    def change_of(self) -> str | None:
        """The relation whose change it writes: the name of a state, `CONTENT`, or None if it writes no change."""
        if self.target == "delta":
            return CONTENT
        return self.state if self.mode == "segment" else None

    def writing(self, rows: float) -> Step:
        """This step with another estimate of the rows that it writes."""
        return replace(self, volume=replace(self.volume, written=rows))

    def dearer(self, ms: float) -> Step:
        """This step with an estimate that is higher by so many CPU milliseconds."""
        return replace(self, volume=replace(self.volume, cost=ms + (self.volume.cost or 0.0)))


@dataclass(frozen=True, slots=True)
class StateSpec:
    """A state kept after the run.

    Attributes:
        name: a hash of what it keeps.
        form: the kind of form that it keeps.
        columns: as (field, type).
        text: the operator whose form it keeps, for people.
        group, parts: of an attribute form, the identity of its rows and keys and that of each column, as in
            `parts_identity`.
    """

    name: str
    form: str
    columns: tuple[tuple[str, str], ...]
    text: str
    group: str = ""
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """The plan of a run, ready to be bound to positions.

    Attributes:
        kind: "FULL", "INCREMENTAL" or "PARTIAL".
        reason: why it is full, or what was lost (a reason of SHOW REFRESHES); None if there is none.
        steps: in order.
        methods: the packs that the plan counts for.
        estimated: CPU milliseconds, not priced.
        keys: names of the view's columns that identify its rows; None if there are none.
        states: the states kept after the run.
        behind: names of the states that the run does not follow; they stay at their moment.
        chosen: the choice of the kept states; None for a run without output, which chooses none.
        compared: estimates of a full and of an incremental run, if the two were compared.
        rivals: of a plan under AUTO the incremental plans that were compared with a full one; those of other methods
            too, once enough runs were measured.
        stateless: estimate of a full run that keeps no states, if this one was compared with it; None else.
        rejected: likely CPU milliseconds of the alternative that the plan was compared with, if comparable runs were
            measured.
        asked: its reads of states by few keys, by the states' names.
        applying: CPU milliseconds to apply the view's change to its content; `estimated` has them too.
        arrivals: names of the steps whose written rows add up to the measured cost, each as often as it counts; None if
            the unit of cost is time.
    """

    kind: PlanKind
    reason: str | None
    steps: tuple[Step, ...]
    methods: tuple[str, ...]
    estimated: float
    keys: tuple[str, ...] | None
    states: tuple[StateSpec, ...]
    behind: frozenset[str]
    chosen: Choice | None
    compared: tuple[float, float] | None = None
    rivals: Rivals = ()
    stateless: float | None = None
    rejected: float | None = None
    asked: Mapping[str, KeyedRead] = field(default_factory=dict)
    applying: float = 0.0
    arrivals: tuple[str, ...] | None = None

    def weighed(self, found: Comparison, model: CostModel) -> Self:
        """This plan with what a comparison says: the cost of the alternative and, of a full run by cost, the reason."""
        reason, unit = self.reason, "ms" if model.name == "default" else model.name
        if reason is not None and reason.startswith(COST):
            reason = f"{COST}: full {found.full:.0f} {unit}, incremental {found.incremental:.0f} {unit}"
        return replace(self, rejected=found.beside(self.kind), reason=reason)


def states_read(steps: Collection[Step]) -> frozenset[str]:
    """Names of the states that steps read from earlier runs."""
    return frozenset().union(*(questions.states_read(s.plan) for s in steps))


def states_needed(steps: Collection[Step]) -> frozenset[str]:
    """Names of the states that steps read for the view's rows, or to bring such a state up to date."""
    named = {s.name: s for s in steps}
    waiting = [s for s in steps if s.target not in {"state", "shared"}]
    reached: dict[str, Step] = {}
    while waiting:
        step = waiting.pop()
        if step.name in reached:
            continue
        reached[step.name] = step
        waiting += [named[name] for name in questions.steps_read(step.plan)]
        waiting += [s for s in steps if s.state in questions.states_read(step.plan)]
    return states_read(reached.values())


def read_by(steps: Collection[Step]) -> frozenset[Kind]:
    """The kinds of leaves that steps read."""
    return frozenset().union(*(questions.leaves_read(s.plan) for s in steps))
