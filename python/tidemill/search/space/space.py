"""The space of plans of one run: the seeded and explored memo, with what earlier runs left and with estimates."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tidemill.cost.costing import CostModel, Facts, RowCount
from tidemill.cost.estimate import SizeInputs, estimate
from tidemill.cost.guesses import SMALL_DELETES, SMALL_DELETES_SHARE
from tidemill.cost.kept import NOTHING_COUNTED, KeptRows
from tidemill.memo.events import Reader
from tidemill.memo.memo import Memo
from tidemill.plan.change import SourceChange
from tidemill.plan.columns import ColumnIds
from tidemill.plan.expr import Col
from tidemill.plan.normal import normalise
from tidemill.plan.ops import Aggregate, Partial, Project
from tidemill.plan.query import Column, Query
from tidemill.plan.tree import Tree, columns_of
from tidemill.rule.engine import Budget, Explored, explore
from tidemill.rule.rule import Rule
from tidemill.search.contract.request import KnownRows
from tidemill.search.contract.run_plan import StateSpec
from tidemill.search.space.cuts import push_cuts
from tidemill.search.space.orders import look_up, orders
from tidemill.search.space.seed import (
    Candidate,
    Seeding,
    advance,
    candidates,
    compose,
    keep,
    keep_below_windows,
    keep_held,
    keep_result,
    read_from,
)
from tidemill.search.space.ways import Ways
from tidemill.tvr.form import DELTA, Span, Time
from tidemill.tvr.timeline import Timeline, Transition


@dataclass(frozen=True, slots=True)
class Followed:
    """The groups that a run writes to states.

    Attributes:
        written: the written groups, each with the name of its state.
        copies: the groups of other parts of the query with the same state, each with the one that is written.
    """

    written: Mapping[int, str] = field(default_factory=dict)
    copies: Mapping[int, int] = field(default_factory=dict)


NONE_FOLLOWED = Followed()


def written_once(groups: Iterable[tuple[str, int]]) -> Followed:
    """From (state, group to write) pairs, the first group of each state as written; its other groups are copies."""
    first: dict[str, int] = {}
    copies = {group: first[name] for name, group in groups if first.setdefault(name, group) != group}
    return Followed({group: name for name, group in first.items()}, copies)


@dataclass(frozen=True, slots=True)
class Space:
    """An explored memo, and the further input of extraction.

    Attributes:
        memo: explored.
        root: the view's relation.
        candidates: the states that could be kept.
        facts: the facts that costs are estimated from.
        base_rows: rows of each relation before filters.
        explored: the outcome of exploration, and why it stopped.
        now: the moment of the run that is planned.
        standing: the moment of each state that can be read.
        ways: cost estimates so far, by the model of the planning call.
    """

    memo: Memo
    root: int
    candidates: tuple[Candidate, ...]
    facts: Facts
    base_rows: Mapping[int, float]
    explored: Explored
    now: Time
    standing: Mapping[str, Time]
    ways: Ways = field(default_factory=Ways)

    @property
    def since(self) -> Span:
        """The interval from the content's moment to now."""
        return Span(0, self.now)

    @property
    def change(self) -> int:
        """The group of the view's change since its content."""
        return self.memo.change(self.root, DELTA, self.since)

    def named(self, name: str) -> tuple[Candidate, ...]:
        """The parts of the query that one state keeps; several if they are equal."""
        return tuple(c for c in self.candidates if c.name == name)

    def followed(self, names: Collection[str]) -> Followed:
        """The changes of these states from their moments to now."""
        spans = {name: Span(self.standing.get(name, 0), self.now) for name in names}
        wanted = (c for c in self.candidates if c.name in spans)
        return written_once(
            (c.name, advance(self.memo, c, spans[c.name])) for c in wanted if self.memo.changed(c.tvr, spans[c.name])
        )

    @property
    def changed(self) -> bool:
        """True if a source of the view has changed since its content."""
        return self.memo.changed(self.root, self.since)


def transition_of(sources: Mapping[int, SourceChange]) -> Transition:
    """The transition of the timeline with these changes of the sources."""
    changed = frozenset(n for n, s in sources.items() if s.changed)
    telling = frozenset(n for n in changed if sources[n].reason is None)
    mixed = frozenset(n for n in telling if sources[n].inserts != 0 and sources[n].deletes != 0)
    return Transition(
        changed,
        telling,
        frozenset(n for n in mixed if not (sources[n].direct and _is_small(sources[n]))),
        frozenset(n for n in telling if sources[n].deletes == 0),
    )


def _is_small(source: SourceChange) -> bool:
    """True if to carry along updates of columns that nobody reads is cheaper than to net the change."""
    return source.deletes is not None and source.deletes <= max(
        SMALL_DELETES, SMALL_DELETES_SHARE * (source.rows or 0.0)
    )


def normal_query(query: Query) -> Query:
    """The query with its tree in the planner's normal form, which shows exactly the output, each column once."""
    root = normalise(query.root)
    ids = [c for c, _ in query.output]
    if tuple(ids) == columns_of(root) and len(set(ids)) == len(ids):
        return replace(query, root=root)
    columns = dict(query.columns)
    fresh = ColumnIds(query)
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


