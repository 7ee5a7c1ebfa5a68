"""Settling: the cheapest way to have each group at each run, in the order of cost.

The memo has cycles (a new snapshot from a delta, the delta from the new snapshot), so choices are settled as in Knuth's
generalisation of Dijkstra's algorithm: a choice only ever uses what was settled before it.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tidemill.memo.memo import Expression, Memo
from tidemill.plan.ops import Changes, Op, Scan
from tidemill.search.costing import CostModel, CpuMs, Facts, Read, Rows
from tidemill.search.seed import READ_RESULT, READ_STATE
from tidemill.tvr.form import Time

Place: TypeAlias = tuple[int, int]
"""A group at a run, by number."""
NOT_PREFERRED = 1e12
"""Added to what a preferred pack could have done in its way."""


def preference_apart(cost: float) -> float:
    """A cost without what was added for packs that were not preferred."""
    return cost % NOT_PREFERRED


@dataclass(frozen=True, slots=True)
class Run:
    """A run that is planned: the moment at which it reads its sources, and the price of a unit of its work."""

    moment: Time
    price: float = 1.0


@dataclass(frozen=True, slots=True)
class Choice:
    """How a run comes to a group.

    Attributes:
        expression: what computes it; None if it is written, and loaded.
        rows: how many there are.
        own: CPU milliseconds of the expression alone; of a group that is loaded, to load it.
        cost: priced, with all below, at all runs.
        saved: the number of an earlier run that saved it; None if this run computes it, or has written it.
        saving: CPU milliseconds of that run to save it.
        uses: what is written and read on the way, as a set of bits (see `Given`).
    """

    expression: Expression | None
    rows: Rows
    own: CpuMs
    cost: float
    saved: int | None = None
    saving: float = 0.0
    uses: int = 0


@dataclass(frozen=True, slots=True)
class Given:
    """What is written at a place: its rows, and the bit by which its readers are known (0: none)."""

    rows: Rows
    bit: int = 0


@dataclass(slots=True)
class Way:
    """An allowed expression of a group.

    `distinct`: its different inputs; `penalty`: added to its cost; `known`: rows out and own cost for rows in.
    """

    group: int
    expression: Expression
    inputs: tuple[int, ...]
    distinct: frozenset[int]
    penalty: float
    known: dict[tuple[Rows, ...], tuple[Rows, CpuMs]] = field(default_factory=dict)


class Settling:
    """The ways there are, and how to choose among them.

    Args: as of `Extractor`.
    """

    def __init__(
        self,
        memo: Memo,
        model: CostModel,
        facts: Facts,
        allowed: Callable[[int, Expression], bool],
        prefer: str | None,
        runs: Sequence[Run],
        savable: Callable[[int], bool],
    ) -> None:
        self._memo = memo
        self._model = model
        self._facts = facts
        self._runs = runs
        self._savable = savable
        self._ways = list(self._all_ways(allowed, prefer))
        self._readers: dict[int, list[int]] = defaultdict(list)
        self.ways_of: dict[int, list[Way]] = defaultdict(list)
        for number, way in enumerate(self._ways):
            self.ways_of[way.group].append(way)
            for i in way.distinct:
                self._readers[i].append(number)

    def _all_ways(self, allowed: Callable[[int, Expression], bool], prefer: str | None) -> Iterator[Way]:
        for group in self._memo.live_groups():
            expressions = [e for e in group.expressions if allowed(group.number, e)]
            preferred = any(e.pack == prefer for e in expressions)
            for e in expressions:
                inputs = tuple(map(self._memo.find, e.inputs))
                behind = preferred and e.pack != prefer and e.rule not in {READ_STATE, READ_RESULT}
                yield Way(group.number, e, inputs, frozenset(inputs), NOT_PREFERRED if behind else 0.0)

    def settle(self, given: Mapping[Place, Given]) -> dict[Place, Choice]:
        """The cheapest choice for every place that can be had, where some are written already."""
        best: dict[Place, Choice] = {}
        heap: list[tuple[float, int, Place, Choice]] = []
        missing = [[len(way.distinct)] * len(self._runs) for way in self._ways]
        order = 0

        def offer(place: Place, choice: Choice) -> None:
            nonlocal order
            order += 1
            heapq.heappush(heap, (choice.cost, order, place, choice))

        for place, what in given.items():
            load = self._model.load(what.rows)
            offer(place, Choice(None, what.rows, load, load * self._runs[place[1]].price, uses=what.bit))
        for way in self._ways:
            for i, run in enumerate(self._runs):
                place = (way.group, i)
                if not way.inputs and place not in given and self._is_there(way.expression.op, run):
                    offer(place, self.choice(way, i, best))
        while heap:
            _, _, place, choice = heapq.heappop(heap)
            if place in best:
                continue
            best[place] = choice
            group, i = place
            if choice.saved is None and self._savable(group):
                for later in range(i + 1, len(self._runs)):
                    offer((group, later), self._loaded(choice, i, later, written=place in given))
            for number in self._readers[group]:
                missing[number][i] -= 1
                way = self._ways[number]
                if missing[number][i] == 0 and (way.group, i) not in given:
                    offer((way.group, i), self.choice(way, i, best))
        return best

    def choice(self, way: Way, run: int, best: Mapping[Place, Choice]) -> Choice:
        """A way at a run, its inputs being chosen."""
        inputs = [best[i, run] for i in way.inputs]
        rows = tuple(choice.rows for choice in inputs)
        if rows not in way.known:
            op = way.expression.op
            known = self._facts.known.get(way.group, self._size(way))
            output = self._model.rows(op, rows, self._facts) if known is None else known
            reads = [self.read(i, r) for i, r in zip(way.inputs, rows, strict=True)]
            way.known[rows] = output, CpuMs(self._model.cost(op, reads, output, self._facts) + way.penalty)
        output, own = way.known[rows]
        cost, uses = own * self._runs[run].price, 0
        for choice in inputs:
            cost += choice.cost
            uses |= choice.uses
        return Choice(way.expression, output, own, cost, uses=uses)

    def _size(self, way: Way) -> Rows | None:
        """Rows of a relation at a moment: the same in whichever way they are computed."""
        e, about = way.expression, self._memo.group(way.group).about
        if about is None or about[1].kind.interval or not e.inputs or e.rule in {READ_STATE, READ_RESULT}:
            return None
        size = self._facts.sizes.get(about[0])
        return None if size is None else Rows(size)

    def read(self, group: int, rows: Rows) -> Read:
        """A group as a cost model sees it."""
        about = self._memo.group(group).about
        return Read(group, rows, None if about is None else about[1].kind)

    def _is_there(self, op: Op, run: Run) -> bool:
        """Whether a run can read a leaf: a source's rows are there from the moment on at which they came."""
        match op:
            case Scan(source, _, time) | Changes(source, _, _, time) if time is not None:
                return self._memo.timeline.settled(frozenset({source}), run.moment) >= time
            case _:
                return True

    def _loaded(self, choice: Choice, run: int, later: int, *, written: bool) -> Choice:
        """What one run computes, or has written, loaded by a later one."""
        load = self._model.load(choice.rows)
        cost = load * self._runs[later].price
        if written:
            return Choice(None, choice.rows, load, cost, run, uses=choice.uses)
        save = self._model.save(choice.rows)
        return Choice(
            None, choice.rows, load, cost + choice.cost + save * self._runs[run].price, run, save, choice.uses
        )
