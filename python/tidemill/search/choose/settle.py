"""Settling: the cheapest choice for each group at each run, by dynamic programming in the order of weights.

A weight is a pair, compared in this order: the number of ways used that a preferred pack would not take, and the cost.
So a preference holds whatever its ways cost, and whatever the price of work is; costs stay undistorted.

The memo has cycles (a new snapshot from a delta, the delta from the new snapshot). So choices are settled as in Knuth's
generalisation of Dijkstra's algorithm: a choice uses only what was settled before it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf
from typing import NamedTuple, TypeAlias

from tidemill.cost.costing import LOOKED_UP_KEYS, NO_ROWS, CostModel, CpuMs, Facts, Read, RowCount, row_bytes
from tidemill.cost.guesses import PART_ROW_BYTES
from tidemill.memo.memo import Expression, Memo
from tidemill.plan.ops import Changes, Keys, Op, Scan
from tidemill.search.choose.planned_run import PlannedRun, Priced
from tidemill.search.space.seed import READ_RESULT, READ_STATE
from tidemill.search.space.ways import Way, Ways
from tidemill.tvr.form import ATTRIBUTE_DELTA, DELTA

Place: TypeAlias = tuple[int, int]
"""A group at a run, by number."""
Weight: TypeAlias = tuple[float, Priced]
"""The number of ways that are not preferred, and the priced cost."""
ANY_WEIGHT: Weight = (inf, inf)
Handling: TypeAlias = Callable[[float], CpuMs]
"""CPU milliseconds of what a run does with so many computed rows: it writes them, or applies them to the content."""


def _is_another(e: Expression, pack: str | None) -> bool:
    """True for an expression that a preferred pack would replace: another pack's that computes something."""
    return e.pack != pack and e.rule not in {READ_STATE, READ_RESULT}


class Choice(NamedTuple):
    """The provision of a group's rows at a run, by an expression or by loading.

    Attributes:
        expression: computes the rows; None if they are written, and loaded.
        rows: their estimated number.
        own: CPU milliseconds of the expression alone, or of loading.
        unpreferred: number of ways, with all inputs, at all runs, that are not those of the preferred pack.
        cost: priced, with all inputs, at all runs.
        saved: the number of an earlier run that saved the rows; None if this run computes them, or has written them.
        saving: CPU milliseconds of that run to save them.
        uses: the written places that it reads, directly or not, as a bit set (see `WrittenAt`).
        from_base: rows among these that come unchanged from the base of a state (see `Read`).
    """

    expression: Expression | None
    rows: RowCount
    own: CpuMs
    unpreferred: int
    cost: Priced
    saved: int | None = None
    saving: float = 0.0
    uses: int = 0
    from_base: RowCount = NO_ROWS

    @property
    def weight(self) -> Weight:
        """The weight by which choices are compared."""
        return self.unpreferred, self.cost

    @property
    def can_be_looked_up(self) -> bool:
        """True if this run has written the rows before and they are few, so that a look-up can use them as keys."""
        return self.expression is None and self.saved is None and self.rows <= LOOKED_UP_KEYS


@dataclass(frozen=True, slots=True)
class WrittenAt:
    """The rows written at a place, and the bit that marks choices that read it (0: none)."""

    rows: RowCount
    bit: int = 0


