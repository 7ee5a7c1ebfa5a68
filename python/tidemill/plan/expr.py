"""Scalar expressions as the planner sees them: columns, handles of Catalyst expressions, and a few derived forms.

A `Handle` stands for an expression that lives in the JVM. Python never looks inside; it knows only what the query
document says about it. With the derived forms, rewritten plans can express counts, merges and pads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias, assert_never


@dataclass(frozen=True, slots=True)
class Col:
    """A column by its id."""

    id: int


@dataclass(frozen=True, slots=True)
class Handle:
    """An expression kept by the JVM."""

    number: int


@dataclass(frozen=True, slots=True)
class Timed:
    """An expression kept by the JVM that reads the clock, with its value at a moment."""

    number: int
    at: int


@dataclass(frozen=True, slots=True)
class Lit:
    """A literal of a primitive type; `value` None is NULL of that type."""

    value: bool | int | float | str | None
    type: str


@dataclass(frozen=True, slots=True)
class Fn:
    """A call of a built-in Spark function or of a Tidemill exact sum; within aggregates, an aggregate function."""

    name: str
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Cast:
    """A cast to a Spark type, given as the text of its JSON."""

    child: Expr
    to: str


@dataclass(frozen=True, slots=True)
class Evaluate:
    """The final value of the aggregate behind a handle, from its buffer, with Spark's own rounding and overflow."""

    number: int
    buffers: tuple[Expr, ...]


Expr: TypeAlias = Col | Handle | Timed | Lit | Fn | Cast | Evaluate
ONE = Lit(1, "long")
ZERO = Lit(0, "long")
TRUE = Lit(True, "boolean")
FALSE = Lit(False, "boolean")


def fn(name: str, *args: Expr) -> Fn:
    """Builds an `Fn` from its arguments."""
    return Fn(name, args)


def children(expr: Expr) -> Sequence[Expr]:
    """The direct sub-expressions."""
    match expr:
        case Fn(_, args):
            return args
        case Cast(child, _):
            return (child,)
        case Evaluate(_, buffers):
            return buffers
        case Col() | Handle() | Timed() | Lit():
            return ()
        case _:
            assert_never(expr)


def walk(expr: Expr) -> Iterator[Expr]:
    """The expression and all below it, parents first."""
    yield expr
    for child in children(expr):
        yield from walk(child)
