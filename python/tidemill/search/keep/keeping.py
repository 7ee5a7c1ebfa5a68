"""Chooses the states worth keeping: those that make runs cheaper by more than making and following them costs.

The search starts from the states that the cheapest plans of small changes would read if every candidate were kept, and
those needed to follow these. Then states are dropped one by one, the most expensive to follow first, others are added,
or one replaces another, whenever that lowers the total cost. With few candidates, all sets are tried. A budget limits
the bytes that the states take. States are made by a run before the likely ones, which are those of the last point.
Where the last run counts first, the cost of making them only decides between sets with which likely runs cost the same.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from itertools import chain, combinations, product
from math import inf, sqrt

from tidemill.cost.costing import CostModel
from tidemill.cost.guesses import RUNS_TO_EARN
from tidemill.memo.events import EventKind
from tidemill.plan.ops import state_of
from tidemill.rule.engine import Budget, Stopped
from tidemill.search.choose.planned_run import Priced
from tidemill.search.keep.programme import proposed
from tidemill.search.keep.weighing import Prices, Room, Scenario, Weighed, run_cost
from tidemill.search.space.orders import keyed_reads
from tidemill.search.space.space import Followed

TRIES = 12
"""Largest number of states to try to drop, and of states to try to add."""
SWAPS = 3
"""Number of states that are cheapest to drop, and to add, that are tried in each other's place."""
FEW = 4
"""Largest number of candidates for which all sets are tried."""
FEW_WITHIN = 8
"""The same where a budget does not hold what would be kept without it."""
BISECTIONS = 6
"""Number of prices of a byte that are tried."""
SPREAD = 16.0
"""Factor between a price of a byte and the next one, until one is too low and one high enough."""
ROUNDS = 3
"""Largest number of rounds over all states; the search ends earlier when a round gains nothing."""


def worth_keeping(scenarios: Sequence[Scenario], prices: Prices, room: Room, budget: Budget) -> Weighed:
    """The states to keep for likely runs like `scenarios`; the best set found within the seconds of `budget`."""
    search = _Search(scenarios, prices, room, time.monotonic() + budget.seconds)
    start = frozenset[str]().union(*map(_needed, scenarios))
    search.order(start)
    search.tell(start, "best")
    best = search.descend(start, 0.0) if len(search.names) > FEW else search.every(start)
    if not room.fits(best):
        best = search.within(best)
    return search.weighed(best)