class SettlingProblem:
    """The possible ways, and the choice among them.

    Args:
        memo: an explored memo.
        model, facts: estimate costs.
        allowed: tells which expressions may be used, by (group, expression).
        prefer: a pack whose ways are used wherever it has some, whatever they cost.
        runs: the runs planned together, in order.
        savable: tells which groups a run may save for later runs.
        ways: estimates to reuse, for the same memo, model and facts.
        handling: what runs do with the rows of places once they are computed. It counts in the choice of what computes
            them, since some ways come to more rows than others.
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
        handling: Mapping[Place, Handling],
    ) -> None:
        self._memo = memo
        self._model = model
        self._facts = facts
        self._runs = runs
        self._savable = savable
        self.forgone: frozenset[int] = frozenset()
        """The groups that no run saves all the same."""
        self._handling = handling
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
        """True if the pack, when preferred, would compute the group by an expression of its own instead of this one."""
        return _is_another(e, pack) and any(way.expression.pack == pack for way in self.ways_of[group])

    def settle(self, given: Mapping[Place, WrittenAt], near: Sequence[SettledChoices] = ()) -> SettledChoices:
        """The cheapest choice for every computable place, where some places are written already.

        Args:
            given: the written places.
            near: earlier choices with other places written; only readers of the difference are settled again.
        """
        best = min(near, key=lambda other: len(other.differing(given)), default=None)
        return SettledChoices(self, given, best)

    def is_savable(self, group: int) -> bool:
        """True if a run may save the group for later runs."""
        return group not in self.forgone and self._savable(group)

    @property
    def leaves(self) -> list[Place]:
        """The places that need no other place first."""
        groups = dict.fromkeys(way.group for way in self.ways if not way.inputs)
        return [(group, run) for group in groups for run in range(len(self._runs))]

    def missing(self) -> list[list[int]]:
        """The number of inputs that are not settled yet, by run and way."""
        return [self._inputs.copy() for _ in self._runs]

    def above(self, places: Collection[Place]) -> set[Place]:
        """These places and all their direct and indirect readers."""
        seen = set(places)
        todo = list(places)
        while todo:
            group, run = todo.pop()
            upper = {(self.ways[number].group, run) for number in self.readers[group]}
            if self.is_savable(group):
                upper.update((group, later) for later in range(run + 1, len(self._runs)))
            todo += upper - seen
            seen |= upper
        return seen

    def offers(self, place: Place, there: SettledChoices) -> Iterator[Choice]:
        """The choices for a place that the settled choices make possible."""
        group, run = place
        what = there.given.get(place)
        if what is not None:
            load = self._model.load(what.rows)
            yield Choice(None, what.rows, load, 0, self._runs[run].priced(load), uses=what.bit)
        else:
            for way in self.ways_of[group]:
                if self.is_open(way, run, there.found):
                    yield self.choice(way, run, there)
        if self.is_savable(group):
            for earlier in range(run):
                choice = there.found.get((group, earlier))
                if choice is not None and choice.saved is None:
                    yield self._loaded(choice, earlier, run, written=(group, earlier) in there.given)

    def loaded(self, place: Place, choice: Choice, *, written: bool) -> Iterator[tuple[Place, Choice]]:
        """The choices of later runs that load what this run computes or has written."""
        group, run = place
        if choice.saved is None and self.is_savable(group):
            for later in range(run + 1, len(self._runs)):
                yield (group, later), self._loaded(choice, run, later, written=written)

    def choice(self, way: Way, run: int, best: SettledChoices) -> Choice:
        """The choice of a way at a run whose inputs are settled."""
        found = best.found
        inputs = [found[i, run] for i in way.inputs]
        rows = tuple([(choice.rows, choice.from_base) for choice in inputs])
        known = way.estimated.get(rows)
        if known is None:
            known = way.estimated[rows] = self._estimate(way, inputs)
        output, own = known
        unpreferred, cost, uses = int(way.unpreferred), self._runs[run].priced(own), 0
        from_base = output if way.from_base else NO_ROWS
        for choice in inputs:
            unpreferred += choice.unpreferred
            cost += choice.cost
            uses |= choice.uses
        cost += self._runs[run].priced(self.handling((way.group, run), output))
        if way.passes_base:
            from_base = max([from_base, *(choice.from_base for choice in inputs)])
        return Choice(way.expression, output, own, unpreferred, cost, None, 0.0, uses, from_base)

    def handling(self, place: Place, rows: float) -> CpuMs:
        """CPU milliseconds of what the run does with the rows of a place once they are computed."""
        known = self._handling.get(place)
        return CpuMs(0.0) if known is None else known(rows)

    def _estimate(self, way: Way, inputs: Sequence[Choice]) -> tuple[RowCount, CpuMs]:
        """Output rows of a way with these choices for its inputs, and the cost of its operator alone."""
        op, known = way.expression.op, self._facts.known.get(way.group, self._size(way))
        output = self._model.rows(op, [choice.rows for choice in inputs], self._facts) if known is None else known
        reads = [self.read(i, choice) for i, choice in zip(way.inputs, inputs, strict=True)]
        return output, self._model.cost(op, reads, output, self._facts)

    def _size(self, way: Way) -> RowCount | None:
        """Rows of a form of a relation, the same for every way to compute them; None where rows are read as they are,
        and for other groups."""
        e, about = way.expression, self._memo.group(way.group).about
        if about is None or not e.inputs or e.rule in {READ_STATE, READ_RESULT}:
            return None
        relation, form = about
        size = None
        if form.start is not None:
            change = self._facts.change(relation, form.start, form.end)
            if change is not None:
                size = {DELTA: change.signed, ATTRIBUTE_DELTA: change.touched}.get(form.kind)
        elif not form.kind.interval:
            size = self._facts.size(relation, form.end)
        return None if size is None else RowCount(size)

    def read(self, group: int, choice: Choice) -> Read:
        """A group as an input, as a cost model sees it."""
        about = self._memo.group(group).about
        if about is None:
            op = None if choice.expression is None else choice.expression.op
            width = self._bytes_of(c for c, _ in op.columns[0]) if isinstance(op, Keys) else PART_ROW_BYTES
            return Read(group, choice.rows, None, choice.from_base, width)
        return Read(group, choice.rows, about[1].kind, choice.from_base, self._row_bytes(about[0]))

    def _row_bytes(self, tvr: int) -> int:
        """Bytes of a row of a relation."""
        found = self._bytes.get(tvr)
        if found is None:
            found = self._bytes[tvr] = self._bytes_of(self._memo.tvrs[tvr].props.columns)
        return found

    def _bytes_of(self, columns: Iterable[int]) -> int:
        return row_bytes(self._memo.columns.type(c) for c in columns)

    def is_open(self, way: Way, run: int, found: Mapping[Place, Choice]) -> bool:
        """True if a way is possible at a run with the settled choices."""
        inputs = [found.get((i, run)) for i in way.distinct]
        if any(i is None or (way.looks_up and not i.can_be_looked_up) for i in inputs):
            return False
        return self._is_there(way.expression.op, self._runs[run])

    def _is_there(self, op: Op, run: PlannedRun) -> bool:
        """True if a run can read a leaf: rows of a source are available from the moment at which they arrived."""
        match op:
            case Scan(source, _, time) | Changes(source, _, _, time) if time is not None:
                return self._memo.timeline.unchanged_until(frozenset({source}), run.moment) >= time
            case _:
                return True

    def _loaded(self, choice: Choice, run: int, later: int, *, written: bool) -> Choice:
        """The choice of a later run that loads what an earlier run computes or has written."""
        load = self._model.load(choice.rows)
        cost = self._runs[later].priced(load)
        if written:
            return Choice(None, choice.rows, load, 0, cost, run, uses=choice.uses)
        save = self._model.save(choice.rows)
        cost += choice.cost + self._runs[run].priced(save)
        return Choice(None, choice.rows, load, choice.unpreferred, cost, run, save, choice.uses)


class SettledChoices:
    """The cheapest choice for each place, settled in the order of weights, and only as far as needed.

    Places that weigh more than all requested ones are never settled.

    `found`: the choices so far.
    """

    def __init__(
        self, settling: SettlingProblem, given: Mapping[Place, WrittenAt], near: SettledChoices | None = None
    ) -> None:
        self.given = given
        self.found: dict[Place, Choice] = {}
        self._settling = settling
        self._heap: list[tuple[int, Priced, int, Place, Choice]] = []
        self._order = 0
        self._void: dict[Place, int] = {}  # offers for a place up to this number are void
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
        """The places that are written only here or only there, or differently."""
        return {place for place, _ in self.given.items() ^ given.items()}

    def _go_on_from(self, near: SettledChoices, again: Collection[Place]) -> None:
        """Takes over the choices and offers of another instance, except those for `again`.

        It copies everything and then removes these few places: that is faster than a filtered copy.
        """
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
        """The choice for a place; raises KeyError if nothing computes it."""
        if place not in self.found:
            self._go_on(place, ANY_WEIGHT)
        return self.found[place]

    def get(self, place: Place) -> Choice | None:
        """The choice for a place; None if nothing computes it."""
        if place not in self.found:
            self._go_on(place, ANY_WEIGHT)
        return self.found.get(place)

    def reach(self, weight: Weight) -> None:
        """Settles every place up to this weight."""
        self._go_on(None, weight)

    def _go_on(self, wanted: Place | None, weight: Weight) -> None:
        """Settles places until `wanted` is settled, or until all others exceed the weight."""
        most = (*weight, inf)  # any order number among equal weights
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
                if above not in found and above not in self.given:  # settled choices weigh less
                    self._offer(above, settling.choice(way, run, self))

    def _offer(self, place: Place, choice: Choice) -> None:
        self._order += 1
        heappush(self._heap, (choice.unpreferred, choice.cost, self._order, place, choice))
