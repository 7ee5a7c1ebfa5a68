"""The things that states are weighed by: likely runs, prices of work, room on storage."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from math import inf
from typing import TypeAlias

from tidemill.search.choose.extract import Extractor
from tidemill.search.choose.planned_run import PlannedRun
from tidemill.search.space.space import Followed, Space

Choosing: TypeAlias = Callable[[Collection[str], Followed], Extractor]
"""The choices of a run that may read the states of these names and follows these states."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A likely future run: its space, in which every candidate is kept, and its choices.

    Attributes:
        space: explored.
        choices: of a run of that space.
        weight: the share of runs that are like it.
        grown: the factor by which its sources are taken to have grown.
    """

    space: Space
    choices: Choosing
    weight: float = 1.0
    grown: float = 1.0


@dataclass(frozen=True, slots=True)
class Prices:
    """Costs of states in CPU milliseconds.

    Attributes:
        filling: of making the states named that are not there.
        step: of a step that writes one, beside its rows.
        anew: of a run that makes all anew, with the states named; None if no run may be full by choice.
        last_first: the cost of likely runs counts before that of making states.
    """

    filling: Callable[[Collection[str]], float]
    step: float
    anew: Callable[[Collection[str]], float] | None = None
    last_first: bool = False

    @property
    def making(self) -> PlannedRun:
        """The run that makes states, as costs are compared."""
        return PlannedRun(0, rank=0 if self.last_first else None)

    @property
    def likely(self) -> PlannedRun:
        """A likely run, as costs are compared."""
        return PlannedRun(1, rank=1 if self.last_first else None)


@dataclass(frozen=True, slots=True)
class Room:
    """The room for states on storage, in bytes: what each candidate takes, and the budget (None: no limit)."""

    sizes: Mapping[str, float]
    budget: float | None = None

    def taken(self, names: Iterable[str]) -> float:
        """Bytes of these states."""
        return sum(self.sizes.get(name, 0.0) for name in names)

    def fits(self, names: Iterable[str]) -> bool:
        """True if the budget holds these states."""
        return self.budget is None or self.taken(names) <= self.budget


@dataclass(frozen=True, slots=True)
class Weighed:
    """The states worth keeping.

    Attributes:
        names: theirs.
        gains: by candidate, what a likely run would cost more without it (of one that is not kept, what it costs less
            with it), in CPU milliseconds; None if nothing computes such a run without it.
        curve: the cheapest sets that were found, as in `Choice`.
    """

    names: frozenset[str]
    gains: Mapping[str, float | None]
    curve: tuple[tuple[float, float], ...]


def run_cost(scenario: Scenario, prices: Prices, kept: Collection[str]) -> float:
    """Cost of a run that follows these states and reads no others; infinite if it has no plan."""
    return costs_of(scenario, prices, kept, [scenario.space.change])[0]


def costs_of(scenario: Scenario, prices: Prices, kept: Collection[str], groups: Collection[int]) -> list[float]:
    """Costs of runs that follow these states, read no others and compute one of these groups each."""
    followed = scenario.space.followed(kept)
    extractor, written = scenario.choices(kept, followed), [*followed.written]
    if any(extractor.best(group) is None for group in written):
        return [inf] * len(groups)
    return [
        inf
        if extractor.best(group) is None
        else extractor.costs(extractor.planned([*written, group], 0))[0] + prices.step * len(written)
        for group in groups
    ]