@dataclass(frozen=True, slots=True)
class Kept:
    """The states, content and held change that earlier runs left, with their moments; the content stands at moment 0.

    Attributes:
        states: moments of the states that can be read; None lets every candidate be read at moment 0, as after an
            initial load that kept them all.
        content: True if the view's content can be read.
        held: the moment up to which the held change reaches; 0 if there is none.
        rows: rows of what was written.
        stored: states of another query of the view, to be read where they have all that a candidate needs.
        orders: by a state's name the field that its base is ordered by; None: each base is ordered by a field by which
            its rows are read.
    """

    states: Mapping[str, Time] | None
    content: bool = True
    held: Time = 0
    rows: KeptRows = NOTHING_COUNTED
    stored: Sequence[StateSpec] = ()
    orders: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class SpaceRequest:
    """The situation that a space is explored for.

    Attributes:
        query: in normal form (`normal_query`).
        steps: changes of the sources, one mapping per transition, from the content's moment to the last one planned.
        now: the moment of the run that is carried out.
        kept: what earlier runs left.
        meaning: the captured settings as one text, part of the names of states.
        measured: known rows, which need no estimate.
    """

    query: Query
    steps: Sequence[Mapping[int, SourceChange]]
    now: Time
    kept: Kept
    meaning: str = ""
    measured: KnownRows = lambda _tree, _form: None


def explore_space(
    request: SpaceRequest, rules: Sequence[Rule], model: CostModel, budget: Budget, readers: Sequence[Reader] = ()
) -> Space:
    """Explores the plans for a request.

    `rules`: the enabled rules; `readers`: receive the memo's events.
    """
    query, steps, now, kept = request.query, request.steps, request.now, request.kept
    memo = Memo(query, Timeline(tuple(map(transition_of, steps))), readers)
    if memo.heard:
        memo.emit("space", "", now, _in_words(query, steps, now, kept))

    def readable(source: int, time: Time) -> bool:
        return source in steps[time] and steps[time][source].old_readable

    seeding = Seeding(memo, now, readable)
    root = seeding.query(query.root)

    def unknown() -> bool:
        """True while a readable state has no candidate; it must not get lost for want of time."""
        names = {c.name for c in candidates(memo, root, request.meaning)}
        return kept.states is not None and not kept.states.keys() <= names

    explored = explore(memo, rules, budget, fresh=seeding.snapshots, missing=unknown)
    possible = candidates(memo, root, request.meaning)
    standing = {c.name: 0 if kept.states is None else kept.states[c.name] for c in possible if _is_kept(c, kept)}
    read: set[str] = set()
    for candidate in possible:
        if candidate.name in standing:
            keep(memo, candidate, standing[candidate.name], parted=kept.content)
        elif (scan := read_from(candidate, kept.stored)) is not None:
            keep(memo, replace(candidate, scan=scan), 0, parted=False)
            read.add(scan.name)
    if kept.content and memo.changed(root):
        keep_result(memo, root)
    if kept.held:
        keep_held(memo, root, kept.held)
    keep_below_windows(memo, {c.tvr for c in possible if kept.states is not None and c.name in standing})
    compose(memo)
    push_cuts(memo)
    sizes = SizeInputs(memo, model, tuple(steps))
    partial = {c.name for c in possible if c.partial is not None and not _of_groups(memo, c.tvr, c.partial)}
    facts, base_rows = estimate(sizes, root, {c.name: c.tvr for c in possible}, kept.rows, partial)
    elsewhere = {name: rows for name, rows in kept.rows.states.items() if name in read}
    rows = replace(facts.kept, states={**elsewhere, **facts.kept.states})
    facts = replace(facts, kept=rows, known={**model.known(memo, facts), **_known(memo, request.measured)})
    look_up(memo, facts, orders(memo, facts) if kept.orders is None else kept.orders)
    return Space(memo, root, tuple(possible), facts, base_rows, explored, now, standing)


def _in_words(query: Query, steps: Sequence[Mapping[int, SourceChange]], now: Time, kept: Kept) -> str:
    """The purpose of a space, as text for people."""

    def changing(step: Mapping[int, SourceChange]) -> str:
        return ", ".join(sorted({query.sources[n].name for n, s in step.items() if s.changed})) or "nothing"

    changes = "; then of ".join(map(changing, steps))
    ahead = f", those after moment {now} expected" if len(steps) > now else ""
    states = ["every state"] if kept.states is None else sorted(kept.states)
    readable = ", ".join([*states, *(["the content"] if kept.content else [])])
    return f"changes of {changes}{ahead}; readable: {readable or 'nothing'}"


def _known(memo: Memo, measured: KnownRows) -> dict[int, RowCount]:
    """The known rows of groups."""
    forms = ((memo.tree(t.number), form, group) for t in memo.tvrs for form, group in t.forms.items())
    rows = ((memo.find(group), measured(tree, form)) for tree, form, group in forms)
    return {group: RowCount(known) for group, known in rows if known is not None}


def _of_groups(memo: Memo, tvr: int, partial: Partial) -> bool:
    """True if parts of an aggregate have one row for each of its groups, not several."""
    op = memo.tvrs[tvr].expressions[0][0]
    return isinstance(op, Aggregate) and len(op.keys) == len(partial.keys)


def _is_kept(candidate: Candidate, kept: Kept) -> bool:
    return kept.states is None or candidate.name in kept.states
