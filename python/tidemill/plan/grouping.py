"""Grouping and joining by types that Spark does not group by, and by what tells all values of a type apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidemill.plan.datatype import DataType, type_from_text
from tidemill.plan.expr import Cast, Col, Expr, fn

_EXACT = frozenset(
    {"byte", "short", "integer", "long", "boolean", "date", "timestamp", "timestamp_ntz", "string", "binary"}
)
"""Types of which equal values are the same to every expression; decimals are others."""


def groupable(column: int, kind: str) -> Expr:
    """The column, or where Spark cannot group by its type a value that is equal if the column's is.

    Maps compare by sorted entries, variants by their JSON. A map or variant inside another type is
    compared by its JSON text; two texts of one nested map may differ, which leaves both rows in a net and no wrong one.
    """
    parsed = type_from_text(kind)
    if not _ungroupable(parsed):
        return Col(column)
    if isinstance(parsed, Mapping) and parsed.get("type") == "map":
        nested = _ungroupable(parsed["keyType"]) or _ungroupable(parsed["valueType"])
        return fn("to_json", Col(column)) if nested else fn("sort_array", fn("map_entries", Col(column)))
    return fn("to_json", Col(column))


def is_groupable(kind: str) -> bool:
    """Whether Spark itself groups and joins by columns of this type as they are."""
    return not _ungroupable(type_from_text(kind))


def is_exact(kind: str) -> bool:
    """Whether values of a type that a grouping takes for one are the same to every expression.

    Those of floats are not (0.0 and -0.0), nor strings with a collation.
    """
    return kind in _EXACT or kind.startswith("decimal")


def exactly(column: int, kind: str) -> Expr | None:
    """A value by which a grouping tells apart all that an expression can; None where none is known."""
    if is_exact(kind):
        return Col(column)
    return Cast(Col(column), "string") if kind in {"float", "double"} else None


def _ungroupable(kind: DataType | Any) -> bool:
    if isinstance(kind, str):
        return kind == "variant" or kind.startswith(("geometry", "geography"))
    match kind.get("type"):
        case "map":
            return True
        case "array":
            return _ungroupable(kind["elementType"])
        case "struct":
            return any(_ungroupable(f["type"]) for f in kind["fields"])
        case "udt":
            return _ungroupable(kind["sqlType"])
        case _:
            return False
