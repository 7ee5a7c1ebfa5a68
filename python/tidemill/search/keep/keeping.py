"""Chooses the states worth keeping: those that make runs cheaper by more than making and following them costs.

The search starts from the states that the cheapest plans of small changes would read if every candidate were kept, and
those needed to follow these. Then states are dropped one by one, the most expensive to follow first, others are added,
or one replaces another, whenever that lowers the total cost. With few candidates, all sets are tried. At first nobody
knows which sources change from run to run: changes of all sources and of the large ones alone have equal weight.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, product
from math import inf
from typing import TypeAlias

from tidemill.cost.costing import CostModel
from tidemill.cost.guesses import RUNS_TO_EARN
from tidemill.memo.events import EventKind
from tidemill.plan.ops import state_of
from tidemill.rule.engine import Budget, Stopped
from tidemill.search.choose.extract import Extractor
from tidemill.search.space.orders import keyed_reads
from tidemill.search.space.space import Followed, Space

Choosing: TypeAlias = Callable[[Collection[str], Followed], Extractor]
"""The choices of a run that may read the states of these names and follows these states."""
TRIES = 12
"""Largest number of states to try to drop, and of states to try to add."""
SWAPS = 3
"""Number of states that are cheapest to drop, and to add, that are tried in each other's place."""
FEW = 4
"""Largest number of candidates for which all sets are tried."""
ROUNDS = 3
"""Largest number of rounds over all states; the search ends earlier when a round gains nothing."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A likely future run: its space, in which every candidate is kept, and its choices."""

    space: Space
    choices: Choosing


@dataclass(frozen=True, slots=True)
class Prices:
    """Costs of states in CPU milliseconds: of the initial load with the states named, and of a step that writes one,
    beside its rows."""

    filling: Callable[[Collection[str]], float]
    step: float


def worth_keeping(scenarios: Sequence[Scenario], prices: Prices, budget: Budget) -> frozenset[str]:
    """Names of the states to keep for likely runs like `scenarios`; the best set found within the budget's seconds."""
    end = time.monotonic() + budget.seconds
    kept = frozenset[str]().union(*map(_needed, scenarios))
    follow = dict.fromkeys(kept, 0.0)
    for scenario in scenarios:
        written, chosen = scenario.space.followed(kept).written, scenario.choices(kept, Followed())
        for group, name in written.items():
            follow[name] = max(follow[name], chosen.cost(group))
    dearest = sorted(kept, key=lambda name: (-follow[name], name))
    others = sorted({c.name for c in scenarios[0].space.candidates} - kept)
    names, best = (*dearest[:TRIES], *others[:TRIES]), _cost(scenarios, prices, kept)

    def tell(what: Iterable[str], cost: float, kind: EventKind | None = None) -> None:
        words = f"later runs with {', '.join(sorted(what)) or 'no state'}: {cost:.3f} ms, the best so far {best:.3f} ms"
        scenarios[0].space.memo.emit(kind or ("kept" if cost < best else "dropped"), "", 0, words)

    tell(kept, best, "best")
    if len(names) <= FEW:
        for some in chain.from_iterable(combinations(names, number) for number in range(len(names) + 1)):
            if time.monotonic() > end:
                break
            cost = _cost(scenarios, prices, frozenset(some))
            if kept != frozenset(some):
                tell(some, cost)
            if cost < best:
                kept, best = frozenset(some), cost
        return kept

    def try_(names: Collection[str]) -> float:
        """Cost with these states toggled; keeps the change if it is cheaper. Infinite when time is up."""
        nonlocal kept, best
        if time.monotonic() > end:
            return inf
        cost = _cost(scenarios, prices, kept.symmetric_difference(names))
        tell(kept.symmetric_difference(names), cost)
        if cost < best:
            kept, best = kept.symmetric_difference(names), cost
        return cost

    for _ in range(ROUNDS):
        before, costs = kept, {name: try_([name]) for name in names}
        cheapest = sorted(names, key=costs.__getitem__)
        given_up, added = [n for n in cheapest if n in kept][:SWAPS], [n for n in cheapest if n not in kept][:SWAPS]
        for swap in product(given_up, added):
            if swap[0] in kept and swap[1] not in kept:
                try_(swap)
        if kept == before:
            break
    return kept


