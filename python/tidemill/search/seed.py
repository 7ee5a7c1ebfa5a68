"""Puts a query into the memo: its relations, their snapshots computed from the sources, and what is kept of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidemill.memo.memo import Memo, Node
from tidemill.plan.canon import column_names, parts_identity, state_name
from tidemill.plan.expr import Col
from tidemill.plan.ops import (
    Aggregate,
    Filter,
    Limit,
    Merge,
    Net,
    Opaque,
    Partial,
    Project,
    ResultScan,
    Scan,
    StateScan,
    Tree,
    Unsign,
)
from tidemill.rule.build import node
from tidemill.rule.match import Match
from tidemill.search.run_plan import StateSpec
from tidemill.tvr.form import ATTRIBUTE, ATTRIBUTE_DELTA, DELTA, NEW, OLD, SNAPSHOT, FormKind, Time

SEED = "evaluate"
CORE = "core"
READ_STATE, READ_RESULT = "read_state", "read_result"
"""What stands as the rule where something kept is read: no method of its own."""
COUNT_FIELD = "_n"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A state that could be kept: which form of which relation, under which name.

    `group` and `parts`: of parts of an aggregate, what `parts_identity` says.
    """

    name: str
    tvr: int
    kind: FormKind
    scan: StateScan
    partial: Partial | None
    group: str = ""
    parts: tuple[str, ...] = ()


def seed(memo: Memo, tree: Tree, old_readable: Mapping[int, bool]) -> dict[int, Tree]:
    """Register a query and the snapshots that can be computed from the sources' snapshots.

    The new snapshot always can. The old one only if every source below can still be read at the old position, and
    only where computing it again gives what was there (`Props.reproducible`).

    Returns:
        The tree of every relation, by its number.
    """
    trees: dict[int, Tree] = {}

    def visit(part: Tree) -> int:
        inputs = tuple(visit(i) for i in part.inputs)
        number = memo.relation(part.op, inputs)
        trees[number] = part
        match = Match(memo, number, part.op, inputs)
        if isinstance(part.op, Scan):
            _add(memo, number, False, node(_placed(part.op, NEW)))
            if match.relation.changed and old_readable.get(part.op.source, False):
                _add(memo, number, True, node(_placed(part.op, OLD)))
        else:
            _add(memo, number, False, match.evaluate(*(i.new for i in match.inputs)))
            if match.relation.changed and match.relation.props.reproducible:
                _add(memo, number, True, match.evaluate(*(i.old for i in match.inputs)))
        return number

    visit(tree)
    return trees


def _placed(scan: Scan, time: Time) -> Scan:
    return Scan(scan.source, scan.columns, time)


def _add(memo: Memo, tvr: int, old: bool, built: Node) -> None:
    memo.add(memo.moment(tvr, SNAPSHOT, old=old), built, SEED, CORE)


def candidates(memo: Memo, trees: Mapping[int, Tree], root: int, settings: str) -> list[Candidate]:
    """The states that are worth considering.

    Parts of additive aggregates; snapshots of relations that cannot be computed again (their old rows must come from
    where they were kept); inputs of limits and of operators without rules that are more than filtered scans.
    """
    found: list[Candidate] = []
    wanted: set[int] = set()
    for number, tree in trees.items():
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
            wanted.update(i for i in inputs if _worth_keeping(memo, i))
    for number in sorted(wanted - {root}):
        if _within_a_loop(trees[number]):
            continue
        name = state_name(memo.query, trees[number], SNAPSHOT.name, settings)
        found.append(Candidate(name, number, SNAPSHOT, _rows_scan(memo, name, number, trees[number]), None))
    return found


def _within_a_loop(tree: Tree) -> bool:
    """True for a part of a recursive query that reads what the round before gave: it means nothing outside."""
    if isinstance(tree.op, Opaque) and tree.op.name == "UnionLoop":
        return False
    return (isinstance(tree.op, Opaque) and not tree.inputs) or any(map(_within_a_loop, tree.inputs))


