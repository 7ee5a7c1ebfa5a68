"""Rows of some keys of what is computed: from the rows of these keys below it, or from what they are after a change.

A rule asks for a relation's rows of the keys at hand. Two laws hold of these, whatever rule asked, and are tried for
all that rules have built: a key that passes an operator can be asked for below it; and rows before a change are those
after it without the change, so that one reading serves both (Tempura 5.3 has the second for whole snapshots).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import TypeAlias

from tidemill.memo.memo import Expression, Memo
from tidemill.plan.expr import Col, Expr
from tidemill.plan.ops import Aggregate, Filter, Final, Join, KeyFilter, Less, Op, Project, Scan, Union, Window
from tidemill.plan.props import equi_keys
from tidemill.rule.match import Match
from tidemill.tvr.form import DELTA, SNAPSHOT, Span, Time, at

RULE = "cut"
On: TypeAlias = tuple[tuple[Expr, int], ...]


@dataclass(frozen=True, slots=True)
class _Cut:
    """Rows of a relation at a moment whose keys are among those of a group; `pack`: of the rule that asked for them."""

    number: int
    time: Time
    op: KeyFilter
    wanted: int
    pack: str = field(compare=False)


def push_cuts(memo: Memo) -> None:
    """Adds to the groups of cut rows what they can be computed from as well."""
    cuts: dict[_Cut, int] = {}
    waiting = [(group.number, e) for group in memo.live_groups() for e in group.expressions]
    while waiting:
        group, e = waiting.pop()
        cut = _cut_of(memo, e)
        if cut is None or cut in cuts:
            continue
        cuts[cut] = group
        for op, inputs in tuple(memo.tvrs[cut.number].expressions):
            for below in _below(memo, cut, op, inputs):
                waiting += [(i, x) for i in below for x in memo.group(i).expressions]
                _put(memo, group, Match(memo, cut.number, op, inputs), below, cut.pack)
    _tell_by_changes(memo, cuts)


def _cut_of(memo: Memo, e: Expression) -> _Cut | None:
    """What an expression cuts, if that is the snapshot of a relation which gives the same answer each time."""
    if not isinstance(e.op, KeyFilter):
        return None
    rows, wanted = map(memo.find, e.inputs)
    about = memo.group(rows).about
    if about is None or about[1].kind != SNAPSHOT or not memo.tvrs[about[0]].props.reproducible:
        return None
    return _Cut(about[0], about[1].end, e.op, wanted, e.pack)


def _put(memo: Memo, group: int, match: Match, below: tuple[int, ...], pack: str) -> None:
    """The operator of a relation over other inputs than its own, for a group."""
    built = match.evaluate(*(i.new for i in match.inputs))
    if isinstance(built.op, Final):
        below = (memo.part(built.op.partial, below, RULE, pack),)
    memo.put(group, built.op, below, RULE, pack)


def _below(memo: Memo, cut: _Cut, op: Op, inputs: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """The inputs of a relation's operator, cut themselves where the key can be asked for there."""
    on, nulls = cut.op.on, cut.op.nulls
    if _of_a_source(memo, cut.number):
        return  # Spark selects rows where it reads them, before it looks at keys
    if not _read(memo, on):
        return  # all rows or none, as of a global group

    def whole(i: int) -> int:
        return memo.form(i, at(SNAPSHOT, cut.time))

    def part(i: int, on: On, *, nulls: bool = nulls) -> int:
        return memo.part(KeyFilter(on, nulls), (whole(i), cut.wanted), RULE, cut.pack)

    match op:
        case Filter():
            yield (part(inputs[0], on),)
        case Window(partition=partition) if all(e in partition for e, _ in on):
            yield (part(inputs[0], on),)
        case Project(named) | Aggregate(keys=named):
            if (renamed := _renamed(memo, on, dict(named))) is not None:
                yield (part(inputs[0], renamed),)
        case Union(columns, branches):
            asked = [
                _renamed(memo, on, {c: Col(b) for c, b in zip(columns, branch, strict=True)}) for branch in branches
            ]
            if all(a is not None for a in asked):
                yield tuple(part(i, a) for i, a in zip(inputs, asked, strict=True) if a is not None)
        case Join(kind="inner"):
            yield from _joined(memo, cut, op, inputs)
        case Join(kind, condition) if kind != "full":
            left, right = (frozenset(memo.tvrs[i].props.columns) for i in inputs)
            if not _read(memo, on) <= left:
                return
            pairs = {near: (far, safe) for near, far, safe in equi_keys(condition, left, right, memo.query)}
            if not all(e in pairs for e, _ in on):
                yield part(inputs[0], on), whole(inputs[1])
                return
            equal = nulls and any(pairs[e][1] for e, _ in on)  # where none is null-safe, a NULL meets nothing
            far = tuple((pairs[e][0], c) for e, c in on)
            yield part(inputs[0], on, nulls=equal if kind == "semi" else nulls), part(inputs[1], far, nulls=equal)


