"""Runs without output: they do work that is cheaper now than in the due run, and nothing else.

The view's change and the changes of states, which the due run needs, are planned over all runs until then. This run
does what the plan saves at it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations

from tidemill.search.choose.allowed import Allowed
from tidemill.search.choose.extract import Extractor
from tidemill.search.choose.planned_run import PlannedRun
from tidemill.search.choose.sharing import share
from tidemill.search.runs.explanation import Alternative, ExplainedPlan, PlannedPoint
from tidemill.search.runs.task import PlanningTask
from tidemill.search.space.seed import (
    DELTAS,
    RECOMPUTE,
    Candidate,
    advance,
    alone_with,
    answered_from_sources,
    base,
    methods_of,
)
from tidemill.search.space.space import Followed, Space, written_once
from tidemill.tvr.form import DELTA, SNAPSHOT, Span, Time, at


@dataclass(frozen=True, slots=True)
class Needs:
    """The groups that the due run needs, and those that earlier runs can save for it.

    Attributes:
        states: groups that are written to states.
        result: the view's change, or its content before the initial load.
        parts: groups that this run can write to a state.
        held: the view's change that this run can hold.
        savable: groups that any of the runs can save, each with the states that they are forms of; none for the
            view's change.
    """

    states: Followed
    result: int
    parts: dict[int, Candidate]
    held: int
    savable: Mapping[int, Collection[Candidate]]

    def can_save(self, group: int, packs: Collection[str] | None) -> bool:
        """True if any of the runs can save a group, for a method of these packs; None: of all."""
        states = self.savable.get(group)
        return states is not None and (not states or any(candidate.serves(packs) for candidate in states))

    @property
    def demands(self) -> list[int]:
        """All groups that the due run writes, its result last."""
        return [*self.states.written, self.result]


def early(task: PlanningTask) -> ExplainedPlan:
    """The plan of a run without output; without steps if no early work pays."""
    request = task.request
    due = next((i for i, p in enumerate(request.ahead, 1) if p.output), len(request.ahead))
    points = request.ahead[:due]
    steps = request.steps
    if request.first and not request.states:  # nothing is stored yet
        steps = (request.unchanged,)
    space = task.space(steps, task.kept(content=not request.first), [p.changes for p in points])
    needs = _needs(task, space, space.now + due)
    choices = _Choices(task, space, needs, due)
    preferred, packs = request.settings.prefer, task.seeds(space)
    best = choices.extractor(prefer=preferred)
    # A state that nothing brings up to date is given up; without a way to the result, all is computed anew.
    demands = [group for group in needs.demands if best.best(group, due) is not None]
    if needs.result not in demands:
        demands = []
    alone = (
        task.alone(space, pack, best, partial(choices.extractor, alone_with(pack), pack))
        for pack in (packs if preferred is None else (preferred,))
    )
    chosen = task.cheapest(
        lambda prefer: best if prefer is None else choices.extractor(prefer=prefer), packs, demands, due, alone
    )
    saved = worth_saving(chosen.extractor, demands, {*needs.parts, *({needs.held} & needs.savable.keys())})
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
    if not demands:
        return run.plan("PARTIAL", None, tuple, task.own_point)
    ahead = (PlannedPoint(p.number, p.price, p.output, p.changes) for p in points)
    return run.plan("PARTIAL", None, partial(choices.rivals, demands), (*task.own_point, *ahead), chosen)


def _needs(task: PlanningTask, space: Space, end: Time) -> Needs:
    """The needs of the due run at the moment `end`."""
    request, memo, now = task.request, space.memo, space.now
    early = range(now, end)
    wanted = task.worth_keeping() if request.first else frozenset()
    parts: dict[int, Candidate] = {}
    states: list[tuple[str, int]] = []
    savable: dict[int, list[Candidate]] = defaultdict(list)
    for candidate in space.candidates:
        standing = space.standing.get(candidate.name)
        if standing is None and not request.first:
            continue  # this run cannot follow it
        if standing is None:
            if candidate.name in wanted:
                states.append((candidate.name, base(memo, candidate, end)))
            parts.setdefault(base(memo, candidate, now), candidate)
            for moment in early:
                savable[base(memo, candidate, moment)].append(candidate)
        elif memo.changed(candidate.tvr, Span(standing, end)):
            states.append((candidate.name, advance(memo, candidate, Span(standing, end))))
            if memo.changed(candidate.tvr, Span(standing, now)):
                parts.setdefault(advance(memo, candidate, Span(standing, now)), candidate)
        for span in _intervals(early if standing is None else (standing, *early)):
            if memo.changed(candidate.tvr, span):
                savable[advance(memo, candidate, span)].append(candidate)
    if not request.first and memo.tvrs[space.root].props.reproducible:
        spans = (s for s in _intervals((request.held, *early)) if memo.changed(space.root, s))
        savable |= {memo.change(space.root, DELTA, span): [] for span in spans}
    held = memo.change(space.root, DELTA, Span(request.held, now))
    content, change = at(SNAPSHOT, end), Span(0, end)
    result = memo.form(space.root, content) if request.first else memo.change(space.root, DELTA, change)
    return Needs(written_once(states), result, parts, held, savable)


class _Choices:
    """The choices for all runs up to the due run, the `due`-th of the upcoming points."""

    def __init__(self, task: PlanningTask, space: Space, needs: Needs, due: int) -> None:
        self.task, self.space, self.needs, self.due = task, space, needs, due
        # Computing again from the sources gains nothing from early work; only a full due run may do it.
        whole = space.memo.change(space.root, DELTA, Span(0, space.now + due))
        anew = frozenset({whole} if task.request.policy == "AUTO" else ())
        self._allowed = Allowed(space.memo, answered_from_sources(space.memo, space.now), recompute=anew)
        prices = [task.request.price, *(p.price for p in task.request.ahead[:due])]
        last_first = task.request.settings.last_first
        self._runs = [PlannedRun(space.now + i, p, i if last_first else None) for i, p in enumerate(prices)]

    def extractor(self, packs: Collection[str] | None = None, prefer: str | None = None) -> Extractor:
        """The choices with these packs, all by default. Early work for states that only other packs propose is left to
        them; so a pack that the session prefers is tried by itself."""
        allowed = replace(self._allowed, packs=packs).allows
        space, own = self.space, self.task.request.settings.prefer
        alone = packs if packs is not None or own is None else {own, DELTAS, RECOMPUTE}
        savable = partial(self.needs.can_save, packs=alone)
        written = [(group, self.due) for group in self.needs.demands]
        copies = {(copy, self.due): (of, self.due) for copy, of in self.needs.states.copies.items()}
        return Extractor(
            space.memo, self.task.model, space.facts, allowed, prefer, self._runs, savable, written, copies, space.ways
        )

    def rivals(self, demands: Sequence[int]) -> list[Alternative]:
        """The best plan of each pack for what the due run writes, its result last."""
        alternatives: list[Alternative] = []
        space = self.space
        for pack in self.task.able(space):
            wanted = demands if pack != RECOMPUTE else demands[-1:]  # it keeps no states
            best = share(self.extractor(alone_with(pack), pack), wanted, self.due)
            chosen = [(p.group, p.choice.expression) for p in best.plan if p.choice.expression]
            methods = set(methods_of(space.memo, chosen))
            methods |= {RECOMPUTE} if pack == RECOMPUTE else set()
            if pack in methods and best.costs:
                alternatives.append(Alternative(pack, tuple(sorted(methods)), tuple(best.costs)))
        return alternatives


def worth_saving(extractor: Extractor, demands: Sequence[int], possible: Collection[int]) -> Collection[int]:
    """The groups that the first run saves in the cheapest plan of what the due run needs."""
    last = len(extractor.runs) - 1
    saved = {group for demand in demands for group, run in extractor.saved_by(demand, last) if run == 0}
    assert saved <= set(possible)
    return saved


def _intervals(moments: Iterable[Time]) -> Iterator[Span]:
    return (Span(i, j) for i, j in combinations(moments, 2))
