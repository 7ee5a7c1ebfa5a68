"""Semi-join reduction: what another input of a join says about the keys that an input has to be computed for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidemill.memo.memo import Built
from tidemill.plan.columns import ColumnIds
from tidemill.plan.expr import Expr
from tidemill.plan.keys import KeyRequest, On, equated, request_below
from tidemill.plan.ops import Aggregate, Named, QueryOp, Window
from tidemill.rule.build import keys, with_keys
from tidemill.rule.match import Match, Relation


@dataclass(frozen=True, slots=True)
class Reduction:
    """The rows of an input that can meet rows of another one, by the keys that both have.

    Attributes:
        named: the key in the other input.
        on: the key in the reduced input.
        nulls: a NULL may meet a NULL.
    """

    named: Named
    on: On
    nulls: bool

    def of(self, rows: Built, by: Built) -> Built:
        """The reduced rows."""
        return with_keys(self.on, rows, keys((self.named, by)), nulls=self.nulls)


def reduction(m: Match[QueryOp], condition: Sequence[Expr], of: Relation, by: Relation) -> Reduction | None:
    """The reduction of an input by another one of the same join, as far as the input is grouped or partitioned by the
    equated expressions.

    All conjuncts hold for rows that meet, so that what several of them equate is equal too.

    Args:
        m: any match; it knows the query.
        condition: that of the join.

    Returns:
        None if no group or partition of the input depends on one key alone.
    """
    pairs: list[tuple[Expr, Expr]] = []
    nulls = False
    for exprs, null_safe in equated(condition, m.query):
        near = next((e for e in exprs if _is_over(m, e, by)), None)
        fars = [e for e in exprs if _is_over(m, e, of)] if near is not None else []
        far = next((e for e in fars if _is_brought_together(m, of, [*(far for _, far in pairs), e])), None)
        if near is not None and far is not None:
            pairs.append((near, far))
            nulls |= null_safe
    columns = [met_column(m.types, of.number, near, far) for near, far in pairs]
    named = tuple((c, near) for c, (near, _) in zip(columns, pairs, strict=True))
    on = tuple((far, c) for c, (_, far) in zip(columns, pairs, strict=True))
    return Reduction(named, on, nulls) if on else None


def met_column(types: ColumnIds, number: int, near: Expr, far: Expr) -> int:
    """The column for the values of an expression that a join equates with one over a relation, given by its number."""
    return types.fresh(("met", number, far), types.type_of(near), "key")


def _is_over(m: Match[QueryOp], e: Expr, relation: Relation) -> bool:
    read = m.read(e)
    return bool(read) and read <= set(relation.columns)


def _is_brought_together(m: Match[QueryOp], relation: Relation, key: Sequence[Expr]) -> bool:
    """True if rows of one key are grouped or partitioned below, apart from those of other keys."""
    op, inputs = next(m.ways(relation))
    asked = KeyRequest(tuple((e, i) for i, e in enumerate(key)))
    below = request_below(op, asked, [frozenset(i.columns) for i in inputs], m.query)
    if below is None or isinstance(op, Aggregate | Window):
        return below is not None
    ways = ((a, i) for a, i in zip(below, inputs, strict=True) if a is not None)
    return any(_is_brought_together(m, i, [e for e, _ in a.on]) for a, i in ways)
