"""Two-way comparison of a view's stored content with its query, as bags.

The JVM's judge runs the query as Spark analysed it, at given positions, and counts equal rows of both sides: nothing
that planned or maintained the view takes part. Doubles and floats are grouped by eleven significant digits. A pair on
two sides of a rounding boundary is left over and then matched here within the tolerance.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidemill.bridge.invoker import Invoker

TOLERANCE = 1e-9

File = Mapping[str, Any]
TypedColumns = Sequence[tuple[str, str]]
"""The view's columns: (name, type as text)."""


@dataclass(frozen=True, slots=True)
class Case:
    """Stored content and the query that it is compared with.

    Attributes:
        jvm: the session that the query was analysed in.
        query: number of the analysed query.
        view: qualified name of the view.
        positions: where each source is read, by its number in the query.
        output: names of the query's columns in the view's order.
        columns: the view's columns.
        folded: texts that are stored as NULL, by the view's column.
        files: the view's files.
    """

    jvm: Invoker
    query: int
    view: str
    positions: Mapping[int, Any]
    output: Sequence[str]
    columns: TypedColumns
    folded: Mapping[str, Sequence[str]]
    files: Sequence[File]

    def ask(self, *, ties: bool = False, spellings: bool = False) -> Mapping[str, Any]:
        """Returns the judge's answer; its form is described at `Judge` in the bridge. Raises `JvmFailure`."""
        answer: Mapping[str, Any] = self.jvm.invoke(
            "judge",
            {
                "query": self.query,
                "positions": [[number, position] for number, position in self.positions.items()],
                "output": list(self.output),
                "columns": [list(c) for c in self.columns],
                "folded": [[name, list(texts)] for name, texts in self.folded.items()],
                "files": [dict(f) for f in self.files],
                "ties": ties,
                "spellings": spellings,
                "description": f"tidemill: verify {self.view}",
            },
        )
        return answer


@dataclass(frozen=True, slots=True)
class Verdict:
    """`missing`: number of rows of the query that the view lacks. `unexpected`: of rows that only the view has."""

    missing: int
    unexpected: int

    @property
    def matches(self) -> bool:
        return self.missing == 0 and self.unexpected == 0


def compare(case: Case) -> Verdict:
    """Compares all rows. Floats at any depth may differ by the tolerance.

    Where the query lets Spark choose among strings that a collation has equal (the spelling that a group shows), any of
    them is right.
    """
    answer = case.ask()
    verdict = _verdict(answer)
    if verdict.matches or not answer["spelled_freely"]:
        return verdict
    return _verdict(case.ask(spellings=True))


def _verdict(answer: Mapping[str, Any]) -> Verdict:
    if "differing" not in answer:
        return Verdict(int(answer["missing"]), int(answer["unexpected"]))
    return _paired(answer["differing"])


def _paired(rows: Sequence[Sequence[Any]]) -> Verdict:
    """Matches left-over rows of both sides, (count, all but the floats, floats), whose floats are near each other."""
    groups: dict[str, tuple[list[list[float]], list[list[float]]]] = defaultdict(lambda: ([], []))
    for count, rest, numbers in rows:
        side = groups[json.dumps(rest)][0 if count > 0 else 1]
        side.extend([[float(n) for n in numbers]] * abs(int(count)))
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


def _near(a: Sequence[float], b: Sequence[float]) -> bool:
    return len(a) == len(b) and all(_close(x, y) for x, y in zip(a, b, strict=True))


def _close(a: float, b: float) -> bool:
    """Returns True if two numbers differ by at most 1e-9 relative, or are the same infinity, or both NaN.

    Near zero the tolerance should depend on the sum of absolute inputs, which is not known here. So a difference of up
    to 1e-9 counts as equal too.
    """
    if math.isfinite(a) and math.isfinite(b):
        return math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return a == b or (math.isnan(a) and math.isnan(b))
