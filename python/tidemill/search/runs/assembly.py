"""Assembles the steps of a run: lowers the chosen groups, state by state; later steps read what earlier ones wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf

from tidemill.cost.costing import CostModel, OperatorWork
from tidemill.cost.guesses import CHANGED_SHARE
from tidemill.memo.memo import Expression
from tidemill.plan.ops import (
    Changes,
    Crossing,
    Filter,
    HeldScan,
    Join,
    KeyFilter,
    LookUp,
    Negate,
    Pad,
    Project,
    ResultScan,
    Scan,
    StateScan,
    Sum,
    Union,
    Unsign,
)
from tidemill.plan.query import Query, count_field
from tidemill.search.choose.chosen import Chosen
from tidemill.search.choose.extract import Extractor
from tidemill.search.choose.planned_run import PlannedRun
from tidemill.search.choose.sharing import Shared
from tidemill.search.contract.choice import Choice
from tidemill.search.contract.run_kinds import Mode, PlanKind
from tidemill.search.contract.run_plan import StateSpec, Step, Volume
from tidemill.search.contract.stored import KeyedRead, Layout
from tidemill.search.keep.compaction import Compaction
from tidemill.search.lower.choices import Choices, NotComputableError
from tidemill.search.lower.leaves import leaf, read_staged
from tidemill.search.lower.lowered import Blocks, Lowered, Staged
from tidemill.search.lower.walk import Lowerer
from tidemill.search.runs.applying import content_of, leaving_share
from tidemill.search.runs.arrivals import arriving, counted_steps, shared_step
from tidemill.search.runs.explanation import (
    Alternative,
    ExplainedPlan,
    Explanation,
    Job,
    PlannedPoint,
    SearchStats,
    Used,
)
from tidemill.search.runs.inspect import is_net, unable, view_keys
from tidemill.search.runs.pieces import state_spec, state_step, stored_columns
from tidemill.search.space.orders import keyed_reads
from tidemill.search.space.seed import RECOMPUTE, Candidate, advance, base, methods_of
from tidemill.search.space.space import Space
from tidemill.settings import PACKS
from tidemill.tvr.form import SNAPSHOT, Span, at
from tidemill.wire import questions


class Assembly:
    """The steps of a run during assembly; later steps read what earlier ones wrote.

    Args:
        search: the progress of the search for the plan.
        orders: by a state's name the field to order its base by, if there is one.
        lying: by a state's name the field that its present base is ordered by.
        layout: files of the view's content; None if unknown.
    """

    def __init__(
        self,
        query: Query,
        model: CostModel,
        space: Space,
        extractor: Extractor,
        search: Callable[[], SearchStats],
        orders: Mapping[str, str],
        lying: Mapping[str, str],
        layout: Layout | None = None,
    ) -> None:
        self.space = space
        self.steps: list[Step] = []
        self._query = query
        self._model = model
        self._extractor = extractor
        self._search = search
        self._orders = orders
        self._lying = dict(lying)
        self._layout = layout
        self._used: dict[tuple[int, Expression], Used] = {}
        self._staged: dict[int, Staged] = {}
        self._specs: list[StateSpec] = []
        self._saves: dict[int, str] = {}
        self._written: dict[str, Staged] = {}
        self._compacted: dict[str, Compaction] = {}
        self._behind: set[str] = set()
        self._work: list[OperatorWork] = []
        self._jobs: list[Job] = []
        self._handling = 0.0
        self._arrived: dict[int, str] = {}

    @property
    def cost(self) -> float:
        """CPU milliseconds of all steps and of applying the view's change, not priced."""
        return self._handling + self._model.total(self._work) + sum(job.cost for job in self._jobs)

    def once(self, demands: Sequence[int], keep: Callable[[int], object] = lambda _: None) -> None:
        """Writes the places that the plan of these groups computes once at this run, in order of dependency.

        `keep` writes the groups of states.
        """
        used = {(p.group, p.run) for p in self._extractor.planned(demands, 0) if p.once}
        for group, run in self._extractor.order:
            if (group, run) in used and run == 0:
                if (group, run) in self._extractor.shared:
                    self._share(group)
                else:
                    keep(group)

    def _share(self, group: int) -> None:
        lowered, volume = self.lower(group, net=True)
        self._pass_on(f"shared {len(self.steps)}", group, lowered, volume)
        self._extractor.stage(group)

    def _pass_on(self, name: str, group: int, lowered: Lowered, volume: Volume) -> None:
        """Adds a step that writes the rows of a group for later steps."""
        step, self._staged[group] = shared_step(name, lowered, volume, Blocks(self.space.memo.columns))
        self.steps.append(step)

    def base(self, candidate: Candidate) -> bool:
        """Makes a state anew, as of the end of the run, without reading it; returns False if that is impossible."""
        memo = self.space.memo
        group = base(memo, candidate, self.space.now)
        if self._is_written(candidate, group):
            return True
        free = self._making_anew(group)
        try:
            lowered, volume = self.lower(group, net=False, extractor=free)
        except NotComputableError:
            return False
        if candidate.partial is None:
            lowered = Blocks(memo.columns).signed(lowered)
        self._write(candidate, "base", group, lowered, volume)
        return True

    def advance(self, candidate: Candidate) -> bool:
        """Makes a state follow the run; returns False if that is impossible, and the state has to be given up."""
        memo = self.space.memo
        span = Span(self.space.standing.get(candidate.name, 0), self.space.now)
        if memo.changed(candidate.tvr, span):
            group = advance(memo, candidate, span)
            if self._is_written(candidate, group):
                return True
            try:
                lowered, volume = self.lower(group, net=candidate.partial is None)
            except NotComputableError:
                return False
            self._write(candidate, "segment", group, lowered, volume)
        elif all(spec.name != candidate.name for spec in self._specs):
            self._specs.append(state_spec(candidate, self.space))
        return True

    def compact(self, candidate: Candidate, compaction: Compaction, *, last: bool) -> None:
        """Merges pieces of a state, before any other step or `last`, if these read pieces of early work apart."""
        lowerer = Lowerer(self._choices(Chosen.making(self._extractor, 0)))
        lowered = lowerer.compacted(candidate.scan, candidate.partial, compaction.first)
        columns = stored_columns(candidate, lowered)
        step = Step(
            name=f"compact {candidate.name}",
            target="state",
            state=candidate.name,
            mode="compact",
            plan=lowered.node,
            columns=columns,
            volume=Volume(compaction.rows, compaction.rows, compaction.rows, compaction.cost),
            first=compaction.first,
            order=compaction.order,
        )
        if last:
            self.steps.append(step)
        else:
            self._lie(candidate, step)
            self.steps.insert(len(self._compacted), step)
        self._compacted[candidate.name] = compaction
        self._handling += compaction.cost

    @property
    def asked(self) -> dict[str, KeyedRead]:
        """The reads of states by few keys in the steps so far, by the states' names."""
        return keyed_reads(self.space.memo, self.space.facts, self._used, self._extractor.rows)

    def _lie(self, candidate: Candidate, step: Step) -> None:
        """Notes the order in which a step writes a state's base."""
        if step.order is not None:
            self._lying[candidate.name] = step.order

    def _is_written(self, candidate: Candidate, group: int) -> bool:
        """True if this run has already written the state, for an equal part of the query; then both parts read it."""
        written = self._written.get(candidate.name)
        if written is None:
            return False
        self._stage(candidate, group, written.step, written.count)
        return True

    def _stage(self, candidate: Candidate, group: int, step: str, signed: bool) -> None:
        number = self.space.memo.find(group)
        self._staged[number] = Staged(step, tuple((c, f) for c, f, _ in candidate.scan.columns), signed)
        self._extractor.stage(group)

    def _add(self, step: Step, group: int, types: Iterable[str], extractor: Extractor | None = None) -> None:
        """Adds a step that writes a group's rows, in columns of these types, and possibly counts."""
        rows = float((extractor or self._extractor).rows(group))
        cost = self._model.writing(rows, list(types))
        self.steps.append(step.dearer(cost))
        if cost:
            self._jobs.append(Job(f"write {step.name}", rows, cost, group))

    def _write(self, candidate: Candidate, mode: Mode, group: int, lowered: Lowered, volume: Volume) -> None:
        step, rows = state_step(candidate, mode, lowered, volume), self._extractor.rows(group)
        if mode == "base" and (order := self._orders.get(candidate.name)) is not None:
            step = replace(step, order=order)
            self._lie(candidate, step)
            ordering = self._model.ordering(rows)
            step = step.dearer(ordering)
            self._handling += ordering
        self._add(step, group, [t for _, _, t in candidate.scan.columns])
        # Each row of a base counts 1, so readers of the snapshot need not look at the counts.
        signed = mode == "segment" and lowered.count is not None
        self._stage(candidate, group, self.steps[-1].name, signed)
        self._written[candidate.name] = self._staged[self.space.memo.find(group)]
        self._saves[self.space.memo.find(group)] = candidate.name
        self._specs.append(state_spec(candidate, self.space))

    def leave(self, candidate: Candidate) -> None:
        """Keeps a state that this run does not follow, at its present moment."""
        if candidate.name not in {spec.name for spec in self._specs}:
            self._specs.append(state_spec(candidate, self.space))
            self._behind.add(candidate.name)

    def hold(self, change: int, mode: Mode) -> None:
        """Writes the net signed change of the view as the held change; `mode`: base or segment."""
        lowered, volume = self.lower(change, net=True)
        self._add(Step("held", "held", None, mode, lowered.node, self._counted(lowered), volume), change, self._types)

    def delta(self, change: int) -> None:
        """Writes the net signed change of the view, and applies it; it is empty if only states are made anew."""
        if self.space.changed:
            lowered, volume = self.lower(change, net=True)
        else:
            columns = self.space.memo.tvrs[self.space.root].props.columns
            lowered = Lowerer(self._choices(Chosen.making(self._extractor, change))).nothing(columns)
            volume = Volume(written=0.0)
        step = Step("delta", "delta", None, None, lowered.node, self._counted(lowered), volume)
        self._add(step, change, self._types)
        if self.space.changed:
            self._apply(change, step)

    def _apply(self, change: int, step: Step) -> None:
        """Adds the jobs that apply the view's change, which a step writes, to the content."""
        space, rows = self.space, float(self._extractor.rows(change))
        gone = rows * leaving_share(space)
        content = content_of(self._query, space, self._layout)
        read = {step.name, *questions.steps_read(step.plan)}
        placed = any("result" in questions.leaves_read(s.plan) for s in self.steps if s.name in read)
        self._jobs += (job for job in content.applying(rows - gone, gone, self._model, placed=placed) if job.cost)

    @property
    def _types(self) -> list[str]:
        """Types of the view's columns."""
        return [self.space.memo.columns.type(c) for c, _ in self._query.output]

    def _counted(self, lowered: Lowered) -> tuple[tuple[int, str], ...]:
        """The view's columns in signed rows, and the column of their counts."""
        assert lowered.count is not None
        return (*self._query.output, (lowered.count, count_field(name for _, name in self._query.output)))

    def result(self, before: float | None) -> None:
        """Writes the whole content; then also its net signed change from the content `before`, given by its rows."""
        group = self.space.memo.form(self.space.root, at(SNAPSHOT, self.space.now))
        extractor = self._making_anew(group)
        if extractor.cost(group) == inf:
            raise NotComputableError(unable(self.space, extractor, PACKS))
        lowered, volume = self.lower(group, net=False, extractor=extractor)
        output = tuple(self._query.output)
        self._add(Step("result", "result", None, None, lowered.node, output, volume), group, self._types, extractor)
        if before is not None:
            self._tell(output, before + float(extractor.rows(group)))

    def _tell(self, output: tuple[tuple[int, str], ...], rows: float) -> None:
        """Writes the difference of the content that the run has written and the one before; both have `rows` rows."""
        blocks, columns = Blocks(self.space.memo.columns), self.space.memo.columns
        ids = tuple(c for c, _ in output)
        now = read_staged(blocks, Staged("result", output, count=False))
        scan = ResultScan(tuple((c, field, columns.type(c)) for c, field in output))
        old = blocks.negate(leaf(blocks, scan, self.space.now))
        change = blocks.net(ids, blocks.union(ids, [(ids, blocks.signed(now)), (ids, old)]))
        fields = (*output, (blocks.count, count_field(name for _, name in output)))
        changed = CHANGED_SHARE * rows
        cost = self._model.merging(2.0, rows, changed)
        self.steps.append(Step("delta", "delta", None, None, change.node, fields, Volume(rows, rows, changed, cost)))
        self._handling += cost

    def _making_anew(self, group: int) -> Extractor:
        """The choices to compute a snapshot anew. If nothing else computes it, they may compute inputs of limits from
        the sources, which an incremental run must not."""
        if self._extractor.best(group) is not None:
            return self._extractor
        return Extractor(self.space.memo, self._model, self.space.facts, runs=(PlannedRun(self.space.now),))

    def _choices(self, chosen: Chosen) -> Choices:
        space = self.space
        return Choices(space.memo, chosen, self._staged, space.base_rows, space.facts.segments)

    def lower(self, group: int, *, net: bool, extractor: Extractor | None = None) -> tuple[Lowered, Volume]:
        """The plan of a group, and the estimates of what it handles."""
        plan = extractor or self._extractor
        chosen = Chosen.making(plan, group)
        work, handling = plan.work(plan.planned([group], 0), 0)
        for number in arriving(self._model, work):
            if number not in self._arrived:
                self._arrived[number] = f"arriving {len(self.steps)}"
                self._pass_on(self._arrived[number], number, *self._lowered(chosen, number, net=True))
        lowered, volume = self._lowered(chosen, group, net=net)
        self._work += work
        self._handling += handling
        return lowered, replace(volume, cost=handling + self._model.total(work))

    def _lowered(self, chosen: Chosen, group: int, *, net: bool) -> tuple[Lowered, Volume]:
        """A group by these choices, and the rows that it handles."""
        choices = self._choices(chosen)
        lowerer = Lowerer(choices)
        lowered = lowerer.group(group)
        if net and lowered.count is not None and not is_net(self.space, chosen, group):
            lowered = lowerer.blocks.net(lowered.columns, lowered)
        for number, e in lowerer.used:
            if (number, e) not in self._used and (choice := chosen.weighed(number, e)) is not None:
                self._used[number, e] = Used(number, e, choice.rows, choice.own)
        shuffled = max((_shuffled(choices, e) for _, e in lowerer.used), default=0.0)
        leaves = [number for number, e in lowerer.used if isinstance(e.op, Changes | StateScan | ResultScan | HeldScan)]
        read = max((chosen.rows(i) for i in [*leaves, *lowerer.staged_used]), default=0.0)
        return lowered, Volume(shuffled, read, float(chosen.rows(group)))

    def plan(
        self,
        kind: PlanKind,
        reason: str | None,
        rivals: Callable[[], Sequence[Alternative]],
        points: Sequence[PlannedPoint],
        schedule: Shared | None = None,
        chosen: Choice | None = None,
    ) -> ExplainedPlan:
        """The plan of the run with the present steps; `chosen` as in `RunPlan`, other arguments as in `Explanation`."""
        return ExplainedPlan(
            kind=kind,
            reason=reason,
            steps=tuple(self.steps),
            methods=(RECOMPUTE,) if kind == "FULL" else tuple(methods_of(self.space.memo, self._used)),
            estimated=self.cost,
            keys=view_keys(self._query, self.space),
            states=tuple(self._specs),
            behind=frozenset(self._behind),
            chosen=chosen,
            asked=self.asked,
            applying=sum(job.cost for job in self._jobs if job.group is None),
            arrivals=counted_steps(self._model, self._work, self._arrived),
            explanation=Explanation(
                self.space,
                self._extractor,
                self._model.name,
                tuple(self._used.values()),
                tuple(self._jobs),
                self._saves,
                self._compacted,
                self._lying,
                rivals,
                points,
                schedule.plan if schedule else (),
                schedule.costs if schedule else (self.cost,),
                self._search(),
            ),
        )


def _shuffled(choices: Choices, e: Expression) -> float:
    """Rows that Spark may have to shuffle for an expression; it broadcasts a small side of a join instead."""
    if not e.inputs or isinstance(e.op, Scan | Crossing | Filter | Project | Union | Sum | Negate | Pad | Unsign):
        return 0.0
    rows = [choices.rows(i) for i in e.inputs]
    if isinstance(e.op, Join | KeyFilter | LookUp) and any(map(choices.is_small, e.inputs)):
        return 0.0
    return float(sum(rows))