def answered_from_sources(memo: Memo) -> frozenset[tuple[int, type]]:
    """What an incremental run must not do below a limit: compute the input anew from the sources.

    A limit is an answer over an input that is kept. Given as (group, operator that computes it from the sources).
    """
    found: set[tuple[int, type]] = set()
    for tvr in memo.tvrs:
        op, inputs = tvr.expressions[0]
        if not isinstance(op, Limit) or not memo.changed(tvr.number):
            continue
        number = inputs[0]
        below, under = memo.tvrs[number].expressions[0]
        if _worth_keeping(memo, number):
            found.add((memo.moment(number, SNAPSHOT, old=False), type(below)))
            continue
        while isinstance(below, Project | Filter):
            number = under[0]
            below, under = memo.tvrs[number].expressions[0]
        if isinstance(below, Aggregate):
            found.add((memo.moment(number, SNAPSHOT, old=False), Aggregate))
            found.add((memo.moment(number, ATTRIBUTE, old=False), Partial))
    return frozenset(found)


def _worth_keeping(memo: Memo, tvr: int) -> bool:
    op, inputs = memo.tvrs[tvr].expressions[0]
    if isinstance(op, Project | Filter):
        return _worth_keeping(memo, inputs[0])
    if isinstance(op, Aggregate):
        return Match(memo, tvr, op, inputs).partial() is None
    return not isinstance(op, Scan)


def _parts_scan(memo: Memo, name: str, partial: Partial) -> StateScan:
    ids = (*(c for c, _ in partial.keys), partial.count, *(c for part in partial.parts for c in part))
    return StateScan(name, ATTRIBUTE.name, tuple((c, f"c{i}", memo.columns.type(c)) for i, c in enumerate(ids)))


def _rows_scan(memo: Memo, name: str, tvr: int, tree: Tree) -> StateScan:
    """The fields of a state of rows: in an order that is the same for each relation of that name."""
    names = column_names(memo.query, tree)
    ids = sorted(memo.tvrs[tvr].props.columns, key=lambda c: names.get(c, ""))
    return StateScan(name, SNAPSHOT.name, tuple((c, f"c{i}", memo.columns.type(c)) for i, c in enumerate(ids)))


def keep(memo: Memo, candidate: Candidate) -> None:
    """Let the old moment of a candidate be read from its state."""
    kept = memo.moment(candidate.tvr, candidate.kind, old=True)
    if candidate.partial is not None:
        built = node(Merge(candidate.partial), node(candidate.scan))
    else:
        columns = memo.tvrs[candidate.tvr].props.columns
        built = node(Unsign(columns), node(Net(columns), node(candidate.scan)))
    memo.add(kept, built, READ_STATE, CORE)


def read_from(candidate: Candidate, stored: Iterable[StateSpec]) -> StateScan | None:
    """A scan of another state that has all that a candidate would keep, the smallest such one; None if none has."""
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
    """The view's own content is its old snapshot, and that of what it only renames."""
    output = dict(memo.query.output)
    number, fields = root, [(c, output[c]) for c in memo.tvrs[root].props.columns if c in output]
    while True:
        relation = memo.tvrs[number]
        if {c for c, _ in fields} == set(relation.props.columns):
            scan = ResultScan(tuple((c, f, memo.columns.type(c)) for c, f in fields))
            memo.add(memo.moment(number, SNAPSHOT, old=True), node(scan), READ_RESULT, CORE)
        op, inputs = relation.expressions[0]
        if not isinstance(op, Project) or not all(isinstance(e, Col) for _, e in op.columns):
            return
        renamed = dict(op.columns)
        fields = [(e.id, f) for c, f in fields if isinstance(e := renamed.get(c), Col)]
        if len({c for c, _ in fields}) < len(fields):
            fields = list({c: (c, f) for c, f in fields}.values())
        number = inputs[0]


def advance(memo: Memo, candidate: Candidate) -> int:
    """The group whose rows are a state's segment for this run."""
    return memo.change(candidate.tvr, ATTRIBUTE_DELTA if candidate.partial is not None else DELTA)


def base(memo: Memo, candidate: Candidate) -> int:
    """The group whose rows are a state's base when it is made anew."""
    return memo.moment(candidate.tvr, candidate.kind, old=False)
