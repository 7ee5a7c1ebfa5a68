"""Values and expressions of the bag interpreter: what Spark's expressions mean, NULL and NaN included.

Values are int, Fraction (doubles and decimals: exact), str, bool, None, and NAN, INF, -INF.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeAlias

from tidemill.plan.expr import Cast, Col, Expr, Fn, Handle, Lit, Timed
from tidemill.plan.expr import Evaluate as EvaluateExpr
from tidemill.plan.query import Query
from tidemill.text.parser import parse_expr
from tidemill.text.printer import DISTINCT, WHERE

Row: TypeAlias = tuple[Any, ...]
Env: TypeAlias = Mapping[int, Any]
NAN, INF = math.nan, math.inf
"""The one NaN: always this object, so that tuples with it are equal."""
AGGREGATES = frozenset(
    {
        "sum",
        "count",
        "avg",
        "min",
        "max",
        "bool_or",
        "any_value",
        "first",
        "var_samp",
        "var_pop",
        "stddev_samp",
        "stddev_pop",
    }
    | {"tidemill_exact_sum", "tidemill_exact_square_sum", "tidemill_exact_merge"}
)


@dataclass(frozen=True)
class Exact:
    """The model of the exact sum's struct."""

    total: int | Fraction = 0
    nan: int = 0
    pos: int = 0
    neg: int = 0

    def plus(self, x: Any, n: int, power: int = 1) -> Exact:
        if x is NAN:
            return Exact(self.total, self.nan + n, self.pos, self.neg)
        if x in (INF, -INF):
            up = x > 0 or power == 2
            return Exact(self.total, self.nan, self.pos + (n if up else 0), self.neg + (0 if up else n))
        return Exact(self.total + x**power * n, self.nan, self.pos, self.neg)

    def merge(self, other: Exact) -> Exact:
        return Exact(self.total + other.total, self.nan + other.nan, self.pos + other.pos, self.neg + other.neg)

    @property
    def value(self) -> Any:
        if self.nan > 0 or (self.pos > 0 and self.neg > 0):
            return NAN
        return INF if self.pos > 0 else -INF if self.neg > 0 else self.total


class Scalars:
    """Expressions, with Spark's NULL rules; `Handle`s by the text of the query.

    `clock`: its value at each moment. What does not name a moment is evaluated at the last.
    """

    def __init__(self, query: Query, clock: Mapping[int, Any] | None = None) -> None:
        self.query = query
        self.clock = clock or {}
        self._time = max(self.clock, default=0)

    def value(self, expr: Expr, env: Env) -> Any:
        match expr:
            case Timed(number, at):
                self._time, before = at, self._time
                found = self.value(Handle(number), env)
                self._time = before
                return found
            case Fn("clock", ()):
                return self.clock[self._time]
            case Col(column):
                return env[column]
            case Lit(value, _):
                return value
            case Cast(child, _):
                return self.value(child, env)
            case Handle(number):
                return self.value(_definition(self.query.expressions[number].text), env)
            case EvaluateExpr(number, buffers):
                call = self.query.expressions[number].aggregate
                assert call is not None
                return _evaluate(call.function, [self.value(b, env) for b in buffers])
            case Fn("and" | "or" as name, (a, b)):
                x, y = self.value(a, env), self.value(b, env)
                strong = name == "or"
                return strong if x is strong or y is strong else None if x is None or y is None else not strong
            case Fn("if", (test, yes, no)):
                return self.value(yes if self.value(test, env) is True else no, env)
            case Fn(name, args):
                return _call(name, [self.value(a, env) for a in args])

    def aggregate(self, expr: Expr, envs: Sequence[Env]) -> Any:
        if isinstance(expr, Handle):
            expr = _definition(self.query.expressions[expr.number].text)
        if isinstance(expr, Fn) and expr.name == WHERE:
            envs = [e for e in envs if self.value(expr.args[1], e) is True]
            expr = expr.args[0]
        assert isinstance(expr, Fn)
        assert expr.name in AGGREGATES, expr
        args = expr.args
        distinct = bool(args) and isinstance(args[0], Fn) and args[0].name == DISTINCT
        if distinct:
            assert isinstance(args[0], Fn)
            args = args[0].args
        tuples = [tuple(self.value(a, e) for a in args) for e in envs]
        known = [t for t in tuples if all(x is not None for x in t)]
        if expr.name == "any_value" or expr.name == "first":
            return tuples[0][0] if tuples else None
        if distinct:
            known = list(dict.fromkeys(known))
        return _fold(expr.name, known)