def worth_ordering(scenarios: Sequence[Scenario], kept: Collection[str], model: CostModel) -> dict[str, str]:
    """The fields worth ordering the bases of kept states by, by the states' names: runs like `scenarios` ask for so few
    keys that look-ups save more than the order costs."""
    saved: dict[tuple[str, str], float] = defaultdict(float)
    rows = scenarios[0].space.facts.kept
    for scenario in scenarios:
        space, followed = scenario.space, scenario.space.followed(kept)
        extractor = scenario.choices(kept, followed)
        plan = extractor.planned([*followed.written, space.change], 0)
        used = [(p.group, p.choice.expression) for p in plan if p.choice.expression is not None]
        for name, asked in keyed_reads(space.memo, space.facts, used, extractor.rows).items():
            saved[name, asked.field] += asked.saves(rows.size(name), model) / len(scenarios)
    return {
        name: field
        for (name, field), saving in sorted(saved.items(), key=lambda item: item[1])
        if name in kept and saving * RUNS_TO_EARN >= model.ordering(rows.size(name))
    }


def read_by_likely_runs(scenarios: Sequence[Scenario], kept: Collection[str]) -> frozenset[str]:
    """The states among `kept` that a likely run reads for the view's change, or to follow a state that it reads.

    Another state only costs its upkeep. The choice by cost does not notice that where the state's change is a part of
    the view's change, which the plan of a tree computes for each reader unless it is written for a state.
    """
    found: set[str] = set()
    for scenario in scenarios:
        space, followed = scenario.space, scenario.space.followed(kept)
        extractor, needed = scenario.choices(kept, followed), frozenset[str]()
        if space.explored.stopped is Stopped.TIME_LIMIT or extractor.best(space.change) is None:
            return frozenset(kept)  # nobody knows all that such a run could read
        while True:
            demands = [*(group for group, name in followed.written.items() if name in needed), space.change]
            ops = [p.choice.expression.op for p in extractor.planned(demands, 0) if p.choice.expression is not None]
            read = needed | {name for op in ops if (name := state_of(op)) is not None and name in kept}
            if read == needed:
                break
            needed = read
        found |= needed
    return frozenset(found)


def _needed(scenario: Scenario) -> frozenset[str]:
    """The states that the cheapest plan of the view's change reads, and those that following these reads."""
    space = scenario.space
    every = {c.name for c in space.candidates}
    kept: frozenset[str] = frozenset()
    while True:
        followed = space.followed(kept)
        plan = scenario.choices(every, followed).planned([*followed.written, space.change], 0)
        ops = [p.choice.expression.op for p in plan if p.choice.expression is not None]
        read = {name for op in ops if (name := state_of(op)) in every and name is not None}
        if read <= kept:
            return kept
        kept |= read


def _cost(scenarios: Sequence[Scenario], prices: Prices, kept: Collection[str]) -> float:
    """Average cost of a run that follows these states and reads no others, with its part of the cost of making them."""
    runs = sum(_run_cost(s, prices, kept) for s in scenarios) / len(scenarios)
    return runs + prices.filling(kept) / RUNS_TO_EARN


def _run_cost(scenario: Scenario, prices: Prices, kept: Collection[str]) -> float:
    """Cost of a run; infinite if it has no plan."""
    followed = scenario.space.followed(kept)
    extractor, demands = scenario.choices(kept, followed), [*followed.written, scenario.space.change]
    if any(extractor.best(group) is None for group in demands):
        return inf
    return extractor.costs(extractor.planned(demands, 0))[0] + prices.step * len(followed.written)
