"""Wire nodes by name: the relational operators that lowering emits (wire format 1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidemill.plan.expr import Cast, Col, Expr, Lit, expr_to_json, type_from_text
from tidemill.plan.ops import Named, SortKey

Wire = dict[str, Any]


def same(columns: Sequence[int]) -> Named:
    """Columns as they are."""
    return tuple((c, Col(c)) for c in columns)


def null_of(kind: str) -> Expr:
    """NULL of a type."""
    return Cast(Lit(None, "void"), kind)


def _named(columns: Sequence[tuple[int, Expr]]) -> list[list[Any]]:
    return [[c, expr_to_json(e)] for c, e in columns]


def typed(columns: Sequence[tuple[int, str, str]]) -> list[list[Any]]:
    """Columns of stored rows: [id, field, type]."""
    return [[c, f, type_from_text(t)] for c, f, t in columns]


def project(columns: Sequence[tuple[int, Expr]], node: Wire) -> Wire:
    """Exactly these columns."""
    return {"op": "project", "columns": _named(columns), "inputs": [node]}


def where(condition: Sequence[Expr], node: Wire) -> Wire:
    """Rows for which every conjunct is true."""
    return {"op": "filter", "condition": [expr_to_json(c) for c in condition], "inputs": [node]}


def aggregate(keys: Sequence[tuple[int, Expr]], aggregates: Sequence[tuple[int, Expr]], node: Wire) -> Wire:
    """Grouping; each aggregate one call."""
    return {"op": "aggregate", "keys": _named(keys), "aggregates": _named(aggregates), "inputs": [node]}


def join(
    kind: str, condition: Sequence[Expr], left: Wire, right: Wire, broadcast: str | None, exists: int | None = None
) -> Wire:
    """A join; `broadcast` names a side to be broadcast."""
    node: Wire = {
        "op": "join",
        "kind": kind,
        "condition": [expr_to_json(c) for c in condition],
        "broadcast": broadcast,
        "inputs": [left, right],
    }
    return node if exists is None else {**node, "exists": exists}


def sort_key(key: SortKey) -> list[Any]:
    """One element of an order."""
    return [expr_to_json(key.expr), key.ascending, key.nulls_first]
