"""Parts of a plan, and the gains from writing some of them once for all their readers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tidemill.cost.costing import CostModel
from tidemill.memo.memo import Memo
from tidemill.plan.ops import Project, Scan
from tidemill.search.choose.planned_run import PlannedRun, Priced
from tidemill.search.choose.settle import Choice, Place, SettledChoices, SettlingProblem
from tidemill.search.space.cuts import told_by
from tidemill.search.space.ways import Way


@dataclass(frozen=True, slots=True)
class Planned:
    """A group at a run, with the choice that provides it.

    Attributes:
        reads: number of reads in the course of the plan.
        once: it is computed only once, and written.
    """

    group: int
    run: int
    choice: Choice
    reads: int = 1
    once: bool = False

    @property
    def times(self) -> int:
        """Number of times that it is computed or loaded."""
        return 1 if self.once else self.reads


class Gains:
    """Estimates gains over the ways of a problem."""

    def __init__(self, memo: Memo, model: CostModel, settling: SettlingProblem, runs: Sequence[PlannedRun]) -> None:
        self._memo = memo
        self._model = model
        self._settling = settling
        self._runs = runs
        self._told_by: dict[int, set[int]] = {}
        self._looked_up: dict[int, list[Way]] = {}
        for group, known in settling.ways_of.items():
            if told := {place for way in known for place in told_by(memo, way.expression)}:
                self._told_by[group] = told
            if looked_up := [way for way in known if way.looks_up]:
                self._looked_up[group] = looked_up

    def of(self, plan: Sequence[Planned], best: SettledChoices) -> dict[Place, Priced]:
        """Estimated priced gain from writing and loading a place instead of computing it several times.

        `best`: the choices with what is written already. All other choices stay. The gain includes readers that could
        use the written rows instead of their own computation: rows before a change from those after it or the other way
        round (`told_by`), and look-ups of states by written keys.
        """
        told: dict[Place, list[Priced]] = defaultdict(list)
        computed = [p for p in plan if p.choice.expression is not None]
        for p in computed:
            for other in self._told_by.get(p.group, ()):
                told[other, p.run].append(p.choice.cost * p.times)
            for way in self._looked_up.get(p.group, ()):
                if (way.inputs[0], p.run) not in best.found:
                    continue
                own = self._runs[p.run].priced(self._settling.choice(way, p.run, best).own)
                if own < p.choice.cost:
                    told[way.inputs[0], p.run].append((p.choice.cost - own) * p.times)
        at: dict[Place, list[Planned]] = defaultdict(list)
        for p in computed:
            at[p.group, p.run].append(p)
        found: dict[Place, Priced] = {}
        for place, each in at.items():  # once for what is written, and once for all else
            others, reads = told.get(place, []), sum(p.reads for p in each)
            least = min(each, key=lambda p: p.choice.cost)
            if any(p.once for p in each) or reads + len(others) < 2 or not self._has_columns(least):
                continue
            rows = least.choice.rows
            handling = self._model.save(rows) + self._model.load(rows) * (reads + len(others))
            saved = sum(p.choice.cost * p.reads for p in each) - least.choice.cost + sum(others)
            found[place] = saved - self._runs[place[1]].priced(handling)
        return found | dict(self._before(computed, best))

    def _before(self, computed: Iterable[Planned], best: SettledChoices) -> Iterator[tuple[Place, Priced]]:
        """Gains from writing at an earlier run what later runs compute several times.

        A single reader has chosen between the runs already. Several share what the earlier run takes, so they may gain
        where none of them does alone. Prices may fall, so all earlier runs are looked at.
        """
        later: dict[int, list[Planned]] = defaultdict(list)
        for p in computed:
            if p.run > 0 and not p.once and self._settling.is_savable(p.group):
                later[p.group].append(p)
        for group, each in later.items():
            for run in range(max(p.run for p in each)):
                readers = [p for p in each if p.run > run]
                choice = best.get((group, run))
                if sum(p.reads for p in readers) < 2 or choice is None or choice.expression is None:
                    continue
                there = choice.cost + self._runs[run].priced(self._model.save(choice.rows))
                loads = sum(self._runs[p.run].priced(self._model.load(choice.rows)) * p.reads for p in readers)
                yield (group, run), sum(p.choice.cost * p.reads for p in readers) - there - loads

    def _has_columns(self, p: Planned) -> bool:
        """False for rows without columns, which cannot be written; deltas always have their counts."""
        about = self._memo.group(p.group).about
        if about is not None:
            return about[1].kind.interval or bool(self._memo.tvrs[about[0]].props.columns)
        op = p.choice.expression.op if p.choice.expression is not None else None
        return not isinstance(op, Project | Scan) or bool(op.columns)
