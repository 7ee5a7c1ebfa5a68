"""Two equalities of values: being the same value, and being equal to the query.

Rows are the same if all their values are: strings by their bytes, whatever their collation; maps by their entries; NaN
is NaN, NULL is NULL and -0.0 is 0.0. Groups, joins and partitions compare as Spark does, by collations. Values of most
types can stand for themselves in both. For the others, the JVM computes bytes that are equal where the values are
(`CanonicalBytes`): of values that hold a map or a variant, which Spark cannot compare, and of strings with a collation
inside other types.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidemill.plan.datatype import DataType, type_from_text
from tidemill.plan.expr import Cast, Col, Expr, fn

_EXACT = frozenset(
    {"byte", "short", "integer", "long", "boolean", "date", "timestamp", "timestamp_ntz", "string", "binary"}
)
"""Types whose equal values are the same to every expression; decimals are exact too."""
_BINARY_COLLATION = "string collate UTF8_BINARY"
_COLLATIONS = "__COLLATIONS"
"""The metadata of a struct's field that name the collations in it; its type does not."""


def identity(column: int, kind: str) -> Expr:
    """The column itself, or a value in its place that is equal exactly where the column's values are the same."""
    if is_collated_text(kind):
        return Cast(Col(column), "string")
    return Col(column) if is_plain(kind) else fn("tidemill_identity", Col(column))


def identity_type(kind: str) -> str:
    """The type of `identity` for a column of this type."""
    if is_collated_text(kind):
        return "string"
    return kind if is_plain(kind) else "binary"


def key(expr: Expr, kind: str) -> Expr:
    """A value of this type, or one in its place that is equal exactly where Spark's own grouping has them equal."""
    return expr if is_comparable(kind) else fn("tidemill_key", expr)


def is_comparable(kind: str) -> bool:
    """True if Spark can compare values of this type, as a join does: they hold no map and no variant."""
    return not _holds(type_from_text(kind), collations=False)


def is_plain(kind: str) -> bool:
    """True if values of this type are the same wherever Spark's grouping has them equal: no maps, variants, collations.

    -0.0 and 0.0 are the same.
    """
    return not _holds(type_from_text(kind), collations=True)


def is_collated_text(kind: str) -> bool:
    """True for a string with a collation: two of them may be equal and have different bytes."""
    return kind.startswith("string collate ") and kind != _BINARY_COLLATION


def is_exact(kind: str) -> bool:
    """True if values of this type that grouping treats as equal are the same to every expression.

    False for floats (0.0 and -0.0) and for strings with a collation.
    """
    return kind in _EXACT or kind.startswith("decimal")


def exactly(column: int, kind: str) -> Expr | None:
    """A value that is equal only where the column's values are the same to every expression; None if none is known."""
    if is_exact(kind):
        return Col(column)
    return Cast(Col(column), "string") if kind in {"float", "double"} or is_collated_text(kind) else None


def _holds(kind: DataType | Any, *, collations: bool) -> bool:
    """True if a type is, or has within, what Spark cannot compare, or with `collations` a string with one."""
    if isinstance(kind, str):
        unknown = kind in {"variant", "interval"} or kind.startswith(("geometry", "geography"))
        return unknown or (collations and is_collated_text(kind))
    match kind.get("type"):
        case "map":
            return True
        case "array":
            return _holds(kind["elementType"], collations=collations)
        case "struct":
            return any(_holds(f["type"], collations=collations) or (collations and _named(f)) for f in kind["fields"])
        case "udt":
            return _holds(kind["sqlType"], collations=collations)
        case _:
            return False


def _named(field: Mapping[str, Any]) -> bool:
    return _COLLATIONS in field.get("metadata", {})
