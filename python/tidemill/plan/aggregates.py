"""Aggregates in attribute form: the parts that merge by addition, and the final value made from them.

For a call f over x with signed multiplicities n (a plain row has n = 1), the parts are signed sums, so that the parts
of R + dR are the parts of R plus the parts of dR (Tempura section 3.2; Gray et al.'s algebraic aggregates):

    count(*)           sum(n)
    count(x, ...)      c = sum(n where no x is NULL)
    sum(x), avg(x)     s = sum(n * x), c
    var, stddev        s = sum(n * x), q = sum(n * x * x), c

While no row leaves, two things more are possible. The extremes of R + dR are those of the extremes of R and of dR, and
some final values tell parts that give them: a minimum itself, a sum of small integers (Gray et al. call such functions
distributive).

Sums of doubles are exact (an expansion of non-overlapping doubles, with NaN and infinities counted separately), so that
1e16 + 1 - 1e16 is 1 and retraction never drifts. Integers wider than 32 bits are summed as decimals. Decimals that
leave little room in 38 digits are summed as unbounded integers (`tidemill_wide_sum`): an intermediate sum, or the sum
of a change alone, may leave the range of the type although the old and the new sum are within it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from tidemill.plan.columns import ColumnIds
from tidemill.plan.datatype import type_to_text
from tidemill.plan.expr import ONE, ZERO, Cast, Evaluate, Expr, Handle, Lit, fn
from tidemill.plan.grouping import is_plain
from tidemill.plan.query import Call, Query

EXACT_SUM = type_to_text(
    {
        "type": "struct",
        "fields": [
            {
                "name": "partials",
                "type": {"type": "array", "elementType": "double", "containsNull": False},
                "nullable": False,
                "metadata": {},
            },
            *({"name": n, "type": "long", "nullable": False, "metadata": {}} for n in ("nan", "pos", "neg")),
        ],
    }
)
EXTREMA = frozenset({"min", "max", "bool_and", "bool_or", "every", "some", "any", "bit_and", "bit_or"})
"""Calls over the set of values, whose value over all rows is the same call over its values over parts of them."""
UNBOUNDED = "binary"
"""Type of the state of `tidemill_wide_sum`."""
_SMALL_INTEGERS = frozenset({"byte", "short", "integer"})
_FLOATS = frozenset({"float", "double"})
_MOMENTS = {
    "var_pop": "var_pop",
    "var_samp": "var_samp",
    "variance": "var_samp",
    "stddev_pop": "stddev_pop",
    "stddev_samp": "stddev_samp",
    "stddev": "stddev_samp",
    "std": "stddev_samp",
}
_DECIMAL = re.compile(r"decimal\((\d+),(-?\d+)\)")
WIDE_PRECISION = 38
PRODUCT_PRECISION = 11
"""Number of digits that multiplication by a count of type DECIMAL(10,0) adds."""
KEPT_SCALE = 6
"""Digits after the decimal point that Spark keeps in a decimal product whose type would be too long (DecimalType)."""


@dataclass(frozen=True, slots=True)
class Part:
    """One additive part of a call: its column type and the aggregate that merges it."""

    name: str
    type: str
    merge: str


@dataclass(frozen=True, slots=True)
class Additive:
    """A call in attribute form: its parts, the aggregates that compute them, and the final value from part columns."""

    call: Call
    handle: int
    argument_type: str
    parts: tuple[Part, ...]

    @property
    def weighs(self) -> bool:
        """True if `partial` is exact for counts of any size."""
        found = _DECIMAL.fullmatch(self.parts[0].type)
        return found is None or int(found[2]) <= KEPT_SCALE

    @property
    def multiplies(self) -> bool:
        """True if the parts of some rows, multiplied by k, are exactly the parts of the same rows k times."""
        return self.weighs and all(p.type not in {EXACT_SUM, UNBOUNDED} for p in self.parts)

    def multiplied(self, parts: tuple[Expr, ...], times: Expr) -> tuple[Expr, ...]:
        """Aggregates, one per part, over rows that hold parts; each row counts `times` times."""
        return tuple(
            fn("sum", fn("*", x, times) if p.type == "long" else Cast(fn("*", x, Cast(times, "decimal(20,0)")), p.type))
            for x, p in zip(parts, self.parts, strict=True)
        )

    def told_by(self, value: Expr) -> tuple[Expr, ...]:
        """Parts that give this final value, if only new rows are merged into them; of the calls of `growing`."""
        if self.call.function == "count" or self.call.function in EXTREMA:
            return (value,)
        zero = Cast(ZERO, self.parts[0].type)
        return fn("coalesce", value, zero), fn("if", fn("isnull", value), ZERO, ONE)

    def over(self, value: Expr) -> Additive:
        """The same call over an argument that is NULL for the rows that do not count."""
        return replace(self, call=replace(self.call, args=(value,), filter=None))

    @property
    def value(self) -> Expr:
        """The argument of a call with one argument; NULL for the rows that do not count."""
        (x,) = self.call.args
        if self.call.filter is None:
            return x
        return fn("if", self.call.filter, x, Cast(Lit(None, "void"), self.argument_type))

    def partial(self, count: Expr | None, digits: int = 10) -> tuple[Expr, ...]:
        """Aggregates, one per part, over a bag (`count` is None) or signed rows; counts have up to `digits` digits."""
        if self.call.function in EXTREMA:
            return (fn(self.call.function, self.value),)
        weight = count if count is not None else ONE
        known = _known(self.call)
        counted = fn("sum", weight if known is None else fn("if", known, weight, ZERO))
        if self.call.function == "count":
            return (counted,)
        x = self.value
        if self.parts[0].type == UNBOUNDED:
            return (fn("tidemill_wide_sum", x, weight), counted)
        if self.parts[0].type != EXACT_SUM:
            return (fn("sum", self._product(x, count, digits)), counted)
        x = Cast(x, "double")
        exact = fn("tidemill_exact_sum", x, weight)
        if self.call.function in _MOMENTS:
            return (exact, fn("tidemill_exact_square_sum", x, weight), counted)
        return (exact, counted)

    def _product(self, x: Expr, count: Expr | None, digits: int) -> Expr:
        wide = self.parts[0].type
        zero = Cast(ZERO, wide)
        if count is None:
            return fn("coalesce", Cast(x, wide), zero)
        if wide == "long":
            return fn("coalesce", fn("*", Cast(x, "long"), count), zero)
        narrow = x if self.argument_type.startswith("decimal") else Cast(x, "decimal(19,0)")
        return fn("coalesce", Cast(fn("*", narrow, Cast(count, f"decimal({digits},0)")), wide), zero)

    def _total(self, part: Expr) -> Expr:
        """The sum that a part represents."""
        kind = self.parts[0].type
        if kind == EXACT_SUM:
            return fn("tidemill_exact_value", part)
        if kind == UNBOUNDED:
            return fn("tidemill_wide_value", part, Lit(_scale(self.argument_type), "integer"))
        return part

    def final(self, parts: tuple[Expr, ...]) -> Expr:
        """The final value of the call, from its part columns."""
        counted = parts[-1]
        if self.call.function == "count" or self.call.function in EXTREMA:
            return counted
        empty = fn("=", counted, ZERO)
        if self.call.function in _MOMENTS:
            kind = _MOMENTS[self.call.function]
            return fn("tidemill_exact_moment", counted, parts[0], parts[1], Lit(kind, "string"))
        total = self._total(parts[0])
        assert self.call.buffers is not None
        null = Cast(Lit(None, "void"), self.call.buffers[0])
        if self.call.function == "avg":
            return Evaluate(self.handle, (Cast(total, self.call.buffers[0]), counted))
        if len(self.call.buffers) == 2:  # decimals: (sum, is it empty)
            return Evaluate(self.handle, (Cast(total, self.call.buffers[0]), empty))
        return Evaluate(self.handle, (fn("if", empty, null, Cast(total, self.call.buffers[0])),))


def _scale(kind: str) -> int:
    found = _DECIMAL.fullmatch(kind)
    assert found is not None
    return int(found[2])


def additive(query: Query, columns: ColumnIds, expr: Expr) -> Additive | None:
    """The attribute form of a call; None if its parts do not add up (min, max, DISTINCT, first, ...)."""
    info = query.info(expr)
    call = info.aggregate if info else None
    if call is None or call.distinct or not isinstance(expr, Handle):
        return None
    counted = Part("count", "long", "sum")
    if call.function == "count":
        return Additive(call, expr.number, "long", (counted,))
    if call.function not in {"sum", "avg", *_MOMENTS} or len(call.args) != 1:
        return None
    try:
        kind = columns.type_of(call.args[0])
    except TypeError:
        return None
    if call.function in _MOMENTS:
        if kind not in _SMALL_INTEGERS | _FLOATS | {"long"} and not _DECIMAL.fullmatch(kind):
            return None
        moments = (Part("sum", EXACT_SUM, "tidemill_exact_merge"), Part("squares", EXACT_SUM, "tidemill_exact_merge"))
        return Additive(call, expr.number, kind, (*moments, counted))
    if call.buffers is None:
        return None
    if kind in _FLOATS:
        return Additive(call, expr.number, kind, (Part("sum", EXACT_SUM, "tidemill_exact_merge"), counted))
    wide = _wide(kind)
    if wide is None:
        return None
    merge = "tidemill_wide_merge" if wide == UNBOUNDED else "sum"
    return Additive(call, expr.number, kind, (Part("sum", wide, merge), counted))


def growing(query: Query, columns: ColumnIds, expr: Expr) -> Additive | None:
    """The form of a call that merges while no row leaves, if final values tell its parts; None if there is none.

    Not of sums of floats, which are rounded, nor of those that may overflow.
    """
    info = query.info(expr)
    call = info.aggregate if info else None
    if call is None or not isinstance(expr, Handle):
        return None
    if call.function not in EXTREMA:
        known = additive(query, columns, expr)
        simple = known is not None and (
            call.function == "count" or (call.function == "sum" and known.argument_type in _SMALL_INTEGERS)
        )
        return known if simple else None
    try:
        kind = columns.type_of(call.args[0])
    except TypeError:
        return None
    return Additive(call, expr.number, kind, (Part("value", kind, call.function),)) if is_plain(kind) else None


def form_of(query: Query, columns: ColumnIds, expr: Expr) -> Additive | None:
    """The form of a call in a `Partial`."""
    return additive(query, columns, expr) or growing(query, columns, expr)


def order_sensitive(query: Query, columns: ColumnIds, expr: Expr) -> bool:
    """True if a call may give different values for the same bag (sums of floats, first, lists, ...)."""
    info = query.info(expr)
    call = info.aggregate if info else None
    if call is None:
        return True
    if call.function in EXTREMA | {"count", "bit_xor"}:
        return False
    if call.function in {"sum", "avg"}:
        try:
            kind = columns.type_of(call.args[0])
        except TypeError:
            return True
        return not (kind in _SMALL_INTEGERS or _DECIMAL.fullmatch(kind) or (call.function == "sum" and kind == "long"))
    return True


def _wide(kind: str) -> str | None:
    """The type of a running sum of `kind`; None if `kind` is not numeric."""
    if kind in _SMALL_INTEGERS:
        return "long"
    if kind == "long":
        return "decimal(38,0)"
    if found := _DECIMAL.fullmatch(kind):
        precision, scale = int(found[1]), int(found[2])
        fits = precision + PRODUCT_PRECISION <= WIDE_PRECISION and scale >= 0
        return f"decimal({WIDE_PRECISION},{scale})" if fits else UNBOUNDED
    return None


def _known(call: Call) -> Expr | None:
    """The condition under which a call counts a row; None if it counts every row."""
    tests: list[Expr] = [fn("isnotnull", a) for a in call.args if not _is_constant(a)]
    if call.filter is not None:
        tests.insert(0, call.filter)
    if not tests:
        return None
    condition: Expr = tests[0]
    for test in tests[1:]:
        condition = fn("and", condition, test)
    return condition


def _is_constant(expr: Expr) -> bool:
    return isinstance(expr, Lit) and expr.value is not None
