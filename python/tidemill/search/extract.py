"""Extraction: the cheapest way to have each group at each run, by dynamic programming over (group, run).

A run reads its sources at a moment of the timeline, and a unit of its work has a price. What a run needs it computes,
or it loads what an earlier run has saved (Tempura 6.1: an operator's time is not before its inputs', and between two
times lie a save and a load). Costs are those of trees: what two parents read is computed for both, unless it is shared:
then it is computed and written once, and each parent loads it (`sharing` decides what is). The memo has cycles (a new
snapshot from a delta, the delta from the new snapshot), so choices are settled in the order of their cost, as in
Knuth's generalisation of Dijkstra's algorithm: a choice only ever uses what was settled before it.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import TypeAlias

from tidemill.memo.memo import Expression, Memo
from tidemill.plan.ops import Changes, Op, ResultScan, Scan, StateScan
from tidemill.search.costing import CostModel, CpuMs, Facts, Read, Rows, Work
from tidemill.search.seed import READ_RESULT, READ_STATE
from tidemill.tvr.form import OLD, Time

Place: TypeAlias = tuple[int, int]
"""A group at a run."""
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
        expression: what computes it; None if it was staged, or is loaded.
        rows: how many there are.
        own: CPU milliseconds of the expression alone; of a group that is loaded, to load it.
        cost: priced, with all below, at all runs.
        saved: the number of the run that saved it; None if this run computes it.
        saving: CPU milliseconds of that run to save it.
    """

    expression: Expression | None
    rows: Rows
    own: CpuMs
    cost: float
    saved: int | None = None
    saving: float = 0.0


def reads_the_past(op: Op) -> bool:
    """True for what only an incremental run may read: changes, states, the result, old snapshots."""
    return isinstance(op, Changes | StateScan | ResultScan) or (isinstance(op, Scan) and op.at == OLD)


@dataclass(frozen=True, slots=True)
class Planned:
    """A group at a run, and how that run comes to it.

    `reads`: how often it is read in the course of the plan; `once`: it is computed once all the same, and written.
    """

    group: int
    run: int
    choice: Choice
    reads: int = 1
    once: bool = False

    @property
    def times(self) -> int:
        """How often it is computed."""
        return 1 if self.once else self.reads


@dataclass(slots=True)
class _Way:
    """An allowed expression of a group as settling sees it.

    `distinct`: its different inputs; `penalty`: added to its cost; `known`: rows out and own cost for rows in.
    """

    group: int
    expression: Expression
    inputs: tuple[int, ...]
    distinct: frozenset[int]
    penalty: float
    known: dict[tuple[Rows, ...], tuple[Rows, CpuMs]] = field(default_factory=dict)


