"""The states of a view that are worth keeping for likely runs, and their orders."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

from tidemill.cost.costing import CostModel, row_bytes
from tidemill.cost.guesses import GROWTH, STORED_SHARE
from tidemill.cost.kept import KeptRows
from tidemill.plan.change import SourceChange
from tidemill.rule.engine import Budget
from tidemill.search.choose.extract import Extractor
from tidemill.search.contract.choice import Choice, Worth
from tidemill.search.contract.request import PlanRequest
from tidemill.search.keep.keeping import read_by_likely_runs, worth_keeping, worth_ordering
from tidemill.search.keep.likely import Likely, circumstances, likely_changes, may_be_full
from tidemill.search.keep.weighing import Prices, Room, Scenario
from tidemill.search.space.seed import base
from tidemill.search.space.space import Followed, Kept, Space, written_once
from tidemill.tvr.form import SNAPSHOT, at


class Planning(Protocol):
    """The part of a planning call that the choice of states needs."""

    @property
    def request(self) -> PlanRequest:
        """The request that is planned."""
        ...

    @property
    def model(self) -> CostModel:
        """The cost model."""
        ...

    @property
    def budget(self) -> Budget:
        """The budget of a search."""
        ...

    def space(self, steps: Sequence[Mapping[int, SourceChange]], kept: Kept) -> Space:
        """The space of the run after these transitions."""
        ...

    def extractor(
        self, space: Space, *, past: bool = True, states: Collection[str] | None = None, followed: Followed
    ) -> Extractor:
        """The choices for a run of a space, as in `PlanningTask`."""
        ...


@dataclass(frozen=True, slots=True)
class Wanted:
    """States that are worth keeping.

    Attributes:
        names: their names.
        orders: by name the field that a base is worth ordering by.
        choice: what they were chosen for, and what is known of all candidates.
    """

    names: frozenset[str] = frozenset()
    orders: Mapping[str, str] = field(default_factory=dict)
    choice: Choice = field(default_factory=Choice)


@dataclass(frozen=True, slots=True)
class Question:
    """A choice of states that is to be made.

    Attributes:
        scenarios: the likely runs.
        prices, room: what states cost, and the bytes that they take and may take.
        sizes: the worth of each candidate with its bytes, as `Choice` has it; no gain is known yet.
    """

    scenarios: Sequence[Scenario]
    prices: Prices
    room: Room
    sizes: Mapping[str, Worth]


def wanted_states(planning: Planning, there: Collection[str] | None = None) -> Wanted:
    """The states to keep for likely changes. Those that are `there` need not be made; None: everything is, the content
    too."""
    made_for, question = circumstances(planning.request), asked(planning, there)
    if question is None:
        return Wanted(choice=Choice(made_for))
    scenarios, sizes = question.scenarios, question.sizes
    found = worth_keeping(scenarios, question.prices, question.room, planning.budget)
    # Where arrivals at the query's own operators are counted, a state of another operator saves nothing that counts.
    counts = planning.model.counted(()) is not None
    names = without_unread(scenarios, found.names & _of_the_query(scenarios[0].space) if counts else found.names)
    worth = {name: replace(sizes[name], gain=gain) for name, gain in found.gains.items() if name in sizes}
    choice = Choice(made_for, worth, found.curve)
    return Wanted(names, worth_ordering(scenarios, names, planning.model), choice)


def asked(planning: Planning, there: Collection[str] | None = None) -> Question | None:
    """The likely runs of a view, and what states cost and take; None if no source ever changes. `there`: as in
    `wanted_states`."""
    request = planning.request
    scenarios = [_scenario(planning, likely) for likely in likely_changes(request)]
    if not scenarios:
        return None
    step, space = float(planning.model.save(0.0)), scenarios[0].space
    sizes = _bytes(request, scenarios[0])
    anew = partial(_filling, planning, space, step=step) if may_be_full(request) else None
    prices = Prices(partial(_making, planning, space, there, step=step), step, anew, request.settings.last_first)
    room = Room({name: worth.bytes for name, worth in sizes.items()}, request.budget)
    return Question(scenarios, prices, room, sizes)


def _of_the_query(space: Space) -> frozenset[str]:
    """The candidates that are outputs of the query's own operators, or their parts."""
    own, open_ = set[int](), [space.root]
    while open_:
        relation = open_.pop()
        own.add(relation)
        open_ += space.memo.tvrs[relation].expressions[0][1]
    return frozenset(c.name for c in space.candidates if c.tvr in own)


def unread_states(planning: Planning, kept: Collection[str]) -> frozenset[str]:
    """The states among `kept` that no likely run reads while all of them are there."""
    scenarios = [_scenario(planning, likely) for likely in likely_changes(planning.request)]
    return frozenset(kept) - read_by_likely_runs(scenarios, kept)


def without_unread(scenarios: Sequence[Scenario], names: frozenset[str]) -> frozenset[str]:
    """These states without those that no likely run reads, nor the states that are unread without them."""
    while (read := read_by_likely_runs(scenarios, names)) != names:
        names = read
    return names


def _scenario(planning: Planning, likely: Likely) -> Scenario:
    learned = KeptRows(learned=planning.request.learned.sizes)
    space = planning.space([likely.changes], Kept(None, rows=learned))

    def choices(states: Collection[str], followed: Followed) -> Extractor:
        return planning.extractor(space, states=states, followed=followed)

    return Scenario(space, choices, likely.weight, likely.grown)


def _bytes(request: PlanRequest, scenario: Scenario) -> dict[str, Worth]:
    """The worth of each candidate, with its bytes on storage alone: by its own pieces if it has any, with room for the
    next segments; by what an earlier run saw; else by its rows and their types."""
    found, seen = dict[str, Worth](), request.chosen.worth if request.chosen is not None else {}
    columns = scenario.space.memo.columns
    for candidate in scenario.space.candidates:
        name, pieces = candidate.name, request.pieces.get(candidate.name, ())
        if pieces:
            found[name] = Worth(GROWTH * sum(p.bytes for p in pieces), 0.0, measured=True)
        elif name in seen and seen[name].measured:
            found[name] = seen[name]
        else:
            rows = scenario.space.facts.kept.size(name) / scenario.grown
            width = row_bytes(columns.type(column) for column, _, _ in candidate.scan.columns)
            found[name] = Worth(rows * width * STORED_SHARE, 0.0)
    return found


def _making(
    planning: Planning, space: Space, there: Collection[str] | None, kept: Collection[str], *, step: float
) -> float:
    """CPU milliseconds of making these states, without those that are `there`; None: in an initial load."""
    if there is None:
        return _filling(planning, space, kept, step=step)
    written = _bases(space, frozenset(kept).difference(there))
    if not written.written:
        return 0.0
    anew = planning.extractor(space, past=False, followed=written)
    return anew.costs(anew.planned([*written.written], 0))[0] + step * len(written.written)


def _filling(planning: Planning, space: Space, kept: Collection[str], *, step: float) -> float:
    """CPU milliseconds of an initial load with these states; `step`: of a step that writes one, beside its rows."""
    written = _bases(space, kept)
    result = space.memo.form(space.root, at(SNAPSHOT, space.now))
    anew = planning.extractor(space, past=False, followed=written)
    return anew.costs(anew.planned([*written.written, result], 0))[0] + step * len(written.written)


def _bases(space: Space, names: Collection[str]) -> Followed:
    return written_once((c.name, base(space.memo, c, space.now)) for c in space.candidates if c.name in names)
