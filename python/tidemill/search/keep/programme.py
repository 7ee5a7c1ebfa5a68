"""Proposes the states to keep within a budget by a dynamic programme over the operators of the query's tree.

It is that of Tang, Shang, Elmore, Krishnan and Franklin, "Intermittent Query Processing", PVLDB 12(11), 2019, section
4.3. For an operator and m bytes, D(m) is the least cost with which the part of the query at and below it gives its
change, and F(m) that with which it gives all its rows. An operator divides m among its inputs, whose best states are
known for each number of bytes by then, and has its actions: each state of its own is kept or is not. A state is one
kept output (the paper's Materialize), the parts of an aggregate, or the rows that a join reads on one side, which
belong to that input: so keeping the left side, the right one, both or none are divisions of m among the inputs. A state
of a relation that rules made belongs to the lowest operator over all its sources.

Two things differ. The paper adds a formula for each operator to D and F of its inputs. Here the cost of a part of the
query is that of its cheapest plan with these states, so bytes and work that several operators share count once. And m
is no multiple of a unit: of the sets that take no more bytes than each of `STEPS` shares of the budget, the best is
carried on. What is left of the paper's assumption is that states that are best for a part are best for the whole. It
fails where a state serves several parts; so the result is a proposal, to be weighed beside others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from math import inf
from typing import TypeAlias

from tidemill.cost.guesses import RUNS_TO_EARN
from tidemill.memo.memo import Memo
from tidemill.search.keep.weighing import Prices, Room, Scenario, costs_of
from tidemill.tvr.form import DELTA, SNAPSHOT, at

States: TypeAlias = frozenset[str]
NOTHING: States = frozenset()
STEPS = 16
"""Number of shares of the budget for which an operator's best states are carried on."""


def proposed(
    scenarios: Sequence[Scenario],
    prices: Prices,
    room: Room,
    cost: Callable[[States], float],
    over: Callable[[], bool] = lambda: False,
) -> States:
    """The states that the programme proposes for a budget; no state at all once `over` is true.

    `cost`: of a likely run with a set of states, which decides at the root.
    """
    programme = _Programme(scenarios, prices, room, over)
    found = programme.best(scenarios[0].space.root)
    return NOTHING if over() else min(found, key=lambda kept: (cost(kept), room.taken(kept)))


class _Programme:
    """The best states of each operator, for its change and for all its rows, by bytes."""

    def __init__(self, scenarios: Sequence[Scenario], prices: Prices, room: Room, over: Callable[[], bool]) -> None:
        self._scenarios, self._prices, self._room, self._over = scenarios, prices, room, over
        self._filling: dict[States, float] = {}
        space = scenarios[0].space
        self._memo = space.memo
        self._own: dict[int, list[str]] = defaultdict(list)
        for name, relation in {c.name: c.tvr for c in reversed(space.candidates)}.items():
            self._own[lowest_over(space.memo, space.root, relation)].append(name)

    def best(self, relation: int) -> list[States]:
        """The best sets of states of an operator and those below it: for its change, and for all its rows."""
        inputs = [self.best(i) for i in self._memo.tvrs[relation].expressions[0][1]]
        found = self._fitting(NOTHING.union(*parts) for parts in product(*inputs))
        if sum(len(sets) > 1 for sets in inputs) > 1:
            found = self._thinned(relation, found)
        for name in self._own[relation]:
            kept = self._fitting(some | {name} for some in found)
            found = self._thinned(relation, list(dict.fromkeys([*found, *kept])))
        return found

    def _fitting(self, sets: Iterable[States]) -> list[States]:
        """Returns those of these sets that the budget holds, each once."""
        return [kept for kept in dict.fromkeys(sets) if self._room.fits(kept)]

    def _thinned(self, relation: int, sets: Sequence[States]) -> list[States]:
        """The sets with D(m) and F(m) of an operator, for each share m of the budget; no state at all is among them."""
        if self._over():
            return [NOTHING]
        costs = {kept: self._costs(relation, kept) for kept in sets}
        carried = {NOTHING}
        for which in (0, 1):
            ordered = sorted(sets, key=lambda kept: (costs[kept][which], self._room.taken(kept)))
            for share in self._shares(sets):
                within = (kept for kept in ordered if self._room.taken(kept) <= share)
                carried.add(next(within, NOTHING))
        return [kept for kept in sets if kept in carried]

    def _shares(self, sets: Iterable[States]) -> list[float]:
        """The numbers of bytes that D and F are found for."""
        most = max(map(self._room.taken, sets))
        budget = most if self._room.budget is None else min(most, self._room.budget)
        return [budget * step / STEPS for step in range(STEPS)] + [budget]

    def _costs(self, relation: int, kept: States) -> tuple[float, float]:
        """The costs to give an operator's change, and all its rows, in a likely run that follows these states, with its
        part of the cost of making them."""
        if self._over():
            return inf, inf
        if kept not in self._filling:
            self._filling[kept] = self._prices.filling(kept) / RUNS_TO_EARN
        change = rows = self._filling[kept]
        for scenario in self._scenarios:
            space, memo = scenario.space, scenario.space.memo
            groups = [memo.form(relation, at(SNAPSHOT, space.now))]
            if memo.changed(relation, space.since):
                groups.append(memo.change(relation, DELTA, space.since))
            each = costs_of(scenario, self._prices, kept, groups)
            rows += scenario.weight * each[0]
            change += scenario.weight * (each[1] if len(each) > 1 else 0.0)
        return change, rows


def lowest_over(memo: Memo, top: int, relation: int) -> int:
    """The lowest of the query's operators at and below `top` that is this relation, or reads all its sources."""
    sources = memo.tvrs[relation].props.sources
    while top != relation:
        below = [i for i in memo.tvrs[top].expressions[0][1] if sources <= memo.tvrs[i].props.sources]
        if not below:
            break
        top = next((i for i in below if _has(memo, i, relation)), below[0])
    return top


def _has(memo: Memo, top: int, relation: int) -> bool:
    """True if an operator of the query at or below `top` is this relation."""
    return top == relation or any(_has(memo, i, relation) for i in memo.tvrs[top].expressions[0][1])
