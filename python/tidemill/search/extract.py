"""Extraction: the cheapest way to compute each group (one time point; schedules are searched above this).

Costs are those of trees: what two parents share is paid by both. The memo has cycles (a new snapshot from a delta, the
delta from the new snapshot), so groups are settled in the order of their cost, as in Knuth's generalisation of
Dijkstra's algorithm: a choice only ever uses groups that were settled before it.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from tidemill.memo.memo import Expression, Memo
from tidemill.plan.ops import Changes, Op, ResultScan, Scan, StateScan
from tidemill.search.costing import CostModel, CpuMs, Facts, Rows
from tidemill.search.seed import READ_RESULT, READ_STATE
from tidemill.tvr.form import OLD

NOT_PREFERRED = 1e12
"""Added to what a preferred pack could have done in its way."""
READ_STAGED = 1e-4
"""CPU milliseconds to read a row that the run has staged."""


def preference_apart(cost: float) -> float:
    """A cost without what was added for packs that were not preferred."""
    return cost % NOT_PREFERRED


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen expression of a group; `cost` includes all below. None: the group was staged before."""

    expression: Expression | None
    rows: Rows
    own: CpuMs
    cost: float


def reads_the_past(op: Op) -> bool:
    """True for what only an incremental run may read: changes, states, the result, old snapshots."""
    return isinstance(op, Changes | StateScan | ResultScan) or (isinstance(op, Scan) and op.at == OLD)


class Extractor:
    """Chooses expressions by cost.

    Args:
        memo: explored.
        model, facts: the costs.
        allowed: which expressions may be used, by (group, expression).
        prefer: a pack whose expressions are taken wherever they apply, whatever they cost.
    """

    def __init__(
        self,
        memo: Memo,
        model: CostModel,
        facts: Facts,
        allowed: Callable[[int, Expression], bool] = lambda _g, _e: True,
        prefer: str | None = None,
    ) -> None:
        self._memo = memo
        self._model = model
        self._facts = facts
        self._allowed = allowed
        self._prefer = prefer
        self._staged: dict[int, Rows] = {}
        self._best: dict[int, Choice] = {}
        self._settle()

    def stage(self, group: int) -> None:
        """From now on the rows of a group are there, written by an earlier step of the run."""
        self._staged[self._memo.find(group)] = self.rows(group)
        self._settle()

    def is_staged(self, group: int) -> bool:
        """True if an earlier step wrote the group's rows."""
        return self._memo.find(group) in self._staged

    def cost(self, group: int) -> float:
        """CPU milliseconds to compute a group; infinite if nothing computes it."""
        best = self.best(group)
        return best.cost if best else inf

    def rows(self, group: int) -> Rows:
        """Estimated rows of a group; 0 if nothing computes it."""
        best = self.best(group)
        return best.rows if best else Rows(0.0)

    def best(self, group: int) -> Choice | None:
        """The cheapest allowed way to compute a group, or None."""
        return self._best.get(self._memo.find(group))

    def weighed(self, group: int, e: Expression) -> Choice | None:
        """What an expression of a group would cost, chosen or not; None if it is not allowed, or lacks an input."""
        if not self._allowed(self._memo.find(group), e) or any(self.best(i) is None for i in e.inputs):
            return None
        return self._choice(group, e)

    def _settle(self) -> None:
        self._best = {}
        heap: list[tuple[float, int, int, Choice]] = []
        waiting: dict[int, list[tuple[int, Expression]]] = defaultdict(list)
        missing: dict[tuple[int, int], int] = {}
        order = 0

        def offer(group: int, e: Expression) -> None:
            nonlocal order
            order += 1
            choice = self._choice(group, e)
            heapq.heappush(heap, (choice.cost, order, group, choice))

        for group in self._memo.live_groups():
            if group.number in self._staged:
                rows = self._staged[group.number]
                read = CpuMs(rows * READ_STAGED)
                heapq.heappush(heap, (read, 0, group.number, Choice(None, rows, read, read)))
                continue
            for e in group.expressions:
                if not self._allowed(group.number, e):
                    continue
                inputs = set(e.inputs)
                if not inputs:
                    offer(group.number, e)
                missing[(group.number, id(e))] = len(inputs)
                for i in inputs:
                    waiting[i].append((group.number, e))
        while heap:
            _, _, group_number, choice = heapq.heappop(heap)
            if group_number in self._best:
                continue
            self._best[group_number] = choice
            for parent, e in waiting[group_number]:
                missing[(parent, id(e))] -= 1
                if missing[(parent, id(e))] == 0:
                    offer(parent, e)

    def _choice(self, group: int, e: Expression) -> Choice:
        inputs = [self._best[self._memo.find(i)] for i in e.inputs]
        rows = [c.rows for c in inputs]
        output = self._model.rows(e.op, rows, self._facts)
        own = self._model.cost(e.op, rows, output, self._facts)
        if self._prefer is not None and e.pack != self._prefer and e.rule not in {READ_STATE, READ_RESULT}:
            rivals = self._memo.group(group).expressions
            if any(r.pack == self._prefer and self._allowed(group, r) for r in rivals):
                own = CpuMs(own + NOT_PREFERRED)
        return Choice(e, output, own, own + sum(c.cost for c in inputs))
