"""Lowering: from the chosen expressions to the plan nodes that the JVM decodes (wire format 1).

A signed relation carries its counts in one column. Rewriter operators become plain relational ones here, so that the
JVM knows nothing of deltas, parts or times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidemill.memo.memo import Expression, Memo
from tidemill.plan.aggregates import Additive, additive
from tidemill.plan.expr import ONE, ZERO, Cast, Col, Expr, Lit, expr_to_json, fn, type_from_text
from tidemill.plan.grouping import groupable
from tidemill.plan.ops import (
    Aggregate,
    Changes,
    Empty,
    Filter,
    Final,
    FinalChange,
    Join,
    KeyFilter,
    Keys,
    Limit,
    Merge,
    Named,
    Negate,
    Net,
    Op,
    Opaque,
    Pad,
    Partial,
    Project,
    ResultScan,
    Scan,
    SortKey,
    StateScan,
    Sum,
    Union,
    Unsign,
)
from tidemill.search.extract import Extractor
from tidemill.search.join_order import BROADCAST_ROWS, Input, join_order

Wire = dict[str, Any]
COUNT_FIELD = "_n"


class NotComputableError(Exception):
    """A group that no allowed expression computes; the message names it."""


@dataclass(frozen=True, slots=True)
class Lowered:
    """A wire node, its columns, and the column of its counts (None for a plain bag)."""

    node: Wire
    columns: tuple[int, ...]
    count: int | None


@dataclass(frozen=True, slots=True)
class Staged:
    """Rows that an earlier step wrote: which step, and the fields of the columns."""

    step: str
    columns: tuple[tuple[int, str], ...]
    count: bool


class Lowerer:
    """Lowers groups as an extractor chose them.

    Args:
        memo, extractor: what was chosen.
        staged: groups that earlier steps wrote.
        base_rows: rows of each relation before filters, for join orders.
    """

    def __init__(
        self, memo: Memo, extractor: Extractor, staged: Mapping[int, Staged], base_rows: Mapping[int, float]
    ) -> None:
        self._memo = memo
        self._extractor = extractor
        self._staged = staged
        self._base_rows = base_rows
        self._fresh = 0
        self.count = memo.columns.fresh("count", "long", COUNT_FIELD)
        self.used: list[tuple[int, Expression]] = []

    def group(self, number: int) -> Lowered:
        """A group's rows.

        Raises:
            NotComputableError: if nothing computes it.
        """
        number = self._memo.find(number)
        staged = self._staged.get(number)
        if staged is not None:
            return self._read_staged(staged)
        choice = self._extractor.best(number)
        if choice is None or choice.expression is None:
            raise NotComputableError(f"group {number}: {self._memo.group(number).about}")
        if (number, choice.expression) not in self.used:
            self.used.append((number, choice.expression))
        return self._op(choice.expression)

    def _read_staged(self, staged: Staged) -> Lowered:
        fields = [(c, f, self._memo.columns.type(c)) for c, f in staged.columns]
        count = self.count if staged.count else None
        if count is not None:
            fields.append((count, COUNT_FIELD, "long"))
        node = {"op": "staged", "step": staged.step, "columns": _typed(fields)}
        return Lowered(node, tuple(c for c, _ in staged.columns), count)

    # -- one operator -------------------------------------------------------------------------------------------------

    def _op(self, e: Expression) -> Lowered:
        if not e.inputs:
            return self._leaf(e.op)
        match e.op:
            case Join(kind, condition, exists):
                return self._join(e, kind, condition, exists)
            case KeyFilter(on):
                return self._key_filter(e, on)
        inputs = [self.group(i) for i in e.inputs]
        match e.op:
            case Filter(condition):
                return Lowered(_filter(condition, inputs[0].node), inputs[0].columns, inputs[0].count)
            case Project(named):
                return self._project(named, inputs[0])
            case Union(columns, branches):
                return self._union(columns, list(zip(branches, inputs, strict=True)))
            case Sum():
                columns = inputs[0].columns
                return self._union(columns, [(columns, self.signed(i)) for i in inputs])
            case Negate():
                return self._negate(inputs[0])
            case Net(columns):
                return self._net(columns, self.signed(inputs[0]))
            case Unsign(columns):
                node = {"op": "replicate", "count": expr_to_json(Col(self.count)), "inputs": [inputs[0].node]}
                return self._project(_same(columns), Lowered(node, columns, None))
            case Aggregate(keys, calls):
                self._plain(inputs[0], "aggregate")
                return self._aggregate(keys, calls, inputs[0].node)
            case Partial():
                return self._partial(e.op, inputs[0])
            case Merge(partial):
                return self._merge(partial, inputs)
            case Final(partial):
                return self._final(partial, inputs[0])
            case FinalChange(partial):
                return self._final_change(partial, e, inputs)
            case Keys(branches):
                return self._keys(branches, inputs)
            case Pad(nulls):
                padded = tuple((c, _null(t)) for c, t in nulls)
                return self._project((*_same(inputs[0].columns), *padded), inputs[0])
            case Limit(limit, offset, order):
                self._plain(inputs[0], "limit")
                limited: Wire = {
                    "op": "limit",
                    "limit": expr_to_json(limit),
                    "offset": expr_to_json(offset) if offset else None,
                    "order": [_sort_key(k) for k in order],
                    "inputs": [inputs[0].node],
                }
                return Lowered(limited, inputs[0].columns, None)
            case Opaque(name, number, reason, columns, children):
                opaque: Wire = {"op": "opaque", "name": name, "node": number, "reason": reason, "children": children}
                nodes = [i.node for i in inputs]
                return Lowered({**opaque, "columns": list(columns), "inputs": nodes}, columns, None)
        raise TypeError(f"{type(e.op).__name__} cannot be lowered")

    def _leaf(self, op: Op) -> Lowered:
        match op:
            case Scan(source, columns, time):
                node = {"op": "scan", "source": source, "columns": [list(c) for c in columns], "at": time}
                return Lowered(node, tuple(c for c, _ in columns), None)
            case Changes(source, columns):
                node = {"op": "changes", "source": source, "columns": [list(c) for c in columns], "count": self.count}
                return Lowered({**node, "from": "old", "to": "new"}, tuple(c for c, _ in columns), self.count)
            case Empty(ids, signed):
                shown = (*ids, self.count) if signed else ids
                node = {"op": "empty", "columns": [[c, self._type(c)] for c in shown]}
                return Lowered(node, ids, self.count if signed else None)
            case StateScan(name, form, typed):
                signed = form == "snapshot"
                fields = [*typed, (self.count, COUNT_FIELD, "long")] if signed else list(typed)
                node = {"op": "state", "name": name, "columns": _typed(fields)}
                return Lowered(node, tuple(c for c, _, _ in typed), self.count if signed else None)
            case ResultScan(typed):
                return Lowered({"op": "result", "columns": _typed(typed)}, tuple(c for c, _, _ in typed), None)
        raise TypeError(f"{type(op).__name__} is no leaf")

    def _type(self, column: int) -> Any:
        return type_from_text(self._memo.columns.type(column))

    def _column(self, kind: str, name: str) -> int:
        self._fresh += 1
        return self._memo.columns.fresh(("lowering", self._fresh), kind, name)

    def _plain(self, lowered: Lowered, what: str) -> None:
        if lowered.count is not None:
            raise TypeError(f"{what} over a signed relation")

    def signed(self, lowered: Lowered) -> Lowered:
        """A relation with counts; a plain row counts 1."""
        if lowered.count is not None:
            return lowered
        return Lowered(
            _project((*_same(lowered.columns), (self.count, ONE)), lowered.node), lowered.columns, self.count
        )

    def _project(self, columns: Named, lowered: Lowered) -> Lowered:
        kept: Named = columns if lowered.count is None else (*columns, (lowered.count, Col(lowered.count)))
        return Lowered(_project(kept, lowered.node), tuple(c for c, _ in columns), lowered.count)

    def _negate(self, lowered: Lowered) -> Lowered:
        count: Expr = Lit(-1, "long") if lowered.count is None else fn("negative", Col(lowered.count))
        node = _project((*_same(lowered.columns), (self.count, count)), lowered.node)
        return Lowered(node, lowered.columns, self.count)

    def _union(self, columns: tuple[int, ...], branches: Sequence[tuple[tuple[int, ...], Lowered]]) -> Lowered:
        signed = any(part.count is not None for _, part in branches)
        parts = [(ids, self.signed(part) if signed else part) for ids, part in branches]
        extra = (self.count,) if signed else ()
        node = {
            "op": "union",
            "columns": [*columns, *extra],
            "from": [[*ids, *extra] for ids, _ in parts],
            "inputs": [part.node for _, part in parts],
        }
        return Lowered(node, columns, self.count if signed else None)

    def net(self, lowered: Lowered) -> Lowered:
        """One row per row value with its summed count."""
        return self._net(lowered.columns, self.signed(lowered))

    def _net(self, columns: tuple[int, ...], lowered: Lowered) -> Lowered:
        keys: list[tuple[int, Expr]] = []
        carried: list[tuple[int, Expr]] = []
        for c in columns:
            by = groupable(c, self._memo.columns.type(c))
            if by == Col(c):
                keys.append((c, by))
            else:
                keys.append((self._column("string", "net"), by))
                carried.append((c, fn("any_value", Col(c))))
        counts: list[tuple[int, Expr]] = [(self.count, fn("sum", Col(self.count)))]
        node = _aggregate(keys, [*counts, *carried], lowered.node)
        node = _filter((fn("not", fn("=", Col(self.count), ZERO)),), node)
        if carried:
            node = _project((*_same(columns), (self.count, Col(self.count))), node)
        return Lowered(node, columns, self.count)

    def _aggregate(self, keys: Named, calls: Named, node: Wire) -> Lowered:
        return Lowered(_aggregate(keys, calls, node), tuple(c for c, _ in (*keys, *calls)), None)

    # -- attribute form -----------------------------------------------------------------------------------------------

    def _additive(self, partial: Partial) -> list[Additive]:
        found = [additive(self._memo.query, self._memo.columns, e) for _, e in partial.calls]
        return [a for a in found if a is not None]

    def _parts(self, partial: Partial) -> list[tuple[int, str]]:
        """Part columns with the aggregate that merges them, the row count first."""
        parts = [(partial.count, "sum")]
        for columns, call in zip(partial.parts, self._additive(partial), strict=True):
            parts.extend((c, p.merge) for c, p in zip(columns, call.parts, strict=True))
        return parts

    def _partial(self, partial: Partial, lowered: Lowered) -> Lowered:
        count = Col(lowered.count) if lowered.count is not None else None
        aggregates: list[tuple[int, Expr]] = [(partial.count, fn("sum", count if count is not None else ONE))]
        for columns, call in zip(partial.parts, self._additive(partial), strict=True):
            aggregates.extend(zip(columns, call.partial(count), strict=True))
        return self._totals(partial, aggregates, partial.keys, lowered.node)

    def _totals(self, partial: Partial, aggregates: Named | list[tuple[int, Expr]], keys: Named, node: Wire) -> Lowered:
        """Parts per key; over no rows the sums of the global group are 0, not NULL."""
        ids = (*(c for c, _ in partial.keys), *(c for c, _ in aggregates))
        node = _aggregate(keys, aggregates, node)
        if not partial.keys:
            merges = dict(self._parts(partial))
            zeros = tuple(
                (c, fn("coalesce", Col(c), Cast(ZERO, self._memo.columns.type(c))) if merges[c] == "sum" else Col(c))
                for c in ids
            )
            node = _project(zeros, node)
        return Lowered(node, ids, None)

    def _merge(self, partial: Partial, inputs: Sequence[Lowered]) -> Lowered:
        keys = tuple((c, Col(c)) for c, _ in partial.keys)
        merged: list[tuple[int, Expr]] = [(c, fn(merge, Col(c))) for c, merge in self._parts(partial)]
        ids = tuple(c for c, _ in (*keys, *merged))
        united = inputs[0] if len(inputs) == 1 else self._union(ids, [(ids, i) for i in inputs])
        return self._totals(partial, merged, keys, united.node)

    def _finals(self, partial: Partial, parts: Mapping[int, Expr]) -> list[tuple[int, Expr]]:
        calls = zip(partial.calls, partial.parts, self._additive(partial), strict=True)
        return [(c, call.final(tuple(parts[p] for p in columns))) for (c, _), columns, call in calls]

    def _final(self, partial: Partial, lowered: Lowered) -> Lowered:
        node = lowered.node
        if partial.keys:
            node = _filter((fn(">", Col(partial.count), ZERO),), node)
        parts: dict[int, Expr] = {c: Col(c) for c, _ in self._parts(partial)}
        columns = (*_same(tuple(c for c, _ in partial.keys)), *self._finals(partial, parts))
        return Lowered(_project(columns, node), tuple(c for c, _ in columns), None)

    def _final_change(self, partial: Partial, e: Expression, inputs: Sequence[Lowered]) -> Lowered:
        """Old parts of touched keys and the delta's, side by side per key; then the rows that differ, old and new."""
        old, delta = inputs
        side = self._column("boolean", "is_old")
        keys = tuple(c for c, _ in partial.keys)
        parts = self._parts(partial)
        ids = (*keys, *(c for c, _ in parts))
        before = self._touched(partial, old, e.inputs[1], delta)
        united = self._union(
            (*ids, side),
            [
                ((*ids, side), self._tagged(ids, side, True, before)),
                ((*ids, side), self._tagged(ids, side, False, delta)),
            ],
        )
        old_of = {c: self._column(self._memo.columns.type(c), f"old_{self._memo.columns.name(c)}") for c, _ in parts}
        aggregates: list[tuple[int, Expr]] = []
        for c, merge in parts:
            null = _null(self._memo.columns.type(c))
            aggregates.append((old_of[c], fn(merge, fn("if", Col(side), Col(c), null))))
            aggregates.append((c, fn(merge, Col(c))))
        node = _aggregate(_same(keys), aggregates, united.node)

        def known(column: int, of: int, merge: str) -> Expr:
            return (
                fn("coalesce", Col(column), Cast(ZERO, self._memo.columns.type(of))) if merge == "sum" else Col(column)
            )

        old_parts = {c: known(old_of[c], c, merge) for c, merge in parts}
        new_parts = {c: known(c, c, merge) for c, merge in parts}
        olds, news = self._finals(partial, old_parts), self._finals(partial, new_parts)
        old_value = {c: self._column(self._call_type(partial, c), "old_value") for c, _ in olds}
        had, has = self._column("boolean", "had"), self._column("boolean", "has")
        existed: Expr = fn(">", old_parts[partial.count], ZERO) if keys else Lit(True, "boolean")
        exists: Expr = fn(">", new_parts[partial.count], ZERO) if keys else Lit(True, "boolean")
        both = [*_same(keys), *((old_value[c], x) for c, x in olds), *news, (had, existed), (has, exists)]
        node = _project(tuple(both), node)
        same: Expr = fn("=", Col(had), Col(has))
        for c, _ in news:
            by_old = groupable(old_value[c], self._memo.columns.type(c))
            same = fn("and", same, fn("<=>", by_old, groupable(c, self._memo.columns.type(c))))
        node = _filter((fn("not", same),), node)
        signs = fn("explode", fn("array", Lit(-1, "long"), Lit(1, "long")))
        shown = (*_same(keys), *_same(tuple(old_value.values())), *_same(tuple(c for c, _ in news)))
        node = _project((*shown, (had, Col(had)), (has, Col(has)), (self.count, signs)), node)
        is_old = fn("<", Col(self.count), ZERO)
        node = _filter((fn("if", is_old, Col(had), Col(has)),), node)
        values = tuple((c, fn("if", is_old, Col(old_value[c]), Col(c))) for c, _ in news)
        columns = (*_same(keys), *values)
        return Lowered(
            _project((*columns, (self.count, Col(self.count))), node), tuple(c for c, _ in columns), self.count
        )

    def _call_type(self, partial: Partial, column: int) -> str:
        return self._memo.columns.type(column)

    def _tagged(self, ids: tuple[int, ...], side: int, is_old: bool, lowered: Lowered) -> Lowered:
        tag: Expr = Lit(is_old, "boolean")
        return Lowered(_project((*_same(ids), (side, tag)), lowered.node), (*ids, side), None)

    def _touched(self, partial: Partial, old: Lowered, delta_group: int, delta: Lowered) -> Lowered:
        """The old parts of the keys in the delta: only those are read on, when the delta is small."""
        keys = tuple(c for c, _ in partial.keys)
        if not keys or self._extractor.rows(delta_group) > BROADCAST_ROWS:
            return old
        wanted = [(c, self._column(self._memo.columns.type(c), "touched")) for c in keys]
        # The delta holds each key once already.
        node = _project(tuple((w, Col(c)) for c, w in wanted), self.group(delta_group).node)
        condition = tuple(
            fn("<=>", groupable(c, self._memo.columns.type(c)), groupable(w, self._memo.columns.type(c)))
            for c, w in wanted
        )
        return Lowered(_join("semi", condition, old.node, node, "right"), old.columns, None)

    # -- joins --------------------------------------------------------------------------------------------------------

    def _join(self, e: Expression, kind: str, condition: tuple[Expr, ...], exists: int | None) -> Lowered:
        inputs = [self.group(i) for i in e.inputs]
        if kind == "inner":
            return self._inner(e, inputs, condition)
        left, right = inputs
        columns: tuple[int, ...] = left.columns
        if kind in {"left", "full"}:
            columns = (*left.columns, *right.columns)
        if exists is not None:
            columns = (*left.columns, exists)
        small = self._extractor.rows(e.inputs[1]) <= BROADCAST_ROWS and right.count is not None
        node = _join(kind, condition, left.node, right.node, "right" if small and kind != "full" else None, exists)
        return Lowered(node, columns, left.count)

    def _inner(self, e: Expression, inputs: Sequence[Lowered], condition: tuple[Expr, ...]) -> Lowered:
        parts = [
            Input(frozenset(x.columns), self._extractor.rows(i), self._base(i), x.count is not None)
            for i, x in zip(e.inputs, inputs, strict=True)
        ]
        first, steps = join_order(self._memo.query, parts, condition)
        node = inputs[first].node
        for step in steps:
            broadcast = "left" if step.broadcast else None
            node = _join("inner", step.condition, node, inputs[step.input].node, broadcast)
        count = self.count if any(x.count is not None for x in inputs) else None
        return Lowered(node, tuple(c for x in inputs for c in x.columns), count)

    def _base(self, group: int) -> float:
        about = self._memo.group(group).about
        return self._base_rows.get(about[0], 1.0) if about else self._extractor.rows(group)

    def _key_filter(self, e: Expression, on: tuple[tuple[Expr, int], ...]) -> Lowered:
        rows, wanted = (self.group(i) for i in e.inputs)
        condition = tuple(fn("<=>", expr, Col(c)) for expr, c in on)
        small = self._extractor.rows(e.inputs[1]) <= BROADCAST_ROWS
        return Lowered(
            _join("semi", condition, rows.node, wanted.node, "right" if small else None), rows.columns, rows.count
        )

    def _keys(self, branches: tuple[Named, ...], inputs: Sequence[Lowered]) -> Lowered:
        columns = tuple(c for c, _ in branches[0])
        parts = [
            (tuple(c for c, _ in named), Lowered(_project(named, x.node), tuple(c for c, _ in named), None))
            for named, x in zip(branches, inputs, strict=True)
        ]
        united = parts[0][1] if len(parts) == 1 else self._union(columns, parts)
        return self._aggregate(_same(columns), (), united.node)


