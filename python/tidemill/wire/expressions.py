"""Expressions as JSON, in both directions: single ones, named ones, and orders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, assert_never

from tidemill.plan.datatype import type_from_text, type_to_text
from tidemill.plan.expr import Cast, Col, Evaluate, Expr, Fn, Handle, Lit, Timed
from tidemill.plan.ops import Named, SortKey


def expr_to_json(expr: Expr) -> dict[str, Any]:
    """The JSON of an expression."""
    match expr:
        case Col(number):
            return {"col": number}
        case Handle(number):
            return {"handle": number}
        case Timed(number, at):
            return {"handle": number, "at": at}
        case Lit(value, kind):
            return {"lit": value, "type": type_from_text(kind)}
        case Fn(name, args):
            return {"fn": name, "args": exprs_to_json(args)}
        case Cast(child, to):
            return {"cast": expr_to_json(child), "to": type_from_text(to)}
        case Evaluate(number, buffers):
            return {"evaluate": number, "buffers": exprs_to_json(buffers)}
        case _:
            assert_never(expr)


def expr_from_json(data: Mapping[str, Any]) -> Expr:
    """The inverse of `expr_to_json`.

    Raises:
        ValueError: for a form that this version does not know.
    """
    match data:
        case {"col": number}:
            return Col(number)
        case {"handle": number, "at": at}:
            return Timed(number, at)
        case {"handle": number}:
            return Handle(number)
        case {"lit": value, "type": kind}:
            return Lit(value, type_to_text(kind))
        case {"lit": value}:
            return Lit(value, "integer")
        case {"fn": name, "args": args}:
            return Fn(name, exprs_from_json(args))
        case {"cast": child, "to": to}:
            return Cast(expr_from_json(child), type_to_text(to))
        case {"evaluate": number, "buffers": buffers}:
            return Evaluate(number, exprs_from_json(buffers))
        case _:
            raise ValueError(f"unknown expression on the wire: {data!r}")


def exprs_to_json(exprs: Iterable[Expr]) -> list[dict[str, Any]]:
    """The JSON of several expressions."""
    return [expr_to_json(e) for e in exprs]


def exprs_from_json(data: Iterable[Mapping[str, Any]]) -> tuple[Expr, ...]:
    """The inverse of `exprs_to_json`."""
    return tuple(expr_from_json(e) for e in data)


def named_to_json(columns: Iterable[tuple[int, Expr]]) -> list[list[Any]]:
    """Named expressions as [[id, expression], ...]."""
    return [[c, expr_to_json(e)] for c, e in columns]


def named_from_json(data: Iterable[Sequence[Any]]) -> Named:
    """The inverse of `named_to_json`."""
    return tuple((c, expr_from_json(e)) for c, e in data)


def order_to_json(order: Iterable[SortKey]) -> list[list[Any]]:
    """An order as [[expression, ascending, nulls first], ...]."""
    return [[expr_to_json(k.expr), k.ascending, k.nulls_first] for k in order]


def order_from_json(data: Iterable[Sequence[Any]]) -> tuple[SortKey, ...]:
    """The inverse of `order_to_json`."""
    return tuple(SortKey(expr_from_json(e), bool(up), bool(nulls)) for e, up, nulls in data)
