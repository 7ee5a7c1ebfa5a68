"""Extraction: the plan that follows from the cheapest choices for each group at each run, which `settle` finds.

A run reads its sources at a moment of the timeline, and a unit of its work has a price. A run computes what it needs,
or loads what an earlier run saved (Tempura 6.1: an operator's time is not before its inputs'; a save and a load lie
between two times). Costs are those of trees: what two readers need is computed for both, unless it is written because
it is kept or shared (`sharing` decides that). Then it is computed once, and each reader loads it. Its computation is
chosen separately, so that it never reads itself by way of its readers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import TypeAlias

from tidemill.cost.costing import CostModel, CpuMs, Facts, OperatorWork, RowCount, few_touched
from tidemill.memo.memo import Expression, Memo
from tidemill.plan.ops import FinalChange, JoinChange, Reach
from tidemill.search.choose.planned import Gains, Planned
from tidemill.search.choose.planned_run import PlannedRun, Priced
from tidemill.search.choose.settle import (
    ANY_WEIGHT,
    Choice,
    Handling,
    Place,
    SettledChoices,
    SettlingProblem,
    WrittenAt,
)
from tidemill.search.space.ways import Ways

MADE, PLAIN, BEST = range(3)
PlaceAtLevel: TypeAlias = tuple[int, Place]
"""A place at a level: the place itself, computed in order to be written (MADE); or the choices where nothing is written
(PLAIN), where everything the plan writes is written (BEST), or, at higher levels, where only a part of that is."""


@dataclass(frozen=True, slots=True)
class _Made:
    """The choice by which a place is computed in order to be written; `level`: the level of its inputs."""

    choice: Choice
    level: int


class Extractor:
    """Chooses expressions by cost.

    Args:
        memo: an explored memo.
        model, facts: estimate costs.
        allowed: tells which expressions may be used, by (group, expression); see `Allowed`.
        prefer: a pack whose expressions are used wherever they apply, whatever they cost.
        runs: the runs planned together, in order; the first one is carried out now.
        savable: tells which groups a run may save for later runs.
        written: places that are written in any case; their readers load them.
        copies: places equal to a written one, with that one: they are loaded too, not computed.
        ways: ways and estimates to reuse, for the same memo, model and facts.
        handling: what runs do with the rows of places once they are computed.

    Methods that take the number of a run use the first one by default.
    """

    def __init__(
        self,
        memo: Memo,
        model: CostModel,
        facts: Facts,
        allowed: Callable[[int, Expression], bool] = lambda _g, _e: True,
        prefer: str | None = None,
        runs: Sequence[PlannedRun] | None = None,
        savable: Callable[[int], bool] = lambda _g: True,
        written: Iterable[Place] = (),
        copies: Mapping[Place, Place] | None = None,
        ways: Ways | None = None,
        handling: Mapping[Place, Handling] | None = None,
    ) -> None:
        self._memo = memo
        self.emit, self.name = memo.emit, memo.name
        self._model = model
        self.runs = (PlannedRun(memo.timeline.whole.new),) if runs is None else tuple(runs)
        after = {self.place(place): known for place, known in (handling or {}).items()}
        self._settling = SettlingProblem(memo, model, facts, allowed, prefer, self.runs, savable, ways or Ways(), after)
        self._staged: dict[int, RowCount] = {}
        self._gains = Gains(memo, model, self._settling, self.runs)
        self._plain = self._settling.settle({})
        self._written = frozenset(map(self.place, written))
        self._copies = {self.place(copy): self.place(of) for copy, of in (copies or {}).items()}
        self.shared: frozenset[Place] = frozenset()
        self._bits: dict[Place, int] = {}
        self._best = self._plain
        self._chosen: list[SettledChoices] = []
        self._made: dict[Place, _Made] = {}
        self._choose()

    def place(self, place: Place) -> Place:
        """A place with the current number of its group."""
        return self._memo.find(place[0]), place[1]

    def share(self, places: Collection[Place]) -> Callable[[], None]:
        """Makes the plan compute these places once and write them, each at its run; their readers load them.

        Returns:
            A function that rolls this back, valid as long as nothing was staged since.
        """
        before = self.shared, self._best, self._chosen, self._made

        def take_back() -> None:
            self.shared, self._best, self._chosen, self._made = before

        self.shared = frozenset(map(self.place, places))
        self._choose()
        return take_back

    def forgo(self, group: int) -> Callable[[], None]:
        """Makes no run save this group for later ones.

        Returns:
            A function that rolls this back, valid as long as nothing was shared or staged since.
        """
        settling = self._settling
        before = settling.forgone, self._plain, self._best, self._chosen, self._made

        def take_back() -> None:
            settling.forgone, self._plain, self._best, self._chosen, self._made = before

        settling.forgone |= {group}
        self._plain = self._best = self._settling.settle({(g, 0): WrittenAt(rows) for g, rows in self._staged.items()})
        self._choose()
        return take_back

    def read_often(self, run: int) -> frozenset[Place]:
        """The places at a run that rules make for several readers at once: as parts of a tree they seldom pay."""
        groups = (g.number for g in self._memo.live_groups() if any(isinstance(e.op, Reach) for e in g.expressions))
        return frozenset(self.place((group, run)) for group in groups if self.best(group, run) is not None)

    def stage(self, group: int) -> None:
        """Declares the rows of a group as written by an earlier step of the first run."""
        group = self._memo.find(group)
        known = (group, 0) in self._made or (group, 0) in self._copies
        self._staged[group] = self.rows(group)
        if not known:  # otherwise its readers already load it
            staged = {(group, 0): WrittenAt(rows) for group, rows in self._staged.items()}
            self._plain = self._settling.settle(staged, [self._plain])
            self._choose()

    def _choose(self) -> None:
        staged = {(group, 0): WrittenAt(rows) for group, rows in self._staged.items()}
        near = [self._plain, self._best]
        self._best = self._plain
        self._chosen = [self._plain, self._plain, self._best]
        self._made = {}
        once = [
            place
            for place in (self.shared | self._written) - staged.keys()
            if place in self._plain and self._plain[place].saved is None
        ]
        if not once:
            return
        bits = {place: self._bits.setdefault(place, 1 << len(self._bits)) for place in once}
        given = {place: WrittenAt(self._plain[place].rows, bit) for place, bit in bits.items()}
        for copy, of in self._copies.items():
            if copy not in staged and of in self._plain:
                given[copy] = WrittenAt(self._plain[of].rows, bits.get(of, 0))
        given |= staged
        self._best = self._chosen[BEST] = self._settling.settle(given, near)
        # A place comes after those that it is computed from; if two need each other, the cheaper one comes first.
        wanted = {place: self._cheapest(place, ~bit) for place, bit in bits.items()}
        written = 0
        while wanted:
            ready = [place for place, choice in wanted.items() if not choice.uses & ~written]
            place = min(ready or wanted, key=lambda p: (self._plain[p].weight, p))
            self._made[place] = self._making(place, {p: g for p, g in given.items() if not g.bit & ~written}, written)
            written |= bits[place]
            del wanted[place]

    def _cheapest(self, place: Place, written: int) -> Choice:
        """The cheapest choice to compute a place that reads no written places but those in the bit set `written`."""
        plain = self._plain[place]
        for bound in (plain.weight, ANY_WEIGHT):  # choices whose inputs weigh more than the bound also weigh more
            self._best.reach(bound)
            fit = (choice for choice in self._choices(place) if not choice.uses & ~written)
            found = min(fit, key=lambda choice: choice.weight, default=None)
            if found is not None and found.weight <= bound:
                return found
        return plain

    def _choices(self, place: Place) -> list[Choice]:
        """The choices to compute a place whose inputs are settled."""
        group, run = place
        ways = (w for w in self._settling.ways_of[group] if self._settling.is_open(w, run, self._best.found))
        return [self._settling.choice(way, run, self._best) for way in ways if way.inputs]

    def _making(self, place: Place, given: Mapping[Place, WrittenAt], written: int) -> _Made:
        """The choice where only a part is written: the same as where all is, if it does not read the rest."""
        best, free = self._cheapest(place, written), self._cheapest(place, -1)
        plain = self._plain[place]
        if best == free != plain:
            return _Made(best, BEST)
        if free == plain or not written:
            return _Made(plain, PLAIN)
        self._chosen.append(self._settling.settle(given, [self._plain, self._best, self._chosen[-1]]))
        return _Made(self._chosen[-1][place], len(self._chosen) - 1)

    @property
    def order(self) -> list[Place]:
        """The written places, ordered so that each is computed from those before it."""
        return list(self._made)

    # -- what was chosen ----------------------------------------------------------------------------------------------

    def cost(self, group: int, run: int = 0) -> Priced:
        """Priced cost to compute a group at a run with all its inputs; infinite if nothing computes it."""
        choice = self.chosen(self.entry(self.place((group, run))))
        return choice.cost if choice else inf

    def rows(self, group: int, run: int = 0) -> RowCount:
        """Estimated rows of a group; 0 if nothing computes it."""
        best = self.best(group, run)
        return best.rows if best else RowCount(0.0)

    def best(self, group: int, run: int = 0) -> Choice | None:
        """The cheapest allowed choice for a group at a run; None if there is none."""
        return self._best.get((self._memo.find(group), run))

    def chosen(self, node: PlaceAtLevel) -> Choice | None:
        """The choice for a place at a level."""
        level, place = node
        return self._made[place].choice if level == MADE else self._chosen[level].get(place)

    def weighed(self, node: PlaceAtLevel, e: Expression) -> Choice | None:
        """The choice for a place by this expression; None if it is not allowed or lacks an input."""
        _, (group, run) = node
        best = self._chosen[self.inputs_of(node)]
        way = next((w for w in self._settling.ways_of[group] if w.expression is e), None)
        if way is None or any((i, run) not in best for i in way.inputs):
            return None
        if not self._settling.is_open(way, run, best.found):
            return None
        return self._settling.choice(way, run, best)

    def inputs_of(self, node: PlaceAtLevel) -> int:
        """The level of the inputs of a place's choice."""
        level, place = node
        return self._made[place].level if level == MADE else level

    def entry(self, place: Place) -> PlaceAtLevel:
        """A place at the level at which it is computed."""
        return (MADE if place in self._made else BEST), place

    def below(self, node: PlaceAtLevel) -> list[PlaceAtLevel]:
        """The places that a place reads directly."""
        group, run = node[1]
        choice = self.chosen(node)
        assert choice is not None
        if choice.saved is not None:
            saved = (group, choice.saved)
            written = saved in self._made and self._chosen[self.inputs_of(node)][saved].expression is None
            return [(MADE if written else self.inputs_of(node), saved)]
        if choice.expression is None:  # staged, or written by this run, possibly as a copy
            made = (group, run) in self._made and not (run == 0 and group in self._staged)
            return [(MADE, (group, run))] if made else []
        return [(self.inputs_of(node), (self._memo.find(i), run)) for i in choice.expression.inputs]

    def _again(self, node: PlaceAtLevel) -> list[PlaceAtLevel]:
        """The places that a place reads once more: changes whose keys pick rows that the same changes then meet."""
        choice = self.chosen(node)
        match choice.expression.op if choice is not None and choice.expression is not None else None:
            case FinalChange(partial):
                old, change = self.below(node)
                before, changed = (self._best[place].rows for _, place in (old, change))
                return [change] if few_touched(before, changed, len(partial.keys)) else []
            case JoinChange(picked=picked) as op:
                changes = [(i, of[1]) for i, (_, of) in enumerate(op.sides(self.below(node))) if len(of) > 1]
                return [change for one in picked for i, change in changes if i != one]
            case _:
                return []

    # -- whole plans --------------------------------------------------------------------------------------------------

    def planned(self, groups: Iterable[int], run: int) -> list[Planned]:
        """All work that provides these groups at a run, inputs first."""
        demands = [self.entry((self._memo.find(group), run)) for group in groups]
        order: dict[PlaceAtLevel, Choice] = {}
        seen: set[PlaceAtLevel] = set()

        def visit(node: PlaceAtLevel) -> None:
            choice = self.chosen(node)
            if node in seen or choice is None:
                return
            seen.add(node)
            for below in self.below(node):
                visit(below)
            order[node] = choice

        for demand in demands:
            visit(demand)
        reads = Counter(demands)
        for node in reversed(order):
            for below in [*self.below(node), *self._again(node)]:
                reads[below] += 1 if node[0] == MADE else reads[node]
        return [Planned(*place, choice, reads[level, place], level == MADE) for (level, place), choice in order.items()]

    def prefers(self, pack: str, plan: Sequence[Planned]) -> bool:
        """True if a plan uses the pack wherever the pack has a way."""
        unpreferred = self._settling.is_unpreferred
        return not any(unpreferred(p.group, p.choice.expression, pack) for p in plan if p.choice.expression is not None)

    def costs(self, plan: Sequence[Planned]) -> tuple[float, ...]:
        """CPU milliseconds of a plan at each run, with what the run does with the computed rows; not priced."""
        after = [0.0] * len(self.runs)
        for (_, run), handling in self.handled(plan).items():
            after[run] += handling
        work = (self.work(plan, run) for run in range(len(self.runs)))
        return tuple(
            float(self._model.total(operators)) + handling + more
            for (operators, handling), more in zip(work, after, strict=True)
        )

    def handled(self, plan: Sequence[Planned]) -> dict[Place, CpuMs]:
        """CPU milliseconds of what runs do with the rows of places that the plan computes."""
        computed = [p for p in plan if p.choice.expression is not None]
        return {(p.group, p.run): self._settling.handling((p.group, p.run), p.choice.rows) for p in computed}

    def work(self, plan: Sequence[Planned], run: int) -> tuple[list[OperatorWork], float]:
        """The operators of a plan at a run, and CPU milliseconds to save and load for later runs or other readers."""
        operators: list[OperatorWork] = []
        handling = 0.0
        for p in plan:
            if (choice := p.choice).saved == run:
                handling += choice.saving * p.reads
            if p.run != run:
                continue
            if choice.expression is None:
                handling += choice.own * p.reads
                continue
            groups = map(self._memo.find, choice.expression.inputs)
            inputs = tuple(self._settling.read(group, self._best[group, run]) for group in groups)
            operators.append(OperatorWork(choice.expression.op, inputs, choice.own, p.times))
            if p.once and (p.group, run) in self.shared:
                handling += self._model.save(choice.rows)
        return operators, handling

    def gains(self, plan: Sequence[Planned]) -> dict[Place, Priced]:
        """Estimated priced gain from writing and loading a place instead of computing it several times."""
        return self._gains.of(plan, self._best)

    @property
    def noise(self) -> Priced:
        """The smallest meaningful difference of priced costs."""
        first = self.runs[0]
        return self._model.noise if first.rank is None else first.priced(self._model.noise)

    def saved_by(self, group: int, run: int) -> list[tuple[int, int]]:
        """The groups saved for a group at a run, as (group, run that saves it), in the order of runs."""
        loaded = (p for p in self.planned([group], run) if p.choice.saved is not None)
        return sorted({(p.group, p.choice.saved or 0) for p in loaded}, key=lambda node: node[1])
