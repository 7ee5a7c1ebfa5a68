"""Values to group and join by, where Spark cannot group by a type or treats different values as equal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidemill.plan.datatype import DataType, type_from_text
from tidemill.plan.expr import Cast, Col, Expr, fn

_EXACT = frozenset(
    {"byte", "short", "integer", "long", "boolean", "date", "timestamp", "timestamp_ntz", "string", "binary"}
)
"""Types whose equal values are the same to every expression; decimals are exact too."""


def groupable(column: int, kind: str) -> Expr:
    """The column itself, or a value to group by in its place if Spark cannot group by its type.

    Maps compare by sorted entries, variants by their JSON. A map or variant inside another type compares by its JSON
    text. Two texts of one nested map may differ: then a net keeps both rows, but no wrong one.
    """
    parsed = type_from_text(kind)
    if not _ungroupable(parsed):
        return Col(column)
    if isinstance(parsed, Mapping) and parsed.get("type") == "map":
        nested = _ungroupable(parsed["keyType"]) or _ungroupable(parsed["valueType"])
        return fn("to_json", Col(column)) if nested else fn("sort_array", fn("map_entries", Col(column)))
    return fn("to_json", Col(column))


def is_groupable(kind: str) -> bool:
    """True if Spark can group and join by columns of this type as they are."""
    return not _ungroupable(type_from_text(kind))


def is_exact(kind: str) -> bool:
    """True if values of this type that grouping treats as equal are the same to every expression.

    False for floats (0.0 and -0.0) and for strings with a collation.
    """
    return kind in _EXACT or kind.startswith("decimal")


def exactly(column: int, kind: str) -> Expr | None:
    """A value that is equal only where the column's values are the same to every expression; None if none is known."""
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
