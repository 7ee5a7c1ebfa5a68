"""Cardinalities of the query's relations, bottom up, and the selectivities of its joins that follow from them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from math import prod

from tidemill.cost.costing import CostModel, Facts, RowCount
from tidemill.cost.distinct import Distinct
from tidemill.cost.guesses import CONDITION_SHARE
from tidemill.cost.kept import KeptRows
from tidemill.memo.memo import Memo
from tidemill.plan.change import SourceChange
from tidemill.plan.expr import Expr
from tidemill.plan.ops import Aggregate, Join, Project, Scan
from tidemill.plan.props import equi_keys


@dataclass(frozen=True, slots=True)
class SizeInputs:
    """The inputs of the estimation of sizes."""

    memo: Memo
    model: CostModel
    steps: tuple[Mapping[int, SourceChange], ...]


def estimate(
    sizes: SizeInputs, root: int, states: Mapping[str, int], measured: KeptRows, partial: Collection[str] = ()
) -> tuple[Facts, Mapping[int, float]]:
    """The facts of a planning call, and the rows of each relation before filters.

    `distinct` estimates how many keys the sides of a join share. Measured runs correct its errors: of a join with known
    rows so large a part of the pairs is left that these come out, for changes of its inputs too.

    Args:
        root: the view's relation.
        states: the relation that each state keeps a form of.
        measured: measured rows of states and of the content, which are also the rows of their relations.
        partial: states with more rows than the relation whose parts they keep.
    """
    selectivity: dict[tuple[Expr, ...], float] = {}
    rows: dict[int, RowCount] = {}
    base: dict[int, float] = {}
    stored = ((number, measured.state(name).whole) for name, number in states.items())
    known = {number: size for number, size in stored if size is not None}
    at_most = {number for name, number in states.items() if name in partial}
    if measured.content is not None:
        known[root] = measured.content
        at_most.discard(root)
    for tvr in reversed(sizes.memo.tvrs):  # from the view down
        op, inputs = tvr.expressions[0]
        if isinstance(op, Project) and tvr.number in known.keys() - at_most:
            known.setdefault(inputs[0], known[tvr.number])
    facts = Facts(sizes.memo.query, sizes.steps, selectivity, sizes=rows)
    firsts = ((tvr.number, tvr.expressions[0][0]) for tvr in sizes.memo.tvrs)
    scans = {number: float(sizes.model.rows(op, (), facts)) for number, op in firsts if isinstance(op, Scan)}
    groups = {number: size for number, size in known.items() if number not in at_most}
    counted = {source: change.values for step in sizes.steps for source, change in step.items() if change.values}
    distinct = Distinct(sizes.memo, scans, groups, counted)
    facts = replace(facts, distinct=distinct)
    for tvr in sizes.memo.tvrs:  # numbered from the leaves up
        op, inputs = tvr.expressions[0]
        if isinstance(op, Join):
            selectivity[op.condition] = _join_selectivity(sizes.memo, op, inputs, base, distinct)
        estimated = sizes.model.rows(op, [rows[i] for i in inputs], facts)
        size = known.get(tvr.number, estimated)
        if isinstance(op, Join) and op.kind == "inner" and tvr.number in known.keys() - at_most and estimated > 0:
            selectivity[op.condition] *= max(size, 1.0) / estimated
        rows[tvr.number] = RowCount(min(estimated, size) if tvr.number in at_most else size)
        own = float(rows[tvr.number])
        below = max((base[i] for i in inputs), default=own)
        base[tvr.number] = own if isinstance(op, Scan | Aggregate) else max(below, own)
    kept = {
        name: state if state.whole is not None else replace(state, whole=float(rows[number]))
        for name, number in states.items()
        for state in (measured.state(name),)
    }
    return replace(facts, kept=KeptRows(kept, float(rows[root]), measured.held)), base


def _join_selectivity(
    memo: Memo, op: Join, inputs: tuple[int, ...], base: Mapping[int, float], distinct: Distinct
) -> float:
    """Output rows per product of input rows.

    Each input in turn is divided by the number of keys that it shares with the others. With each other input it shares
    one key, possibly of several columns, with at most as many values as either has rows.
    """
    columns = [frozenset(memo.tvrs[i].props.columns) for i in inputs]
    sizes = [max(1.0, base[i]) for i in inputs]
    pairs = {
        (i, j): frozenset((memo.query.columns_of(a), memo.query.columns_of(b)) for a, b, _ in equal)
        for j in range(len(inputs))
        for i in range(len(inputs))
        if i != j and (equal := equi_keys(op.condition, columns[i], columns[j], memo.query))
    }
    share = CONDITION_SHARE ** sum(
        1 for c in op.condition if (info := memo.query.info(c)) is None or info.equal is None
    )
    joined, pending = {0}, set(range(1, len(columns)))
    while pending:
        j = next((j for j in sorted(pending) if any((i, j) in pairs for i in joined)), min(pending))
        met: set[frozenset[int]] = set()
        for i in sorted(joined, key=lambda i: (-len(pairs.get((i, j), ())), i)):
            links = [(a, b) for a, b in pairs.get((i, j), ()) if b not in met]
            if not links:
                continue
            met.update(b for _, b in links)
            fewer, more = sorted((sizes[i], sizes[j]))
            values = fewer if fewer > 1 else more  # a single row is not a table of keys
            each = [distinct.equated(a, b) or values for a, b in links]
            share /= each[0] if len(each) == 1 else min(prod(each), values)
        joined.add(j)
        pending.discard(j)
    return share
