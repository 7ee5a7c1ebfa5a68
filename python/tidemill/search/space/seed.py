"""Seeds the memo with a query: its relations, their snapshots from the sources, and the states that can be read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from tidemill.memo.memo import Expression, Memo, Node, Tvr
from tidemill.plan.expr import Col
from tidemill.plan.kinds import StatePart
from tidemill.plan.ops import (
    Aggregate,
    Answer,
    Filter,
    Gather,
    HeldScan,
    Join,
    Limit,
    Merge,
    Net,
    Op,
    Opaque,
    Partial,
    Project,
    ResultScan,
    Scan,
    StateScan,
    Sum,
    Unsign,
    Window,
)
from tidemill.plan.tree import Tree
from tidemill.rule.build import node
from tidemill.rule.match import Match
from tidemill.search.contract.run_plan import StateSpec
from tidemill.text.canon import column_names, parts_identity, state_name
from tidemill.tvr.form import ATTRIBUTE, ATTRIBUTE_DELTA, DELTA, KEPT, NEW, SNAPSHOT, FormKind, Span, Time, at

SEED = "evaluate"
CORE = "core"
DELTAS = "delta"
"""The pack that others may build upon."""
RECOMPUTE = "recompute"
"""The pack that computes a change as the difference of two snapshots."""
COMPOSE = "compose"
READ_STATE, READ_RESULT = "read_state", "read_result"
"""Names in place of a rule for reads of states and of the content, which are no method."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A state that could be kept.

    Attributes:
        name: a hash of the relation, the form and the captured settings.
        tvr, kind: the relation, and the kind of its form that is kept.
        scan: reads the state.
        partial: of an attribute form, the operator that makes it; None for rows.
        group, parts: of an attribute form, the result of `parts_identity`.
        asked: the packs whose rules propose the state; empty for one that any method may use.
    """

    name: str
    tvr: int
    kind: FormKind
    scan: StateScan
    partial: Partial | None
    group: str = ""
    parts: tuple[str, ...] = ()
    asked: frozenset[str] = frozenset()

    def serves(self, packs: Collection[str] | None) -> bool:
        """True if one of these packs may use the state; None: all packs."""
        return packs is None or not self.asked or not self.asked.isdisjoint(packs)


@dataclass(frozen=True, slots=True)
class Seeding:
    """Puts relations into the memo, with the snapshots that can be computed from snapshots of the sources.

    Snapshots at the present and later moments always can. Earlier ones can only if every source below is still readable
    there, and the relation is reproducible (`Props.reproducible`).

    Attributes:
        memo: the memo to seed.
        now: the moment of the run that is planned.
        readable: returns True if a source can still be read at a past moment.
    """

    memo: Memo
    now: Time
    readable: Callable[[int, Time], bool]

    def query(self, tree: Tree) -> int:
        """Adds a query with all relations below it; returns the view's relation."""
        inputs = tuple(map(self.query, tree.inputs))
        number = self.memo.relation(tree.op, inputs)
        self.snapshots(number)
        return number

    def snapshots(self, number: int, way: int = 0) -> None:
        """Adds the snapshots of a relation by one of its ways, from snapshots of its inputs."""
        memo = self.memo
        op, inputs = memo.tvrs[number].expressions[way]
        rule, pack = memo.tvrs[number].found[way] or (SEED, CORE)
        match = Match(memo, number, op, inputs)
        sources = match.relation.props.sources
        for time in sorted({memo.timeline.unchanged_until(sources, t) for t in memo.timeline.moments}):
            if isinstance(op, Scan):
                possible = time >= self.now or self.readable(op.source, time)
                built = node(Scan(op.source, op.columns, NEW))
            else:
                possible = time >= self.now or match.relation.props.reproducible
                built = match.evaluate(*(i.new for i in match.inputs))
            if possible:
                memo.add(memo.form(number, at(SNAPSHOT, time)), built, rule, pack, Span(time, time))


def left_deep(times: Sequence[Time]) -> Iterator[tuple[Time, Time, Time]]:
    """Start, middle and end of each composed change: the last transition after all earlier ones."""
    for i, start in enumerate(times):
        for middle, end in pairwise(times[i + 1 :]):
            yield start, middle, end


