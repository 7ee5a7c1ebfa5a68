"""Cardinalities of the query's relations, bottom up, and the selectivities of its joins that follow from them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from math import prod

from tidemill.cost.costing import CostModel, Facts, RowCount
from tidemill.cost.distinct import Distinct
from tidemill.cost.guesses import CONDITION_SHARE, NEW_VALUE_SHARE
from tidemill.cost.kept import CONTENT, KeptRows
from tidemill.cost.moments import Moment, Moments
from tidemill.memo.memo import Memo
from tidemill.plan.change import SourceChange
from tidemill.plan.expr import Expr
from tidemill.plan.ops import Aggregate, Join, Project, Scan
from tidemill.plan.props import equi_keys
from tidemill.tvr.form import Time


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
    counted = Counted(known, frozenset(at_most))
    first = _moment(sizes, 0, counted, None)
    at = [first, *(_moment(sizes, time, counted, first) for time in sizes.memo.timeline.moments[1:])]
    last = at[-1]
    facts = Facts(sizes.memo.query, sizes.steps, last.selectivity, distinct=last.distinct)
    learned = {
        number: measured.learned[name] for name, number in {**states, CONTENT: root}.items() if name in measured.learned
    }
    moments = Moments(sizes.memo, at, facts.change_over, learned)
    kept = {
        name: state if state.whole is not None else replace(state, whole=float(first.rows[number]))
        for name, number in states.items()
        for state in (measured.state(name),)
    }
    rows = KeptRows(kept, float(first.rows[root]), measured.held, measured.learned)
    return replace(facts, sizes=moments, kept=rows), last.base


@dataclass(frozen=True, slots=True)
class Counted:
    """Rows of relations at moment 0, as measured, by relation; of those in `at_most` there are no more."""

    rows: Mapping[int, float]
    at_most: frozenset[int]


def _moment(sizes: SizeInputs, time: Time, counted: Counted, first: Moment | None) -> Moment:
    """Sizes at a moment; `first`: those at moment 0, when measured rows were measured; None at moment 0 itself."""
    memo, model = sizes.memo, sizes.model
    selectivity: dict[tuple[Expr, ...], float] = {}
    rows: dict[int, float] = {}
    base: dict[int, float] = {}
    guessed: dict[int, float] = {}
    facts = Facts(memo.query, sizes.steps, selectivity)
    firsts = [(tvr.number, tvr.expressions[0][0]) for tvr in memo.tvrs]
    scans = {n: float(model.rows(replace(op, at=time), (), facts)) for n, op in firsts if isinstance(op, Scan)}
    known = {n: size for n, size in counted.rows.items() if n not in counted.at_most}
    groups = {n: size * _growth(memo, n, size, scans, first) for n, size in known.items()}
    values = {source: facts.values_at(source, time) for step in sizes.steps for source in step}
    distinct = Distinct(memo, scans, groups, {source: counts for source, counts in values.items() if counts})
    facts = replace(facts, distinct=distinct)
    for tvr in memo.tvrs:  # numbered from the leaves up
        op, inputs = tvr.expressions[0]
        if isinstance(op, Join):
            selectivity[op.condition] = _join_selectivity(memo, op, inputs, base, distinct)
        op = replace(op, at=time) if isinstance(op, Scan) else op
        estimated = float(model.rows(op, [RowCount(rows[i]) for i in inputs], facts))
        size = _corrected(
            estimated, counted.rows.get(tvr.number), None if first is None else first.estimated[tvr.number]
        )
        if isinstance(op, Join) and op.kind == "inner" and tvr.number in known and estimated > 0:
            selectivity[op.condition] *= max(size, 1.0) / estimated
        rows[tvr.number] = min(estimated, size) if tvr.number in counted.at_most else size
        own = rows[tvr.number]
        below = max((base[i] for i in inputs), default=own)
        base[tvr.number] = own if isinstance(op, Scan | Aggregate) else max(below, own)
        guessed[tvr.number] = estimated
    return Moment(rows, base, selectivity, distinct, guessed)


def _corrected(estimated: float, counted: float | None, first: float | None) -> float:
    """Rows of a relation of which `counted` were measured at moment 0, where `first` had been estimated (None: it is
    moment 0): it grows as the estimates do."""
    if counted is None:
        return estimated
    if first is None or estimated == first:
        return counted
    return counted * estimated / first if first > 0 else counted + estimated


def _growth(memo: Memo, relation: int, groups: float, scans: Mapping[int, float], first: Moment | None) -> float:
    """Factor by which the groups of a relation have grown since moment 0: like its largest source where new rows have
    new values, else not at all."""
    op, inputs = memo.tvrs[relation].expressions[0]
    if first is None or not isinstance(op, Aggregate) or groups <= NEW_VALUE_SHARE * first.rows[inputs[0]]:
        return 1.0
    sources = memo.tvrs[relation].props.sources
    below = [n for n in scans if memo.tvrs[n].props.sources <= sources]
    largest = max(below, key=lambda n: first.rows[n], default=None)
    return 1.0 if largest is None or not first.rows[largest] else scans[largest] / first.rows[largest]


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
