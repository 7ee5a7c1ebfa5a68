"""A bag interpreter for wire plans: what the JVM and Spark would do, over Python lists, in milliseconds.

It exists to find wrong algebra without Spark. Values are int, Fraction (doubles and decimals: exact), str, bool, None,
and NAN, INF, -INF. Rows are tuples; relations are bags. What Spark leaves open (ties under a limit, `first`) is decided
at random, so that a plan which relies on a lucky choice fails.
"""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cmp_to_key, lru_cache
from typing import Any, TypeAlias

from tidemill.plan.expr import Cast, Col, Expr, Fn, Handle, Lit, expr_from_json
from tidemill.plan.expr import Evaluate as EvaluateExpr
from tidemill.plan.parse import parse_expr
from tidemill.plan.query import Query
from tidemill.plan.text import DISTINCT, WHERE

Row: TypeAlias = tuple[Any, ...]
Env: TypeAlias = Mapping[int, Any]
Record: TypeAlias = Mapping[str, Any]
NAN, INF = math.nan, math.inf
"""The one NaN: always this object, so that tuples with it are equal."""
AGGREGATES = frozenset(
    {"sum", "count", "avg", "min", "max", "any_value", "first", "var_samp", "var_pop", "stddev_samp", "stddev_pop"}
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


@dataclass(frozen=True)
class Relation:
    """Columns by id, and rows."""

    columns: tuple[int, ...]
    rows: list[Row]

    def envs(self) -> list[dict[int, Any]]:
        return [dict(zip(self.columns, r, strict=True)) for r in self.rows]

    def bag(self, columns: Sequence[int]) -> Counter[Row]:
        at = [self.columns.index(c) for c in columns]
        return Counter(tuple(r[i] for i in at) for r in self.rows)


@dataclass
class World:
    """What leaves read: sources by (number, "old" or "new"), states, staged steps, and the view's content."""

    query: Query
    sources: Mapping[tuple[int, str], Sequence[Record]]
    changes: Mapping[int, Sequence[tuple[Record, int]]] = field(default_factory=dict)
    states: Mapping[str, Sequence[Record]] = field(default_factory=dict)
    staged: dict[str, list[Record]] = field(default_factory=dict)
    result: Sequence[Record] = ()
    dice: random.Random = field(default_factory=lambda: random.Random(0))


def run(node: Mapping[str, Any], world: World) -> Relation:
    """The rows of a wire node, in an arbitrary order."""
    return _Interpreter(world).node(node)


class _Interpreter:
    def __init__(self, world: World) -> None:
        self.world = world
        self.scalars = Scalars(world.query)

    def node(self, node: Mapping[str, Any]) -> Relation:
        inputs = [self.node(i) for i in node.get("inputs", ())]
        read: Callable[..., Relation] = getattr(self, "op_" + node["op"])
        result = read(node, *inputs)
        assert len(set(result.columns)) == len(result.columns), f"{node['op']} gives out a column twice"
        assert all(len(r) == len(result.columns) for r in result.rows)
        self.world.dice.shuffle(result.rows)
        return result

    # -- leaves -------------------------------------------------------------------------------------------------------

    def op_scan(self, node: Mapping[str, Any]) -> Relation:
        return _read(node["columns"], self.world.sources[node["source"], node["at"] or "new"])

    def op_changes(self, node: Mapping[str, Any]) -> Relation:
        assert (node["from"], node["to"]) == ("old", "new")
        records = self.world.changes[node["source"]]
        rows = _read(node["columns"], [r for r, _ in records])
        counted = [(*row, n) for row, (_, n) in zip(rows.rows, records, strict=True)]
        return Relation((*rows.columns, node["count"]), counted)

    def op_state(self, node: Mapping[str, Any]) -> Relation:
        return _read(node["columns"], self.world.states[node["name"]])

    def op_staged(self, node: Mapping[str, Any]) -> Relation:
        return _read(node["columns"], self.world.staged[node["step"]])

    def op_result(self, node: Mapping[str, Any]) -> Relation:
        return _read(node["columns"], self.world.result)

    def op_empty(self, node: Mapping[str, Any]) -> Relation:
        return Relation(tuple(c for c, _ in node["columns"]), [])

    # -- linear -------------------------------------------------------------------------------------------------------

    def op_filter(self, node: Mapping[str, Any], rows: Relation) -> Relation:
        return Relation(
            rows.columns, [r for r, env in zip(rows.rows, rows.envs(), strict=True) if self._all(node, env)]
        )

    def op_project(self, node: Mapping[str, Any], rows: Relation) -> Relation:
        columns = [(c, expr_from_json(e)) for c, e in node["columns"]]
        out = []
        for env in rows.envs():
            values = [self.scalars.value(e, env) for _, e in columns]
            exploded = [i for i, (_, e) in enumerate(columns) if isinstance(e, Fn) and e.name == "explode"]
            assert len(exploded) <= 1
            if not exploded:
                out.append(tuple(values))
            for i in exploded:
                out.extend((*values[:i], x, *values[i + 1 :]) for x in values[i])
        return Relation(tuple(c for c, _ in columns), out)

    def op_union(self, node: Mapping[str, Any], *inputs: Relation) -> Relation:
        rows = [r for ids, part in zip(node["from"], inputs, strict=True) for r in part.bag(ids).elements()]
        return Relation(tuple(node["columns"]), rows)

    def op_replicate(self, node: Mapping[str, Any], rows: Relation) -> Relation:
        count = expr_from_json(node["count"])
        out = []
        for row, env in zip(rows.rows, rows.envs(), strict=True):
            n = self.scalars.value(count, env)
            assert n > 0, "a negative count reached a plain bag"
            out.extend([row] * n)
        return Relation(rows.columns, out)

    # -- joins --------------------------------------------------------------------------------------------------------

    def op_join(self, node: Mapping[str, Any], left: Relation, right: Relation) -> Relation:
        assert not set(left.columns) & set(right.columns), "the sides of a join share a column"
        met_right: set[int] = set()
        out: list[Row] = []
        for row, env in zip(left.rows, left.envs(), strict=True):
            met = [j for j, other in enumerate(right.envs()) if self._all(node, {**env, **other})]
            met_right.update(met)
            match node["kind"]:
                case "inner":
                    out.extend(row + right.rows[j] for j in met)
                case "left" | "full":
                    nulls = (None,) * len(right.columns)
                    out.extend([row + right.rows[j] for j in met] or [row + nulls])
                case "semi" | "anti":
                    out.extend([row] if bool(met) == (node["kind"] == "semi") else [])
                case "existence":
                    out.append((*row, bool(met)))
                case "right":
                    out.extend(row + right.rows[j] for j in met)
        if node["kind"] in {"right", "full"}:
            nulls = (None,) * len(left.columns)
            out.extend(nulls + r for j, r in enumerate(right.rows) if j not in met_right)
        match node["kind"]:
            case "semi" | "anti":
                return Relation(left.columns, out)
            case "existence":
                return Relation((*left.columns, node["exists"]), out)
        return Relation(left.columns + right.columns, out)

    def _all(self, node: Mapping[str, Any], env: Env) -> bool:
        return all(self.scalars.value(expr_from_json(c), env) is True for c in node["condition"])

    # -- the rest -----------------------------------------------------------------------------------------------------

    def op_aggregate(self, node: Mapping[str, Any], rows: Relation) -> Relation:
        keys = [(c, expr_from_json(e)) for c, e in node["keys"]]
        calls = [(c, expr_from_json(e)) for c, e in node["aggregates"]]
        groups: dict[Row, list[Env]] = defaultdict(list)
        if not keys:
            groups[()] = []
        for env in rows.envs():
            groups[tuple(self.scalars.value(e, env) for _, e in keys)].append(env)
        out = [(*key, *(self.scalars.aggregate(e, envs) for _, e in calls)) for key, envs in groups.items()]
        return Relation(tuple(c for c, _ in (*keys, *calls)), out)

    def op_limit(self, node: Mapping[str, Any], rows: Relation) -> Relation:
        order = [(expr_from_json(e), up, first) for e, up, first in node["order"]]
        ranked = list(zip(rows.envs(), rows.rows, strict=True))  # shuffled before, and sorting is stable

        def compare(a: tuple[Env, Row], b: tuple[Env, Row]) -> int:
            for expr, up, first in order:
                x, y = self.scalars.value(expr, a[0]), self.scalars.value(expr, b[0])
                if same(x, y):
                    continue
                if x is None or y is None:
                    return -1 if (x is None) == first else 1
                return -1 if less(x, y) == up else 1
            return 0

        ranked.sort(key=cmp_to_key(compare))
        skip = self.scalars.value(expr_from_json(node["offset"]), {}) if node.get("offset") else 0
        wanted = self.scalars.value(expr_from_json(node["limit"]), {})
        return Relation(rows.columns, [r for _, r in ranked[skip : skip + wanted]])

    def op_sort(self, _node: Mapping[str, Any], rows: Relation) -> Relation:
        return rows

    def op_opaque(self, node: Mapping[str, Any], rows: Relation) -> Relation:
        """Any operator here is one: the rows, and how many rows share the value of the column of the lowest id."""
        new = [c for c in node["columns"] if c not in rows.columns]
        first = min(rows.columns)
        sizes = Counter(env[first] for env in rows.envs())
        wide = [(*r, *(sizes[env[first]] for _ in new)) for r, env in zip(rows.rows, rows.envs(), strict=True)]
        every = Relation((*rows.columns, *new), wide)
        return Relation(tuple(node["columns"]), list(every.bag(node["columns"]).elements()))


class Scalars:
    """Expressions, with Spark's NULL rules; `Handle`s by the text of the query."""

    def __init__(self, query: Query) -> None:
        self.query = query

    def value(self, expr: Expr, env: Env) -> Any:
        match expr:
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


def _read(columns: Sequence[Sequence[Any]], records: Sequence[Record]) -> Relation:
    return Relation(tuple(c[0] for c in columns), [tuple(r[c[1]] for c in columns) for r in records])