@lru_cache(maxsize=4096)
def _definition(text: str) -> Expr:
    return parse_expr(text)


def _fold(name: str, rows: Sequence[Row]) -> Any:
    """An aggregate over the rows whose arguments are all known."""
    if name in {"tidemill_exact_sum", "tidemill_exact_square_sum"}:
        state = Exact()
        for x, n in rows:
            state = state.plus(x, n, 2 if "square" in name else 1)
        return state
    if name == "tidemill_exact_merge":
        state = Exact()
        for (other,) in rows:
            state = state.merge(other)
        return state
    if name == "count":
        return len(rows)
    if not rows:
        return None
    values = [r[0] for r in rows]
    if name == "bool_or":
        return any(values)
    if name in {"min", "max"}:
        best = values[0]
        for v in values:
            best = v if less(v, best) == (name == "min") and not same(v, best) else best
        return best
    total, squares = Exact(), Exact()
    for v in values:
        total, squares = total.plus(v, 1), squares.plus(v, 1, 2)
    if name in {"sum", "avg"}:
        return _evaluate(name, [total.value] if name == "sum" else [total.value, len(values)])
    return _moment(len(values), total, squares, name)


def _evaluate(function: str, buffers: Sequence[Any]) -> Any:
    match function, buffers:
        case "sum", (total,):
            return total
        case "sum", (total, empty):
            return None if empty else total
        case "avg", (total, count):
            if count == 0:
                return None
            return total if isinstance(total, float) else Fraction(total) / count
    raise AssertionError(f"evaluate {function}")


def _moment(count: int, total: Exact, squares: Exact, kind: str) -> Any:
    """The variance, also for standard deviations: the root is exact nowhere and changes no equality."""
    if count == 0 or (kind.endswith("samp") and count == 1):
        return None
    s1, s2 = total.value, squares.value
    if isinstance(s1, float) or isinstance(s2, float):
        return NAN
    return (count * s2 - s1 * s1) / Fraction(count * (count - 1 if kind.endswith("samp") else count))


def same(a: Any, b: Any) -> bool:
    """Equality as in grouping: NULL is NULL, NaN is NaN."""
    return a is b or (a is not None and b is not None and a == b)


def less(a: Any, b: Any) -> bool:
    """Spark's order of known values: NaN above all."""
    return b is NAN and a is not NAN if NAN in (a, b) or a is NAN or b is NAN else bool(a < b)


def _call(name: str, args: list[Any]) -> Any:
    match name:
        case "<=>":
            return same(args[0], args[1])
        case "coalesce":
            return next((a for a in args if a is not None), None)
        case "isnull":
            return args[0] is None
        case "isnotnull":
            return args[0] is not None
        case "array":
            return list(args)
        case "explode":
            return args[0]
    if any(a is None for a in args):
        return None
    match name, args:
        case "not", (a,):
            return not a
        case "negative", (a,):
            return -a
        case "tidemill_exact_value", (a,):
            return a.value
        case "tidemill_exact_moment", (count, s1, s2, kind):
            return _moment(count, s1, s2, kind)
        case "=", (a, b):
            return same(a, b)
        case "<", (a, b):
            return less(a, b)
        case ">", (a, b):
            return less(b, a)
        case "<=", (a, b):
            return not less(b, a)
        case ">=", (a, b):
            return not less(a, b)
        case "+", (a, b):
            return _canonical(a + b)
        case "-", (a, b):
            return _canonical(a - b)
        case "*", (a, b):
            return _canonical(a * b)
        case "/", (a, b):
            return _canonical(a / b if isinstance(a, float) or isinstance(b, float) else Fraction(a) / b) if b else None
    raise AssertionError(f"the interpreter knows no {name} of {len(args)}")


def _canonical(x: Any) -> Any:
    return NAN if x != x else x
