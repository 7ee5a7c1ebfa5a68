"""Extraction: the cheapest way to have each group at each run, by dynamic programming over (group, run).

A run reads its sources at a moment of the timeline, and a unit of its work has a price. What a run needs it computes,
or it loads what an earlier run has saved (Tempura 6.1: an operator's time is not before its inputs', and between two
times lie a save and a load). Costs are those of trees: what two parents share is paid by both. The memo has cycles (a
new snapshot from a delta, the delta from the new snapshot), so choices are settled in the order of their cost, as in
Knuth's generalisation of Dijkstra's algorithm: a choice only ever uses what was settled before it.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf

from tidemill.memo.memo import Expression, Memo
from tidemill.plan.ops import Changes, Op, ResultScan, Scan, StateScan
from tidemill.search.costing import CostModel, CpuMs, Facts, Rows
from tidemill.search.seed import READ_RESULT, READ_STATE
from tidemill.tvr.form import OLD, Time

NOT_PREFERRED = 1e12
"""Added to what a preferred pack could have done in its way."""
READ_STAGED = 1e-4
"""CPU milliseconds to read a row that the run has staged."""


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
    """A group at a run, and how that run comes to it."""

    group: int
    run: int
    choice: Choice


class Extractor:
    """Chooses expressions by cost.

    Args:
        memo: explored.
        model, facts: the costs.
        allowed: which expressions may be used, by (group, expression).
        prefer: a pack whose expressions are taken wherever they apply, whatever they cost.
        runs: those planned together, in their order; the first is the one that is carried out now.
        savable: which groups a run may save for later ones.

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
    ) -> None:
        self._memo = memo
        self._model = model
        self._facts = facts
        self._allowed = allowed
        self._prefer = prefer
        self.runs = (Run(memo.timeline.whole.new),) if runs is None else tuple(runs)
        self._savable = savable
        self._staged: dict[int, Rows] = {}
        self._best: dict[tuple[int, int], Choice] = {}
        self._settle()

    def stage(self, group: int) -> None:
        """From now on the rows of a group are there, written by an earlier step of the first run."""
        self._staged[self._memo.find(group)] = self.rows(group)
        self._settle()

    def is_staged(self, group: int) -> bool:
        """True if an earlier step wrote the group's rows."""
        return self._memo.find(group) in self._staged

    def cost(self, group: int, run: int = 0) -> float:
        """What it costs to have a group at a run; infinite if nothing computes it."""
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
        return self._choice(group, e, run)

    def planned(self, groups: Iterable[int], run: int) -> list[Planned]:
        """All that is done to have groups at a run, each thing once, what it needs before it."""
        found: dict[tuple[int, int], Planned] = {}
        seen: set[tuple[int, int]] = set()

        def visit(group: int, run: int) -> None:
            here = (self._memo.find(group), run)
            if here in seen or here not in self._best:
                return
            seen.add(here)
            choice = self._best[here]
            if choice.saved is not None:
                visit(group, choice.saved)
            elif choice.expression is not None:
                for i in choice.expression.inputs:
                    visit(i, run)
            found[here] = Planned(*here, choice)

        for group in groups:
            visit(group, run)
        return list(found.values())

    def saved_by(self, group: int, run: int) -> list[tuple[int, int]]:
        """What is saved on the way to a group at a run, as (group, run that saves it), in the order of runs."""
        loaded = (p for p in self.planned([group], run) if p.choice.saved is not None)
        return sorted({(p.group, p.choice.saved or 0) for p in loaded}, key=lambda node: node[1])

    def _settle(self) -> None:
        self._best = {}
        heap: list[tuple[float, int, int, int, Choice]] = []
        waiting: dict[int, list[tuple[int, Expression]]] = defaultdict(list)
        missing: dict[tuple[int, int, int], int] = {}
        order = 0

        def offer(group: int, run: int, choice: Choice) -> None:
            nonlocal order
            order += 1
            heapq.heappush(heap, (choice.cost, order, group, run, choice))

        for group in self._memo.live_groups():
            expressions = group.expressions
            if group.number in self._staged:
                rows = self._staged[group.number]
                read = CpuMs(rows * READ_STAGED)
                offer(group.number, 0, Choice(None, rows, read, read * self.runs[0].price))
            for e in expressions:
                if not self._allowed(group.number, e):
                    continue
                inputs = set(e.inputs)
                for i, planned in enumerate(self.runs):
                    if i == 0 and group.number in self._staged:
                        continue
                    if not inputs and self._is_there(e.op, planned):
                        offer(group.number, i, self._choice(group.number, e, i))
                    missing[group.number, id(e), i] = len(inputs)
                for i in inputs:
                    waiting[i].append((group.number, e))
        while heap:
            _, _, number, run, choice = heapq.heappop(heap)
            if (number, run) in self._best:
                continue
            self._best[number, run] = choice
            if choice.saved is None and self._savable(number):
                for later in range(run + 1, len(self.runs)):
                    offer(number, later, self._loaded(choice, run, later))
            for parent, e in waiting[number]:
                node = (parent, id(e), run)
                if node in missing:
                    missing[node] -= 1
                    if missing[node] == 0:
                        offer(parent, run, self._choice(parent, e, run))

    def _is_there(self, op: Op, run: Run) -> bool:
        """Whether a run can read a leaf: a source's rows are there from the moment on at which they came."""
        match op:
            case Scan(source, _, time) | Changes(source, _, _, time) if time is not None:
                return self._memo.timeline.settled(frozenset({source}), run.moment) >= time
            case _:
                return True

    def _loaded(self, choice: Choice, run: int, later: int) -> Choice:
        """What one run computes, saved by it and loaded by a later one."""
        save, load = self._model.save(choice.rows), self._model.load(choice.rows)
        cost = choice.cost + save * self.runs[run].price + load * self.runs[later].price
        return Choice(None, choice.rows, load, cost, run, save)

    def _choice(self, group: int, e: Expression, run: int) -> Choice:
        inputs = [self._best[self._memo.find(i), run] for i in e.inputs]
        rows = [c.rows for c in inputs]
        output = self._model.rows(e.op, rows, self._facts)
        own = self._model.cost(e.op, rows, output, self._facts)
        if self._prefer is not None and e.pack != self._prefer and e.rule not in {READ_STATE, READ_RESULT}:
            rivals = self._memo.group(group).expressions
            if any(r.pack == self._prefer and self._allowed(group, r) for r in rivals):
                own = CpuMs(own + NOT_PREFERRED)
        return Choice(e, output, own, own * self.runs[run].price + sum(c.cost for c in inputs))