def compose(memo: Memo, order: Callable[[Sequence[Time]], Iterable[tuple[Time, Time, Time]]] = left_deep) -> None:
    """Adds the composition of changes: a change over several transitions from changes over its parts (Tempura 5.4).

    It does not hold for relations that are not reproducible: both parts must agree on the snapshot in the middle.
    """
    for tvr in tuple(memo.tvrs):
        if not tvr.props.reproducible:
            continue
        partials = [
            Match(memo, tvr.number, op, inputs).partial() for op, inputs in tvr.expressions if isinstance(op, Aggregate)
        ]
        times = sorted({memo.timeline.unchanged_until(tvr.props.sources, t) for t in memo.timeline.moments})
        ways: list[tuple[FormKind, Op]] = [(DELTA, Sum())]
        ways += [(ATTRIBUTE_DELTA, Merge(p)) for p in partials if p is not None]
        for start, middle, end in order(times):
            parts = Span(start, middle), Span(middle, end)
            for kind, op in ways:
                groups = tuple(memo.change(tvr.number, kind, part) for part in parts)
                memo.put(memo.change(tvr.number, kind, Span(start, end)), op, groups, COMPOSE, CORE)


def candidates(memo: Memo, root: int, settings: str) -> list[Candidate]:
    """The states that are worth considering.

    They are attribute forms of additive aggregates; snapshots of relations that are not reproducible (their old rows
    must be read from where they were kept); inputs of limits and of operators without rules, if they are more than
    filtered scans; the rows that a join selects from a source; and relations that rules propose (`KEPT`).
    """
    found: list[Candidate] = []
    wanted: set[int] = set()
    trees = [memo.tree(relation.number) for relation in memo.tvrs]
    for number, tree in enumerate(trees):
        relation = memo.tvrs[number]
        op, inputs = relation.expressions[0]
        if isinstance(op, Aggregate):
            partial = Match(memo, number, op, inputs).partial()
            if partial is not None:
                name = state_name(memo.query, tree, ATTRIBUTE.name, settings)
                group, parts = parts_identity(memo.query, tree, partial, settings)
                scan = _parts_scan(memo, name, partial)
                found.append(Candidate(name, number, ATTRIBUTE, scan, partial, group, parts))
        if not relation.props.reproducible:
            wanted.add(number)
        if isinstance(op, Limit | Opaque):
            wanted.update(i for i in inputs if _may_be_kept(memo, i))
        if isinstance(op, Join):
            wanted.update(i for i in inputs if _selected(memo, i))
    offered = {link.to: set[str]() for link in memo.links if link.kind == KEPT and link.to not in wanted}
    for link in memo.links:
        if link.kind == KEPT and link.to in offered:
            offered[link.to].add(link.pack)
    for number in sorted((wanted | offered.keys()) - {root}):
        if _within_a_loop(trees[number]):
            continue
        name = state_name(memo.query, trees[number], SNAPSHOT.name, settings)
        scan = _rows_scan(memo, name, number, trees[number])
        asked = frozenset(offered.get(number, ()))
        found.append(Candidate(name, number, SNAPSHOT, scan, None, asked=asked))
    # Rules derive relations from above, so the state that another one is computed from must be written first.
    return sorted(found, key=lambda c: -c.tvr if c.tvr > root else 0)


def _within_a_loop(tree: Tree) -> bool:
    """True for a part of a recursive query that reads the previous iteration; it has no meaning outside."""
    if isinstance(tree.op, Opaque) and tree.op.name == "UnionLoop":
        return False
    return (isinstance(tree.op, Opaque) and not tree.inputs) or any(map(_within_a_loop, tree.inputs))


def owed_to(memo: Memo, group: int, e: Expression) -> str:
    """The pack that a choice counts for: that of the rule, unless the group is an inner part of a rule's result.

    An inner part counts for its readers: rules of several packs may share it, while its expression names only the
    first.
    """
    return e.pack if memo.group(group).about is not None else CORE


def alone_with(pack: str) -> frozenset[str]:
    """The packs of a pack's own plans: `delta` and `recompute` come with any other."""
    return frozenset({CORE, pack, RECOMPUTE} | ({DELTAS} if pack != RECOMPUTE else set()))


