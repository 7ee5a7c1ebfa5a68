"""Settling: the cheapest way to have each group at each run, by dynamic programming in the order of weight.

A weight is a pair, compared in this order: how many of the ways taken are not those of the preferred pack, and their
cost. So a preference holds whatever the ways cost, and whatever the price of work is; a cost is a cost.

The memo has cycles (a new snapshot from a delta, the delta from the new snapshot), so choices are settled as in Knuth's
generalisation of Dijkstra's algorithm: a choice only ever uses what was settled before it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf
from typing import NamedTuple, TypeAlias

from tidemill.cost.costing import LOOKED_UP_KEYS, NO_ROWS, CostModel, CpuMs, Facts, Read, RowCount, row_bytes
from tidemill.memo.memo import Expression, Memo
from tidemill.plan.ops import Changes, Op, Scan
from tidemill.search.space.seed import READ_RESULT, READ_STATE
from tidemill.search.space.ways import Way, Ways
from tidemill.tvr.form import Time

Place: TypeAlias = tuple[int, int]
"""A group at a run, by number."""
Weight: TypeAlias = tuple[float, float]
"""How many ways are not preferred, and the cost, priced."""
ANY_WEIGHT: Weight = (inf, inf)


def _is_another(e: Expression, pack: str | None) -> bool:
    """True for what a preferred pack stands before: what others compute. What is stored can be read all the same."""
    return e.pack != pack and e.rule not in {READ_STATE, READ_RESULT}


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A run that is planned: the moment at which it reads its sources, and the price of a unit of its work."""

    moment: Time
    price: float = 1.0


class Choice(NamedTuple):
    """How a run comes to a group.

    Attributes:
        expression: what computes it; None if it is written, and loaded.
        rows: how many there are.
        own: CPU milliseconds of the expression alone; of a group that is loaded, to load it.
        unpreferred: how many ways, with all below, at all runs, are others than those of the preferred pack.
        cost: priced, with all below, at all runs.
        saved: the number of an earlier run that saved it; None if this run computes it, or has written it.
        saving: CPU milliseconds of that run to save it.
        uses: what is written and read on the way, as a set of bits (see `WrittenAt`).
        from_base: rows of these that come from the base of a state as they are (see `Read`).
    """

    expression: Expression | None
    rows: RowCount
    own: CpuMs
    unpreferred: int
    cost: float
    saved: int | None = None
    saving: float = 0.0
    uses: int = 0
    from_base: RowCount = NO_ROWS

    @property
    def weight(self) -> Weight:
        """What choices are compared by."""
        return self.unpreferred, self.cost

    @property
    def can_be_looked_up(self) -> bool:
        """Whether the run itself has written it by then, and it is little."""
        return self.expression is None and self.saved is None and self.rows <= LOOKED_UP_KEYS


@dataclass(frozen=True, slots=True)
class WrittenAt:
    """What is written at a place: its rows, and the bit by which its readers are known (0: none)."""

    rows: RowCount
    bit: int = 0


