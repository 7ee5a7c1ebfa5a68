"""Cuts: the rows of some keys of a relation, computed from cut inputs, from cut states, or across a change.

A rule asks for a relation's rows of some keys. Three laws hold for such cuts, whatever rule asked, and are applied to
everything that rules have built. A cut by a key that passes an operator can be made below it. A cut of a state can be
made in its pieces, so that only these rows are merged. And cut rows before a change are those after it without the
change, so that one read serves both (Tempura 5.3 has this for whole snapshots); or the other way round if a state or
the view's content has the rows before.

A join with a change asks for the rows of some keys too: of a state, and of groups or partitions, it needs those that
the change can meet.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import product

from tidemill.memo.memo import Expression, Memo
from tidemill.plan.expr import Expr
from tidemill.plan.keys import KeyRequest, read, request_below
from tidemill.plan.ops import (
    Filter,
    Final,
    Join,
    KeyFilter,
    Keys,
    Less,
    Merge,
    Net,
    Op,
    Project,
    QueryOp,
    ResultScan,
    Scan,
    StateScan,
    Sum,
    Union,
    Unsign,
)
from tidemill.plan.props import equi_keys
from tidemill.rule.match import Match, Relation
from tidemill.rule.reduction import Reduction, met_column, reduction
from tidemill.search.space.seed import READ_RESULT
from tidemill.tvr.form import DELTA, SNAPSHOT, Span, Time, at

RULE = "cut"
INTO_STATES = frozenset({"inner", "left", "semi", "anti", "existence"})
"""The kinds of joins of which a row of the left side meets only rows of its key on the right side."""


@dataclass(frozen=True, slots=True)
class _Cut:
    """The rows of a relation at a moment whose keys are in the group `wanted`; `pack`: that of the rule that asked."""

    number: int
    time: Time
    op: KeyFilter
    wanted: int
    pack: str = field(compare=False)


def push_cuts(memo: Memo) -> None:
    """Adds to the groups of cuts the other ways to compute them, and cuts of what changes are joined with."""
    _cut_joined(memo)
    cuts: dict[_Cut, int] = {}
    kept: set[_Cut] = set()
    passing = cache(partial(_passing, memo))
    waiting = [(group.number, e) for group in memo.live_groups() for e in group.expressions]
    while waiting:
        group, e = waiting.pop()
        cut = _cut_of(memo, e)
        if cut is None or cut in cuts:
            continue
        cuts[cut] = group
        of_a_state, of_a_window = _put_of_a_state(memo, group, cut, e.inputs[0]), _put_of_a_window(memo, group, cut, e)
        if of_a_state or of_a_window or _is_of_content(memo, e.inputs[0]):
            kept.add(cut)
        waiting += [(before, x) for before in _kept_before(memo, cut) for x in memo.group(before).expressions]
        for op, inputs, asked in passing(cut.number, cut.op):
            below = _below(memo, cut, inputs, asked)
            waiting += [(i, x) for i in below for x in memo.group(i).expressions]
            _put(memo, group, Match(memo, cut.number, op, inputs), below, cut)
    _tell_by_changes(memo, cuts, kept)


def told_by(memo: Memo, e: Expression) -> Iterator[int]:
    """The groups that an expression tells cut rows by: the same at another moment, and the change; none if it does not.

    The plan reads the change for its keys and the rows at the other moment for themselves, so that both are there.
    """
    if isinstance(e.op, Less):
        yield memo.find(e.inputs[0])
    if not isinstance(e.op, Unsign) or e.rule != RULE:
        return
    for _, together in _over(memo, e.inputs[0], Net):
        for both in (x for x in memo.group(together).expressions if isinstance(x.op, Sum) and x.rule == RULE):
            before, changed = map(memo.find, both.inputs)
            yield before
            yield from (memo.find(rows) for _, rows in _over(memo, before, Project))
            yield from (memo.find(x.inputs[0]) for x in memo.group(changed).expressions if isinstance(x.op, KeyFilter))


def _cut_of(memo: Memo, e: Expression) -> _Cut | None:
    """The cut that an expression computes, if it cuts a snapshot; None otherwise."""
    if not isinstance(e.op, KeyFilter):
        return None
    rows, wanted = map(memo.find, e.inputs)
    about = memo.group(rows).about
    if about is None or about[1].kind != SNAPSHOT:
        return None
    return _Cut(about[0], about[1].end, e.op, wanted, e.pack)


def _put(memo: Memo, group: int, match: Match[QueryOp], below: tuple[int, ...], cut: _Cut) -> None:
    """Adds a relation's operator at the moment of a cut, over other inputs, to a group."""
    built = match.evaluate(*(i.new for i in match.inputs))
    if isinstance(built.op, Final):
        below = (memo.part(built.op.partial, below, RULE, cut.pack),)
    memo.put(group, memo.placed(built.op, Span(cut.time, cut.time)), below, RULE, cut.pack)


