"""Lessons of a view's runs: by what factor steps took more, and changes had more rows, than their plans had estimated.

They correct the next estimates: the cost that is told of a run and of each of its steps, and the rows of a change.
The choice between a full and an incremental run compares whole runs (`past`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tidemill.search.contract.past import ALIKE

T = TypeVar("T")

DEARER = 16.0
"""Largest factor of a step's cost; the smallest is its inverse."""
LARGER = 1000.0
"""Largest factor of the rows of a change; the smallest is its inverse."""
FEW_ROWS = 10.0
"""Rows that are added to estimated and to measured ones, so that few rows teach little."""
WEIGHED = 4
"""Number of runs from which on the newest one counts as much as each of so many."""
REMEMBERED = 128
"""Largest number of lessons of a kind; beyond it, those that no run repeats are forgotten first."""


@dataclass(frozen=True, slots=True)
class Seen:
    """An estimate beside what came true: CPU milliseconds of a step, or rows of a change."""

    name: str
    estimated: float
    measured: float

    @property
    def of_costs(self) -> float:
        """Measured per estimated cost; less than a millisecond is taken for one."""
        return max(self.measured, 1.0) / max(self.estimated, 1.0)

    @property
    def of_rows(self) -> float:
        """Measured per estimated rows."""
        return (self.measured + FEW_ROWS) / (self.estimated + FEW_ROWS)


@dataclass(frozen=True, slots=True)
class Lesson:
    """The factor of a step's cost.

    `runs`: warm ones that it is from, 0 if it is from a cold one. `estimated`: CPU milliseconds in the last of them.
    """

    factor: float
    runs: int
    estimated: float

    def then(self, seen: Seen) -> Lesson:
        """The lesson after one more warm run. Factors are averaged as logarithms."""
        share = 1.0 / (min(self.runs, WEIGHED - 1) + 1)
        factor = self.factor ** (1.0 - share) * _within(seen.of_costs, DEARER) ** share
        return Lesson(factor, self.runs + 1, seen.estimated)


@dataclass(frozen=True, slots=True)
class Learned:
    """Lessons of a view's runs.

    Attributes:
        costs: of steps, by kind of run and name of the step, and once more for each size of it.
        sizes: factors of the rows of changes, by the name of the state that keeps the relation, or `CONTENT`.
    """

    costs: Mapping[str, Lesson] = field(default_factory=dict)
    sizes: Mapping[str, float] = field(default_factory=dict)

    def cost(self, kind: str, names: Sequence[str], estimated: float) -> float | None:
        """Likely CPU milliseconds of a step: its estimate, corrected by the first of these names that a step like it
        had; None if none had.

        >>> Learned().costs_after("FULL", [Seen("result", 80, 20)]).cost("FULL", ["result of 10^3 rows", "result"], 100)
        25.0
        """
        for name in names:
            lesson = self.costs.get(f"{kind} {name}")
            if lesson is not None and _alike(lesson.estimated, estimated):
                return estimated * lesson.factor
        return None

    def costs_after(self, kind: str, seen: Iterable[Seen], *, cold: bool = False) -> Learned:
        """These lessons and those of one more run. A cold one teaches only what nothing else has."""
        costs = dict(self.costs)
        for each in seen:
            key = f"{kind} {each.name}"
            known = costs.pop(key, None)
            if known is None or not cold:
                first = Lesson(_within(each.of_costs, DEARER), 0 if cold else 1, each.estimated)
                known = first if known is None else known.then(each)
            costs[key] = known
        return Learned(_latest(costs), self.sizes)

    def sizes_after(self, seen: Iterable[Seen]) -> Learned:
        """These lessons and those of one more run, about rows that were estimated with these lessons.

        Of several changes one may follow from another, so that both show one error: each takes its share of it.

        >>> Learned().sizes_after([Seen("", 90, 390), Seen("s", 90, 390)]).sizes
        {'': 2.0, 's': 2.0}
        """
        all_seen, sizes = list(seen), dict(self.sizes)
        for each in all_seen:
            factor = sizes.pop(each.name, 1.0) * each.of_rows ** (1.0 / len(all_seen))
            sizes[each.name] = _within(factor, LARGER)
        return Learned(self.costs, _latest(sizes))

    def to_json(self) -> dict[str, Any]:
        costs = {name: [round(c.factor, 4), c.runs, round(c.estimated, 3)] for name, c in self.costs.items()}
        return {"costs": costs, "sizes": {name: round(factor, 4) for name, factor in self.sizes.items()}}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Learned:
        return Learned({name: Lesson(*told) for name, told in data["costs"].items()}, data["sizes"])


def _alike(one: float, other: float) -> bool:
    return max(one, other) <= ALIKE * max(1.0, min(one, other))


def _within(factor: float, most: float) -> float:
    return min(most, max(1.0 / most, factor))


def _latest(lessons: dict[str, T]) -> dict[str, T]:
    """The newest of these, which are in the order in which they were learned."""
    return dict(list(lessons.items())[-REMEMBERED:])


NOTHING_LEARNED = Learned()