class SettlingProblem:
    """The ways there are, and how to choose among them.

    Args:
        memo: explored.
        model, facts: the costs.
        allowed: tells which expressions may be used, by (group, expression).
        prefer: a pack whose ways are taken wherever there are some, whatever they cost.
        runs: those planned together, in their order.
        savable: tells which groups a run may save for later ones.
        ways: what was estimated before, with the same memo, model and facts.
    """

    def __init__(
        self,
        memo: Memo,
        model: CostModel,
        facts: Facts,
        allowed: Callable[[int, Expression], bool],
        prefer: str | None,
        runs: Sequence[PlannedRun],
        savable: Callable[[int], bool],
        ways: Ways,
    ) -> None:
        self._memo = memo
        self._model = model
        self._facts = facts
        self._runs = runs
        self._savable = savable
        self._bytes: dict[int, int] = {}
        self.ways = list(self._allowed(ways, allowed, prefer))
        self._inputs = [len(way.distinct) for way in self.ways]
        self.readers: dict[int, list[int]] = defaultdict(list)
        self.ways_of: dict[int, list[Way]] = defaultdict(list)
        for number, way in enumerate(self.ways):
            self.ways_of[way.group].append(way)
            for i in way.distinct:
                self.readers[i].append(number)

    def _allowed(self, ways: Ways, allowed: Callable[[int, Expression], bool], prefer: str | None) -> Iterator[Way]:
        for group in self._memo.live_groups():
            expressions = [e for e in group.expressions if allowed(group.number, e)]
            preferred = any(e.pack == prefer for e in expressions)
            for e in expressions:
                yield ways.way(self._memo, group.number, e, unpreferred=preferred and _is_another(e, prefer))

    def is_unpreferred(self, group: int, e: Expression, pack: str) -> bool:
        """Whether a pack, were it preferred, would compute a group in its own way, and not by an expression."""
        return _is_another(e, pack) and any(way.expression.pack == pack for way in self.ways_of[group])

    def settle(self, given: Mapping[Place, WrittenAt], near: Sequence[SettledChoices] = ()) -> SettledChoices:
        """The cheapest choice for every place that can be had, where some are written already.

        Args:
            given: what is written.
            near: what was found where others are written; only what reads the difference is looked at again.
        """
        best = min(near, key=lambda other: len(other.differing(given)), default=None)
        return SettledChoices(self, given, best)

    @property
    def leaves(self) -> list[Place]:
        """What can be had without having anything else first."""
        groups = dict.fromkeys(way.group for way in self.ways if not way.inputs)
        return [(group, run) for group in groups for run in range(len(self._runs))]

    def missing(self) -> list[list[int]]:
        """By run and way, how many of its inputs have to be had first."""
        return [self._inputs.copy() for _ in self._runs]

    def above(self, places: Collection[Place]) -> set[Place]:
        """Some places, and all that can read them, in any number of steps."""
        seen = set(places)
        todo = list(places)
        while todo:
            group, run = todo.pop()
            upper = {(self.ways[number].group, run) for number in self.readers[group]}
            if self._savable(group):
                upper.update((group, later) for later in range(run + 1, len(self._runs)))
            todo += upper - seen
            seen |= upper
        return seen

    def offers(self, place: Place, there: SettledChoices) -> Iterator[Choice]:
        """The ways to have a place by what is found so far."""
        group, run = place
        what = there.given.get(place)
        if what is not None:
            load = self._model.load(what.rows)
            yield Choice(None, what.rows, load, 0, load * self._runs[run].price, uses=what.bit)
        else:
            for way in self.ways_of[group]:
                if self.is_open(way, run, there.found):
                    yield self.choice(way, run, there)
        if self._savable(group):
            for earlier in range(run):
                choice = there.found.get((group, earlier))
                if choice is not None and choice.saved is None:
                    yield self._loaded(choice, earlier, run, written=(group, earlier) in there.given)

    def loaded(self, place: Place, choice: Choice, *, written: bool) -> Iterator[tuple[Place, Choice]]:
        """What a run computes, or has written, as later ones load it."""
        group, run = place
        if choice.saved is None and self._savable(group):
            for later in range(run + 1, len(self._runs)):
                yield (group, later), self._loaded(choice, run, later, written=written)

    def choice(self, way: Way, run: int, best: SettledChoices) -> Choice:
        """A way at a run, its inputs being found."""
        found = best.found
        inputs = [found[i, run] for i in way.inputs]
        rows = tuple([(choice.rows, choice.from_base) for choice in inputs])
        known = way.estimated.get(rows)
        if known is None:
            known = way.estimated[rows] = self._estimate(way, inputs)
        output, own = known
        unpreferred, cost, uses = int(way.unpreferred), own * self._runs[run].price, 0
        from_base = output if way.from_base else NO_ROWS
        for choice in inputs:
            unpreferred += choice.unpreferred
            cost += choice.cost
            uses |= choice.uses
        if way.passes_base:
            from_base = max([from_base, *(choice.from_base for choice in inputs)])
        return Choice(way.expression, output, own, unpreferred, cost, None, 0.0, uses, from_base)

    def _estimate(self, way: Way, inputs: Sequence[Choice]) -> tuple[RowCount, CpuMs]:
        """Rows of a way where its inputs are had so, and what it costs alone."""
        op, known = way.expression.op, self._facts.known.get(way.group, self._size(way))
        output = self._model.rows(op, [choice.rows for choice in inputs], self._facts) if known is None else known
        reads = [self.read(i, choice) for i, choice in zip(way.inputs, inputs, strict=True)]
        return output, self._model.cost(op, reads, output, self._facts)

    def _size(self, way: Way) -> RowCount | None:
        """Rows of a relation at a moment: the same in whichever way they are computed."""
        e, about = way.expression, self._memo.group(way.group).about
        if about is None or about[1].kind.interval or not e.inputs or e.rule in {READ_STATE, READ_RESULT}:
            return None
        size = self._facts.sizes.get(about[0])
        return None if size is None else RowCount(size)

    def read(self, group: int, choice: Choice) -> Read:
        """A group as a cost model sees it."""
        about = self._memo.group(group).about
        if about is None:
            return Read(group, choice.rows, None, choice.from_base)
        return Read(group, choice.rows, about[1].kind, choice.from_base, self._row_bytes(about[0]))

    def _row_bytes(self, tvr: int) -> int:
        """Bytes of a relation's row."""
        found = self._bytes.get(tvr)
        if found is None:
            columns = self._memo.columns
            found = self._bytes[tvr] = row_bytes(columns.type(c) for c in self._memo.tvrs[tvr].props.columns)
        return found

    def is_open(self, way: Way, run: int, found: Mapping[Place, Choice]) -> bool:
        """Whether a way can be taken at a run by what is found so far."""
        inputs = [found.get((i, run)) for i in way.distinct]
        if any(i is None or (way.looks_up and not i.can_be_looked_up) for i in inputs):
            return False
        return self._is_there(way.expression.op, self._runs[run])

    def _is_there(self, op: Op, run: PlannedRun) -> bool:
        """Whether a run can read a leaf: a source's rows are there from the moment on at which they came."""
        match op:
            case Scan(source, _, time) | Changes(source, _, _, time) if time is not None:
                return self._memo.timeline.unchanged_until(frozenset({source}), run.moment) >= time
            case _:
                return True

    def _loaded(self, choice: Choice, run: int, later: int, *, written: bool) -> Choice:
        """What one run computes, or has written, loaded by a later one."""
        load = self._model.load(choice.rows)
        cost = load * self._runs[later].price
        if written:
            return Choice(None, choice.rows, load, 0, cost, run, uses=choice.uses)
        save = self._model.save(choice.rows)
        cost += choice.cost + save * self._runs[run].price
        return Choice(None, choice.rows, load, choice.unpreferred, cost, run, save, choice.uses)


