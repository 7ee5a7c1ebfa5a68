"""Two-way comparison of a view's stored content with its query, as bags.

One job groups the query's rows with count +1 and the stored rows with count -1 by all columns. Rows whose counts do not
sum to 0 differ. Doubles and floats are grouped by eleven significant digits. A pair on two sides of a rounding boundary
is left over and then matched here within the tolerance, so the job's answer stays small.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidemill.plan.expr import ONE, ZERO, Cast, Col, Expr, Lit, fn
from tidemill.plan.grouping import groupable
from tidemill.runtime.run.jobs import SparkJobs
from tidemill.runtime.run.row_expressions import Ids, above_zero, below_zero
from tidemill.wire import nodes
from tidemill.wire.nodes import WireNode

TOLERANCE = 1e-9
# Eleven significant digits: two numbers with the same text differ by less than 1e-10 of their size, well inside
# TOLERANCE.
_ROUNDED = "%.10e"
_EXACT = "%.17e"

File = Mapping[str, Any]
TypedColumns = Sequence[tuple[str, str]]
"""The view's columns: (name, type as text)."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """`missing`: number of rows of the query that the view lacks. `unexpected`: of rows that only the view has."""

    missing: int
    unexpected: int

    @property
    def matches(self) -> bool:
        return self.missing == 0 and self.unexpected == 0


def compare(
    execution: SparkJobs, query: WireNode, output: Sequence[int], columns: TypedColumns, live: Sequence[File]
) -> Verdict:
    """Compares the rows of `query`, which is bound, with the files `live`. `output`: columns in the view's order."""
    ids = Ids()
    counted, count = _signed(ids, query, output, columns, live)
    differs = nodes.where([fn("not", fn("=", Col(count), ZERO))], counted.node)
    if not counted.floats:
        missing, unexpected = ids.fresh(2)
        sums = [(missing, fn("sum", above_zero(count))), (unexpected, fn("sum", below_zero(count)))]
        totals = nodes.aggregate([], sums, differs)
        row = execution.rows(totals, [(missing, "missing"), (unexpected, "unexpected")], step="verify")[0]
        return Verdict(int(row[0] or 0), int(row[1] or 0))
    wanted = [(c, f"c{i}") for i, c in enumerate([count, *counted.floats, *counted.others])]
    rows = execution.rows(differs, wanted, step="verify")
    return _paired(rows, len(counted.floats))


@dataclass(frozen=True, slots=True)
class _Counted:
    node: WireNode
    floats: tuple[int, ...]  # texts of doubles and floats, all digits
    others: tuple[int, ...]  # comparable forms of the other columns


def _signed(
    ids: Ids, query: WireNode, output: Sequence[int], columns: TypedColumns, live: Sequence[File]
) -> tuple[_Counted, int]:
    """Returns the rows of both sides grouped by all columns, with the sum of their counts."""
    stored, both = ids.fresh(len(columns)), ids.fresh(len(columns))
    plus, minus, n, count = ids.fresh(4)
    left_ids = ids.fresh(len(columns))
    left = nodes.project([*((i, Col(c)) for i, c in zip(left_ids, output, strict=True)), (plus, ONE)], query)
    leaf = nodes.files(live, [(i, name, type_) for i, (name, type_) in zip(stored, columns, strict=True)])
    right = nodes.project([*nodes.same(stored), (minus, Lit(-1, "long"))], leaf)
    rows = nodes.union([*both, n], ([*left_ids, plus], left), ([*stored, minus], right))
    keys: list[tuple[int, Expr]] = []
    values: list[tuple[int, Expr]] = [(count, fn("sum", Col(n)))]
    floats, others = [], []
    for column, (_, type_) in zip(both, columns, strict=True):
        key = ids.one()
        if type_ in ("double", "float"):
            keys.append((key, digits(column, _ROUNDED)))
            text = ids.one()
            values.append((text, fn("first", digits(column, _EXACT))))
            floats.append(text)
        else:
            keys.append((key, groupable(column, type_)))
            others.append(key)
    return _Counted(nodes.aggregate(keys, values, rows), tuple(floats), tuple(others)), count


def digits(column: int, pattern: str = _ROUNDED) -> Expr:
    """Returns a double or float as text, with -0.0 as 0.0 and NULL as NULL (format_string alone writes "null")."""
    number = fn("+", Cast(Col(column), "double"), Lit(0.0, "double"))
    text = fn("format_string", Lit(pattern, "string"), number)
    return fn("if", fn("isnull", Col(column)), Lit(None, "string"), text)


def _paired(rows: Sequence[Sequence[Any]], floats: int) -> Verdict:
    """Matches left-over rows of both sides that differ only in the last digits of their floats."""
    groups: dict[str, tuple[list[list[str | None]], list[list[str | None]]]] = defaultdict(lambda: ([], []))
    for row in rows:
        n, numbers, rest = int(row[0]), list(row[1 : 1 + floats]), row[1 + floats :]
        side = groups[json.dumps(rest, sort_keys=True, default=str)][0 if n > 0 else 1]
        side.extend([numbers] * abs(n))
    missing = unexpected = 0
    for expected, actual in groups.values():
        left = list(actual)
        for row in expected:
            found = next((i for i, other in enumerate(left) if _near(row, other)), None)
            if found is None:
                missing += 1
            else:
                del left[found]
        unexpected += len(left)
    return Verdict(missing, unexpected)


def _near(a: Sequence[str | None], b: Sequence[str | None]) -> bool:
    return all(_close(x, y) for x, y in zip(a, b, strict=True))


def _close(a: str | None, b: str | None) -> bool:
    """Returns True if two numbers differ by at most 1e-9 relative. Equal texts cover NULL, NaN and the infinities.

    Near zero the tolerance should depend on the sum of absolute inputs, which is not known here. So a difference of up
    to 1e-9 counts as equal too.
    """
    if a == b:
        return True
    if a is None or b is None:
        return False
    x, y = float(a), float(b)
    return math.isfinite(x) and math.isfinite(y) and math.isclose(x, y, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


def bag(rows: Sequence[Sequence[Any]]) -> Counter[str]:
    """Returns rows (already in comparable form) as a bag."""
    return Counter(json.dumps(list(r), sort_keys=True, default=str) for r in rows)


def comparable(column: int, type_: str) -> Expr:
    """Returns one column in comparable form: floats by eleven digits, maps sorted."""
    return digits(column) if type_ in ("double", "float") else groupable(column, type_)
