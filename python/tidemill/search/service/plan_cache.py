"""Reuses plans of earlier runs for similar runs.

Two runs are similar if their requests differ only in sizes: they have the same analysed query, the same kind of change
of each source, the same states at the same moments, and the same settings. A plan is reused if no size is off by more
than a factor of two, and if what earlier runs took leads to the same choice between full and incremental runs, and
among methods. So the plan of a view's runs is searched again when the view has grown, and once after a few runs, when
other methods are compared.
Positions and files are bound into a plan later, so they do not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from hashlib import sha256
from typing import Any, TypeAlias

from tidemill.cost.models import cost_model
from tidemill.plan.change import SourceChange
from tidemill.plan.query import Query
from tidemill.recent import Recent
from tidemill.search.contract.request import PlanRequest
from tidemill.search.contract.run_plan import RunPlan, Step
from tidemill.search.keep.compaction import may_compact
from tidemill.search.keep.likely import choice_holds, tries_methods

OFF = 2.0
"""Largest factor between a size and the one that was planned for."""
FEW = 1000.0
"""Rows, or bytes, whose difference does not matter for a plan."""
SMALL = 100_000
"""Largest number of rows of a state's segments for which their number does not matter: they are broadcast."""
PLANS = 256
"""Largest number of remembered plans; beyond it, the least recently used one is dropped."""
FACTOR = 1e6
"""A factor that was learned is compared like so many rows."""
SIZES = ("rows", "bytes", "inserts", "deletes", "read")
"""The attributes of a `SourceChange` that are sizes."""

RequestSizes: TypeAlias = dict[str, float]
PlanSearch: TypeAlias = Callable[[PlanRequest], RunPlan]


@dataclass(frozen=True, slots=True)
class _Known:
    """A plan, the sizes, changed rows and factors that it was made with, whether it kept the choice of states, and
    whether plans of other methods were compared with it."""

    plan: RunPlan
    sizes: RequestSizes
    changed: float
    factors: Mapping[str, float]
    holds: bool
    judged: bool


@dataclass
class PlanCache:
    """Plans by the requests they were made for.

    Thread-safe; two threads may search for the same plan at once.
    """

    _known: Recent[str, _Known] = field(default_factory=lambda: Recent(PLANS))

    def plan(self, request: PlanRequest, search: PlanSearch) -> RunPlan:
        """The plan of a run: that of an earlier similar run, or what `search` finds.

        Raises: what `search` does.
        """
        if request.ahead or request.between or may_compact(request, {}) or not choice_holds(request):
            return search(request)  # the plan of such a run is about this very moment
        kind, sizes = _kind(request), dict(_sizes(request))
        known = self._known.get(kind)
        if known is not None and _near(known.sizes, sizes) and not may_compact(request, known.plan.asked):
            again = _weighed(known, request)
            if again is not None:
                again = _resized(again, _changed(request) / known.changed, request.learned.sizes, known.factors)
                return replace(again, chosen=request.chosen) if known.holds else again
        found = search(request)
        if any(step.mode == "compact" for step in found.steps):
            return found
        holds, factors = found.chosen == request.chosen, request.learned.sizes
        self._known.put(kind, _Known(found, sizes, _changed(request), factors, holds, _judges(found, request)))
        return found


def _kind(request: PlanRequest) -> str:
    """A name for everything in a request but its sizes."""
    model = cost_model(request.settings.cost_model, request.settings.cost_constants)
    told = {f.name: getattr(request, f.name) for f in fields(request)}
    for name in ("query", "sources", "pieces", "rows", "held_rows", "past", "learned", "measured", "cycles", "chosen"):
        del told[name]
    told |= {
        "query": _without_sizes(request.query),
        "sources": sorted((n, _happened(change)) for n, change in request.sources.items()),
        "pieces": sorted((name, pieces[0].order if pieces else None) for name, pieces in request.pieces.items()),
        "rows": request.rows is None,
        "layout": request.layout and (request.layout.keys, request.layout.marks, request.layout.merged > 0),
        "model": model,
        "chosen": None if request.chosen is None else request.chosen.packs,
        "past": request.policy != "AUTO" and bool(request.past.of({"FULL"})),
    }
    return sha256("\n".join(f"{name}: {_text(told[name])}" for name in sorted(told)).encode()).hexdigest()


def _text(value: Any) -> str:
    """Text that is the same for equal sets and mappings, whatever their order."""
    if isinstance(value, frozenset | set):
        return f"{{{', '.join(sorted(map(_text, value)))}}}"
    if isinstance(value, dict):
        return f"{{{', '.join(sorted(f'{_text(k)}: {_text(v)}' for k, v in value.items()))}}}"
    return repr(value)