class SettledChoices:
    """The cheapest choice for each place, looked for in the order of weights, and only as far as somebody asks.

    What weighs more than all that is wanted is never looked at.

    `found`: the choices so far.
    """

    def __init__(
        self, settling: SettlingProblem, given: Mapping[Place, WrittenAt], near: SettledChoices | None = None
    ) -> None:
        self.given = given
        self.found: dict[Place, Choice] = {}
        self._settling = settling
        self._heap: list[tuple[int, float, int, Place, Choice]] = []
        self._order = 0
        self._void: dict[Place, int] = {}  # up to which order its offers count no more
        if near is None:
            again: Collection[Place] = {*given, *settling.leaves}
            self._missing = settling.missing()
        else:
            again = settling.above(near.differing(given))
            self._go_on_from(near, again)
        for place in again:
            for choice in settling.offers(place, self):
                self._offer(place, choice)

    def differing(self, given: Mapping[Place, WrittenAt]) -> set[Place]:
        """What is written here or there alone, or in another way."""
        return {place for place, _ in self.given.items() ^ given.items()}

    def _go_on_from(self, near: SettledChoices, again: Collection[Place]) -> None:
        """Takes over what was found and offered but for some places. All is copied as it is: it is much, and they are
        few."""
        self.found = near.found.copy()
        self._heap = near._heap.copy()
        self._order = near._order
        self._void = near._void | dict.fromkeys(again, near._order)
        self._missing = [missing.copy() for missing in near._missing]
        for place in again:
            if self.found.pop(place, None) is not None:
                lacking = self._missing[place[1]]
                for number in self._settling.readers[place[0]]:
                    lacking[number] += 1

    def __contains__(self, place: Place) -> bool:
        return self.get(place) is not None

    def __getitem__(self, place: Place) -> Choice:
        """Raises KeyError for a place that cannot be had."""
        if place not in self.found:
            self._go_on(place, ANY_WEIGHT)
        return self.found[place]

    def get(self, place: Place) -> Choice | None:
        """None for a place that cannot be had."""
        if place not in self.found:
            self._go_on(place, ANY_WEIGHT)
        return self.found.get(place)

    def reach(self, weight: Weight) -> None:
        """Finds all that weighs so much or less."""
        self._go_on(None, weight)

    def _go_on(self, wanted: Place | None, weight: Weight) -> None:
        """Settles until something is, or until all the rest weighs more."""
        most = (*weight, inf)  # whatever the order of what weighs as much
        found, heap, void, settling = self.found, self._heap, self._void, self._settling
        while heap and wanted not in found and heap[0] <= most:
            _, _, order, place, choice = heappop(heap)
            if place in found or order <= void.get(place, 0):
                continue
            found[place] = choice
            for later, loaded in settling.loaded(place, choice, written=place in self.given):
                self._offer(later, loaded)
            run = place[1]
            lacking = self._missing[run]
            for number in settling.readers[place[0]]:
                lacking[number] -= 1
                if lacking[number]:
                    continue
                way = settling.ways[number]
                above = (way.group, run)
                if way.looks_up and not choice.can_be_looked_up:
                    continue
                if above not in found and above not in self.given:  # what is settled weighs less
                    self._offer(above, settling.choice(way, run, self))

    def _offer(self, place: Place, choice: Choice) -> None:
        self._order += 1
        heappush(self._heap, (choice.unpreferred, choice.cost, self._order, place, choice))
