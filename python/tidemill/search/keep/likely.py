"""Likely changes of the sources in future runs, for which states are chosen."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TypeAlias

from tidemill.cost.guesses import CHANGED_SHARE, GROWN_ROWS, HELD_CYCLES, LARGE_SHARE
from tidemill.plan.change import SourceChange
from tidemill.search.contract.choice import LEAST_ROWS, Circumstances
from tidemill.search.contract.cycles import Cycle, Outputs, Rows
from tidemill.search.contract.request import PlanRequest

Changes: TypeAlias = Mapping[int, SourceChange]
Came: TypeAlias = Mapping[int, Rows | None]
LEAST_CYCLES = 3
"""Smallest number of ended cycles that tell what comes."""
NOTHING = 1e-9
"""The weight of runs whose work costs nothing; they must be possible all the same."""
CASES = 3
"""Largest number of cases that states are chosen for; rarer ones are left out."""


@dataclass(frozen=True, slots=True)
class Likely:
    """Likely changes of the sources in a run, with the share of runs that are like it.

    Attributes:
        weight: that share, by the prices of their work.
        changes: by source; where tables are small, they are taken to have grown.
        grown: the factor by which all rows are taken to have grown.
    """

    weight: float
    changes: Changes
    grown: float = 1.0


def likely_changes(request: PlanRequest) -> list[Likely]:
    """Likely changes of the sources from run to run; none if no source ever changes.

    The runs with output of the last cycles as they were, one case for each set of sources that changed together; a case
    weighs as much as the work of its runs is priced. EXPECT tells better, source by source. If too few cycles have
    ended, a source of which nothing is expected changes by a fraction of its rows; if nothing is expected of any, there
    are two cases of equal weight: all change, and only the large ones do.
    """
    cases = [(weight, came, _sizes(request, came)) for weight, came in _cases(request)]
    grown = max(1.0, GROWN_ROWS / max((s for *_, sizes in cases for s in sizes.values()), default=GROWN_ROWS))
    found = []
    for weight, came, sizes in cases:
        every = {n: _assumed(request, n, came.get(n), sizes[n], grown) for n in request.sources}
        if any(change.changed for change in every.values()):
            found.append(Likely(weight, every, grown))
    if len(found) == 1 and not told(request):
        found = [replace(found[0], changes=changes) for changes in (found[0].changes, *_large_alone(found[0].changes))]
    return [replace(case, weight=case.weight / sum(c.weight for c in found)) for case in found]


def circumstances(request: PlanRequest) -> Circumstances:
    """The circumstances that this run would choose states for."""
    arrivals = {request.query.sources[number].name: 0.0 for number in request.sources}
    for likely in likely_changes(request):
        for number, change in likely.changes.items():
            rows = (change.inserts or 0.0) + (change.deletes or 0.0) if change.changed else 0.0
            arrivals[request.query.sources[number].name] += likely.weight * rows / likely.grown
    return replace(plain_circumstances(request), arrivals=arrivals, rows=_rows(request))


def plain_circumstances(request: PlanRequest) -> Circumstances:
    """The same without what comes."""
    own, free = request.settings, may_be_full(request)
    return Circumstances(request.packs, request.budget, own.cost_model, free, objective=own.objective)


def _rows(request: PlanRequest) -> dict[str, float]:
    return {request.query.sources[n].name: s.rows for n, s in request.sources.items() if s.rows is not None}


def choice_holds(request: PlanRequest) -> bool:
    """True if the choice of the kept states holds for this run, or nobody knows what it was made for.

    Where runs must be incremental, states that did not pay are needed all the same.
    """
    if request.chosen is None:
        return True
    then = request.chosen.made_for
    return (then.unpaid is None or _is_free(request)) and circumstances(request).like(then)


def may_be_full(request: PlanRequest) -> bool:
    """True if a likely run may be full because that is cheaper: where something tells what comes. A guess of what comes
    is no reason to keep nothing."""
    return _is_free(request) and told(request)


def tries_methods(request: PlanRequest) -> bool:
    """True if what runs took may have this one use other methods than the cheapest by estimate."""
    return _is_free(request) and not request.between


def _is_free(request: PlanRequest) -> bool:
    """True if neither the policy nor a preference says how the view is maintained."""
    return request.policy == "AUTO" and request.settings.prefer is None


def told(request: PlanRequest) -> bool:
    """True if something tells what comes: EXPECT, or the last cycles."""
    return bool(request.cycle) or len(request.cycles) >= LEAST_CYCLES


def _cases(request: PlanRequest) -> list[tuple[float, Mapping[int, Rows]]]:
    """The cases by weight, each with what comes to a source as far as something tells it.

    Runs with output weigh as much as their work is priced. If the last point counts first, the others weigh nothing.
    """
    if len(request.cycles) < LEAST_CYCLES:
        return [(1.0, request.cycle)]
    alike: dict[frozenset[int], list[tuple[float, Came]]] = defaultdict(list)
    for cycle in request.cycles:
        for some in cycle.outputs:
            came = _in_a_run(some, cycle, request.cycle)
            changed = frozenset(n for n, rows in came.items() if rows is None or sum(rows) >= LEAST_ROWS)
            counts = some.last or not request.settings.last_first
            alike[changed].append((some.runs * (some.price if counts else 0.0) or NOTHING, came))
    cases: list[tuple[float, Mapping[int, Rows]]] = []
    for changed, runs in alike.items():
        if changed:
            cases.append((sum(weight for weight, _ in runs), _medians([came for _, came in runs])))
    cases.sort(key=lambda case: -case[0])
    return cases[:CASES] or [(1.0, _medians([came for _, came in alike[frozenset()]]))]


def _in_a_run(some: Outputs[int], cycle: Cycle[int], told: Mapping[int, Rows]) -> Came:
    """Rows that came to each source in one of these runs of a cycle. Where EXPECT tells what comes in a cycle, it is
    the same share of that."""

    def share(n: int) -> float:
        came, whole = some.rows.get(n), cycle.rows.get(n)
        if came is None or whole is None or sum(whole) == 0:
            return 1.0 / sum(each.runs for each in cycle.outputs)
        return sum(came) / sum(whole) / some.runs

    seen: Came = {n: None if r is None else (r[0] / some.runs, r[1] / some.runs) for n, r in some.rows.items()}
    return {**seen, **{n: (share(n) * rows[0], share(n) * rows[1]) for n, rows in told.items()}}


def _medians(runs: Sequence[Came]) -> dict[int, Rows]:
    """The medians of what came to each source, where it was counted."""
    known = {n: [rows for came in runs if (rows := came.get(n)) is not None] for n in set().union(*runs)}
    return {n: (median(r[0] for r in rows), median(r[1] for r in rows)) for n, rows in known.items() if rows}


def _sizes(request: PlanRequest, came: Mapping[int, Rows]) -> dict[int, float]:
    """Assumed rows of each source before it grows: its present ones, or those that a few cycles leave in it."""
    sizes = {}
    for number, source in request.sources.items():
        left = HELD_CYCLES * (came[number][0] - came[number][1]) if number in came else 0.0
        sizes[number] = max(GROWN_ROWS if source.rows is None else source.rows, left, 1.0)
    return sizes


def _large_alone(changes: Changes) -> list[Changes]:
    """The same with changes of the large sources alone, if there are small ones that change.

    >>> sizes = {0: 1e6, 1: 2e5, 2: 9e4}
    >>> (alone,) = _large_alone({n: SourceChange(True, True, rows=rows) for n, rows in sizes.items()})
    >>> [n for n, source in alone.items() if source.changed]
    [0, 1]
    """
    most = max(s.rows or 0.0 for s in changes.values() if s.changed)
    small = {n for n, s in changes.items() if s.changed and (s.rows or 0.0) < LARGE_SHARE * most}
    return [{n: replace(s, changed=s.changed and n not in small) for n, s in changes.items()}] if small else []


def _assumed(request: PlanRequest, number: int, came: Rows | None, size: float, grown: float) -> SourceChange:
    """The assumed change of a source from run to run. `came`: what is expected to come, if something tells it."""
    rows = size * grown
    share = rows * CHANGED_SHARE
    inserts, deletes = (share, share) if came is None else (came[0] * grown, came[1] * grown)
    changed = request.query.sources[number].kind != "static" and inserts + deletes >= LEAST_ROWS
    return replace(
        request.sources[number],
        changed=changed,
        old_readable=True,
        reason=None,
        rows=rows,
        inserts=inserts,
        deletes=deletes,
    )
