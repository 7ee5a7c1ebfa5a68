"""Runs without output: what is worth doing now for the next one that has output, and nothing else.

What that one needs, the view's change and that of each state, is planned over all runs until then; what the plan saves
at this run is what this run does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from tidemill.search.choose.allowed import Allowed
from tidemill.search.choose.extract import Extractor
from tidemill.search.choose.settle import PlannedRun
from tidemill.search.choose.sharing import share
from tidemill.search.runs.explanation import Alternative, ExplainedPlan, PlannedPoint
from tidemill.search.runs.task import PlanningTask
from tidemill.search.space.seed import (
    CORE,
    DELTAS,
    RECOMPUTE,
    Candidate,
    advance,
    answered_from_sources,
    base,
    methods_of,
)
from tidemill.search.space.space import Followed, Space, written_once
from tidemill.tvr.form import DELTA, SNAPSHOT, Span, Time, at

LAST = "last"
"""The objective that compares costs at the last point first, then at the one before it, and so on (Tempura's c_v)."""
BEFORE_THE_LAST = 1e-5
"""What a unit of work at a point weighs under it, against one at the next."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What the run with output needs, and what earlier ones can save of that; groups throughout.

    Attributes:
        states: what is written of states.
        result: the view's change, or its content where nothing was filled yet.
        parts: what this run can write of a state.
        held: the view's change that this run can hold back.
        savable: what any of the runs can save.
    """

    states: Followed
    result: int
    parts: dict[int, Candidate]
    held: int
    savable: frozenset[int]

    @property
    def demands(self) -> list[int]:
        return [*self.states.written, self.result]


def early(task: PlanningTask) -> ExplainedPlan:
    """The plan of a run without output."""
    request = task.request
    due = next((i for i, p in enumerate(request.ahead, 1) if p.output), len(request.ahead))
    points = request.ahead[:due]
    steps = request.steps
    if request.first and not request.states:  # nothing stands anywhere yet
        steps = (request.unchanged,)
    space = task.space(steps, task.kept(content=not request.first), [p.changes for p in points])
    needs = _needs(task, space, space.now + due)
    choices = _Choices(task, space, needs, due)
    chosen = task.cheapest(
        lambda prefer: choices.extractor(prefer=prefer or request.settings.prefer),
        task.seeds(space),
        needs.demands,
        due,
    )
    saved = worth_saving(chosen.extractor, needs.demands, {*needs.parts, *({needs.held} & needs.savable)})
    run = task.assembly(space, chosen.extractor)
    run.once(sorted(saved))
    for group, candidate in needs.parts.items():
        if group in saved:
            if candidate.name in space.standing:
                run.advance(candidate)
            else:
                run.base(candidate)
    for candidate in space.candidates:
        if candidate.name in space.standing:
            run.leave(candidate)
    if needs.held in saved:
        run.hold(needs.held, "segment" if request.held else "base")
    ahead = (PlannedPoint(p.number, p.price, p.output, p.changes) for p in points)
    return run.plan("PARTIAL", None, choices.rivals, (*task.own_point, *ahead), chosen)


def _needs(task: PlanningTask, space: Space, end: Time) -> Needs:
    """`end`: the moment of the run with output."""
    request, memo, now = task.request, space.memo, space.now
    early = range(now, end)
    wanted = task.worth_keeping() if request.first else frozenset()
    parts: dict[int, Candidate] = {}
    states: list[tuple[str, int]] = []
    savable: set[int] = set()
    for candidate in space.candidates:
        standing = space.standing.get(candidate.name)
        if standing is None and not request.first:
            continue  # it has no content that this run could go on from
        if standing is None:
            if candidate.name in wanted:
                states.append((candidate.name, base(memo, candidate, end)))
            parts.setdefault(base(memo, candidate, now), candidate)
            savable.update(base(memo, candidate, moment) for moment in early)
        else:
            states.append((candidate.name, advance(memo, candidate, Span(standing, end))))
            if memo.changed(candidate.tvr, Span(standing, now)):
                parts.setdefault(advance(memo, candidate, Span(standing, now)), candidate)
        savable.update(
            advance(memo, candidate, span)
            for span in _intervals(early if standing is None else (standing, *early))
            if memo.changed(candidate.tvr, span)
        )
    if not request.first and memo.tvrs[space.root].props.reproducible:
        spans = (s for s in _intervals((request.held, *early)) if memo.changed(space.root, s))
        savable.update(memo.change(space.root, DELTA, span) for span in spans)
    held = memo.change(space.root, DELTA, Span(request.held, now))
    content, change = at(SNAPSHOT, end), Span(0, end)
    result = memo.form(space.root, content) if request.first else memo.change(space.root, DELTA, change)
    return Needs(written_once(states), result, parts, held, frozenset(savable))


class _Choices:
    """The choices for all runs until the `due`-th to come, which has output."""

    def __init__(self, task: PlanningTask, space: Space, needs: Needs, due: int) -> None:
        self.task, self.space, self.needs, self.due = task, space, needs, due
        # What is computed again from the sources needs nothing done early; a full run with output is such a thing.
        whole = space.memo.change(space.root, DELTA, Span(0, space.now + due))
        anew = frozenset({whole} if task.request.policy == "AUTO" else ())
        self._allowed = Allowed(space.memo, answered_from_sources(space.memo, space.now), recompute=anew)
        prices = [task.request.price, *(p.price for p in task.request.ahead[:due])]
        if task.request.settings.objective == LAST:
            prices = [BEFORE_THE_LAST ** (due - i) for i in range(due + 1)]
        self._runs = [PlannedRun(space.now + i, price) for i, price in enumerate(prices)]

    def extractor(self, packs: Collection[str] | None = None, prefer: str | None = None) -> Extractor:
        """`packs`: those it may use, all unless given."""
        allowed = replace(self._allowed, packs=packs).allows
        space, savable = self.space, self.needs.savable.__contains__
        written = [(group, self.due) for group in self.needs.demands]
        copies = {(copy, self.due): (of, self.due) for copy, of in self.needs.states.copies.items()}
        return Extractor(
            space.memo, self.task.model, space.facts, allowed, prefer, self._runs, savable, written, copies, space.ways
        )

    def rivals(self) -> list[Alternative]:
        """The best plan of each pack."""
        alternatives: list[Alternative] = []
        demands, space = self.needs.demands, self.space
        for pack in self.task.able(space):
            packs = {CORE, pack, RECOMPUTE} | ({DELTAS} if pack != RECOMPUTE else set())
            wanted = demands if pack != RECOMPUTE else demands[-1:]  # it keeps nothing
            best = share(self.extractor(packs, pack), wanted, self.due)
            chosen = [(p.group, p.choice.expression) for p in best.plan if p.choice.expression]
            methods = set(methods_of(space.memo, chosen))
            methods |= {RECOMPUTE} if pack == RECOMPUTE else set()
            if pack in methods and best.costs:
                alternatives.append(Alternative(pack, tuple(sorted(methods)), tuple(best.costs)))
        return alternatives


def worth_saving(extractor: Extractor, demands: Sequence[int], possible: Collection[int]) -> Collection[int]:
    """Which of the groups that the first run can save it does, in the cheapest plan of what the last one needs."""
    last = len(extractor.runs) - 1
    saved = {group for demand in demands for group, run in extractor.saved_by(demand, last) if run == 0}
    assert saved <= set(possible)
    return saved


def _intervals(moments: Iterable[Time]) -> Iterator[Span]:
    return (Span(i, j) for i, j in combinations(moments, 2))