def _same(columns: Sequence[int]) -> Named:
    return tuple((c, Col(c)) for c in columns)


def _null(kind: str) -> Expr:
    return Cast(Lit(None, "void"), kind)


def _named(columns: Sequence[tuple[int, Expr]]) -> list[list[Any]]:
    return [[c, expr_to_json(e)] for c, e in columns]


def _typed(columns: Sequence[tuple[int, str, str]]) -> list[list[Any]]:
    return [[c, f, type_from_text(t)] for c, f, t in columns]


def _project(columns: Sequence[tuple[int, Expr]], node: Wire) -> Wire:
    return {"op": "project", "columns": _named(columns), "inputs": [node]}


def _filter(condition: Sequence[Expr], node: Wire) -> Wire:
    return {"op": "filter", "condition": [expr_to_json(c) for c in condition], "inputs": [node]}


def _aggregate(keys: Sequence[tuple[int, Expr]], aggregates: Sequence[tuple[int, Expr]], node: Wire) -> Wire:
    return {"op": "aggregate", "keys": _named(keys), "aggregates": _named(aggregates), "inputs": [node]}


def _join(
    kind: str, condition: Sequence[Expr], left: Wire, right: Wire, broadcast: str | None, exists: int | None = None
) -> Wire:
    node: Wire = {
        "op": "join",
        "kind": kind,
        "condition": [expr_to_json(c) for c in condition],
        "broadcast": broadcast,
        "inputs": [left, right],
    }
    return node if exists is None else {**node, "exists": exists}


def _sort_key(key: SortKey) -> list[Any]:
    return [expr_to_json(key.expr), key.ascending, key.nulls_first]
