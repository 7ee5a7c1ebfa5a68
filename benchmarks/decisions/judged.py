"""Judges the choices and the estimates of cells; plain arithmetic over the JSON of a run.

A cell has the runs of one change, each by an alternative: its plan (a name that equal plans share), CPU and estimates.
What a plan costs is the median over all measured runs that had it, whoever made them: or the best of five equal views
would be the luckiest one. A choice is judged by the cost of the plan that was taken.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

AUTO = "AUTO"
TWINS = ("incremental", "incremental again")
"""Two equal views: how far they are apart is noise."""
NEAR = 1.1
"""Within 10 % of the best is as good as the best."""
LIMIT = 1.3
"""A choice should never cost more than so many times the best."""
WITHIN = 2.0
"""An estimate that is off by less than this factor is a good one."""
SMALL = 500.0
"""CPU milliseconds: below, noise is counted in milliseconds, above as a share."""
FEW_MS = 20.0
"""Steps that were estimated and measured below this say nothing about estimates."""
Run = Mapping[str, Any]


@dataclass(frozen=True)
class Noise:
    """How far apart nine of ten pairs of equal views are at most: in milliseconds if small, as a share otherwise."""

    ms: float
    share: float

    def of(self, cost: float) -> float:
        """CPU milliseconds by which two views may differ for no reason, if they cost so much.

        >>> Noise(ms=30, share=0.1).of(200), Noise(ms=30, share=0.1).of(1000)
        (30, 100.0)
        """
        return max(self.ms, self.share * cost) if cost >= SMALL else self.ms


class Cell:
    """The runs of one view for one kind of change."""

    def __init__(self, figures: Mapping[str, Any]) -> None:
        self.figures = figures
        self.runs: Sequence[Run] = figures["runs"]
        self.measured = [run for run in self.runs if run["measured"]]

    @property
    def name(self) -> str:
        return f"{self.figures['suite']} {self.figures['size']}, {self.figures['view']}, {self.figures['change']}"

    @cached_property
    def plans(self) -> Mapping[str, float]:
        """The cost of each plan that was measured."""
        found: dict[str, list[float]] = defaultdict(list)
        for run in self.measured:
            found[run["plan"]].append(run["cpu_ms"])
        return {plan: statistics.median(costs) for plan, costs in found.items()}

    def of(self, alternative: str, name: str = "cpu_ms") -> float | None:
        """The median of an alternative's own runs; None if it was not measured."""
        own = [float(run[name]) for run in self.measured if run["alternative"] == alternative]
        return statistics.median(own) if own else None

    def cost(self, alternative: str) -> float | None:
        """The median over an alternative's runs of what the plan costs that each of them had."""
        own = [self.plans[run["plan"]] for run in self.measured if run["alternative"] == alternative]
        return statistics.median(own) if own else None

    @cached_property
    def costs(self) -> Mapping[str, float]:
        """By alternative that was measured."""
        names = sorted({run["alternative"] for run in self.measured}, key=lambda name: (name != TWINS[0], name))
        return {name: cost for name in names if (cost := self.cost(name)) is not None}

    @property
    def auto(self) -> float:
        return self.costs[AUTO]

    @property
    def best(self) -> str:
        """The alternative whose plan costs least; AUTO only if no other one has its plan."""
        return min(self.costs, key=lambda name: (self.costs[name], name == AUTO))

    @property
    def regret(self) -> float:
        """What AUTO's choice costs, divided by what the best one does."""
        return self.auto / max(self.costs[self.best], 1.0)

    @property
    def raw_regret(self) -> float:
        """AUTO's own runs against the best alternative's own: noise is in it, and the luck of the best of many."""
        others = [own for name in self.costs if name != AUTO and (own := self.of(name)) is not None]
        return (self.of(AUTO) or 0.0) / max(min(others, default=0.0), 1.0)

    def right(self, noise: Noise | None = None) -> bool:
        """Whether AUTO's choice is within 10 % of the best, or not farther off than noise is."""
        best = self.costs[self.best]
        return self.auto <= NEAR * best or (noise is not None and self.auto - best <= noise.of(best))


