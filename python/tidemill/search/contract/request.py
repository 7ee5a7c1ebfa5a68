"""The request for a plan: the stored content and states, the changes since, and the upcoming points."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from tidemill.plan.change import SourceChange, joined
from tidemill.plan.query import Query
from tidemill.plan.tree import Tree
from tidemill.search.contract.choice import NEAR_BUDGET, Choice
from tidemill.search.contract.cycles import Cycle, Rows
from tidemill.search.contract.learned import NOTHING_LEARNED, Learned
from tidemill.search.contract.past import NOTHING_PAST, Past
from tidemill.search.contract.run_kinds import Policy
from tidemill.search.contract.run_plan import StateSpec
from tidemill.search.contract.stored import Layout, Piece
from tidemill.settings import PlannerSettings
from tidemill.tvr.form import Form, Time

KnownRows: TypeAlias = Callable[[Tree, Form], float | None]
"""Known rows of a form of a relation of the query, None if unknown; of a delta, insertions and deletions together."""


@dataclass(frozen=True, slots=True)
class UpcomingPoint:
    """An upcoming point of the schedule.

    Attributes:
        price: of a unit of its work.
        output: whether it has output.
        changes: expected changes of the sources since the point before.
        number: in the schedule.
    """

    price: float
    output: bool
    changes: Mapping[int, SourceChange]
    number: int = 0


PLANNED_AHEAD = 3
"""Largest number of upcoming points that a run is planned with."""


def planned_with(points: Sequence[UpcomingPoint], *, last_first: bool = False) -> tuple[UpcomingPoint, ...]:
    """The upcoming points that are planned together with a run: the due one, and the cheapest before it.

    Changes expected until a point that is left out are expected until the next one. `last_first`: prices do not count;
    the latest points are planned, before which most has come.

    >>> points = [UpcomingPoint(float(price), price == 5, {}) for price in (3, 1, 4, 2, 5)]
    >>> [p.price for p in planned_with(points)]
    [1.0, 2.0, 5.0]
    >>> [p.price for p in planned_with(points, last_first=True)]
    [4.0, 2.0, 5.0]
    """

    def rank(i: int) -> tuple[float, int]:
        return (0.0, -i) if last_first else (points[i].price, i)

    cheapest = sorted(range(len(points) - 1), key=rank)[: PLANNED_AHEAD - 1]
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
    """The situation that a run is planned for.

    Attributes:
        sources: changes of the sources since the view's content was made.
        states: names of the states that can be read.
        first: the view has no content yet.
        full_reason: why the run must be full (a reason of SHOW REFRESHES); None if it need not be.
        pieces: of each state, where they are known.
        stored: specifications of the states that can be read.
        lost: names of states that should exist and do not; the run makes them again.
        chosen: the choice of the kept states; None if unknown. A run for which it does not hold chooses anew.
        refill: why the earlier content cannot be built upon (a reason of SHOW REFRESHES); None if it can. The whole
            result is then made anew, from readable states brought up to date where that is cheapest.
        between: `sources` split by transition, where runs without output left something between the content and now;
            empty if there is one transition.
        standing: the moments of states that such runs followed: 1 is after the first transition.
        before: the number of pieces of such a state that existed when the content was made.
        held: the moment up to which the held change reaches; 0 if there is none.
        held_rows: rows of the held change.
        rows: rows of the content; None if unknown.
        layout: files of the content; None if unknown.
        meaning: the captured settings that give the query its meaning, as one text; part of the names of states.
        price: of a unit of this run's work.
        point: the number of this run's point in the schedule.
        ahead: the upcoming points. If there are any, this run has no output.
        cycle: rows inserted and deleted per cycle that EXPECT tells, by source.
        cycles: the last cycles as they were, the oldest first. States are chosen for what is likely by both.
        budget: bytes that the kept states may take after the run; None if there is no limit.
        crowded: the run was carried out already, and its states took more than the budget: all of them are merged.
        past: measured costs of earlier runs.
        learned: by what factors earlier estimates were off.
        tells: the content can be read, and views above it are to be told what a run that makes it anew changes.
        measured: known rows of forms of relations, at the planned moments; other rows are estimated.
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
    chosen: Choice | None = None
    refill: str | None = None
    between: tuple[Mapping[int, SourceChange], ...] = ()
    standing: Mapping[str, Time] = field(default_factory=dict)
    before: Mapping[str, int] = field(default_factory=dict)
    held: Time = 0
    held_rows: float = 0.0
    rows: float | None = None
    layout: Layout | None = None
    meaning: str = ""
    price: float = 1.0
    point: int = 1
    ahead: tuple[UpcomingPoint, ...] = ()
    cycle: Mapping[int, Rows] = field(default_factory=dict)
    cycles: tuple[Cycle[int], ...] = ()
    budget: int | None = None
    crowded: bool = False
    past: Past = NOTHING_PAST
    learned: Learned = NOTHING_LEARNED
    tells: bool = False
    measured: KnownRows = lambda _tree, _form: None

    @property
    def steps(self) -> tuple[Mapping[int, SourceChange], ...]:
        """The changes of the sources, one mapping per transition."""
        return self.between or (self.sources,)

    @property
    def unchanged(self) -> dict[int, SourceChange]:
        """The sources as they are, without changes."""
        return {n: replace(s, changed=False) for n, s in self.sources.items()}

    @property
    def packs(self) -> frozenset[str]:
        """The packs among which this run would choose states: a preferred pack alone; none under FULL."""
        if self.policy == "FULL":
            return frozenset()
        return frozenset({self.settings.prefer}) if self.settings.prefer is not None else self.settings.packs

    @property
    def tight(self) -> bool:
        """True if the budget may not hold the states after the run unless they are merged."""
        taken = sum(p.bytes for pieces in self.pieces.values() for p in pieces)
        return self.budget is not None and (self.crowded or taken > NEAR_BUDGET * self.budget)
