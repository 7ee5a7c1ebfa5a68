"""What is computed once where a plan reads it several times (Tempura 6.3, algorithm 1).

Dynamic programming costs trees; a plan is a graph. So what the plan reads more than once is tried, the most promising
first: with it computed once, written, and loaded by its readers, the best plan is found anew; if that costs less, it
stays so, else it is taken back. What is tried is a place, a group at a run. A plan that looks dear as a tree may be the
cheapest with sharing, so the search can start from several, as long as there is time: the first is looked at in any
case, for a plan that computes again and again what it needs often costs more than any search.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

from tidemill.search.choose.extract import Extractor, Planned
from tidemill.search.choose.settle import Place

TRIES = 16
"""Places that are tried at most for one plan."""
FAR = 10.0
"""Times the cost of the best plan so far from which on sharing in a tree is not tried: over TPC-DS no tree beyond nine
times led to a better one."""


class TimeLimit:
    """Wall time for a search that has a plan already."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self.cut_off = False
        """Whether it ended a search."""

    def over(self) -> bool:
        """Whether the search has to end now."""
        self.cut_off |= time.monotonic() > self._end
        return self.cut_off


@dataclass(frozen=True, slots=True)
class Shared:
    """A plan with what is shared in it.

    Attributes:
        extractor: has chosen it.
        cost: priced; then that of its tree, which decides between plans that cost the same. That an extractor prefers a
            pack does not count here: it has been heard when the extractor chose.
        costs: at each run, not priced.
        plan: what is done at which run.
    """

    extractor: Extractor
    cost: tuple[float, float]
    costs: Sequence[float]
    plan: Sequence[Planned]


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """Other choices than those of the best tree, to look for a plan with.

    Attributes:
        make: makes them.
        takes: whether they are open to a plan, and none that they prefer could stand in its place.
        name: for people.
    """

    make: Callable[[], Extractor]
    takes: Callable[[Sequence[Planned]], bool] = lambda _: False
    name: str = ""


def share(extractor: Extractor, demands: Sequence[int], run: int, limit: TimeLimit | None = None) -> Shared:
    """The cheapest plan of what is demanded at a run that sharing one thing after the other leads to, `limit` allowing
    for the next."""
    return _improved(_evaluated(extractor, demands, run), demands, run, limit)


def _improved(
    best: Shared,
    demands: Sequence[int],
    run: int,
    limit: TimeLimit | None,
    seen: Callable[[Shared], object] = lambda _: None,
) -> Shared:
    """`seen` is told of each plan on the way."""
    extractor = best.extractor
    seen(best)
    refused: set[Place] = set()
    for _ in range(TRIES):
        gains = {place: gain for place, gain in extractor.gains(best.plan).items() if gain > 0 and place not in refused}
        if not gains or (limit is not None and limit.over()):
            break
        chosen = max(gains, key=gains.__getitem__)
        take_back = extractor.share({*extractor.shared, chosen})
        tried = _evaluated(extractor, demands, run)
        seen(tried)
        costs = f"{extractor.name(chosen[0])} written once: {tried.cost[0]:.3f} ms, before {best.cost[0]:.3f} ms"
        if tried.cost < best.cost:
            extractor.emit("kept", "", chosen[0], costs)
            best = tried
        else:
            extractor.emit("dropped", "", chosen[0], costs)
            take_back()
            refused.add(chosen)
    return best


def cheapest(
    extractor: Extractor, starts: Sequence[Start], demands: Sequence[int], run: int, limit: TimeLimit | None = None
) -> Shared:
    """The cheapest plan of what is demanded: from the best tree, and from those of `starts`; what starts from the best
    tree is no matter of time.

    Choices that all plans on the way from the best tree are open to would go the same way. Trees that are `FAR` from
    what is found are left.
    """
    apart: set[Start] = set()

    def note(found: Shared) -> None:
        apart.update(start for start in starts if start not in apart and not start.takes(found.plan))

    tree = _evaluated(extractor, demands, run)
    extractor.emit("best", "", run, f"the cheapest tree of all: {tree.cost[0]:.3f} ms")
    best = _improved(tree, demands, run, None, note)
    if best.cost[0] < best.extractor.noise:
        return best
    for start in filter(apart.__contains__, starts):
        if limit is not None and limit.over():
            break
        tree = _evaluated(start.make(), demands, run)
        begins = f"{start.name or 'another tree'}: {tree.cost[0]:.3f} ms, the best so far {best.cost[0]:.3f} ms"
        if tree.cost[0] > FAR * best.cost[0]:
            extractor.emit("dropped", "", run, f"{begins}, too far from it")
            continue
        extractor.emit("best", "", run, begins)
        best = min(best, _improved(tree, demands, run, limit), key=lambda found: found.cost)
    return best


def _evaluated(extractor: Extractor, demands: Sequence[int], run: int) -> Shared:
    if any(extractor.best(group, run) is None for group in demands):
        return Shared(extractor, (inf, inf), (), ())
    plan = extractor.planned(demands, run)
    costs = extractor.costs(plan)
    priced = sum(cost * run.price for cost, run in zip(costs, extractor.runs, strict=True))
    tree = sum(extractor.cost(group, run) for group in demands)
    return Shared(extractor, (priced, tree), costs, plan)