def _put_of_a_state(memo: Memo, group: int, cut: _Cut, rows: int) -> bool:
    """Adds merged cut pieces to the group of a cut; False if its relation is not read from merged pieces of a state."""
    found = False
    for told, together in _over(memo, rows, Unsign, Final):
        for merged, pieces in _over(memo, together, Net, Merge):
            assert isinstance(merged, Net | Merge)
            of_a_state = any(isinstance(e.op, StateScan) for e in memo.group(pieces).expressions)
            if not of_a_state or not read(cut.op.on, memo.query) <= _columns(memo, cut, merged):
                continue
            some = memo.part(cut.op, (pieces, cut.wanted), RULE, cut.pack)
            merged = replace(merged, state="")  # cut pieces are not the whole state
            memo.put(group, told, (memo.part(merged, (some,), RULE, cut.pack),), RULE, cut.pack)
            found = True
    return found


def _kept_before(memo: Memo, cut: _Cut) -> list[int]:
    """The same cuts at earlier moments of which the rows are kept with those of a window."""
    moments = sorted({memo.form(cut.number, at(SNAPSHOT, time)) for time in memo.timeline.moments if time < cut.time})
    return [
        memo.part(cut.op, (rows, cut.wanted), RULE, cut.pack)
        for rows in moments
        if any(True for _ in _with_a_window(memo, rows))
    ]


def _with_a_window(memo: Memo, group: int) -> Iterator[tuple[Op, int]]:
    """The ways to read a relation's rows with those of a window above: the projection, and the window's group."""
    for e in memo.group(group).expressions:
        if isinstance(e.op, Project) and e.rule == READ_RESULT:
            yield e.op, memo.find(e.inputs[0])


def _put_of_a_window(memo: Memo, group: int, cut: _Cut, e: Expression) -> bool:
    """Adds the cut of a window to that of its input, if the input's rows are read where those of the window are kept:
    one read serves both. Returns False if they are not."""
    ways = [*_with_a_window(memo, e.inputs[0])]
    for shown, rows in ways:
        some = memo.part(cut.op, (rows, cut.wanted), RULE, cut.pack)
        memo.put(group, shown, (some,), RULE, cut.pack)
    return bool(ways)


def _is_of_content(memo: Memo, group: int) -> bool:
    """True for rows that the view's content has."""
    return any(isinstance(e.op, ResultScan) for e in memo.group(group).expressions)


def _cut_joined(memo: Memo) -> None:
    """Adds joins of changes with those rows of states, groups and partitions that have a key of the change: fewer rows
    are merged, or brought together."""
    asked = cache(partial(_asked, memo))
    for group in [*memo.live_groups()]:
        for e in [e for e in group.expressions if isinstance(e.op, Join)]:
            assert isinstance(e.op, Join)
            abouts = [memo.group(i).about for i in e.inputs]
            changes = [n for n, about in enumerate(abouts) if about is not None and about[1].kind == DELTA]
            if len(changes) != 1 or (e.op.kind not in INTO_STATES or (e.op.kind != "inner" and changes != [0])):
                continue
            (change,) = changes
            by, changed = abouts[change], memo.find(e.inputs[change])
            assert by is not None
            inputs = list(map(memo.find, e.inputs))
            for n, (rows, about) in enumerate(zip(inputs, abouts, strict=True)):
                if n == change or about is None or about[1].kind != SNAPSHOT:
                    continue
                found = asked(e.op.condition, about[0], by[0], _is_merged(memo, rows))
                if found is not None:
                    wanted = memo.part(Keys((found.named,)), (changed,), RULE, e.pack)
                    inputs[n] = memo.part(KeyFilter(found.on, found.nulls), (rows, wanted), RULE, e.pack)
            if inputs != [memo.find(i) for i in e.inputs]:
                memo.put(group.number, e.op, tuple(inputs), RULE, e.pack)


