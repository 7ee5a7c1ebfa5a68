"""Lowering of the attribute form: the parts per group, their merge, final values, and the change of these.

See `tidemill.plan.aggregates` for the parts of a call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from tidemill.plan.aggregates import Additive, form_of
from tidemill.plan.expr import ONE, ZERO, Cast, Col, Expr, Lit, fn
from tidemill.plan.grouping import identity
from tidemill.plan.ops import Combine, Named, Partial
from tidemill.plan.query import Query
from tidemill.search.lower.lowered import Blocks, Lowered, null_of
from tidemill.wire import nodes
from tidemill.wire.nodes import WireNode


class AttributeForm:
    """Lowers `Partial`, `Merge`, `Gather`, `Combine`, `Final`, `Answer` and `FinalChange` over lowered inputs."""

    def __init__(self, blocks: Blocks, query: Query) -> None:
        self._blocks = blocks
        self._query = query
        self._type = blocks.columns.type

    # -- parts --------------------------------------------------------------------------------------------------------

    def partial(self, partial: Partial, rows: Lowered) -> Lowered:
        """Parts of rows; each row counts as often as its count says."""
        count = Col(rows.count) if rows.count is not None else None
        aggregates: list[tuple[int, Expr]] = [(partial.count, fn("sum", count if count is not None else ONE))]
        for columns, call in zip(partial.parts, self._forms(partial), strict=True):
            aggregates.extend(zip(columns, call.partial(count), strict=True))
        return self._totals(partial, aggregates, partial.keys, rows.node)

    def combine(self, op: Combine, rows: Lowered) -> Lowered:
        """Parts of an aggregate from rows that stand for several rows each."""
        partial, count = op.partial, _product(op.counts)
        aggregates: list[tuple[int, Expr]] = [(partial.count, fn("sum", count))]
        for columns, call, given in zip(partial.parts, self._forms(partial), op.given, strict=True):
            if given.parts:
                found = call.multiplied(tuple(map(Col, given.parts)), _product(given.times))
            else:
                whole = call if given.value is None else call.over(Col(given.value))
                found = whole.partial(count, digits=20)
            aggregates.extend(zip(columns, found, strict=True))
        return self._totals(partial, aggregates, op.keys, rows.node)

    def merge(self, partial: Partial, inputs: Sequence[Lowered]) -> Lowered:
        """The parts of all inputs added up per key."""
        keys = nodes.same(keys_of(partial))
        return self._totals(partial, self._merged(partial), keys, self.pieces(partial, inputs).node)

    def merge_as_stored(self, partial: Partial, pieces: Lowered) -> Lowered:
        """A state's pieces added up per key; each part keeps its type in the state, although sums of sums are wider."""
        found = self.merge(partial, [pieces])
        keys = keys_of(partial)
        cast = tuple((c, Col(c) if c in keys else Cast(Col(c), self._type(c))) for c in found.columns)
        return found.over(nodes.project(cast, found.node))

    def gather(self, partial: Partial, inputs: Sequence[Lowered]) -> Lowered:
        """Parts of a finer grain added up, each as often as its count says."""
        return self.merge(partial, [self._weighed(partial, i) for i in inputs])

    def pieces(self, partial: Partial, inputs: Sequence[Lowered]) -> Lowered:
        """Parts that are not merged yet: several rows per key."""
        columns = (*keys_of(partial), *(c for c, _ in self._parts(partial)))
        return self._blocks.all_of(columns, inputs)

    def without_empty(self, partial: Partial, rows: Lowered) -> Lowered:
        """Parts without groups that have no rows; the global group always stays."""
        return rows.over(self._present(partial, rows.node)) if partial.keys else rows

    # -- values -------------------------------------------------------------------------------------------------------

    def final(self, partial: Partial, rows: Lowered) -> Lowered:
        """Final values from parts."""
        parts: dict[int, Expr] = {c: Col(c) for c, _ in self._parts(partial)}
        columns = (*nodes.same(keys_of(partial)), *self._finals(partial, parts))
        return _shown(columns, self.without_empty(partial, rows).node)

    def answer(self, partial: Partial, calls: Named, rows: Lowered) -> Lowered:
        """Final values of the parts added up per key, beside calls over the distinct rows that exist."""
        merged, keys = [*self._merged(partial), *calls], nodes.same(keys_of(partial))
        node = self._totals(partial, merged, keys, self._present(partial, rows.node)).node
        parts: dict[int, Expr] = {c: Col(c) for c, _ in self._parts(partial)}
        kept = (*keys_of(partial), *(c for c, _ in calls))
        return _shown((*nodes.same(kept), *self._finals(partial, parts)), node)

    def final_change(self, partial: Partial, old: Lowered, delta: Lowered, *, few: bool) -> Lowered:
        """The change of final values, from old parts and the delta side by side per touched key.

        `old` may hold several pieces per key. `few`: the delta has few of the keys of `old`.
        """
        side = self._blocks.column("boolean", "is_old")
        keys, parts = keys_of(partial), self._parts(partial)
        columns = (*keys, *(c for c, _ in parts))
        # The delta already holds each key once.
        before = self._blocks.among("semi", old, keys, delta) if few and keys else old
        tagged = [_tagged(columns, side, is_old, rows) for is_old, rows in ((True, before), (False, delta))]
        both = self._blocks.all_of((*columns, side), tagged)
        old_of = {c: self._blocks.column(self._type(c), f"old_{self._blocks.columns.name(c)}") for c, _ in parts}
        aggregates: list[tuple[int, Expr]] = []
        for c, merge in parts:
            aggregates.append((old_of[c], fn(merge, fn("if", Col(side), Col(c), null_of(self._type(c))))))
            aggregates.append((c, fn(merge, Col(c))))
        node = nodes.aggregate(nodes.same(keys), aggregates, both.node)
        old_parts = {c: self._known(old_of[c], c, merge) for c, merge in parts}
        new_parts = {c: self._known(c, c, merge) for c, merge in parts}
        return self._differing(partial, old_parts, new_parts, node)

    def _differing(
        self, partial: Partial, old_parts: Mapping[int, Expr], new_parts: Mapping[int, Expr], node: WireNode
    ) -> Lowered:
        """The final values that differ, from rows with old and new parts per key: old ones leave, new ones come."""
        blocks, keys = self._blocks, nodes.same(keys_of(partial))
        olds, news = self._finals(partial, old_parts), self._finals(partial, new_parts)
        old_value = {c: blocks.column(self._type(c), "old_value") for c, _ in olds}
        had, has = blocks.column("boolean", "had"), blocks.column("boolean", "has")
        existed, exists = (
            fn(">", parts[partial.count], ZERO) if keys else Lit(True, "boolean") for parts in (old_parts, new_parts)
        )
        values = [*((old_value[c], x) for c, x in olds), *news]
        node = nodes.project([*keys, *values, (had, existed), (has, exists)], node)
        same: Expr = fn("=", Col(had), Col(has))
        for c, _ in news:
            kind = self._type(c)
            same = fn("and", same, fn("<=>", identity(old_value[c], kind), identity(c, kind)))
        node = nodes.where([fn("not", same)], node)
        signs = fn("explode", fn("array", Lit(-1, "long"), Lit(1, "long")))
        shown = nodes.same((*(c for c, _ in values), had, has))
        node = nodes.project([*keys, *shown, (blocks.count, signs)], node)
        is_old = fn("<", Col(blocks.count), ZERO)
        node = nodes.where([fn("if", is_old, Col(had), Col(has))], node)
        columns = (*keys, *((c, fn("if", is_old, Col(old_value[c]), Col(c))) for c, _ in news))
        return blocks.project(columns, Lowered(node, (), blocks.count))

    # -- of an aggregate ----------------------------------------------------------------------------------------------

    def _forms(self, partial: Partial) -> list[Additive]:
        found = [form_of(self._query, self._blocks.columns, e) for _, e in partial.calls]
        return [a for a in found if a is not None]

    def _parts(self, partial: Partial) -> list[tuple[int, str]]:
        """Part columns with the aggregates that merge them, the row count first."""
        parts = [(partial.count, "sum")]
        for columns, call in zip(partial.parts, self._forms(partial), strict=True):
            parts.extend((c, p.merge) for c, p in zip(columns, call.parts, strict=True))
        return parts

    def _merged(self, partial: Partial) -> list[tuple[int, Expr]]:
        return [(c, fn(merge, Col(c))) for c, merge in self._parts(partial)]

    def _finals(self, partial: Partial, parts: Mapping[int, Expr]) -> list[tuple[int, Expr]]:
        calls = zip(partial.calls, partial.parts, self._forms(partial), strict=True)
        return [(c, call.final(tuple(parts[p] for p in columns))) for (c, _), columns, call in calls]

    def _totals(self, partial: Partial, aggregates: Sequence[tuple[int, Expr]], keys: Named, node: WireNode) -> Lowered:
        """Parts per key; without rows the sums of the global group are 0, not NULL."""
        ids = (*keys_of(partial), *(c for c, _ in aggregates))
        node = nodes.aggregate(keys, aggregates, node)
        if not partial.keys:
            merges = dict(self._parts(partial))
            node = nodes.project([(c, self._known(c, c, merges.get(c, ""))) for c in ids], node)
        return Lowered(node, ids, None)

    def _known(self, column: int, part: int, merge: str) -> Expr:
        """A column of merged parts; a sum over no rows is 0."""
        return fn("coalesce", Col(column), Cast(ZERO, self._type(part))) if merge == "sum" else Col(column)

    def _weighed(self, partial: Partial, rows: Lowered) -> Lowered:
        """Parts with counts, each as often as its count says; negated if the count is negative."""
        if rows.count is None:
            return rows
        count = Col(rows.count)
        taken = fn("<", count, ZERO)
        parts = ((c, fn("if", taken, fn("negative", Col(c)), Col(c))) for c, _ in self._parts(partial))
        node = nodes.replicate(fn("if", taken, fn("negative", count), count), rows.node)
        return _shown((*nodes.same(keys_of(partial)), *parts), node)

    def _present(self, partial: Partial, node: WireNode) -> WireNode:
        """Groups with at least one row."""
        return nodes.where([fn(">", Col(partial.count), ZERO)], node)


def keys_of(partial: Partial) -> tuple[int, ...]:
    """The key columns of an attribute form."""
    return tuple(c for c, _ in partial.keys)


def _shown(columns: Named, node: WireNode) -> Lowered:
    return Lowered(nodes.project(columns, node), tuple(c for c, _ in columns), None)


def _tagged(columns: tuple[int, ...], side: int, is_old: bool, rows: Lowered) -> Lowered:
    tag = Lit(is_old, "boolean")
    return _shown((*nodes.same(columns), (side, tag)), rows.node)


def _product(columns: Sequence[int]) -> Expr:
    found: list[Expr] = [Col(c) for c in columns]
    return reduce(lambda a, b: fn("*", a, b), found)