def noise(cells: Iterable[Cell]) -> Noise:
    """The noise that the twins of all cells show; without any large cell, that share is 10 %.

    Counted are runs of the same plan in which neither merged pieces of states.
    """
    small, large = [], []
    for cell in cells:
        runs = [[run for run in cell.measured if run["alternative"] == twin and not _compacts(run)] for twin in TWINS]
        same = set.intersection(*({run["plan"] for run in each} for each in runs))
        costs = [[run["cpu_ms"] for run in each if run["plan"] in same] for each in runs]
        if not same:
            continue
        one, other = map(statistics.median, costs)
        apart, middle = abs(one - other), (one + other) / 2
        if middle < SMALL:
            small.append(apart)
        else:
            large.append(apart / middle)
    share = nine_of_ten(large) if large else NEAR - 1
    return Noise(nine_of_ten(small) if small else share * SMALL, share)


def _compacts(run: Run) -> bool:
    return any(str(step["step"]).startswith("compact ") for step in run["steps"])


def nine_of_ten(values: Sequence[float]) -> float:
    """The smallest value that nine of ten do not exceed.

    >>> nine_of_ten([5.0]), nine_of_ten([float(n) for n in range(1, 11)])
    (5.0, 9.0)
    """
    return quantile(values, 0.9)


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of the values does not exceed; ValueError if there is none."""
    if not values:
        raise ValueError("no values")
    return sorted(values)[math.ceil(share * len(values)) - 1]


@dataclass(frozen=True)
class Choices:
    """What is told of the choices in some cells."""

    cells: int
    near: float
    right: float
    mean: float
    most_95: float
    worst: float
    worst_cell: str
    above: int


def choices(cells: Sequence[Cell], noise: Noise) -> Choices:
    """Shares of right choices, without noise and with it; regret: geometric mean, 95th percentile, the worst; the
    number of cells above the limit. ValueError if there is no cell."""
    if not cells:
        raise ValueError("no cells")
    regrets = [cell.regret for cell in cells]
    worst = max(cells, key=lambda cell: cell.regret)
    return Choices(
        len(cells),
        sum(cell.right() for cell in cells) / len(cells),
        sum(cell.right(noise) for cell in cells) / len(cells),
        statistics.geometric_mean(regrets),
        quantile(regrets, 0.95),
        worst.regret,
        worst.name,
        sum(regret > LIMIT for regret in regrets),
    )


@dataclass(frozen=True)
class Estimates:
    """How good some estimates are: the share within two times, and the median of measured / estimated."""

    number: int
    within: float
    middle: float


def estimates(pairs: Iterable[tuple[float | None, float | None]]) -> Estimates | None:
    """Of pairs of estimated and measured; those without one of the two do not count. None if none is left.

    >>> estimates([(100, 150), (100, 201), (None, 3), (100, 40)])
    Estimates(number=3, within=0.3333333333333333, middle=1.5)
    """
    ratios = [measured / estimated for estimated, measured in pairs if estimated and measured]
    if not ratios:
        return None
    good = sum(1 / WITHIN <= ratio <= WITHIN for ratio in ratios)
    return Estimates(len(ratios), good / len(ratios), statistics.median(ratios))


def of_runs(runs: Iterable[Run]) -> Estimates | None:
    """The estimates of whole runs."""
    return estimates((run["estimated_cost"], run["cpu_ms"]) for run in runs)


def of_steps(runs: Iterable[Run]) -> Estimates | None:
    """The estimates of what single steps cost, except those that are small by both numbers."""
    return estimates(
        (estimated, measured)
        for estimated, measured in _steps(runs, "estimated_cost", "cpu_ms")
        if _counts(estimated, measured)
    )


def of_rows(runs: Iterable[Run]) -> Estimates | None:
    """The estimates of the rows that steps write; none and one row are alike."""
    pairs = _steps(runs, "estimated_rows", "rows")
    return estimates((max(e, 1), max(m, 1)) for e, m in pairs if e is not None and m is not None)


def _steps(runs: Iterable[Run], estimated: str, measured: str) -> Iterator[tuple[float | None, float | None]]:
    return ((step[estimated], step[measured]) for run in runs for step in run["steps"])


def _counts(estimated: float | None, measured: float | None) -> bool:
    return max(estimated or 0.0, measured or 0.0) >= FEW_MS
