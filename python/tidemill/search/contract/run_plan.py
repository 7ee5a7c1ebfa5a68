"""What planning a run gives: its steps in order, the states it keeps, and why."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from tidemill.search.contract.kinds import Mode, PlanKind, Target
from tidemill.search.contract.stored import KeyedRead
from tidemill.wire import questions
from tidemill.wire.nodes import Kind, Node


@dataclass(frozen=True, slots=True)
class Volume:
    """About how many rows a step handles.

    `shuffled`: by its largest shuffle. `read`: of the largest change, state or outcome of an earlier step; the
    snapshots of sources do not count.
    """

    shuffled: float = 0.0
    read: float = 0.0


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to execute and write.

    Attributes:
        name: unique in the run.
        target: "state" for a piece of a state, "delta" for the signed delta to be applied, "held" for the one to be
            held back, "result" for the whole result, "shared" for what several later steps of the run read; shared
            files do not outlive the run.
        state: the name of the state; None for other targets.
        mode: of a piece of what is kept, "base", "segment" or "compact"; None for others.
        plan: what to execute.
        columns: what is written, as (column of the plan, field).
        volume: about how many rows it handles.
        first: of a compaction, the number of the first piece that it reads and replaces, with all after it.
        order: the field that each file of a piece is written in the order of; None if there is none.
    """

    name: str
    target: Target
    state: str | None
    mode: Mode | None
    plan: Node
    columns: tuple[tuple[int, str], ...]
    volume: Volume
    first: int = 0
    order: str | None = None


@dataclass(frozen=True, slots=True)
class StateSpec:
    """A state kept after the run.

    Attributes:
        name: told from what it keeps.
        form: the kind of form that it keeps.
        columns: as (field, type).
        text: the operator that it keeps a form of, for people.
        group, parts: of parts of an aggregate, what they are of and what each column is, in canonical text.
    """

    name: str
    form: str
    columns: tuple[tuple[str, str], ...]
    text: str
    group: str = ""
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """A run, ready to be bound to positions.

    Attributes:
        kind: "FULL", "INCREMENTAL" or "PARTIAL".
        reason: why it is full, or what was lost (a reason of SHOW REFRESHES); None if there is none.
        steps: in their order.
        methods: the packs that the plan counts for.
        estimated: CPU milliseconds, not priced.
        keys: names of the view's columns that tell its rows apart; None if there are none.
        states: those kept after the run.
        behind: names of the states that stay at the moment at which they stood.
        chosen: the packs among which the plan was looked for that the states were chosen by; of a run without output
            None, as it chooses none.
        rejected: CPU milliseconds that the plan that was weighed against this one is likely to take, where runs like it
            were measured.
        asked: what it asks states for by few keys, by their names.
    """

    kind: PlanKind
    reason: str | None
    steps: tuple[Step, ...]
    methods: tuple[str, ...]
    estimated: float
    keys: tuple[str, ...] | None
    states: tuple[StateSpec, ...]
    behind: frozenset[str]
    chosen: frozenset[str] | None
    rejected: float | None = None
    asked: Mapping[str, KeyedRead] = field(default_factory=dict)


def states_read(steps: Collection[Step]) -> frozenset[str]:
    """Names of the states that steps read from where earlier runs kept them."""
    return frozenset().union(*(questions.states_read(s.plan) for s in steps))


def read_by(steps: Collection[Step]) -> frozenset[Kind]:
    """The kinds of leaves that steps read."""
    return frozenset().union(*(questions.leaves_read(s.plan) for s in steps))
