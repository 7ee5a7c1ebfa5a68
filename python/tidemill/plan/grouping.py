"""Grouping and joining by types that Spark does not group by: maps and variants, alone or nested."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tidemill.plan.expr import Col, DataType, Expr, fn, type_from_text


def groupable(column: int, kind: str) -> Expr:
    """The column, or where Spark cannot group by its type a value that is equal if the column's is.

    Maps compare by sorted entries, variants by their JSON (sql.md, "Equality"). A map or variant inside another type is
    compared by its JSON text; two texts of one nested map may differ, which leaves both rows in a net and no wrong one.
    """
    parsed = type_from_text(kind)
    if not _ungroupable(parsed):
        return Col(column)
    if isinstance(parsed, Mapping) and parsed.get("type") == "map":
        nested = _ungroupable(parsed["keyType"]) or _ungroupable(parsed["valueType"])
        return fn("to_json", Col(column)) if nested else fn("sort_array", fn("map_entries", Col(column)))
    return fn("to_json", Col(column))


_EXACT = re.compile(r"boolean|byte|short|integer|long|date|timestamp(_ntz)?|string|binary|decimal\(.*\)")


def kept_by_grouping(kind: str) -> bool:
    """True if values of a type that GROUP BY takes for equal are the same: not so 0.0 and -0.0, or a collation's texts.

    >>> kept_by_grouping("decimal(7,2)"), kept_by_grouping("double"), kept_by_grouping("string collate UTF8_LCASE")
    (True, False, False)
    """
    return _EXACT.fullmatch(kind) is not None


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
