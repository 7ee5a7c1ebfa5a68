"""Computes constants from measurements; knows neither Spark nor the benchmarks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

Samples = Mapping[str, Mapping[int, Sequence[float]]]
"""Benchmark -> size -> CPU milliseconds, one for each round."""
LEAST = 0.01
"""A fraction of the shipped value. A measurement below it counts as noise."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """Computes a constant: the cost of one more unit of size in a benchmark, minus that cost in another benchmark.

    Attributes:
        benchmark, base: the two benchmarks; without `base` nothing is subtracted.
        times: how often the constant is spent for a unit of size or, if `fixed`, in the whole benchmark.
        fixed: True if the constant is part of the benchmark's cost at size 0.
    """

    benchmark: str
    base: str | None = None
    times: float = 1.0
    fixed: bool = False

    @property
    def benchmarks(self) -> tuple[str, ...]:
        return (self.benchmark,) if self.base is None else (self.benchmark, self.base)


@dataclass(frozen=True, slots=True)
class Fitted:
    """A constant as measured.

    Attributes:
        off: the median distance of the single rounds' values from it.
        lost: True if it was lost in the noise; the value is then the least that the constant may have.
    """

    value: float
    off: float
    lost: bool = False


@dataclass(frozen=True, slots=True)
class FittedLine:
    """CPU milliseconds by size: `fixed` at size 0, `slope` for each unit more."""

    fixed: float
    slope: float


def line(points: Iterable[tuple[float, float]]) -> FittedLine:
    """Returns the line of least squares through points (size, CPU milliseconds) of two or more sizes.

    >>> line([(0, 5.0), (10, 7.0), (20, 9.0)])
    FittedLine(fixed=5.0, slope=0.2)
    """
    found = list(points)
    x, y = fmean(p[0] for p in found), fmean(p[1] for p in found)
    slope = sum((p[0] - x) * (p[1] - y) for p in found) / sum((p[0] - x) ** 2 for p in found)
    return FittedLine(y - slope * x, slope)


def fitted(recipes: Mapping[str, Recipe], samples: Samples, shipped: Mapping[str, float]) -> dict[str, Fitted]:
    """Returns the constants of the recipes, each from the medians of the rounds."""
    found = {}
    for name, recipe in recipes.items():
        rounds = min(len(seen) for b in recipe.benchmarks for seen in samples[b].values())
        single = [_value(recipe, {b: _of_round(samples[b], i) for b in recipe.benchmarks}) for i in range(rounds)]
        value = _value(recipe, {b: _medians(samples[b]) for b in recipe.benchmarks})
        least = LEAST * shipped[name]
        found[name] = Fitted(max(value, least), median(abs(v - value) for v in single), value < least)
    return found


def _value(recipe: Recipe, lines: Mapping[str, FittedLine]) -> float:
    of = lines[recipe.benchmark]
    base = FittedLine(0.0, 0.0) if recipe.base is None else lines[recipe.base]
    more = of.fixed - base.fixed if recipe.fixed else of.slope - base.slope
    return more / recipe.times


def _medians(seen: Mapping[int, Sequence[float]]) -> FittedLine:
    return line((size, median(times)) for size, times in seen.items())


def _of_round(seen: Mapping[int, Sequence[float]], number: int) -> FittedLine:
    return line((size, times[number]) for size, times in seen.items())