def _without_sizes(query: Query) -> list[str]:
    """The query as the rules see it, without the names of columns and without statistics."""
    sources = (replace(s, rows=None, bytes=None, entry={}) for _, s in sorted(query.sources.items()))
    columns = (replace(c, name="") for _, c in sorted(query.columns.items()))
    expressions = (e for _, e in sorted(query.expressions.items()))
    parts = (*sources, *columns, *expressions, query.root, query.output, dict(query.findings))
    return list(map(_text, parts))


def _weighed(known: _Known, request: PlanRequest) -> RunPlan | None:
    """A plan with what runs took since it was made; None if another kind of run, or other methods, are to be taken
    now, or if plans of other methods are to be compared for the first time."""
    plan = known.plan
    if plan.compared is None:
        return plan
    model, (full, incremental) = cost_model(request.settings.cost_model, request.settings.cost_constants), plan.compared
    if not plan.rivals:
        return plan.weighed(request.past.compare(full, incremental, model.noise), model)
    if not known.judged and _judges(plan, request):
        return None
    made = request.past.decide(full, plan.rivals, model.noise, plan.stateless)
    if made.taken != (None if plan.kind == "FULL" else plan.methods):
        return None
    return plan.weighed(made.found, model)


def _judges(plan: RunPlan, request: PlanRequest) -> bool:
    """True if other methods are compared with those of the cheapest incremental plan."""
    return bool(plan.rivals) and tries_methods(request) and request.past.judges(plan.rivals[0][1])


def _resized(plan: RunPlan, grown: float, now: Mapping[str, float], then: Mapping[str, float]) -> RunPlan:
    """A plan with the rows that its steps write of changes as they are now: as many more as the sources have changed
    more, `grown`, and by the factors that were learned since then."""

    def resized(step: Step) -> Step:
        of, rows = step.change_of, step.volume.written
        if of is None or rows is None:
            return step
        return step.writing(rows * grown * now.get(of, 1.0) / then.get(of, 1.0))

    return replace(plan, steps=tuple(map(resized, plan.steps)))


def _happened(change: SourceChange) -> tuple[object, ...]:
    """A change without its sizes, except which of them are known and which are zero."""
    sizes = tuple((known is None, known == 0) for known in (getattr(change, name) for name in SIZES))
    return change.changed, change.old_readable, change.reason, change.direct, sizes


def _sizes(request: PlanRequest) -> Iterator[tuple[str, float]]:
    """All sizes in a request, by name."""
    for number, change in request.sources.items():
        for name in SIZES:
            if (size := getattr(change, name)) is not None:
                yield f"{name} of source {number}", size
        if change.files is not None:
            yield f"files of source {number}, by {FEW:.0f}", change.files * FEW
    for number, source in request.query.sources.items():
        yield from ((f"{n} of table {number}", v) for n, v in (("rows", source.rows), ("bytes", source.bytes)) if v)
    for state, pieces in request.pieces.items():
        yield f"state {state}", sum(p.rows for p in pieces)
        yield f"segments of state {state}", max(SMALL, sum(p.rows for p in pieces[1:]))
    yield "content", request.rows or 0.0
    if request.layout is not None:
        yield "bytes of the content", request.layout.bytes
        yield "bytes of its files to be merged", request.layout.merged
        yield f"files of the content, by {FEW:.0f}", request.layout.files * FEW
    yield "held", request.held_rows
    for name, factor in request.learned.sizes.items():
        if not 1 / OFF <= factor <= OFF:
            yield f"factor of {name or 'the view'}", factor * FACTOR


def _changed(request: PlanRequest) -> float:
    """Rows inserted into all sources and deleted from them, at least one."""
    counted = ((c.inserts or 0.0) + (c.deletes or 0.0) for c in request.sources.values() if c.changed)
    return max(1.0, sum(counted))


def _near(planned: RequestSizes, now: RequestSizes) -> bool:
    """True if no size is off by more than a factor of `OFF`, apart from differences of few rows.

    >>> _near({"t": 5e6}, {"t": 9e6}), _near({"t": 5e6}, {"t": 2e6}), _near({"t": 1}, {"t": 900})
    (True, False, True)
    """
    return planned.keys() == now.keys() and all(
        max(size, now[name]) <= OFF * min(size, now[name]) + FEW for name, size in planned.items()
    )
