"""States that a view keeps, as others would choose them: after figures 7 and 8 of the paper of IQP, by estimate alone.

Sets are compared by what the choice of states minimises: the cost of a likely run that follows them, with its part of
the cost of making them. The baselines are ours, written after the paper's words: its dynamic programme
(`tidemill.search.keep.programme`); the rule of thumb of a cache, for which nobody predicts what changes next; every
candidate; no state at all, with all computed anew. Nothing is run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import fmean
from typing import Any, TypeAlias
from unittest import mock

from benchmarks.planning import NO_LIMIT
from tidemill.cost.guesses import RUNS_TO_EARN
from tidemill.memo.memo import Memo
from tidemill.plan.ops import Aggregate, Join
from tidemill.rule.engine import Budget
from tidemill.search.contract.request import PlanRequest
from tidemill.search.keep import keeping
from tidemill.search.keep.programme import proposed
from tidemill.search.keep.wanted import Question, asked, without_unread
from tidemill.search.keep.weighing import Room, run_cost
from tidemill.search.runs.task import PlanningTask
from tidemill.search.space.seed import Candidate, base
from tidemill.search.space.space import Followed, normal_query

QUERIES = (3, 5, 7, 8, 9)
SHARES = {"0": 0.0, "1/16": 1 / 16, "1/8": 1 / 8, "1/4": 1 / 4, "1/2": 1 / 2, "1": 1.0}
"""Budgets, as shares of what is kept without one."""
FEW = 12
"""Largest number of candidates of which all sets are weighed."""
PASSES = 2
"""Times that each state comes to the cache: when it is made, and when the first change has made another one of it."""
ALL = "all"
KINDS = ("parts of aggregates", "filtered rows", "outputs of joins", ALL)
States: TypeAlias = frozenset[str]
NOTHING: States = frozenset()


def best_of_all(names: Collection[str], fits: Callable[[States], bool], cost: Callable[[States], float]) -> States:
    """The cheapest set of these states that fits, of all sets."""
    sets = (frozenset(some) for n in range(len(names) + 1) for some in combinations(sorted(names), n))
    return min(filter(fits, sets), key=cost)


def cached(
    coming: Sequence[str], sizes: Mapping[str, float], budget: float, benefit: Callable[[str, States], float]
) -> States:
    """The states that a cache of so many bytes holds after they came to it in this order.

    One comes in where there is room, or where those of least benefit can make room that have less benefit on average.
    `benefit`: of a state, beside the others that are held.
    """
    held = NOTHING
    for name in (n for _ in range(PASSES) for n in coming if sizes[n] <= budget):
        if name in held:
            continue
        worth = {other: benefit(other, held - {other}) for other in held}
        left, gone = held, list[float]()
        for other in sorted(held, key=lambda n: (worth[n], n)):
            if sum(sizes[n] for n in left) + sizes[name] <= budget:
                break
            left -= {other}
            gone.append(worth[other])
        if not gone or fmean(gone) < benefit(name, held):
            held = left | {name}
    return held


def kind_of(memo: Memo, candidate: Candidate) -> str:
    """The kind of a state: by the operators that its rows come from."""
    operators = _operators(memo, candidate.tvr)
    if candidate.partial is not None or Aggregate in operators:
        return KINDS[0]
    return KINDS[2] if Join in operators else KINDS[1]


def _operators(memo: Memo, relation: int) -> set[type]:
    op, inputs = memo.tvrs[relation].expressions[0]
    return {type(op)}.union(*(_operators(memo, i) for i in inputs))


def reads(memo: Memo, root: int) -> Counter[int]:
    """Number of the query's operators that read each of its relations."""
    seen, found, open_ = {root}, Counter[int](), [root]
    while open_:
        inputs = memo.tvrs[open_.pop()].expressions[0][1]
        found.update(inputs)
        open_ += [i for i in dict.fromkeys(inputs) if i not in seen]
        seen.update(inputs)
    return found


@dataclass(frozen=True, slots=True)
class Kept:
    """A set of states with its cost, and what they take and cost to make."""

    names: States
    cost: float
    bytes: float
    filling: float


