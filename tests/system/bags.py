"""Bags of rows compared in Python, two-way and with multiplicities, doubles within a tolerance of their own.

The shared oracle (tests/conftest.py) compares doubles by their leading digits, which is right until sums cancel. Random
data holds 1e16 beside 1, so here each inexact column of the query comes with a scale: the sum of the absolute values
that went into it.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import VariantVal

TOLERANCE = 1e-9

Values = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """Rows of the query that the view lacks, and rows of the view that the query does not give."""

    missing: tuple[Values, ...]
    unexpected: tuple[Values, ...]

    def __bool__(self) -> bool:
        return bool(self.missing or self.unexpected)


def contents(spark: SparkSession, view: str, query: str, scales: int = 0) -> tuple[list[Values], list[Values]]:
    """Rows of `view` and of `query`, read by one Spark job of one plan.

    The query has `scales` more columns than the view, at its end.
    """
    names = [f"`{f.name}`" for f in spark.table(view).schema.fields]
    extra = [f"s{i}" for i in range(scales)]
    held = ", ".join([*names, *("CAST(NULL AS DOUBLE)" for _ in extra)])
    rows = spark.sql(
        f"SELECT 1 AS side_, {held} FROM {view} UNION ALL "
        f"SELECT -1 AS side_, q.* FROM ({query}) AS q({', '.join([*names, *extra])})"
    ).collect()
    width = len(names)
    return [tuple(r)[1 : 1 + width] for r in rows if r[0] == 1], [tuple(r)[1:] for r in rows if r[0] == -1]


def compare(view: Sequence[Values], query: Sequence[Values], inexact: Sequence[int] = ()) -> Difference:
    """Two-way bag difference; `inexact` columns match within TOLERANCE of their scale.

    The scales of the query's rows stand behind their values, in the order of `inexact`.

    >>> compare([(1, 2.0), (1, 2.0)], [(1, 2.0)]).unexpected
    ((1, 2.0),)
    >>> bool(compare([(1, 1e16)], [(1, 1e16 + 2, 2e16)], inexact=[1]))
    False
    >>> compare([(1, 5.0)], [(1, 5.1, 1.0)], inexact=[1]).missing
    ((1, 5.1),)
    """
    held: dict[Values, list[Values]] = defaultdict(list)
    for row in view:
        held[_key(row, inexact)].append(row)
    missing = []
    for row in query:
        width = len(row) - len(inexact)
        values, scales = row[:width], row[width:]
        candidates = held[_key(values, inexact)]
        near = [c for c in candidates if _near(c, values, inexact, scales)]
        if near:
            candidates.remove(min(near, key=lambda c: _distance(c, values, inexact)))
        else:
            missing.append(values)
    return Difference(tuple(missing), tuple(r for rows in held.values() for r in rows))


def net_change(before: Sequence[Values], after: Sequence[Values]) -> tuple[int, int]:
    """Inserts and deletes between two bags, per row value.

    >>> net_change([(1,), (1,), (2,)], [(1,), (3,)])
    (1, 2)
    """
    old, new = Counter(map(_exact, before)), Counter(map(_exact, after))
    return (new - old).total(), (old - new).total()


def _exact(row: Values) -> Values:
    return tuple(_normal(v) for v in row)


def _normal(value: Any) -> Any:
    match value:
        case float():
            return "NaN" if math.isnan(value) else value + 0.0
        case dict():
            return frozenset((_normal(k), _normal(v)) for k, v in value.items())
        case tuple() | list():
            return tuple(map(_normal, value))
        case VariantVal():
            return value.toJson()
    return value


def _key(row: Values, inexact: Sequence[int]) -> Values:
    """What must be equal as it is: exact columns, and of an inexact one whether it is NULL, NaN or infinite."""
    return tuple(_kind(v) if i in inexact else _digits(v) for i, v in enumerate(row))


def _digits(value: Any) -> Any:
    """Doubles outside the inexact columns are exact up to the last bits of a division."""
    if isinstance(value, float) and math.isfinite(value):
        return float(f"{value:.12e}") + 0.0
    return _normal(value)


def _kind(value: float | None) -> str:
    if value is None:
        return "NULL"
    return "finite" if math.isfinite(value) else str(value)


def _near(held: Values, wanted: Values, inexact: Sequence[int], scales: Sequence[float | None]) -> bool:
    for i, scale in zip(inexact, scales, strict=True):
        if wanted[i] is not None and math.isfinite(wanted[i]):
            allowed = TOLERANCE * max(abs(wanted[i]), abs(scale or 0.0))
            if abs(held[i] - wanted[i]) > allowed:
                return False
    return True


def _distance(held: Values, wanted: Values, inexact: Sequence[int]) -> float:
    return math.fsum(abs(held[i] - wanted[i]) for i in inexact if wanted[i] is not None and math.isfinite(wanted[i]))
