"""The space of plans of one run: the memo, seeded and explored, with what is kept and what things are worth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tidemill.memo.memo import Memo
from tidemill.plan.change import SourceChange
from tidemill.plan.columns import Columns
from tidemill.plan.expr import Col
from tidemill.plan.normal import normalise
from tidemill.plan.ops import Project, Tree, columns_of
from tidemill.plan.query import Column, Query
from tidemill.rule.engine import Budget, Explored, explore
from tidemill.rule.rule import Rule
from tidemill.search.costing import CostModel, Facts
from tidemill.search.estimate import Sizes, estimate
from tidemill.search.run_plan import StateSpec
from tidemill.search.seed import Candidate, candidates, keep, keep_result, read_from, seed
from tidemill.tvr.timeline import Step, Timeline


@dataclass(frozen=True, slots=True)
class Space:
    """An explored memo and what extraction needs beside it; `root` is the view's relation."""

    memo: Memo
    root: int
    candidates: tuple[Candidate, ...]
    facts: Facts
    base_rows: Mapping[int, float]
    explored: Explored


def step_of(sources: Mapping[int, SourceChange]) -> Step:
    """A step of the timeline from what happens to the sources in it."""
    changed = frozenset(n for n, s in sources.items() if s.changed)
    telling = frozenset(n for n in changed if sources[n].reason is None)
    mixed = frozenset(n for n in telling if sources[n].inserts != 0 and sources[n].deletes != 0)
    return Step(changed, telling, mixed)


def normal_query(query: Query) -> Query:
    """The query with its tree in the planner's normal form, giving out exactly its output, each column once."""
    root = normalise(query.root)
    ids = [c for c, _ in query.output]
    if tuple(ids) == columns_of(root) and len(set(ids)) == len(ids):
        return replace(query, root=root)
    columns = dict(query.columns)
    fresh = Columns(query)
    named, output, seen = [], [], set[int]()
    for i, (column, name) in enumerate(query.output):
        own = column
        if column in seen:
            own = fresh.fresh(("output", i), query.columns[column].type, name)
            columns[own] = Column(own, name, query.columns[column].type, query.columns[column].nullable)
        seen.add(column)
        named.append((own, Col(column)))
        output.append((own, name))
    return replace(query, root=Tree(Project(tuple(named)), (root,)), output=tuple(output), columns=columns)


def space(
    query: Query,
    sources: Mapping[int, SourceChange],
    rules: Sequence[Rule],
    model: CostModel,
    budget: Budget,
    settings: str,
    states: Iterable[str] | None,
    measured: Mapping[str, float] | None = None,
    *,
    result: bool = True,
    stored: Iterable[StateSpec] = (),
) -> Space:
    """Explore the plans of a run.

    Args:
        query: in normal form (`normal_query`).
        sources: what changed.
        rules: those that are switched on.
        settings: captured settings, part of the names of states.
        states: names of the states that can be read at the old positions; None lets every candidate be read, as after
            a filling that kept them all.
        measured: rows of states that were written.
        result: whether the view's content can be read as the old snapshot.
        stored: states of another query of the view, to be read where they have what a candidate needs.
    """
    memo = Memo(query, Timeline((step_of(sources),)))
    trees = seed(memo, query.root, {n: s.old_readable for n, s in sources.items()})
    root = memo.register(query.root)
    possible = candidates(memo, trees, root, settings)
    kept = [c for c in possible if states is None or c.name in states]
    sizes = Sizes(memo, model, sources)
    for candidate in kept:
        keep(memo, candidate)
    read: set[str] = set()
    for candidate in possible:
        scan = None if candidate in kept else read_from(candidate, stored)
        if scan is not None:
            keep(memo, replace(candidate, scan=scan))
            read.add(scan.name)
    if result and memo.changed(root):
        keep_result(memo, root)
    explored = explore(memo, rules, budget)
    known = measured or {}
    facts, base_rows = estimate(sizes, root, {c.name: c.tvr for c in possible}, known)
    facts = replace(facts, kept={**{name: known[name] for name in read if name in known}, **facts.kept})
    return Space(memo, root, tuple(possible), facts, base_rows, explored)
