"""Calls of aggregates in plans as text: what they are over, and the types that Spark gives them."""

from __future__ import annotations

import re

from tidemill.plan.expr import Expr, Fn
from tidemill.text.printer import DISTINCT, WHERE

AGGREGATES = frozenset(
    {"count", "sum", "avg", "min", "max", "first", "last", "collect_list", "any_value"}
    | {"stddev_samp", "stddev_pop", "var_samp", "var_pop"}
)
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


def condition_of(expr: Expr) -> tuple[Expr, Expr | None]:
    """A call without its FILTER, and the condition of that."""
    return (expr.args[0], expr.args[1]) if isinstance(expr, Fn) and expr.name == WHERE else (expr, None)


def arguments_of(call: Fn) -> tuple[bool, tuple[Expr, ...]]:
    """Whether a call is DISTINCT, and its arguments."""
    inner = call.args[0] if call.args else None
    return (True, inner.args) if isinstance(inner, Fn) and inner.name == DISTINCT else (False, call.args)


def buffers(name: str, kind: str) -> list[str] | None:
    """Spark's buffer types of an aggregate over an argument of a type; None if it has none."""
    if name == "count":
        return ["long"]
    decimal = _DECIMAL.fullmatch(kind)
    wider = f"decimal({min(38, int(decimal[1]) + 10)},{decimal[2]})" if decimal else "double"
    if name == "avg":
        return [wider, "long"]
    if name == "sum":
        return [wider, "boolean"] if decimal else [_sum_type(kind)]
    if name in {"min", "max"}:
        return [kind]
    return ["double", "double", "double"] if name.startswith(("std", "var")) else None


def result_type(name: str, kind: str) -> str:
    """The type of an aggregate over an argument of a type."""
    if name == "count":
        return "long"
    decimal = _DECIMAL.fullmatch(kind)
    if name == "sum":
        return f"decimal({min(38, int(decimal[1]) + 10)},{decimal[2]})" if decimal else _sum_type(kind)
    if name == "avg" and decimal:
        return f"decimal({min(38, int(decimal[1]) + 4)},{int(decimal[2]) + 4})"
    if name == "collect_list":
        return f'{{"containsNull":false,"elementType":"{kind}","type":"array"}}'
    return "double" if name == "avg" or name.startswith(("std", "var")) else kind


def _sum_type(kind: str) -> str:
    return "double" if kind in {"float", "double"} else "long"
