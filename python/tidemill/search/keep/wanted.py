"""The states of a view: which are worth keeping for the runs that are likely to come, and in which order."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tidemill.cost.costing import CostModel
from tidemill.plan.change import SourceChange
from tidemill.rule.engine import Budget
from tidemill.search.choose.extract import Extractor
from tidemill.search.contract.request import PlanRequest
from tidemill.search.keep.keeping import Prices, Scenario, worth_keeping, worth_ordering
from tidemill.search.keep.likely import likely_changes
from tidemill.search.space.seed import base
from tidemill.search.space.space import Followed, Kept, Space, written_once
from tidemill.tvr.form import SNAPSHOT, at


class Planning(Protocol):
    """A planning call, as far as states are chosen in it."""

    @property
    def request(self) -> PlanRequest:
        """What is planned."""
        ...

    @property
    def model(self) -> CostModel:
        """What costs are estimated by."""
        ...

    @property
    def budget(self) -> Budget:
        """The time that a search may take."""
        ...

    def space(self, steps: Sequence[Mapping[int, SourceChange]], kept: Kept) -> Space:
        """The space of the run after steps."""
        ...

    def extractor(
        self, space: Space, *, past: bool = True, states: Collection[str] | None = None, followed: Followed
    ) -> Extractor:
        """The choices for a run of a space, as of `PlanningTask`."""
        ...


@dataclass(frozen=True, slots=True)
class Wanted:
    """States that are worth keeping.

    Attributes:
        names: their names.
        orders: by name the field in whose order a base is worth writing.
    """

    names: frozenset[str] = frozenset()
    orders: Mapping[str, str] = field(default_factory=dict)


def wanted_states(planning: Planning) -> Wanted:
    """The states to keep for changes like those to come."""
    scenarios = [_scenario(planning, changes) for changes in likely_changes(planning.request)]
    if not scenarios:
        return Wanted()
    prices = Prices(lambda kept: _filling(planning, scenarios[0].space, kept), planning.model.save)
    names = worth_keeping(scenarios, prices, planning.budget)
    return Wanted(names, worth_ordering(scenarios, names, planning.model))


def _scenario(planning: Planning, changes: Mapping[int, SourceChange]) -> Scenario:
    space = planning.space([changes], Kept(None))
    return Scenario(space, lambda states, followed: planning.extractor(space, states=states, followed=followed))


def _filling(planning: Planning, space: Space, kept: Collection[str]) -> float:
    """CPU milliseconds of filling the view and these states."""
    written = written_once((c.name, base(space.memo, c, space.now)) for c in space.candidates if c.name in kept)
    result = space.memo.form(space.root, at(SNAPSHOT, space.now))
    anew = planning.extractor(space, past=False, followed=written)
    saving = sum(planning.model.save(anew.rows(group)) for group in written.written)
    return anew.costs(anew.planned([*written.written, result], 0))[0] + saving
