"""Lowering of the attribute form: parts per group, their merge, final values, and the change of those.

See `tidemill.plan.aggregates` for what the parts of a call are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from tidemill.memo.memo import Expression
from tidemill.plan.aggregates import Additive, additive
from tidemill.plan.expr import ONE, ZERO, Cast, Col, Expr, Lit, expr_to_json, fn
from tidemill.plan.grouping import groupable
from tidemill.plan.ops import Combine, Named, Partial
from tidemill.search.lower.lowered import Lowered
from tidemill.search.lower.state import few_touched
from tidemill.wire import nodes as wire
from tidemill.wire.nodes import Wire

if TYPE_CHECKING:
    from tidemill.search.lower.lower import Lowerer


class AttributeForm:
    """Lowers `Partial`, `Merge`, `Combine`, `Final` and `FinalChange` for a lowerer."""

    def __init__(self, lowerer: Lowerer) -> None:
        self._lowerer = lowerer
        self._columns = lowerer.memo.columns
        self._count = lowerer.count
        self._fresh = lowerer.column

    def _additive(self, partial: Partial) -> list[Additive]:
        found = [additive(self._lowerer.memo.query, self._columns, e) for _, e in partial.calls]
        return [a for a in found if a is not None]

    def _parts(self, partial: Partial) -> list[tuple[int, str]]:
        """Part columns with the aggregate that merges them, the row count first."""
        parts = [(partial.count, "sum")]
        for columns, call in zip(partial.parts, self._additive(partial), strict=True):
            parts.extend((c, p.merge) for c, p in zip(columns, call.parts, strict=True))
        return parts

    def partial(self, partial: Partial, lowered: Lowered) -> Lowered:
        count = Col(lowered.count) if lowered.count is not None else None
        aggregates: list[tuple[int, Expr]] = [(partial.count, fn("sum", count if count is not None else ONE))]
        for columns, call in zip(partial.parts, self._additive(partial), strict=True):
            aggregates.extend(zip(columns, call.partial(count), strict=True))
        return self._totals(partial, aggregates, partial.keys, lowered.node)

    def _totals(self, partial: Partial, aggregates: Named | list[tuple[int, Expr]], keys: Named, node: Wire) -> Lowered:
        """Parts per key; over no rows the sums of the global group are 0, not NULL."""
        ids = (*(c for c, _ in partial.keys), *(c for c, _ in aggregates))
        node = wire.aggregate(keys, aggregates, node)
        if not partial.keys:
            merges = dict(self._parts(partial))
            zeros = tuple(
                (
                    c,
                    fn("coalesce", Col(c), Cast(ZERO, self._columns.type(c))) if merges.get(c) == "sum" else Col(c),
                )
                for c in ids
            )
            node = wire.project(zeros, node)
        return Lowered(node, ids, None)

    def merge(self, partial: Partial, inputs: Sequence[Lowered]) -> Lowered:
        keys = tuple((c, Col(c)) for c, _ in partial.keys)
        merged: list[tuple[int, Expr]] = [(c, fn(merge, Col(c))) for c, merge in self._parts(partial)]
        return self._totals(partial, merged, keys, self.pieces(partial, inputs).node)

    def gather(self, partial: Partial, inputs: Sequence[Lowered]) -> Lowered:
        return self.merge(partial, [self._weighed(partial, i) for i in inputs])

    def _weighed(self, partial: Partial, lowered: Lowered) -> Lowered:
        """Parts that have counts, each as often as its count says; with the other sign if that is negative."""
        if lowered.count is None:
            return lowered
        count = Col(lowered.count)
        taken = fn("<", count, ZERO)
        times = expr_to_json(fn("if", taken, fn("negative", count), count))
        keys = tuple(c for c, _ in partial.keys)
        parts = tuple((c, fn("if", taken, fn("negative", Col(c)), Col(c))) for c, _ in self._parts(partial))
        columns = (*wire.same(keys), *parts)
        node = {"op": "replicate", "count": times, "inputs": [lowered.node]}
        return Lowered(wire.project(columns, node), tuple(c for c, _ in columns), None)

    def answer(self, partial: Partial, calls: Named, lowered: Lowered) -> Lowered:
        """Final values of the parts added up per key, beside calls over the rows that are there."""
        keys = tuple((c, Col(c)) for c, _ in partial.keys)
        merged: list[tuple[int, Expr]] = [(c, fn(merge, Col(c))) for c, merge in self._parts(partial)]
        present = wire.where((fn(">", Col(partial.count), ZERO),), lowered.node)
        node = self._totals(partial, [*merged, *calls], keys, present).node
        parts: dict[int, Expr] = {c: Col(c) for c, _ in self._parts(partial)}
        shown = (c for c, _ in (*partial.keys, *calls))
        columns = (*wire.same(tuple(shown)), *self._finals(partial, parts))
        return Lowered(wire.project(columns, node), tuple(c for c, _ in columns), None)

    def combine(self, op: Combine, rows: Lowered) -> Lowered:
        """Parts of an aggregate from rows that stand for several rows each."""
        partial, count = op.partial, _product(op.counts)
        aggregates: list[tuple[int, Expr]] = [(partial.count, fn("sum", count))]
        for columns, call, given in zip(partial.parts, self._additive(partial), op.given, strict=True):
            if given.parts:
                found = call.multiplied(tuple(map(Col, given.parts)), _product(given.times))
            else:
                whole = call if given.value is None else call.over(Col(given.value))
                found = whole.partial(count, digits=20)
            aggregates.extend(zip(columns, found, strict=True))
        return self._totals(partial, aggregates, op.keys, rows.node)

    def pieces(self, partial: Partial, inputs: Sequence[Lowered]) -> Lowered:
        """Parts not yet merged: several rows per key."""
        ids = (*(c for c, _ in partial.keys), *(c for c, _ in self._parts(partial)))
        return inputs[0] if len(inputs) == 1 else self._lowerer.union(ids, [(ids, i) for i in inputs])

    def _finals(self, partial: Partial, parts: Mapping[int, Expr]) -> list[tuple[int, Expr]]:
        calls = zip(partial.calls, partial.parts, self._additive(partial), strict=True)
        return [(c, call.final(tuple(parts[p] for p in columns))) for (c, _), columns, call in calls]

    def final(self, partial: Partial, lowered: Lowered) -> Lowered:
        node = lowered.node
        if partial.keys:
            node = wire.where((fn(">", Col(partial.count), ZERO),), node)
        parts: dict[int, Expr] = {c: Col(c) for c, _ in self._parts(partial)}
        columns = (*wire.same(tuple(c for c, _ in partial.keys)), *self._finals(partial, parts))
        return Lowered(wire.project(columns, node), tuple(c for c, _ in columns), None)

    def final_change(self, partial: Partial, e: Expression, old: Lowered, delta: Lowered) -> Lowered:
        """Old parts of touched keys and the delta's, side by side per key; then the rows that differ, old and new.

        `old` may hold several pieces per key.
        """
        side = self._fresh("boolean", "is_old")
        keys = tuple(c for c, _ in partial.keys)
        parts = self._parts(partial)
        ids = (*keys, *(c for c, _ in parts))
        before = self._touched(partial, old, e)
        united = self._lowerer.union(
            (*ids, side),
            [
                ((*ids, side), self._tagged(ids, side, True, before)),
                ((*ids, side), self._tagged(ids, side, False, delta)),
            ],
        )
        old_of = {c: self._fresh(self._columns.type(c), f"old_{self._columns.name(c)}") for c, _ in parts}
        aggregates: list[tuple[int, Expr]] = []
        for c, merge in parts:
            null = wire.null_of(self._columns.type(c))
            aggregates.append((old_of[c], fn(merge, fn("if", Col(side), Col(c), null))))
            aggregates.append((c, fn(merge, Col(c))))
        node = wire.aggregate(wire.same(keys), aggregates, united.node)

        def known(column: int, of: int, merge: str) -> Expr:
            return fn("coalesce", Col(column), Cast(ZERO, self._columns.type(of))) if merge == "sum" else Col(column)

        old_parts = {c: known(old_of[c], c, merge) for c, merge in parts}
        new_parts = {c: known(c, c, merge) for c, merge in parts}
        olds, news = self._finals(partial, old_parts), self._finals(partial, new_parts)
        old_value = {c: self._fresh(self._call_type(partial, c), "old_value") for c, _ in olds}
        had, has = self._fresh("boolean", "had"), self._fresh("boolean", "has")
        existed: Expr = fn(">", old_parts[partial.count], ZERO) if keys else Lit(True, "boolean")
        exists: Expr = fn(">", new_parts[partial.count], ZERO) if keys else Lit(True, "boolean")
        both = [*wire.same(keys), *((old_value[c], x) for c, x in olds), *news, (had, existed), (has, exists)]
        node = wire.project(tuple(both), node)
        same: Expr = fn("=", Col(had), Col(has))
        for c, _ in news:
            by_old = groupable(old_value[c], self._columns.type(c))
            same = fn("and", same, fn("<=>", by_old, groupable(c, self._columns.type(c))))
        node = wire.where((fn("not", same),), node)
        signs = fn("explode", fn("array", Lit(-1, "long"), Lit(1, "long")))
        shown = (*wire.same(keys), *wire.same(tuple(old_value.values())), *wire.same(tuple(c for c, _ in news)))
        node = wire.project((*shown, (had, Col(had)), (has, Col(has)), (self._count, signs)), node)
        is_old = fn("<", Col(self._count), ZERO)
        node = wire.where((fn("if", is_old, Col(had), Col(has)),), node)
        values = tuple((c, fn("if", is_old, Col(old_value[c]), Col(c))) for c, _ in news)
        columns = (*wire.same(keys), *values)
        return Lowered(
            wire.project((*columns, (self._count, Col(self._count))), node),
            tuple(c for c, _ in columns),
            self._count,
        )

    def _call_type(self, partial: Partial, column: int) -> str:
        return self._columns.type(column)

    def _tagged(self, ids: tuple[int, ...], side: int, is_old: bool, lowered: Lowered) -> Lowered:
        tag: Expr = Lit(is_old, "boolean")
        return Lowered(wire.project((*wire.same(ids), (side, tag)), lowered.node), (*ids, side), None)

    def _touched(self, partial: Partial, old: Lowered, e: Expression) -> Lowered:
        """The old parts of the keys in the delta alone, where the state is big and the delta small."""
        keys = tuple(c for c, _ in partial.keys)
        old_group, delta_group = e.inputs
        rows = self._lowerer.extractor.rows
        if not keys or not few_touched(rows(old_group), rows(delta_group)):
            return old
        # The delta holds each key once already.
        return self._lowerer.state.among("semi", old, keys, self._lowerer.group(delta_group))


def _product(columns: Sequence[int]) -> Expr:
    found: list[Expr] = [Col(c) for c in columns]
    return reduce(lambda a, b: fn("*", a, b), found)
