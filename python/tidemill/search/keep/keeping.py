"""Which states are worth keeping: those that make runs cheaper by more than making and following them costs.

What the cheapest plans of small changes read, were every state kept, and what following those needs, is where it
starts; then the states that cost most to follow are given up, one by one, others are added, or take the place of one,
where that makes the whole cheaper; of a few, all sets are tried. Nobody knows at first which sources change from run to
run: all of them, and the large ones alone, count the same.
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
from tidemill.rule.engine import Budget
from tidemill.search.choose.extract import Extractor
from tidemill.search.space.orders import keyed_reads
from tidemill.search.space.space import Followed, Space

Choosing: TypeAlias = Callable[[Collection[str], Followed], Extractor]
"""The choices where states of these names can be read, and these are followed."""
TRIES = 12
"""States that are tried to be given up, and to be added, at most."""
SWAPS = 3
"""Of those that it would cost least to give up, and to add, how many are tried in each other's place."""
FEW = 4
"""Up to so many, all sets of them are tried."""
ROUNDS = 3
"""How often all of them are tried, at most: until nothing is gained."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A run like those to come: its space, with every candidate kept, and its choices."""

    space: Space
    choices: Choosing


@dataclass(frozen=True, slots=True)
class Prices:
    """What states cost, in CPU milliseconds: to fill the view and make those of these names; to write so many rows."""

    filling: Callable[[Collection[str]], float]
    write: Callable[[float], float]


def worth_keeping(scenarios: Sequence[Scenario], prices: Prices, budget: Budget) -> frozenset[str]:
    """Names of the states to keep where runs like all of these are to come; the best found within the seconds."""
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
        """What it would cost to change these over; so they are, if that is less. Infinite when time is up."""
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
    """Of the states that are kept, by name, the fields in whose order their bases are worth writing: where runs like
    these ask for so few keys that looking them up saves more than the order costs."""
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


def _needed(scenario: Scenario) -> frozenset[str]:
    """What the cheapest plan of the view's change reads, and what following that needs."""
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
    """What a run costs on average that follows these states and reads no others, with its share of making them."""
    runs = sum(_run_cost(s, prices, kept) for s in scenarios) / len(scenarios)
    return runs + prices.filling(kept) / RUNS_TO_EARN


def _run_cost(scenario: Scenario, prices: Prices, kept: Collection[str]) -> float:
    """What a run costs; infinite if there is no such run."""
    followed = scenario.space.followed(kept)
    extractor, demands = scenario.choices(kept, followed), [*followed.written, scenario.space.change]
    if any(extractor.best(group) is None for group in demands):
        return inf
    writing = sum(prices.write(extractor.rows(group)) for group in followed.written)
    return extractor.costs(extractor.planned(demands, 0))[0] + writing
