"""Parts of a plan, and the gains from writing some of them once for all their readers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tidemill.cost.costing import CostModel
from tidemill.memo.memo import Memo
from tidemill.plan.ops import Filter, Project, Scan
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
        self._row_by_row: dict[int, list[Way]] = {}
        for group, known in settling.ways_of.items():
            if told := {place for way in known for place in told_by(memo, way.expression)}:
                self._told_by[group] = told
            if looked_up := [way for way in known if way.looks_up]:
                self._looked_up[group] = looked_up
            if row_by_row := [way for way in known if isinstance(way.expression.op, Project | Filter)]:
                self._row_by_row[group] = row_by_row

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
            if any(p.once for p in each) or reads + len(others) < 2 or not self._has_columns(least.group, least.choice):
                continue
            rows = least.choice.rows
            handling = self._model.save(rows) + self._model.load(rows) * (reads + len(others))
            saved = sum(p.choice.cost * p.reads for p in each) - least.choice.cost + sum(others)
            found[place] = saved - self._runs[place[1]].priced(handling)
        return found | dict(self._before(computed, best)) | dict(self._wider(at, best))

    def _wider(self, at: Mapping[Place, Sequence[Planned]], best: SettledChoices) -> Iterator[tuple[Place, Priced]]:
        """Gains from writing rows that the plan does not compute, as each of their readers needs a part of them.

        Such are the rows of some keys of a source with the columns of several scans. A part is a place that is computed
        from them row by row. Of a place and those below it, only the lowest counts: it takes the others' work with it.
        """
        parts: dict[Place, dict[Place, Priced]] = defaultdict(dict)
        for place, each in at.items():
            cost = sum(p.choice.cost * p.times for p in each)
            for wider, own in self._taken_from(place, best).items():
                if wider not in at:
                    parts[wider][place] = cost - own * sum(p.times for p in each)
        for place, gains in parts.items():
            choice = best.get(place)
            if choice is None or choice.expression is None or not self._has_columns(place[0], choice):
                continue
            lowest = [part for part in gains if not self._below(part, at).intersection(gains)]
            if len(lowest) < 2:
                continue
            loads = sum(p.times for part in lowest for p in at[part])
            handling = self._model.save(choice.rows) + self._model.load(choice.rows) * loads
            yield place, sum(gains[part] for part in lowest) - choice.cost - self._runs[place[1]].priced(handling)

    def _below(self, place: Place, at: Mapping[Place, Sequence[Planned]]) -> set[Place]:
        """The inputs of a place in the plan."""
        used = (p.choice.expression for p in at[place])
        return {(self._memo.find(i), place[1]) for e in used if e is not None for i in e.inputs}

    def _taken_from(self, place: Place, best: SettledChoices) -> dict[Place, Priced]:
        """The places that a place can be computed from row by row, each with the least cost of that."""
        found: dict[Place, Priced] = {}
        open_ = [(place, self._runs[place[1]].priced(0.0))]
        while open_:
            (group, run), cost = open_.pop()
            for way in self._row_by_row.get(group, ()):
                wider = way.inputs[0], run
                if wider == place or wider not in best.found:
                    continue
                total = cost + self._runs[run].priced(self._settling.choice(way, run, best).own)
                if wider not in found or total < found[wider]:
                    found[wider] = total
                    open_.append((wider, total))
        return found

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

    def _has_columns(self, group: int, choice: Choice) -> bool:
        """False for rows without columns, which cannot be written; deltas always have their counts."""
        about = self._memo.group(group).about
        if about is not None:
            return about[1].kind.interval or bool(self._memo.tvrs[about[0]].props.columns)
        op = choice.expression.op if choice.expression is not None else None
        return not isinstance(op, Project | Scan) or bool(op.columns)
