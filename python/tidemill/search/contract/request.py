"""What a run is planned for: the content and the states that stand, what happened since, and the points to come."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from tidemill.plan.change import SourceChange, joined
from tidemill.plan.ops import Tree
from tidemill.plan.query import Query
from tidemill.search.contract.kinds import Policy
from tidemill.search.contract.past import NOTHING_PAST, Past
from tidemill.search.contract.run_plan import StateSpec
from tidemill.search.contract.stored import Piece
from tidemill.settings import PlannerSettings
from tidemill.tvr.form import Form, Time

KnownRows: TypeAlias = Callable[[Tree, Form], float | None]
"""Rows of a form of a relation of the query, if they are known: of a change, its insertions and deletions together."""


@dataclass(frozen=True, slots=True)
class UpcomingPoint:
    """A point of the schedule that is to come.

    Attributes:
        price: of a unit of its work.
        output: whether it has output.
        changes: what is expected to happen to the sources until then, since the point before.
        number: in the schedule.
    """

    price: float
    output: bool
    changes: Mapping[int, SourceChange]
    number: int = 0


PLANNED_AHEAD = 3
"""Points to come that a run is planned together with, at most: the next ones by price, and the one that is due."""


def planned_with(points: Sequence[UpcomingPoint]) -> tuple[UpcomingPoint, ...]:
    """The points to come that are planned jointly with a run; what is expected until one that is left out is expected
    until the next.

    >>> [p.price for p in planned_with([Point(float(price), price == 5, {}) for price in (3, 1, 4, 2, 5)])]
    [1.0, 2.0, 5.0]
    """
    cheapest = sorted(range(len(points) - 1), key=lambda i: (points[i].price, i))[: PLANNED_AHEAD - 1]
    found: list[UpcomingPoint] = []
    waiting: list[Mapping[int, SourceChange]] = []
    for i, point in enumerate(points):
        waiting.append(point.changes)
        if i in cheapest or i == len(points) - 1:
            found.append(replace(point, changes=joined(waiting)))
            waiting = []
    return tuple(found)


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What a run is planned for.

    Attributes:
        sources: what happened to them since the view's content was made.
        states: names of the states that can be read.
        first: nothing was filled yet.
        full_reason: why the run must be full (a reason of SHOW REFRESHES); None if it need not be.
        pieces: of each state, where they are known.
        stored: what the states are that can be read.
        lost: names of states that should be there and are not: made anew by the way.
        chosen: the packs among which the plan was looked for that the kept states were chosen by; None if nothing is
            known of that. A run that may use others chooses anew.
        refill: why the earlier content cannot be built upon (a reason of SHOW REFRESHES); None if it can. The whole
            result is then made anew, from states that can be read, brought up to date, where that is cheapest.
        between: `sources` step by step, where runs without output have left something that stands between the content
            and now; empty if there is one step.
        standing: the moments at which states stand that were followed by such runs: 1 after the first step.
        before: of such states, how many pieces were there when the content was made.
        held: until when the view's change since its content is held back; 0 if it is not.
        held_rows: how many rows of it there are.
        rows: of the content; None if that is not known.
        meaning: the captured settings that give the query its meaning, as one text; part of the names of states.
        price: of a unit of this run's work.
        point: the number of this run's point in the schedule.
        ahead: the points to come. If there are any, this run has no output.
        cycle: rows inserted and deleted in a cycle, by source, where that is expected; what states are chosen for.
        past: what earlier runs took.
        measured: rows of forms of relations that are known, times being the moments planned; others are estimated.
    """

    query: Query
    policy: Policy
    sources: Mapping[int, SourceChange]
    states: frozenset[str]
    first: bool
    full_reason: str | None
    settings: PlannerSettings = field(default_factory=PlannerSettings)
    pieces: Mapping[str, Sequence[Piece]] = field(default_factory=dict)
    stored: Sequence[StateSpec] = ()
    lost: frozenset[str] = frozenset()
    chosen: frozenset[str] | None = None
    refill: str | None = None
    between: tuple[Mapping[int, SourceChange], ...] = ()
    standing: Mapping[str, Time] = field(default_factory=dict)
    before: Mapping[str, int] = field(default_factory=dict)
    held: Time = 0
    held_rows: float = 0.0
    rows: float | None = None
    meaning: str = ""
    price: float = 1.0
    point: int = 1
    ahead: tuple[UpcomingPoint, ...] = ()
    cycle: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    past: Past = NOTHING_PAST
    measured: KnownRows = lambda _tree, _form: None

    @property
    def steps(self) -> tuple[Mapping[int, SourceChange], ...]:
        """What happened to the sources, step by step."""
        return self.between or (self.sources,)

    @property
    def unchanged(self) -> dict[int, SourceChange]:
        """The sources as they are, nothing having happened to them."""
        return {n: replace(s, changed=False) for n, s in self.sources.items()}

    @property
    def choice(self) -> frozenset[str]:
        """The packs among which this run would choose: a preferred one stands alone, FULL looks at none."""
        if self.policy == "FULL":
            return frozenset()
        return frozenset({self.settings.prefer}) if self.settings.prefer is not None else self.settings.packs
