"""The states of a view that are worth keeping for likely runs, and their orders."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tidemill.cost.costing import CostModel
from tidemill.plan.change import SourceChange
from tidemill.rule.engine import Budget
from tidemill.search.choose.extract import Extractor
from tidemill.search.contract.request import PlanRequest
from tidemill.search.keep.keeping import Prices, Scenario, read_by_likely_runs, worth_keeping, worth_ordering
from tidemill.search.keep.likely import likely_changes
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
    """

    names: frozenset[str] = frozenset()
    orders: Mapping[str, str] = field(default_factory=dict)


def wanted_states(planning: Planning) -> Wanted:
    """The states to keep for likely changes."""
    scenarios = [_scenario(planning, changes) for changes in likely_changes(planning.request)]
    if not scenarios:
        return Wanted()
    step = float(planning.model.save(0.0))
    prices = Prices(lambda kept: _filling(planning, scenarios[0].space, kept, step), step)
    names = _without_unread(scenarios, worth_keeping(scenarios, prices, planning.budget))
    return Wanted(names, worth_ordering(scenarios, names, planning.model))


def unread_states(planning: Planning, kept: Collection[str]) -> frozenset[str]:
    """The states among `kept` that no likely run reads while all of them are there."""
    scenarios = [_scenario(planning, changes) for changes in likely_changes(planning.request)]
    return frozenset(kept) - read_by_likely_runs(scenarios, kept)


def _without_unread(scenarios: Sequence[Scenario], names: frozenset[str]) -> frozenset[str]:
    """These states without those that no likely run reads, nor the states that are unread without them."""
    while (read := read_by_likely_runs(scenarios, names)) != names:
        names = read
    return names


def _scenario(planning: Planning, changes: Mapping[int, SourceChange]) -> Scenario:
    space = planning.space([changes], Kept(None))
    return Scenario(space, lambda states, followed: planning.extractor(space, states=states, followed=followed))


def _filling(planning: Planning, space: Space, kept: Collection[str], step: float) -> float:
    """CPU milliseconds of an initial load with these states; `step`: of a step that writes one, beside its rows."""
    written = written_once((c.name, base(space.memo, c, space.now)) for c in space.candidates if c.name in kept)
    result = space.memo.form(space.root, at(SNAPSHOT, space.now))
    anew = planning.extractor(space, past=False, followed=written)
    return anew.costs(anew.planned([*written.written, result], 0))[0] + step * len(written.written)
