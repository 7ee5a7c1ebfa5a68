"""Sharing: computes once what a plan reads several times (Tempura 6.3, algorithm 1).

Dynamic programming costs trees, but a plan is a graph. So places that the plan reads more than once are tried, the most
promising first: with the place computed once, written, and loaded by its readers, the best plan is found anew. If it
costs less, it is kept, else rolled back. A plan that is expensive as a tree may be the cheapest with sharing, so the
search can start from several trees while there is time. The first tree is always searched: a plan that recomputes
shared parts often costs more than any search.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

from tidemill.search.choose.extract import Extractor
from tidemill.search.choose.planned import Planned
from tidemill.search.choose.planned_run import Priced, as_text
from tidemill.search.choose.settle import Place

TRIES = 16
"""Largest number of places tried for one plan."""
FAR = 10.0
"""Largest cost of a tree, as a multiple of the best plan's, from which sharing is tried: over TPC-DS no tree beyond
nine times led to a better plan."""


class TimeLimit:
    """A limit of wall time for a search that already has a plan."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self.cut_off = False
        """True once the limit ended a search."""

    def over(self) -> bool:
        """True if the search has to end now."""
        self.cut_off |= time.monotonic() > self._end
        return self.cut_off


@dataclass(frozen=True, slots=True)
class Shared:
    """A plan with its shared places.

    Attributes:
        extractor: chose the plan.
        cost: the priced cost, then that of the tree, which decides between plans of equal cost. A preferred pack has no
            influence here; the extractor already considered it.
        costs: CPU milliseconds at each run, not priced.
        plan: the work at each run.
    """

    extractor: Extractor
    cost: tuple[Priced, Priced]
    costs: Sequence[float]
    plan: Sequence[Planned]


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """Choices other than those of the best tree, to start a search from.

    Attributes:
        make: makes the choices.
        takes: returns True if a plan already follows these choices: they allow it, and would prefer nothing in its
            place.
        name: for people.
    """

    make: Callable[[], Extractor]
    takes: Callable[[Sequence[Planned]], bool] = lambda _: False
    name: str = ""


def share(extractor: Extractor, demands: Sequence[int], run: int, limit: TimeLimit | None = None) -> Shared:
    """The cheapest plan for these groups at a run that greedy sharing leads to, within the limit."""
    return _improved(_evaluated(extractor, demands, run), demands, run, limit)


def _improved(
    best: Shared,
    demands: Sequence[int],
    run: int,
    limit: TimeLimit | None,
    seen: Callable[[Shared], object] = lambda _: None,
) -> Shared:
    """Improves a plan by greedy sharing; `seen` is called with each plan on the way."""
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
        costs = f"{extractor.name(chosen[0])} written once: {as_text(tried.cost[0])}, before {as_text(best.cost[0])}"
        if tried.cost < best.cost:
            extractor.emit("kept", "", chosen[0], costs)
            best = tried
        else:
            extractor.emit("dropped", "", chosen[0], costs)
            take_back()
            refused.add(chosen)
    return best


def _forgone(best: Shared, demands: Sequence[int], run: int, limit: TimeLimit | None) -> Shared:
    """Improves a plan by not saving for later runs what does not pay.

    A tree counts what a later run computes once for each reader; a plan, in which they share it, counts it once.
    """
    extractor = best.extractor
    open_ = {p.group: p.choice.saving for p in best.plan if p.choice.saved is not None}
    refused: set[int] = set()
    while (saved := open_.keys() - refused) and not (limit is not None and limit.over()):
        chosen = max(saved, key=lambda group: (open_[group], group))
        take_back = extractor.forgo(chosen)
        tried = _evaluated(extractor, demands, run)
        costs = f"{extractor.name(chosen)} not saved: {as_text(tried.cost[0])}, before {as_text(best.cost[0])}"
        refused.add(chosen)
        if tried.cost[0] < best.cost[0]:
            extractor.emit("kept", "", chosen, costs)
            best = tried
            open_ = {p.group: p.choice.saving for p in best.plan if p.choice.saved is not None}
        else:
            extractor.emit("dropped", "", chosen, costs)
            take_back()
    return best


def cheapest(
    extractor: Extractor, starts: Sequence[Start], demands: Sequence[int], run: int, limit: TimeLimit | None = None
) -> Shared:
    """The cheapest plan for these groups, from the best tree and from the trees of `starts`.

    The search from the best tree ignores the limit. A start is skipped if every plan on the way from the best tree
    follows its choices, as it would lead to the same plans; and if its tree costs more than `FAR` times the best plan.
    """
    apart: set[Start] = set()

    def note(found: Shared) -> None:
        apart.update(start for start in starts if start not in apart and not start.takes(found.plan))

    tree = _evaluated(extractor, demands, run)
    extractor.emit("best", "", run, f"the cheapest tree of all: {as_text(tree.cost[0])}")
    best = _improved(tree, demands, run, None, note)
    if best.cost[0] < best.extractor.noise:
        return best
    for start in filter(apart.__contains__, starts):
        if limit is not None and limit.over():
            break
        tree = _evaluated(start.make(), demands, run)
        begins = f"{start.name or 'another tree'}: {as_text(tree.cost[0])}, the best so far {as_text(best.cost[0])}"
        if tree.cost[0] > FAR * best.cost[0]:
            extractor.emit("dropped", "", run, f"{begins}, too far from it")
            continue
        extractor.emit("best", "", run, begins)
        found = _forgone(_improved(tree, demands, run, limit), demands, run, limit)
        best = min(best, found, key=lambda found: found.cost)
    return _forgone(best, demands, run, limit) if best.extractor is extractor else best


def _evaluated(extractor: Extractor, demands: Sequence[int], run: int) -> Shared:
    if any(extractor.best(group, run) is None for group in demands):
        return Shared(extractor, (inf, inf), (), ())
    plan = extractor.planned(demands, run)
    costs = extractor.costs(plan)
    priced = sum(run.priced(cost) for cost, run in zip(costs, extractor.runs, strict=True))
    tree = sum(extractor.cost(group, run) for group in demands)
    return Shared(extractor, (priced, tree), costs, plan)
