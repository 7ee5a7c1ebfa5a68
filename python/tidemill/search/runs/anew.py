"""Runs that make the whole result anew: from the sources, or from states brought up to date."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tidemill.search.choose.sharing import share
from tidemill.search.contract.choice import Choice
from tidemill.search.contract.run_kinds import PlanKind
from tidemill.search.contract.run_plan import read_by
from tidemill.search.runs.explanation import Alternative, ExplainedPlan
from tidemill.search.runs.task import PlanningTask
from tidemill.search.space.seed import RECOMPUTE, Candidate, advance, base
from tidemill.search.space.space import written_once
from tidemill.tvr.form import SNAPSHOT, Span, at


def full(
    task: PlanningTask, reason: str, states: Collection[str] | None = None, chosen: Choice | None = None
) -> ExplainedPlan:
    """The plan of a full run: the states and the result, all from the sources, each from what is written before it.

    `states`: names of the states to make, by default those worth keeping, which takes a search of its own; `chosen`:
    their choice, by default that of this search. States that the enabled rules cannot make are left out.
    """
    space, known = task.whole, task.request.chosen
    if states is None:
        states = frozenset()
        if known is not None and known.made_for.unpaid is not None and task.holds:
            chosen = known
        elif task.request.policy != "FULL":
            states = task.worth_keeping()
    kept = [c for c in space.candidates if c.name in states]
    written = written_once((c.name, base(space.memo, c, space.now)) for c in kept)
    extractor = task.extractor(space, past=False, followed=written)
    result = space.memo.form(space.root, at(SNAPSHOT, space.now))
    demands = [group for group in (*written.written, result) if extractor.best(group) is not None]
    share(extractor, demands, 0)
    run = task.assembly(space, extractor)
    run.once(demands, lambda group: [run.base(c) for c in space.named(written.written[group])])
    for candidate in kept:
        run.base(candidate)
    run.result(task.told_from)
    rival = Alternative(RECOMPUTE, (RECOMPUTE,), (run.cost,))
    return run.plan("FULL", reason, lambda: [rival], task.own_point, chosen=chosen or task.choice)


def rebuild(task: PlanningTask, reason: str) -> ExplainedPlan:
    """A plan for the whole result: readable states are brought up to date, others worth keeping are made."""
    space = task.space(task.request.steps, task.kept(content=False))
    kept = frozenset() if task.request.policy == "FULL" else task.worth_keeping()
    memo = space.memo
    plain = task.extractor(space)

    def made(candidate: Candidate) -> Iterator[int]:
        """The group to write for a state: its change, or all of it; none if it does not change."""
        if candidate.name in task.request.states:
            span = Span(space.standing.get(candidate.name, 0), space.now)
            change = advance(memo, candidate, span)
            if not memo.changed(candidate.tvr, span):
                return
            if plain.best(change) is not None:
                yield change
                return
        yield base(memo, candidate, space.now)

    written = written_once((c.name, group) for c in space.candidates if c.name in kept for group in made(c))
    demands = [*written.written, memo.form(space.root, at(SNAPSHOT, space.now))]
    run = task.assembly(
        space,
        task.cheapest(
            lambda prefer: task.extractor(space, prefer, followed=written), task.seeds(space), demands, 0
        ).extractor,
    )

    def write(name: str) -> Iterator[Candidate]:
        """Writes a state; yields the candidates that follow changes."""
        for candidate in space.named(name):
            if name in task.request.states and run.advance(candidate):
                yield candidate
            else:
                run.base(candidate)

    run.once(demands, lambda group: list(write(written.written[group])))
    followed = [c for name in dict.fromkeys(c.name for c in space.candidates) if name in kept for c in write(name)]
    run.result(task.told_from)
    task.compact(run, followed)
    kind: PlanKind = "INCREMENTAL" if read_by(run.steps) & {"changes", "state"} else "FULL"
    return run.plan(kind, reason, tuple, task.own_point, chosen=task.choice)
