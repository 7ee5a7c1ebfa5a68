"""Plans that were made before, for runs like the one that is asked for.

Two runs are alike if the planner would be told the same but for sizes: the query as analysed, what kind of thing
happened to each source, which states there are and where they stand, the settings. Of such a run the plan is taken over
if no size is off by more than a factor of two; so the plans of a view's runs are looked for again as it grows, and
otherwise once. Positions and files are bound into a plan later, so they play no part.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from hashlib import sha256
from statistics import median
from threading import Lock
from typing import Any, TypeAlias

from tidemill.cost.models import cost_model
from tidemill.plan.change import SourceChange
from tidemill.plan.query import Query
from tidemill.search.contract.request import PlanRequest
from tidemill.search.contract.run_plan import RunPlan
from tidemill.search.keep.compaction import may_compact

OFF = 2.0
"""Factor by which a size may have moved away from what was planned for."""
FEW = 1000.0
"""Rows, or bytes, that make no difference to a plan."""
SMALL = 100_000
"""Rows of a state's segments up to which their number says nothing: they are broadcast."""
PLANS = 256
"""Plans that are remembered; beyond, the one that was not used for longest goes."""
SIZES = ("rows", "bytes", "inserts", "deletes", "read")
"""What of a `SourceChange` is a size."""

RequestSizes: TypeAlias = dict[str, float]
PlanSearch: TypeAlias = Callable[[PlanRequest], RunPlan]


@dataclass
class PlanCache:
    """Plans by what they were made for. Safe to use from several threads; two may look for the same plan at once."""

    _known: OrderedDict[str, tuple[RequestSizes, RunPlan]] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def plan(self, request: PlanRequest, search: PlanSearch) -> RunPlan:
        """The plan of a run: one that was made before for a run like it, or what `search` finds.

        Raises: what `search` does.
        """
        if request.ahead or request.between or may_compact(request, {}):
            return search(request)  # what such a run does is of this very moment
        kind, sizes = _kind(request), dict(_sizes(request))
        with self._lock:
            known = self._known.get(kind)
            if known is not None and _near(known[0], sizes) and not may_compact(request, known[1].asked):
                self._known.move_to_end(kind)
                return known[1]
        found = search(request)
        if any(step.mode == "compact" for step in found.steps):
            return found
        with self._lock:
            self._known[kind] = sizes, found
            self._known.move_to_end(kind)
            while len(self._known) > PLANS:
                self._known.popitem(last=False)
        return found


def _kind(request: PlanRequest) -> str:
    """A name for all that the planner is told but the sizes."""
    model = cost_model(request.settings.cost_model, request.settings.cost_constants)
    told = {f.name: getattr(request, f.name) for f in fields(request)}
    for name in ("query", "sources", "pieces", "rows", "held_rows", "past", "measured"):
        del told[name]
    told |= {
        "query": _without_sizes(request.query),
        "sources": sorted((n, _happened(change)) for n, change in request.sources.items()),
        "pieces": sorted((name, pieces[0].order if pieces else None) for name, pieces in request.pieces.items()),
        "rows": request.rows is None,
        "model": model,
        "past": sorted({run.kind for run in request.past.runs}),
    }
    return sha256("\n".join(f"{name}: {_text(told[name])}" for name in sorted(told)).encode()).hexdigest()


def _text(value: Any) -> str:
    """The same text for the same sets and mappings, in whatever order they were made."""
    if isinstance(value, frozenset | set):
        return f"{{{', '.join(sorted(map(_text, value)))}}}"
    if isinstance(value, dict):
        return f"{{{', '.join(sorted(f'{_text(k)}: {_text(v)}' for k, v in value.items()))}}}"
    return repr(value)


def _without_sizes(query: Query) -> list[str]:
    """The query as the rules see it: names of columns say nothing, statistics are sizes."""
    sources = (replace(s, rows=None, bytes=None, entry={}) for _, s in sorted(query.sources.items()))
    columns = (replace(c, name="") for _, c in sorted(query.columns.items()))
    expressions = (e for _, e in sorted(query.expressions.items()))
    parts = (*sources, *columns, *expressions, query.root, query.output, dict(query.findings))
    return list(map(_text, parts))


def _happened(change: SourceChange) -> tuple[object, ...]:
    """What a change is beside its sizes: of those only which are known, and which are nothing."""
    sizes = tuple((known is None, known == 0) for known in (getattr(change, name) for name in SIZES))
    return change.changed, change.old_readable, change.reason, change.direct, sizes


def _sizes(request: PlanRequest) -> Iterator[tuple[str, float]]:
    """All sizes that the planner is told, by a name."""
    for number, change in request.sources.items():
        for name in SIZES:
            if (size := getattr(change, name)) is not None:
                yield f"{name} of source {number}", size
    for number, source in request.query.sources.items():
        yield from ((f"{n} of table {number}", v) for n, v in (("rows", source.rows), ("bytes", source.bytes)) if v)
    for state, pieces in request.pieces.items():
        yield f"state {state}", sum(p.rows for p in pieces)
        yield f"segments of state {state}", max(SMALL, sum(p.rows for p in pieces[1:]))
    yield "content", request.rows or 0.0
    yield "held", request.held_rows
    for kind in ("FULL", "INCREMENTAL"):
        ratios = [r.measured / r.estimated for r in request.past.runs if r.kind == kind and r.estimated > 0]
        if ratios:
            yield f"measured {kind}, by {FEW:.0f} squared", median(ratios) * FEW * FEW


def _near(planned: RequestSizes, now: RequestSizes) -> bool:
    """No size is off by more than `OFF`, few rows apart.

    >>> _near({"t": 5e6}, {"t": 9e6}), _near({"t": 5e6}, {"t": 2e6}), _near({"t": 1}, {"t": 900})
    (True, False, True)
    """
    return planned.keys() == now.keys() and all(
        max(size, now[name]) <= OFF * min(size, now[name]) + FEW for name, size in planned.items()
    )