class Case:
    """The choice of states of one view, and its baselines.

    `request`: that of the first run of the view.
    """

    def __init__(self, request: PlanRequest) -> None:
        settings = replace(request.settings, time_limit=NO_LIMIT)
        task = PlanningTask(replace(request, query=normal_query(request.query), settings=settings))
        question = asked(task)
        if question is None:
            raise ValueError("no source of this view ever changes")
        self._question: Question = question
        self._costs: dict[States, float] = {}
        self._fillings: dict[States, float] = {}
        self._space = question.scenarios[0].space
        self.names = frozenset(c.name for c in self._space.candidates)
        self._reads = reads(self._space.memo, self._space.root)

    def room(self, budget: float | None) -> Room:
        """The room for states within a budget."""
        return Room(self._question.room.sizes, budget)

    def cost(self, kept: States) -> float:
        """Cost of a likely run that follows these states, with its part of the cost of making them."""
        if kept not in self._costs:
            runs = (s.weight * run_cost(s, self._question.prices, kept) for s in self._question.scenarios)
            self._costs[kept] = sum(runs) + self.filling(kept) / RUNS_TO_EARN
        return self._costs[kept]

    def filling(self, kept: States) -> float:
        """Cost of an initial load with these states."""
        if kept not in self._fillings:
            self._fillings[kept] = self._question.prices.filling(kept)
        return self._fillings[kept]

    @property
    def anew(self) -> float:
        """Cost of a run that computes all anew, on the same scale as `cost`."""
        return self.filling(NOTHING) * (1 + 1 / RUNS_TO_EARN)

    def chosen(self, room: Room) -> States:
        """The states that Tidemill keeps."""
        scenarios = self._question.scenarios
        found = keeping.worth_keeping(scenarios, self._question.prices, room, Budget(seconds=NO_LIMIT))
        return without_unread(scenarios, found.names)

    def searched(self, room: Room) -> States:
        """The same where its search never tries all sets, as it does for few candidates."""
        with mock.patch.multiple(keeping, FEW=0, FEW_WITHIN=0):
            return self.chosen(room)

    def programme(self, room: Room) -> States:
        """The states that the dynamic programme proposes."""
        return proposed(self._question.scenarios, self._question.prices, room, self.cost)

    def cache(self, budget: float) -> States:
        """The states that a cache keeps, which meets them in the order in which the query computes them."""
        coming = dict.fromkeys(c.name for c in sorted(self._space.candidates, key=lambda c: c.tvr))
        return cached(list(coming), self._question.room.sizes, budget, self._benefit)

    def _benefit(self, name: str, others: States) -> float:
        """The cost to compute a state from others and the sources, times its uses, by its bytes."""
        space, parts = self._space, self._space.named(name)
        extractor = self._question.scenarios[0].choices(others, Followed())
        cost = extractor.cost(base(space.memo, parts[0], space.now))
        uses = sum(max(1, self._reads[part.tvr]) for part in parts)
        return cost * uses / max(1.0, self._question.room.sizes[name])

    def kept(self, names: States) -> Kept:
        """A set of states with its figures."""
        return Kept(names, self.cost(names), self.room(None).taken(names), self.filling(names))

    def budgets(self) -> list[dict[str, Any]]:
        """The cost of a likely run by budget, as each way to choose has it."""
        most, rows = self.kept(self.chosen(self.room(None))).bytes, []
        for told, share in SHARES.items():
            room = self.room(share * most)
            found = {
                "chosen": self.chosen(room),
                "searched": self.searched(room),
                "programme": self.programme(room),
                "cache": self.cache(share * most),
            }
            if len(self.names) <= FEW:
                found["best"] = best_of_all(self.names, room.fits, self.cost)
            assert all(map(room.fits, found.values()))
            costs = {way: self.cost(names) for way, names in found.items()}
            rows.append(
                {"share": told, "budget": share * most, "candidates": len(self.names), **costs}
                | {"every": self.cost(self.names), "every_bytes": room.taken(self.names), "anew": self.anew}
            )
        return rows

    def kinds(self) -> list[dict[str, Any]]:
        """The states that are kept without a budget if only states of one kind may be, and if all may."""
        rows = []
        for kind in KINDS:
            barred = {c.name for c in self._space.candidates if kind not in {ALL, kind_of(self._space.memo, c)}}
            few = self.names - barred
            if len(few) <= FEW:
                names = best_of_all(few, lambda _: True, self.cost)
            else:
                # What takes more bytes than there are is never kept.
                sizes = self._question.room.sizes
                names = self.chosen(Room({**sizes, **dict.fromkeys(barred, 1e18)}, 1e17))
            kept = self.kept(names)
            rows.append(
                {"kind": kind, "candidates": len(few), "states": len(names), "bytes": kept.bytes}
                | {"run_ms": kept.cost - kept.filling / RUNS_TO_EARN, "filling_ms": kept.filling, "anew": self.anew}
            )
        return rows