def methods_of(memo: Memo, chosen: Iterable[tuple[int, Expression]]) -> list[str]:
    """The packs that the choices of a plan, given with their groups, count for."""
    return sorted({owed_to(memo, group, e) for group, e in chosen} - {CORE})


def answered_from_sources(memo: Memo, now: Time) -> frozenset[tuple[int, type]]:
    """The expressions below a limit that compute its input from the sources, barred from incremental runs.

    A limit is an answer over a kept input. The result holds pairs (group, operator that computes it from the sources),
    for the moments from `now` on.
    """
    found: set[tuple[int, type]] = set()
    times = [t for t in memo.timeline.moments if t >= now]
    for tvr in memo.tvrs:
        op, inputs = tvr.expressions[0]
        if not isinstance(op, Limit) or not memo.changed(tvr.number):
            continue
        number = inputs[0]
        below, under = memo.tvrs[number].expressions[0]
        if _may_be_kept(memo, number):
            ways = {Answer, *(type(way) for way, _ in memo.tvrs[number].expressions)}
            found.update((memo.form(number, at(SNAPSHOT, t)), way) for t in times for way in ways)
            continue
        while isinstance(below, Project | Filter):
            number = under[0]
            below, under = memo.tvrs[number].expressions[0]
        if isinstance(below, Aggregate):
            found.update((memo.form(number, at(SNAPSHOT, t)), Aggregate) for t in times)
            found.update((memo.form(number, at(ATTRIBUTE, t)), op) for t in times for op in (Partial, Gather))
    return frozenset(found)


def _may_be_kept(memo: Memo, tvr: int) -> bool:
    op, inputs = memo.tvrs[tvr].expressions[0]
    if isinstance(op, Project | Filter):
        return _may_be_kept(memo, inputs[0])
    if isinstance(op, Aggregate):
        return Match(memo, tvr, op, inputs).partial() is None
    return not isinstance(op, Scan)


def _selected(memo: Memo, tvr: int) -> bool:
    """True for a selection of a source's rows, so that a state of them is smaller than the source."""
    op, inputs = memo.tvrs[tvr].expressions[0]
    if isinstance(op, Filter):
        return not _may_be_kept(memo, inputs[0])
    return isinstance(op, Project) and _selected(memo, inputs[0])


def _parts_scan(memo: Memo, name: str, partial: Partial) -> StateScan:
    ids = (*(c for c, _ in partial.keys), partial.count, *(c for part in partial.parts for c in part))
    return StateScan(name, ATTRIBUTE.name, tuple((c, f"c{i}", memo.columns.type(c)) for i, c in enumerate(ids)))


def _rows_scan(memo: Memo, name: str, tvr: int, tree: Tree) -> StateScan:
    """The scan of a state of rows; the order of its fields is the same for each relation of that name."""
    names = column_names(memo.query, tree)
    ids = sorted(memo.tvrs[tvr].props.columns, key=lambda c: names.get(c, ""))
    return StateScan(name, SNAPSHOT.name, tuple((c, f"c{i}", memo.columns.type(c)) for i, c in enumerate(ids)))


def keep(memo: Memo, candidate: Candidate, moment: Time, *, parted: bool) -> None:
    """Adds the reads of a candidate's state, which stands at a moment.

    `parted`: if that moment is later than 0, the rows before and since the content can be read separately.
    """
    columns = memo.tvrs[candidate.tvr].props.columns

    def merged(part: StatePart) -> Node:
        scan = node(replace(candidate.scan, part=part))
        state = "" if part == "since" else candidate.scan.name
        op = Net(columns, state) if candidate.partial is None else Merge(candidate.partial, state)
        return node(op, scan)

    def read(time: Time, part: StatePart) -> None:
        built = merged(part) if candidate.partial is not None else node(Unsign(columns), merged(part))
        memo.add(memo.form(candidate.tvr, at(candidate.kind, time)), built, READ_STATE, CORE)

    read(moment, "")
    if parted and memo.changed(candidate.tvr, Span(0, moment)):
        read(0, "before")
        memo.add(advance(memo, candidate, Span(0, moment)), merged("since"), READ_STATE, CORE)


def keep_held(memo: Memo, root: int, until: Time) -> None:
    """Adds the read of the held change, which reaches up to a moment."""
    if memo.changed(root, Span(0, until)):
        output = dict(memo.query.output)
        scan = HeldScan(tuple((c, output[c], memo.columns.type(c)) for c in memo.tvrs[root].props.columns))
        memo.add(memo.change(root, DELTA, Span(0, until)), node(scan), READ_STATE, CORE)


