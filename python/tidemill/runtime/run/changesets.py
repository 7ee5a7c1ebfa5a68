"""Reads the change of a source once, before the steps that need it, where few rows make it.

The rows stay in memory then. So Spark knows how few they are, and their keys pick what is read of the other sides of
joins (`physical.RuntimeFilters` in the JVM). Changes of many rows are read by the steps themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from tidemill.cost.costing import FEW_ROWS
from tidemill.plan.change import SourceChange
from tidemill.plan.query import Query, count_field
from tidemill.search.contract.lessons import READ_FIRST
from tidemill.search.contract.run_plan import Step, Volume
from tidemill.wire import nodes, questions
from tidemill.wire.nodes import WireNode

BIG_BYTES = 1 << 20
"""What a step reads besides changes, from which on one more job pays: this takes some 30 ms to read."""
Interval: TypeAlias = tuple[int, int, int]
"""A source, and the moments of a change."""


def read_first(
    steps: Sequence[Step], query: Query, changes: Mapping[int, SourceChange], size: Callable[[Mapping[str, Any]], float]
) -> tuple[Step, ...]:
    """Returns the steps, with those in front that read changes which others need.

    `changes`: of the run; `size`: the bytes behind a leaf that is no change.
    """
    leaves = [leaf for step in steps for leaf in _changes(step.plan)]
    times = Counter(map(_interval, leaves))
    chosen = {
        _interval(leaf)
        for step in steps
        for leaf in _changes(step.plan)
        if _few(changes[int(leaf["source"])]) and (times[_interval(leaf)] > 1 or _meets(step.plan, size))
    }
    first, fields = list[Step](), dict[Interval, Mapping[str, str]]()
    for interval in sorted(chosen):
        wanted = sorted({f for leaf in leaves if _interval(leaf) == interval for _, f in leaf["columns"]})
        source, start, end = interval
        count = count_field(wanted)
        plan = nodes.changes(source, list(enumerate(wanted)), len(wanted), start, end)
        columns = tuple(enumerate((*wanted, count)))
        first.append(Step(_name(interval), "shared", None, None, plan, columns, Volume()))
        types = {field: kind for field, kind, _ in query.sources[source].fields}
        fields[interval] = {**{f: types[f] for f in wanted}, count: "long"}
    return (*first, *(replace(step, plan=_replaced(step.plan, fields)) for step in steps))


def _changes(plan: WireNode) -> Iterable[Mapping[str, Any]]:
    return (node for node in questions.walk(plan) if nodes.kind_of(node) == "changes")


def _interval(leaf: Mapping[str, Any]) -> Interval:
    return int(leaf["source"]), int(leaf["from"]), int(leaf["to"])


def _name(interval: Interval) -> str:
    source, start, end = interval
    return f"{READ_FIRST} {source} from {start} to {end}"


def _few(change: SourceChange) -> bool:
    """True if a change has few rows: as it is known, or since the whole source is small."""
    if change.inserts is None or change.deletes is None:
        known = change.read is not None and change.read <= FEW_ROWS
        return known or (change.bytes is not None and change.bytes < BIG_BYTES)
    return bool(max(change.read or 0.0, change.inserts + change.deletes) <= FEW_ROWS)


def _meets(plan: WireNode, size: Callable[[Mapping[str, Any]], float]) -> bool:
    """True if a plan joins changes with much else."""
    if not questions.count(plan, "join"):
        return False
    return sum(size(node) for node in questions.walk(plan) if not nodes.inputs_of(node)) >= BIG_BYTES


def _replaced(plan: WireNode, fields: Mapping[Interval, Mapping[str, str]]) -> WireNode:
    """Returns a plan that reads these changes from the steps that wrote them."""
    if nodes.kind_of(plan) == "changes" and (known := fields.get(_interval(plan))) is not None:
        *_, count = known
        columns = [(c, f, known[f]) for c, f in plan["columns"]]
        return nodes.staged(_name(_interval(plan)), [*columns, (plan["count"], count, "long")])
    inputs = nodes.inputs_of(plan)
    return nodes.over(plan, [_replaced(below, fields) for below in inputs]) if inputs else plan
