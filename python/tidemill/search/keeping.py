"""Which states are worth keeping: those that make runs cheaper by more than making and following them costs.

What the cheapest plan of a small change reads, were every state kept, and what following those needs, is where it
starts; then the states that cost most to follow are given up, one by one, where that makes the whole cheaper.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from math import inf
from typing import TypeAlias

from tidemill.plan.ops import StateScan
from tidemill.search.extract import Extractor
from tidemill.search.space import Followed, Space

Choosing: TypeAlias = Callable[[Collection[str], Followed], Extractor]
"""The choices where states of these names can be read, and these are followed."""
TRIES = 12
"""States that are tried to be given up, at most."""
RUNS_TO_EARN = 10
"""Runs within which a state must have saved what it cost to make it."""


@dataclass(frozen=True, slots=True)
class Prices:
    """What states cost, in CPU milliseconds: to make each, by name; to write so many rows of one."""

    making: Mapping[str, float]
    write: Callable[[float], float]


def worth_keeping(found: Space, choices: Choosing, prices: Prices) -> frozenset[str]:
    """Names of the states to keep. `found`: the space of a run like those to come, with every candidate kept."""
    kept = _needed(found, choices)
    extractor = choices(kept, Followed())
    costs = {
        name: max(map(extractor.cost, found.followed([name]).written), default=0.0) + prices.making[name] / RUNS_TO_EARN
        for name in kept
    }
    dearest = sorted(kept, key=lambda name: (-costs[name], name))
    best = _cost(found, choices, prices, kept)
    for name in dearest[:TRIES]:
        without = _cost(found, choices, prices, kept - {name})
        if without < best:
            kept, best = kept - {name}, without
    return kept


def _needed(found: Space, choices: Choosing) -> frozenset[str]:
    """What the cheapest plan of the view's change reads, and what following that needs."""
    every = {c.name for c in found.candidates}
    kept: frozenset[str] = frozenset()
    while True:
        followed = found.followed(kept)
        plan = choices(every, followed).planned([*followed.written, found.change], 0)
        ops = [p.choice.expression.op for p in plan if p.choice.expression is not None]
        read = {op.name for op in ops if isinstance(op, StateScan) and op.name in every}
        if read <= kept:
            return kept
        kept |= read


def _cost(found: Space, choices: Choosing, prices: Prices, kept: Collection[str]) -> float:
    """What a run costs that follows these states and reads no others, with its share of making them; infinite if there
    is no such run."""
    followed = found.followed(kept)
    extractor, demands = choices(kept, followed), [*followed.written, found.change]
    if any(extractor.best(group) is None for group in demands):
        return inf
    writing = sum(prices.write(extractor.rows(group)) for group in followed.written)
    making = sum(prices.making[name] for name in kept) / RUNS_TO_EARN
    return extractor.costs(extractor.planned(demands, 0))[0] + writing + making