def read_from(candidate: Candidate, stored: Iterable[StateSpec]) -> StateScan | None:
    """A scan of the smallest other state that has all columns that a candidate would keep; None if there is none."""
    found: list[StateScan] = []
    for spec in stored if candidate.group else ():
        if spec.group != candidate.group:
            continue
        fields = {(p, t): f for p, (f, t) in zip(spec.parts, spec.columns, strict=False)}
        wanted = [
            (c, fields.get((p, t)), t) for (c, _, t), p in zip(candidate.scan.columns, candidate.parts, strict=True)
        ]
        if all(f is not None for _, f, _ in wanted):
            found.append(StateScan(spec.name, spec.form, tuple((c, str(f), t) for c, f, t in wanted)))
    return min(found, key=lambda scan: scan.name, default=None)


def keep_result(memo: Memo, root: int) -> None:
    """Adds the read of the view's content as its old snapshot, and as that of relations that it only renames."""
    output = dict(memo.query.output)
    number, fields = root, [(c, output[c]) for c in memo.tvrs[root].props.columns if c in output]
    while True:
        relation = memo.tvrs[number]
        if {c for c, _ in fields} == set(relation.props.columns):
            scan = ResultScan(tuple((c, f, memo.columns.type(c)) for c, f in fields))
            memo.add(memo.form(number, at(SNAPSHOT, 0)), node(scan), READ_RESULT, CORE)
        op, inputs = relation.expressions[0]
        if not isinstance(op, Project) or not all(isinstance(e, Col) for _, e in op.columns):
            return
        renamed = dict(op.columns)
        fields = [(e.id, f) for c, f in fields if isinstance(e := renamed.get(c), Col)]
        if len({c for c, _ in fields}) < len(fields):
            fields = list({c: (c, f) for c, f in fields}.values())
        number = inputs[0]


def keep_below_windows(memo: Memo, apart: Container[int]) -> None:
    """Adds, where rows of a window are read, reads of its input: a window adds columns to rows and keeps them all.

    An input that is not reproducible is read from the content alone: a state of the window is made in a step of its
    own, and what else reads the input may have got another answer. `apart`: relations with states of their own. One of
    these that is not reproducible is left to its state for the same reason.
    """
    for window in reversed(memo.tvrs):  # from the content down
        op, inputs = window.expressions[0]
        if not isinstance(op, Window):
            continue
        for below, shown in _shown(memo, inputs[0], {c: c for c in window.props.columns}):
            if not set(below.props.columns) <= shown.keys() or (not below.props.reproducible and below.number in apart):
                continue
            named = Project(tuple((c, Col(shown[c])) for c in below.props.columns))
            kept = {READ_STATE, READ_RESULT} if below.props.reproducible else {READ_RESULT}
            for time in sorted({memo.timeline.unchanged_until(below.props.sources, t) for t in memo.timeline.moments}):
                rows = memo.form(window.number, at(SNAPSHOT, time))
                if any(e.rule in kept for e in memo.group(rows).expressions):
                    memo.put(memo.form(below.number, at(SNAPSHOT, time)), named, (rows,), READ_RESULT, CORE)


def _shown(memo: Memo, number: int, shown: Mapping[int, int]) -> Iterator[tuple[Tvr, Mapping[int, int]]]:
    """A relation, and those of which it is a projection, each with the columns in `shown` that show its own."""
    relation = memo.tvrs[number]
    yield relation, shown
    op, inputs = relation.expressions[0]
    if isinstance(op, Project):
        passed = {e.id: shown[c] for c, e in op.columns if isinstance(e, Col) and c in shown}
        yield from _shown(memo, inputs[0], passed)


def advance(memo: Memo, candidate: Candidate, span: Span) -> int:
    """The group of a state's segment over an interval."""
    return memo.change(candidate.tvr, ATTRIBUTE_DELTA if candidate.partial is not None else DELTA, span)


def base(memo: Memo, candidate: Candidate, moment: Time) -> int:
    """The group of a state's base when it is made anew."""
    return memo.form(candidate.tvr, at(candidate.kind, moment))
