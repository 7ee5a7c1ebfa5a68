"""The result of lowering, a wire node with its columns and counts; and building blocks for all forms.

A signed relation has its counts in one column, the same column in all plans of a memo.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tidemill.plan.columns import ColumnIds
from tidemill.plan.expr import ONE, ZERO, Cast, Col, Expr, Lit, fn
from tidemill.plan.grouping import identity, identity_type, is_collated_text, key
from tidemill.plan.ops import Named
from tidemill.plan.query import COUNT_FIELD
from tidemill.wire import nodes
from tidemill.wire.nodes import WireNode


@dataclass(frozen=True, slots=True)
class Lowered:
    """A wire node, its columns, and the column of its counts (None for a plain bag)."""

    node: WireNode
    columns: tuple[int, ...]
    count: int | None

    def over(self, node: WireNode) -> Lowered:
        """Another node with the same columns and counts."""
        return replace(self, node=node)


@dataclass(frozen=True, slots=True)
class Staged:
    """Rows that an earlier step wrote: the step, and the fields of the columns."""

    step: str
    columns: tuple[tuple[int, str], ...]
    count: bool


class Blocks:
    """Makes relations from relations, for one plan.

    `columns`: those of the memo. `count`: the column of signed counts.
    """

    def __init__(self, columns: ColumnIds) -> None:
        self.columns = columns
        self.count = columns.fresh("count", "long", COUNT_FIELD)
        self._fresh = 0

    def column(self, kind: str, name: str) -> int:
        """A new column of this plan only."""
        self._fresh += 1
        return self.columns.fresh(("lowering", self._fresh), kind, name)

    # -- signs --------------------------------------------------------------------------------------------------------

    def signed(self, rows: Lowered) -> Lowered:
        """The rows with counts; a plain row counts 1."""
        return rows if rows.count is not None else self._counted(ONE, rows)

    def negate(self, rows: Lowered) -> Lowered:
        """The rows with negated counts; a plain row counts -1."""
        return self._counted(Lit(-1, "long") if rows.count is None else fn("negative", Col(rows.count)), rows)

    def _counted(self, count: Expr, rows: Lowered) -> Lowered:
        node = nodes.project((*nodes.same(rows.columns), (self.count, count)), rows.node)
        return Lowered(node, rows.columns, self.count)

    def unsign(self, columns: tuple[int, ...], rows: Lowered) -> Lowered:
        """Each row repeated as often as its count says."""
        node = nodes.replicate(Col(self.count), rows.node)
        return self.project(nodes.same(columns), Lowered(node, columns, None))

    def net(self, columns: tuple[int, ...], rows: Lowered) -> Lowered:
        """One row per distinct row, with the sum of its counts; rows whose counts cancel out are dropped."""
        keys: list[tuple[int, Expr]] = []
        carried: list[tuple[int, Expr]] = []
        shown: dict[int, Expr] = {}
        for c in columns:
            kind = self.columns.type(c)
            by = identity(c, kind)
            if by == Col(c):
                keys.append((c, by))
                continue
            keys.append((self.column(identity_type(kind), "net"), by))
            if is_collated_text(kind):
                shown[c] = Cast(Col(keys[-1][0]), kind)
            else:
                carried.append((c, fn("any_value", Col(c))))
                shown[c] = Col(c)
        total = (self.count, fn("sum", Col(self.count)))
        node = nodes.aggregate(keys, [total, *carried], self.signed(rows).node)
        node = nodes.where((fn("not", fn("=", Col(self.count), ZERO)),), node)
        if shown:
            node = nodes.project(((c, shown.get(c, Col(c))) for c in (*columns, self.count)), node)
        return Lowered(node, columns, self.count)

    # -- rows of any kind ---------------------------------------------------------------------------------------------

    def project(self, columns: Named, rows: Lowered) -> Lowered:
        """Exactly these columns, and the counts if there are any."""
        kept = columns if rows.count is None else (*columns, (rows.count, Col(rows.count)))
        return Lowered(nodes.project(kept, rows.node), tuple(c for c, _ in columns), rows.count)

    def aggregate(self, keys: Named, calls: Named, node: WireNode) -> Lowered:
        """Groups of the rows of a node; it ignores counts."""
        return Lowered(nodes.aggregate(keys, calls, node), tuple(c for c, _ in (*keys, *calls)), None)

    def union(self, columns: tuple[int, ...], branches: Sequence[tuple[tuple[int, ...], Lowered]]) -> Lowered:
        """The rows of several relations, each with its columns in the order of the result; signed if one of them is."""
        signed = any(part.count is not None for _, part in branches)
        extra = (self.count,) if signed else ()
        parts = [((*ids, *extra), (self.signed(part) if signed else part).node) for ids, part in branches]
        return Lowered(nodes.union((*columns, *extra), *parts), columns, self.count if signed else None)

    def all_of(self, columns: tuple[int, ...], parts: Iterable[Lowered]) -> Lowered:
        """The rows of several relations with the same columns; a single relation stays as it is."""
        branches = [(columns, part) for part in parts]
        return branches[0][1] if len(branches) == 1 else self.union(columns, branches)

    # -- rows of some keys --------------------------------------------------------------------------------------------

    def among(self, kind: str, rows: Lowered, keys: Iterable[int], wanted: Lowered) -> Lowered:
        """Rows that have ("semi"), or do not have ("anti"), the same values there as a row of a small relation."""
        types = {c: self.columns.type(c) for c in keys}
        names = [(c, self.column(types[c], "touched")) for c in types]
        renamed = nodes.project(((w, Col(c)) for c, w in names), wanted.node)
        condition = [fn("<=>", identity(c, types[c]), identity(w, types[c])) for c, w in names]
        return rows.over(nodes.join(kind, condition, rows.node, renamed, "right"))

    def having(
        self, rows: Lowered, on: Sequence[tuple[Expr, int]], wanted: Lowered, *, nulls: bool, broadcast: bool
    ) -> Lowered:
        """Rows whose key is among those of another relation, whose columns may have the same numbers.

        `nulls`: NULLs are equal.
        """
        names = [(expr, c, self.column(self.columns.type(c), "wanted")) for expr, c in on]
        renamed = nodes.project(((w, Col(c)) for _, c, w in names), wanted.node)
        condition = self.equal(((expr, w) for expr, _, w in names), nulls=nulls)
        return rows.over(nodes.join("semi", condition, rows.node, renamed, "right" if broadcast else None))

    def equal(self, on: Iterable[tuple[Expr, int]], *, nulls: bool) -> list[Expr]:
        """That expressions are equal to columns of their types, as in the query; `nulls`: NULLs are equal."""
        kinds = ((expr, c, self.columns.type(c)) for expr, c in on)
        return [fn("<=>" if nulls else "=", key(expr, kind), key(Col(c), kind)) for expr, c, kind in kinds]


def null_of(kind: str) -> Expr:
    """NULL of a type."""
    return Cast(Lit(None, "void"), kind)
