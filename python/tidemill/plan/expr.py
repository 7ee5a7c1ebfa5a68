"""Scalar expressions as the planner sees them: columns, handles on Catalyst expressions, and a few derived forms.

A `Handle` stands for an expression that lives in the JVM; Python never looks inside, it only knows what the query
document says of it. The derived forms exist so that rewritten plans can speak of counts, merges and pads.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, assert_never

DataType: TypeAlias = Any
"""A Spark type as parsed `DataType.json`: a string such as `"long"`, or a mapping for nested types."""


@dataclass(frozen=True, slots=True)
class Col:
    """A column by its id."""

    id: int


@dataclass(frozen=True, slots=True)
class Handle:
    """An expression kept by the JVM."""

    number: int


@dataclass(frozen=True, slots=True)
class Lit:
    """A literal of a primitive type; `value` None is NULL of that type."""

    value: bool | int | float | str | None
    type: str


@dataclass(frozen=True, slots=True)
class Fn:
    """A call of one of Spark's built-in functions (or of Tidemill's exact sums); an aggregate inside aggregates."""

    name: str
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Cast:
    """A cast to a Spark type, given as the text of its JSON."""

    child: Expr
    to: str


@dataclass(frozen=True, slots=True)
class Evaluate:
    """The final value of the aggregate behind a handle, from its buffer's values: Spark's own rounding and overflow."""

    number: int
    buffers: tuple[Expr, ...]


Expr: TypeAlias = Col | Handle | Lit | Fn | Cast | Evaluate
ONE = Lit(1, "long")
ZERO = Lit(0, "long")
TRUE = Lit(True, "boolean")


def fn(name: str, *args: Expr) -> Fn:
    """`Fn` with its arguments spread."""
    return Fn(name, args)


def expr_to_json(expr: Expr) -> dict[str, Any]:
    """The wire form of an expression."""
    match expr:
        case Col(number):
            return {"col": number}
        case Handle(number):
            return {"handle": number}
        case Lit(value, kind):
            return {"lit": value, "type": kind}
        case Fn(name, args):
            return {"fn": name, "args": [expr_to_json(a) for a in args]}
        case Cast(child, to):
            return {"cast": expr_to_json(child), "to": type_from_text(to)}
        case Evaluate(number, buffers):
            return {"evaluate": number, "buffers": [expr_to_json(b) for b in buffers]}
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
        case {"handle": number}:
            return Handle(number)
        case {"lit": value, "type": kind}:
            return Lit(value, kind)
        case {"lit": value}:
            return Lit(value, "integer")
        case {"fn": name, "args": args}:
            return Fn(name, tuple(expr_from_json(a) for a in args))
        case {"cast": child, "to": to}:
            return Cast(expr_from_json(child), type_to_text(to))
        case {"evaluate": number, "buffers": buffers}:
            return Evaluate(number, tuple(expr_from_json(b) for b in buffers))
        case _:
            raise ValueError(f"unknown expression on the wire: {data!r}")


def type_to_text(kind: DataType) -> str:
    """A type as hashable text: primitive names stay as they are, nested types become JSON."""
    return kind if isinstance(kind, str) else json.dumps(kind, sort_keys=True, separators=(",", ":"))


def type_from_text(text: str) -> DataType:
    """The inverse of `type_to_text`."""
    return json.loads(text) if text.startswith("{") else text


def children(expr: Expr) -> Sequence[Expr]:
    """The direct sub-expressions."""
    match expr:
        case Fn(_, args):
            return args
        case Cast(child, _):
            return (child,)
        case Evaluate(_, buffers):
            return buffers
        case Col() | Handle() | Lit():
            return ()
        case _:
            assert_never(expr)


def walk(expr: Expr) -> Iterator[Expr]:
    """The expression and all below it, parents first."""
    yield expr
    for child in children(expr):
        yield from walk(child)