class Extractor:
    """Chooses expressions by cost.

    Args:
        memo: explored.
        model, facts: the costs.
        allowed: which expressions may be used, by (group, expression).
        prefer: a pack whose expressions are taken wherever they apply, whatever they cost.
        runs: those planned together, in their order; the first is the one that is carried out now.
        savable: which groups a run may save for later ones.
        written: what runs write in any case, as places; who reads it loads it.

    Where a method takes the number of a run, it is the first one unless given.
    """

    def __init__(
        self,
        memo: Memo,
        model: CostModel,
        facts: Facts,
        allowed: Callable[[int, Expression], bool] = lambda _g, _e: True,
        prefer: str | None = None,
        runs: Sequence[Run] | None = None,
        savable: Callable[[int], bool] = lambda _g: True,
        written: Iterable[Place] = (),
    ) -> None:
        self._memo = memo
        self._model = model
        self._facts = facts
        self._allowed = allowed
        self._prefer = prefer
        self.runs = (Run(memo.timeline.whole.new),) if runs is None else tuple(runs)
        self._savable = savable
        self._staged: dict[int, Rows] = {}
        self._written = frozenset((memo.find(group), run) for group, run in written)
        self.shared: frozenset[Place] = frozenset()
        self._once = self._written
        self._best: dict[Place, Choice] = {}
        self._paid: dict[Place, float] = {}
        self._ways = list(self._all_ways())
        self._readers: dict[int, list[int]] = defaultdict(list)
        for number, way in enumerate(self._ways):
            for i in way.distinct:
                self._readers[i].append(number)
        self._settle()

    def _all_ways(self) -> Iterator[_Way]:
        for group in self._memo.live_groups():
            allowed = [e for e in group.expressions if self._allowed(group.number, e)]
            preferred = any(e.pack == self._prefer for e in allowed)
            for e in allowed:
                inputs = tuple(map(self._memo.find, e.inputs))
                behind = preferred and e.pack != self._prefer and e.rule not in {READ_STATE, READ_RESULT}
                yield _Way(group.number, e, inputs, frozenset(inputs), NOT_PREFERRED if behind else 0.0)

    def share(self, places: Collection[Place]) -> None:
        """From now on these are computed once and written, each at its run; who reads them loads them."""
        self.shared = frozenset((self._memo.find(group), run) for group, run in places)
        self._settle()

    def stage(self, group: int) -> None:
        """From now on the rows of a group are there, written by an earlier step of the first run."""
        group = self._memo.find(group)
        rows = self.rows(group)
        self._staged[group] = rows
        if (group, 0) in self._once:  # its readers have been chosen as such
            self._best[group, 0] = self._read_staged(rows)
        else:
            self._settle()

    def _read_staged(self, rows: Rows) -> Choice:
        read = self._model.load(rows)
        return Choice(None, rows, read, read * self.runs[0].price)

    def is_staged(self, group: int) -> bool:
        """True if an earlier step wrote the group's rows."""
        return self._memo.find(group) in self._staged

    def cost(self, group: int, run: int = 0) -> float:
        """What it costs to compute a group at a run; infinite if nothing computes it."""
        best = self.best(group, run)
        return best.cost if best else inf

    def rows(self, group: int, run: int = 0) -> Rows:
        """Estimated rows of a group; 0 if nothing computes it."""
        best = self.best(group, run)
        return best.rows if best else Rows(0.0)

    def best(self, group: int, run: int = 0) -> Choice | None:
        """The cheapest allowed way to have a group at a run, or None."""
        return self._best.get((self._memo.find(group), run))

    def weighed(self, group: int, e: Expression, run: int = 0) -> Choice | None:
        """What an expression of a group would cost, chosen or not; None if it is not allowed, or lacks an input."""
        if not self._allowed(self._memo.find(group), e) or any(self.best(i, run) is None for i in e.inputs):
            return None
        way = next(w for w in self._ways if w.expression is e and w.group == self._memo.find(group))
        return self._choice(way, run)

    def planned(self, groups: Iterable[int], run: int) -> list[Planned]:
        """All that is done to have groups at a run, what it needs before it."""
        demands = [(self._memo.find(group), run) for group in groups]
        order: dict[Place, Choice] = {}
        seen: set[Place] = set()

        def visit(place: Place) -> None:
            if place in seen or place not in self._best:
                return
            seen.add(place)
            for below in self._below(place):
                visit(below)
            order[place] = self._best[place]

        for demand in demands:
            visit(demand)
        reads = Counter(demands)
        for place in reversed(order):
            for below in self._below(place):
                reads[below] += 1 if self._is_once(place) else reads[place]
        return [Planned(*place, choice, reads[place], self._is_once(place)) for place, choice in order.items()]

    def _below(self, place: Place) -> list[Place]:
        """What is read to come to a place."""
        choice = self._best[place]
        if choice.saved is not None:
            return [(place[0], choice.saved)]
        inputs = choice.expression.inputs if choice.expression is not None else ()
        return [(self._memo.find(i), place[1]) for i in inputs]

    def _is_once(self, place: Place) -> bool:
        return place in self._once and self._best[place].saved is None

    def costs(self, plan: Sequence[Planned]) -> tuple[float, ...]:
        """CPU milliseconds of a plan at each run."""
        work = (self.work(plan, run) for run in range(len(self.runs)))
        return tuple(float(self._model.total(operators)) + handling for operators, handling in work)

    def work(self, plan: Sequence[Planned], run: int) -> tuple[list[Work], float]:
        """What a plan does at a run, and CPU milliseconds to save for later runs or other readers, and to load."""
        operators: list[Work] = []
        handling = 0.0
        for p in plan:
            place, choice = (p.group, p.run), p.choice
            if choice.saved == run and not self._is_once((p.group, run)):
                handling += choice.saving * p.reads
            if p.run != run:
                continue
            if choice.expression is None:
                handling += choice.own * p.reads
                continue
            inputs = tuple(self._read(self._memo.find(i), run) for i in choice.expression.inputs)
            of, own = self._memo.group(p.group).of, CpuMs(preference_apart(choice.own))
            operators.append(Work(of, choice.expression.op, inputs, own, p.times))
            if place in self.shared:
                handling += self._model.save(choice.rows) + self._model.load(choice.rows) * p.reads
        return operators, handling

    def _read(self, group: int, run: int) -> Read:
        about = self._memo.group(group).about
        return Read(group, self._best[group, run].rows, None if about is None else about[1].kind)

    def gain(self, p: Planned) -> float:
        """What computing something once, writing and loading it would save, priced, all else being as it is."""
        if p.once or p.reads < 2 or p.choice.expression is None:
            return 0.0
        handling = self._model.save(p.choice.rows) + self._model.load(p.choice.rows) * p.reads
        return preference_apart(p.choice.cost) * (p.reads - 1) - handling * self.runs[p.run].price

    @property
    def noise(self) -> float:
        """Costs below this say nothing."""
        return self._model.noise

    def saved_by(self, group: int, run: int) -> list[tuple[int, int]]:
        """What is saved on the way to a group at a run, as (group, run that saves it), in the order of runs."""
        loaded = (p for p in self.planned([group], run) if p.choice.saved is not None)
        return sorted({(p.group, p.choice.saved or 0) for p in loaded}, key=lambda node: node[1])

    def _settle(self) -> None:
        self._best, self._paid = {}, {}
        self._once = self.shared | self._written
        heap: list[tuple[float, int, int, int, Choice]] = []
        missing = [[len(way.distinct)] * len(self.runs) for way in self._ways]
        order = 0

        def offer(group: int, run: int, choice: Choice) -> None:
            nonlocal order
            order += 1
            heapq.heappush(heap, (choice.cost, order, group, run, choice))

        for group, rows in self._staged.items():
            offer(group, 0, self._read_staged(rows))
        for way in self._ways:
            if way.inputs:
                continue
            for i, run in enumerate(self.runs):
                if (i > 0 or way.group not in self._staged) and self._is_there(way.expression.op, run):
                    offer(way.group, i, self._choice(way, i))
        while heap:
            _, _, group, i, choice = heapq.heappop(heap)
            if (group, i) in self._best:
                continue
            self._best[group, i] = choice
            load = self._model.load(choice.rows) * self.runs[i].price
            self._paid[group, i] = load if self._is_once((group, i)) else choice.cost
            if choice.saved is None and self._savable(group):
                for later in range(i + 1, len(self.runs)):
                    offer(group, later, self._loaded(group, choice, i, later))
            for number in self._readers[group]:
                missing[number][i] -= 1
                way = self._ways[number]
                if missing[number][i] == 0 and (i > 0 or way.group not in self._staged):
                    offer(way.group, i, self._choice(way, i))

    def _is_there(self, op: Op, run: Run) -> bool:
        """Whether a run can read a leaf: a source's rows are there from the moment on at which they came."""
        match op:
            case Scan(source, _, time) | Changes(source, _, _, time) if time is not None:
                return self._memo.timeline.settled(frozenset({source}), run.moment) >= time
            case _:
                return True

    def _loaded(self, group: int, choice: Choice, run: int, later: int) -> Choice:
        """What one run computes, saved by it and loaded by a later one."""
        save, load = self._model.save(choice.rows), self._model.load(choice.rows)
        cost = load * self.runs[later].price
        if not self._is_once((group, run)):
            cost += choice.cost + save * self.runs[run].price
        return Choice(None, choice.rows, load, cost, run, save)

    def _choice(self, way: _Way, run: int) -> Choice:
        rows = tuple(self._best[i, run].rows for i in way.inputs)
        if rows not in way.known:
            op = way.expression.op
            known = self._facts.known.get(way.group)
            output = self._model.rows(op, rows, self._facts) if known is None else known
            reads = [self._read(i, run) for i in way.inputs]
            way.known[rows] = output, CpuMs(self._model.cost(op, reads, output, self._facts) + way.penalty)
        output, own = way.known[rows]
        cost = own * self.runs[run].price + sum(self._paid[i, run] for i in way.inputs)
        return Choice(way.expression, output, own, cost)