class _Search:
    """A search for the cheapest set of states that fits, each set weighed once.

    Beyond a budget, sets are compared by their cost plus a price of their bytes: the higher the price, the fewer bytes
    the cheapest set takes. Bisection finds a price at which it fits. Two more sets compete with what it finds: all
    candidates without those that gain least per byte, and what the programme of the paper of IQP proposes, which
    divides the budget among the inputs of each operator (`programme`). In a memo states have several readers, so their
    gains do not add up and the programme may miss the best set; all three are compared by the cost of the whole set.
    What is left of the budget is filled by single steps and swaps from the cheapest of them.
    """

    def __init__(self, scenarios: Sequence[Scenario], prices: Prices, room: Room, end: float) -> None:
        self._scenarios, self._prices, self._room, self._end = scenarios, prices, room, end
        self._costs: dict[frozenset[str], Priced] = {}
        self._ms: dict[frozenset[str], float] = {}
        self._least: float | None = None
        self.names: tuple[str, ...] = ()
        """The candidates that are tried."""

    def order(self, kept: frozenset[str]) -> None:
        """Chooses the candidates to try: of these the dearest to follow first, and others."""
        follow = dict.fromkeys(kept, 0.0)
        for scenario in self._scenarios:
            written, chosen = scenario.space.followed(kept).written, scenario.choices(kept, Followed())
            for group, name in written.items():
                follow[name] = max(follow[name], chosen.cost(group))
        dearest = sorted(kept, key=lambda name: (-follow[name], name))
        others = sorted({c.name for c in self._scenarios[0].space.candidates} - kept)
        most = TRIES if self._room.fits(kept) else len(dearest)
        self.names = (*dearest[:most], *others[:TRIES])

    @property
    def over(self) -> bool:
        """True if time is up."""
        return time.monotonic() > self._end

    def cost(self, kept: frozenset[str]) -> Priced:
        """Average cost of a run that follows these states and reads no others, with its part of the cost of making
        them, as costs are compared; infinite if it has no plan."""
        if kept not in self._costs:
            runs, making = self._average(kept), self._prices.filling(kept) / RUNS_TO_EARN
            self._ms[kept] = runs if self._prices.last_first else runs + making
            self._costs[kept] = inf if runs == inf else self._prices.likely.priced(runs) + self._making(making)
        return self._costs[kept]

    def ms(self, kept: frozenset[str]) -> float:
        """The same in CPU milliseconds; where the last run counts first, of the run alone."""
        self.cost(kept)
        return self._ms[kept]

    def _making(self, ms: float) -> Priced:
        return inf if ms == inf else self._prices.making.priced(ms)

    def _average(self, kept: frozenset[str]) -> float:
        anew, runs = self._prices.anew, 0.0
        if anew is not None and self._least is None:
            self._least = anew(())
        for scenario in self._scenarios:
            run = run_cost(scenario, self._prices, kept)
            if anew is not None and self._least is not None and run > self._least:
                run = min(run, anew(kept))
            runs += scenario.weight * run
        return runs

    def tell(self, kept: frozenset[str], kind: EventKind) -> None:
        """Tells readers of the memo's events what a set costs."""
        taken = "" if self._room.budget is None else f", {self._room.taken(kept):.0f} bytes"
        words = f"later runs with {', '.join(sorted(kept)) or 'no state'}: {self.ms(kept):.3f} ms{taken}"
        self._scenarios[0].space.memo.emit(kind, "", 0, words)

    def every(self, kept: frozenset[str]) -> frozenset[str]:
        """The best of all sets that fit; `kept` if none is better."""
        best, least = kept, self.cost(kept) if self._room.fits(kept) else inf
        for some in chain.from_iterable(combinations(self.names, number) for number in range(len(self.names) + 1)):
            if self.over:
                break
            found = frozenset(some)
            if found == kept or not self._room.fits(found):
                continue
            better = self.cost(found) < least or not self._room.fits(best)
            self.tell(found, "kept" if better else "dropped")
            if better:
                best, least = found, self.cost(found)
        return best

    def descend(self, kept: frozenset[str], price: float, *, fitting: bool = False) -> frozenset[str]:
        """The best set that single steps and swaps reach from `kept`: by cost plus `price` per byte; `fitting`: among
        those that fit."""

        def worth(names: frozenset[str]) -> Priced:
            if fitting and not self._room.fits(names):
                return inf
            return self.cost(names) + self._prices.likely.priced(price * self._room.taken(names))

        best, least = kept, worth(kept)

        def try_(names: Collection[str]) -> Priced:
            """Worth with these states toggled; keeps the change if it is better. Infinite when time is up."""
            nonlocal best, least
            if self.over:
                return inf
            found = best.symmetric_difference(names)
            now = worth(found)
            self.tell(found, "kept" if now < least else "dropped")
            if now < least:
                best, least = found, now
            return now

        for _ in range(ROUNDS):
            before, costs = best, {name: try_([name]) for name in self.names}
            cheapest = sorted(self.names, key=costs.__getitem__)
            given_up = [n for n in cheapest if n in best][:SWAPS]
            added = [n for n in cheapest if n not in best][:SWAPS]
            for swap in product(given_up, added):
                if swap[0] in best and swap[1] not in best:
                    try_(swap)
            if best == before:
                break
        return best

    def within(self, best: frozenset[str]) -> frozenset[str]:
        """The best set that fits into the budget, if `best` does not; at least no state at all always fits."""
        found, nothing = self._fitted(best), frozenset[str]()
        finite = [ms for ms in self._ms.values() if ms < inf]
        high = max(finite, default=1.0) / max(1.0, self._room.budget or 0.0)
        low = 0.0
        for _ in range(BISECTIONS):
            if self.over:
                break
            price = high if low == 0.0 else sqrt(low * high)
            some = self.descend(best, price)
            if self._room.fits(some):
                found, high = min(found, some, key=self.cost), price
                low = low or price / SPREAD
            else:
                low = price
                high = max(high, price * SPREAD)
        few = len(self.names) <= FEW_WITHIN
        found = min(found, nothing, *(() if few else self._others()), key=self.cost)
        found = self.descend(found, 0.0, fitting=True)
        return self.every(found) if few else found

    def _others(self) -> Iterator[frozenset[str]]:
        """Sets that fit and are found in other ways than from what would be kept without a budget; the programme gets
        half of the time that is left, as it proposes nothing until its end."""
        if not self.over:
            half = (time.monotonic() + self._end) / 2
            yield proposed(self._scenarios, self._prices, self._room, self.cost, lambda: time.monotonic() > half)
        if not self.over:
            yield self._fitted(frozenset(self.names))

    def _fitted(self, kept: frozenset[str]) -> frozenset[str]:
        """These states without those that gain least per byte, so many that the rest fits."""
        while not self._room.fits(kept):
            gains = {name: self.ms(kept - {name}) - self.ms(kept) if not self.over else 0.0 for name in kept}
            kept -= {min(sorted(kept), key=lambda name: gains[name] / max(1.0, self._room.sizes.get(name, 0.0)))}
        return kept

    def weighed(self, best: frozenset[str]) -> Weighed:
        """Everything that is known of this set, and of all that were weighed, no state at all among them."""
        if not self.over:
            self.cost(frozenset())
        gains: dict[str, float | None] = {}
        for name in sorted({c.name for c in self._scenarios[0].space.candidates}):
            other = best ^ {name}
            if other not in self._costs and self.over:
                continue
            without, with_it = (other, best) if name in best else (best, other)
            if self.cost(with_it) < inf:
                gains[name] = None if self.cost(without) == inf else self.ms(without) - self.ms(with_it)
        curve: list[tuple[float, float]] = []
        for kept, cost in sorted(self._ms.items(), key=lambda item: (self._room.taken(item[0]), item[1])):
            if cost < (curve[-1][1] if curve else inf):
                curve.append((self._room.taken(kept), cost))
        return Weighed(best, gains, tuple(curve))


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
            saved[name, asked.field] += asked.saves(rows.size(name), model) * scenario.weight
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
