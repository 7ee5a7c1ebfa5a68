"""Snapshot sizes of the query's relations, bottom up, and from them the selectivity of its joins."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import prod

from tidemill.memo.memo import Memo
from tidemill.plan.change import SourceChange
from tidemill.plan.expr import Expr
from tidemill.plan.ops import Aggregate, Join, Scan
from tidemill.plan.props import equi_keys
from tidemill.search.costing import CONTENT, CostModel, Facts, Rows


@dataclass(frozen=True, slots=True)
class Sizes:
    """What sizes are estimated from."""

    memo: Memo
    model: CostModel
    steps: tuple[Mapping[int, SourceChange], ...]


def estimate(
    sizes: Sizes, root: int, states: Mapping[str, int], measured: Mapping[str, float], partial: Collection[str] = ()
) -> tuple[Facts, Mapping[int, float]]:
    """The facts of a planning call, and the rows of each relation before filters.

    A join along equalities is taken to meet keys with foreign keys: each equality divides by the larger of the two
    sides, filters apart. Measured runs will correct what this gets wrong.

    Args:
        root: the view's relation.
        states: the relation that each state keeps a form of.
        measured: rows of states that were written, and of the content: so many their relations have.
        partial: states with more rows than the relation that they keep parts of.
    """
    selectivity: dict[tuple[Expr, ...], float] = {}
    kept: dict[str, float] = {}
    rows: dict[int, Rows] = {}
    facts = Facts(sizes.memo.query, sizes.steps, selectivity, kept, sizes=rows)
    base: dict[int, float] = {}
    known = {number: measured[name] for name, number in states.items() if name in measured}
    at_most = {number for name, number in states.items() if name in partial}
    if CONTENT in measured:
        known[root] = measured[CONTENT]
        at_most.discard(root)
    for tvr in sizes.memo.tvrs:  # numbered from the leaves up
        op, inputs = tvr.expressions[0]
        if isinstance(op, Join) and op.kind in {"inner", "left", "full"}:
            selectivity[op.condition] = _join_selectivity(sizes.memo, op, inputs, base)
        estimated = sizes.model.rows(op, [rows[i] for i in inputs], facts)
        size = known.get(tvr.number, estimated)
        rows[tvr.number] = Rows(min(estimated, size) if tvr.number in at_most else size)
        own = float(rows[tvr.number])
        below = max((base[i] for i in inputs), default=own)
        base[tvr.number] = own if isinstance(op, Scan | Aggregate) else max(below, own)
    kept.update({name: measured.get(name, float(rows[number])) for name, number in states.items()})
    kept[CONTENT] = float(rows[root])
    return facts, base


def _join_selectivity(memo: Memo, op: Join, inputs: tuple[int, ...], base: Mapping[int, float]) -> float:
    columns = [frozenset(memo.tvrs[i].props.columns) for i in inputs]
    sizes = [base[i] for i in inputs]
    shares: list[float] = []
    joined, pending = {0}, set(range(1, len(columns)))
    while pending:
        linked = [
            (i, j)
            for i in sorted(joined)
            for j in sorted(pending)
            if equi_keys(op.condition, columns[i], columns[j], memo.query)
        ]
        if not linked:
            joined.add(pending.pop())
            continue
        i, j = linked[0]
        shares.append(1.0 / max(sizes[i], sizes[j], 1.0))
        joined.add(j)
        pending.discard(j)
    return prod(shares)