def _asked(memo: Memo, condition: tuple[Expr, ...], of: int, by: int, merged: bool) -> Reduction | None:
    """The rows of a relation that a change of another one asks for in a join; None if it needs all.

    `merged`: they are merged from pieces of a state, which rows of any key can be read from.
    """
    if not merged:
        if not memo.tvrs[by].props.reproducible:
            return None  # the keys might be those of another answer
        match = Match(memo, of, *memo.tvrs[of].expressions[0])
        return reduction(match, condition, match.relation, Relation(memo, by, memo.timeline.whole))
    near, far = (frozenset(memo.tvrs[i].props.columns) for i in (by, of))
    pairs = equi_keys(condition, near, far, memo.query)
    named = [(met_column(memo.columns, of, here, there), here, there) for here, there, _ in pairs]
    on = tuple((there, c) for c, _, there in named)
    return Reduction(tuple((c, here) for c, here, _ in named), on, any(safe for *_, safe in pairs)) if on else None


def _is_merged(memo: Memo, rows: int) -> bool:
    """True for rows that are merged from pieces of a state."""
    merged = (pieces for _, rows in _over(memo, rows, Unsign, Final) for _, pieces in _over(memo, rows, Net, Merge))
    return any(isinstance(e.op, StateScan) for pieces in merged for e in memo.group(pieces).expressions)


def _over(memo: Memo, group: int, *kinds: type[Op]) -> list[tuple[Op, int]]:
    """The operators of these kinds with a single input that compute a group, each with this input."""
    return [
        (e.op, e.inputs[0]) for e in memo.group(group).expressions if isinstance(e.op, kinds) and len(e.inputs) == 1
    ]


def _columns(memo: Memo, cut: _Cut, merged: Net | Merge) -> frozenset[int]:
    """The columns that a key may read in pieces of a state; for an aggregate, its keys."""
    if isinstance(merged, Merge):
        return frozenset(c for c, _ in merged.partial.keys)
    return frozenset(memo.tvrs[cut.number].props.columns)


def _passing(
    memo: Memo, number: int, cut: KeyFilter
) -> list[tuple[QueryOp, tuple[int, ...], tuple[KeyRequest | None, ...]]]:
    """The ways to compute a relation whose inputs can be cut too: operator, inputs, and the request for each input.

    An operator that might answer otherwise a second time is not one of them.
    """
    if _of_a_source(memo, number):
        return []  # Spark filters rows where it reads them, before any keys
    found = []
    for op, inputs in memo.tvrs[number].expressions:
        if not memo.tvrs[number].props.reproducible and not isinstance(op, Filter | Project | Union | Join):
            continue
        columns = [frozenset(memo.tvrs[i].props.columns) for i in inputs]
        asked = request_below(op, KeyRequest(cut.on, cut.nulls), columns, memo.query)
        if asked is not None:
            found.append((op, inputs, tuple(asked)))
    return found


def _below(memo: Memo, cut: _Cut, inputs: tuple[int, ...], asked: tuple[KeyRequest | None, ...]) -> tuple[int, ...]:
    """The inputs of a relation's operator, cut where a request exists."""
    whole = [memo.form(i, at(SNAPSHOT, cut.time)) for i in inputs]
    return tuple(
        group if a is None else memo.part(KeyFilter(a.on, a.nulls), (group, cut.wanted), RULE, cut.pack)
        for group, a in zip(whole, asked, strict=True)
    )


def _of_a_source(memo: Memo, number: int) -> bool:
    """True for rows selected from a source, if there is no other way to read them that serves other readers too."""
    ways = memo.tvrs[number].expressions
    op, inputs = ways[0]
    if isinstance(op, Scan):
        return len(ways) == 1
    return isinstance(op, Filter | Project) and _of_a_source(memo, inputs[0])


def _tell_by_changes(memo: Memo, cuts: dict[_Cut, int], kept: Container[_Cut]) -> None:
    """Adds cuts before a change from those after it; the other way round if those before are kept (`merge_delta`)."""
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
                if old in kept:
                    both = memo.part(Sum(), (memo.find(before), changed), RULE, old.pack)
                    net = memo.part(Net(columns), (both,), RULE, old.pack)
                    memo.put(after, Unsign(columns), (net,), RULE, old.pack)
