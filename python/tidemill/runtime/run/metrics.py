"""Computes the metrics of a run from the observations of its steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidemill.plan.change import SourceChange
from tidemill.runtime.content.jobs import Written
from tidemill.runtime.run.binder import VALUES, Binder
from tidemill.runtime.view.history import ChangeCounts

ARRIVED = "arrived"
"""The observation of the signed rows that arrive at an operator, in the step that writes them."""


def rows_in(
    binder: Binder, written: Iterable[Written], first: bool, unseen: Iterable[SourceChange] = ()
) -> ChangeCounts | None:
    """Returns the changed rows that the run read, each source counted once.

    A source that several terms of a plan read is observed once per reading. A reading may be cut short (by an empty
    other side), so the largest count is taken. For a first run these are all rows of the sources. None if no changes
    were read. `unseen`: changes that were read before the run was planned, and came to nothing.
    """
    seen = list(written)
    inserts = _most(binder.changes, seen, "inserts")
    deletes = _most(binder.changes, seen, "deletes")
    if first:
        inserts = {**inserts, **_most(binder.scans, seen, "rows"), **binder.counted}
    before = [(int(change.inserts or 0), int(change.deletes or 0)) for change in unseen]
    if not (first or binder.changes or before):
        return None
    came, went = sum(n for n, _ in before), sum(n for _, n in before)
    return ChangeCounts(sum(inserts.values()) + came, sum(deletes.values()) + went)


def values(binder: Binder, written: Iterable[Written]) -> dict[int, dict[str, float]]:
    """Returns the distinct values that a first run has counted, by source and field.

    Nothing is known of a field without values: a join whose other side is empty reads no rows.
    """
    found: dict[int, dict[str, float]] = {}
    sources = {**binder.scans, **binder.selected}
    for seen in written:
        for name in sources.keys() & seen.observed.keys():
            told = seen.observed[name].items()
            counted = {m.removeprefix(VALUES): float(str(n or 0)) for m, n in told if m.startswith(VALUES)}
            known = {field: n for field, n in counted.items() if n > 0}
            fields = found.setdefault(sources[name], {})
            fields |= {field: max(n, fields.get(field, 0.0)) for field, n in known.items()}
    return found


def _most(sources: Mapping[str, int], written: Iterable[Written], metric: str) -> dict[int, int]:
    """Returns the largest value of a metric among the observations of each source; `sources`: by observation."""
    found: dict[int, int] = {}
    for seen in written:
        for name, metrics in seen.observed.items():
            if name in sources:
                found[sources[name]] = max(found.get(sources[name], 0), int(str(metrics.get(metric) or 0)))
    return found


def arrived(steps: Iterable[str], written: Mapping[str, Written]) -> float:
    """Returns the signed rows that steps wrote, of each as often as it is named."""
    return float(sum(_signed(written[step]) for step in steps))


def _signed(written: Written) -> int:
    if ARRIVED not in written.observed:
        return written.rows
    counts = net(written, ARRIVED)
    return counts.inserts + counts.deletes


def value(written: Written, name: str, metric: str) -> int:
    """Returns a metric of the observation `name`; 0 for a sum over nothing."""
    return int((written.observed.get(name) or {}).get(metric) or 0)


def net(written: Written, name: str) -> ChangeCounts:
    """Returns the net inserts and deletes of the observation `name`."""
    return ChangeCounts(value(written, name, "inserts"), value(written, name, "deletes"))