def _of_a_source(memo: Memo, number: int) -> bool:
    op, inputs = memo.tvrs[number].expressions[0]
    return isinstance(op, Scan) or (isinstance(op, Filter | Project) and _of_a_source(memo, inputs[0]))


def _joined(memo: Memo, cut: _Cut, op: Join, inputs: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Of an inner join: the input that has the key, and the others whose rows must be equal to it there."""
    columns = [frozenset(memo.tvrs[i].props.columns) for i in inputs]
    of = next((n for n, ids in enumerate(columns) if _read(memo, cut.op.on) <= ids), None)
    if of is None:
        return
    asked: dict[int, tuple[On, bool]] = {of: (cut.op.on, cut.op.nulls)}
    reached = [of]
    while reached:
        near = reached.pop()
        on, nulls = asked[near]
        for n, ids in enumerate(columns):
            pairs = {e: (far, safe) for e, far, safe in equi_keys(op.condition, columns[near], ids, memo.query)}
            if n in asked or not all(e in pairs for e, _ in on):
                continue
            equal = nulls and any(pairs[e][1] for e, _ in on)  # where none is null-safe, a NULL meets nothing
            asked[n] = tuple((pairs[e][0], c) for e, c in on), equal
            asked[near] = on, asked[near][1] and equal
            reached.append(n)
    groups = (memo.form(i, at(SNAPSHOT, cut.time)) for i in inputs)
    yield tuple(
        memo.part(KeyFilter(*asked[n]), (group, cut.wanted), RULE, cut.pack) if n in asked else group
        for n, group in enumerate(groups)
    )


def _read(memo: Memo, on: On) -> frozenset[int]:
    return frozenset[int]().union(*(memo.query.columns_of(e) for e, _ in on))


def _renamed(memo: Memo, on: On, named: dict[int, Expr]) -> On | None:
    """The key by the expressions that its columns stand for below; None if it cannot be said so."""
    found = []
    for e, c in on:
        if isinstance(e, Col) and e.id in named:
            found.append((named[e.id], c))
        elif all(named.get(read) == Col(read) for read in memo.query.columns_of(e)):
            found.append((e, c))
        else:
            return None
    return tuple(found)


def _tell_by_changes(memo: Memo, cuts: dict[_Cut, int]) -> None:
    """Rows before a change, from those after it."""
    alike: dict[tuple[int, KeyFilter, int], list[tuple[_Cut, int]]] = defaultdict(list)
    for cut, group in cuts.items():
        alike[cut.number, cut.op, cut.wanted].append((cut, group))
    for moments in alike.values():
        for (old, before), (new, after) in product(moments, moments):
            if old.time < new.time:
                change = memo.change(old.number, DELTA, Span(old.time, new.time))
                changed = memo.part(old.op, (change, old.wanted), RULE, old.pack)
                columns = memo.tvrs[old.number].props.columns
                memo.put(before, Less(columns), (memo.find(after), changed), RULE, old.pack)
