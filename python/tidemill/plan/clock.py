"""Filters and projections that read the clock, and their expressions at a moment.

The clock is a source of such a relation. It has no rows: a change of the clock changes the relation's answers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from tidemill.plan.expr import Cast, Evaluate, Expr, Fn, Handle, Timed
from tidemill.plan.ops import Filter, Op, Project
from tidemill.plan.query import Query

Operator = TypeVar("Operator", bound=Op)


def clock_of(op: Op, query: Query) -> frozenset[int]:
    """The clock as a set of sources if an operator of a query reads it; the empty set otherwise."""
    match op:
        case Filter(condition):
            found = any(map(query.reads_clock, condition))
        case Project(columns):
            found = any(query.reads_clock(e) for _, e in columns)
        case _:
            found = False
    return frozenset({query.clock}) if found and query.clock is not None else frozenset()


def timed(op: Operator, query: Query, time: int) -> Operator:
    """An operator of a query whose expressions that read the clock have their values at a moment."""
    if not clock_of(op, query):
        return op

    def placed(expr: Expr) -> Expr:
        return Timed(expr.number, time) if isinstance(expr, Handle) and query.reads_clock(expr) else expr

    return mapped(op, placed)


def mapped(op: Operator, change: Callable[[Expr], Expr]) -> Operator:
    """A filter or projection with `change` applied to its handles; any other operator as it is."""
    match op:
        case Filter(condition):
            return replace(op, condition=tuple(_within(e, change) for e in condition))
        case Project(columns):
            return replace(op, columns=tuple((c, _within(e, change)) for c, e in columns))
        case _:
            return op


def _within(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    match expr:
        case Handle() | Timed():
            return change(expr)
        case Fn(name, args):
            return Fn(name, tuple(_within(e, change) for e in args))
        case Cast(child, to):
            return Cast(_within(child, change), to)
        case Evaluate(number, buffers):
            return Evaluate(number, tuple(_within(e, change) for e in buffers))
        case _:
            return expr
