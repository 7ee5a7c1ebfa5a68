"""Textbook cardinalities: how many rows operators have, by what is known of their inputs."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, inf, prod
from typing import assert_never

from tidemill.cost.costing import Facts, RowCount
from tidemill.cost.guesses import (
    CHANGED_SHARE,
    CONDITION_SHARE,
    CROSSED_SHARE,
    EQUALITY_SHARE,
    FILE_ROW_BYTES,
    LEAST_ANTI_SHARE,
    LEAST_KEY_SHARE,
    LIMIT_ROWS,
    ROWS_PER_KEY,
    ROWS_SINCE,
    SEMI_SHARE,
    SOURCE_ROWS,
)
from tidemill.plan.expr import Expr, Handle
from tidemill.plan.ops import (
    Aggregate,
    Answer,
    Bounds,
    Changes,
    Combine,
    Crossing,
    Empty,
    Filter,
    Final,
    FinalChange,
    FromStart,
    Gather,
    HeldScan,
    Join,
    JoinChange,
    KeyFilter,
    Keys,
    Less,
    Limit,
    LookUp,
    Merge,
    Named,
    Negate,
    Net,
    Op,
    Opaque,
    Pad,
    Partial,
    Project,
    Reach,
    ReachedWindow,
    ResultScan,
    RowWise,
    Scan,
    Sort,
    StateScan,
    Sum,
    Union,
    Unsign,
    Window,
)
from tidemill.plan.query import Query
from tidemill.tvr.form import Time


def rows(op: Op, inputs: Sequence[RowCount], facts: Facts) -> RowCount:
    """Estimated number of output rows of one operator."""
    match op:
        case Scan(source, _, time):
            return RowCount(source_rows(facts, source, time))
        case Changes(source, _, start, end):
            return RowCount(change_rows(facts, source, start, end))
        case Empty():
            return RowCount(0.0)
        case Filter(condition):
            left = inputs[0] * prod(_selectivity(facts.query, c) for c in condition)
            return RowCount(max(left, min(inputs[0], 1.0)))
        case Crossing():
            return RowCount(inputs[0] * CROSSED_SHARE)
        case Join(kind):
            return _join_rows(op, kind, inputs, facts)
        case JoinChange():
            return _changed_pairs(op, inputs, facts)
        case Aggregate(keys, _) | Partial(keys, _):
            return _groups(keys, inputs[0], facts)
        case Gather(partial) | Answer(partial) | Combine(partial):
            return _groups(partial.keys, sum(inputs), facts)
        case Keys(columns):
            return RowCount(sum(_groups(keys, rows, facts) for keys, rows in zip(columns, inputs, strict=True)))
        case Merge():
            return RowCount(max(inputs))
        case FinalChange():
            return RowCount(2 * inputs[1])
        case Less():
            return inputs[0]
        case KeyFilter(on=on):
            return RowCount(inputs[0] * _key_share([key for key, _ in on], inputs, facts))
        case Reach(partition=partition):
            return _groups(partition, inputs[-1], facts)
        case FromStart(rows=rows):
            return RowCount(min(inputs[0], inputs[1] * (rows + 1)))
        case ReachedWindow():
            return RowCount(min(inputs[0], inputs[1] * (op.bounds.behind + 1)))
        case LookUp(scan, on):
            kept = RowCount(facts.kept_rows(scan))
            return RowCount(kept * _key_share([key for key, _ in on], [kept, *inputs], facts))
        case Limit(limit=limit):
            return RowCount(min(inputs[0], float(getattr(limit, "value", None) or LIMIT_ROWS)))
        case Sum() | Union():
            return RowCount(sum(inputs))
        case StateScan() | ResultScan() | HeldScan():
            return RowCount(facts.kept_rows(op))
        case Project() | Sort() | RowWise() | Window() | Opaque() | Negate() | Net() | Unsign() | Final() | Pad():
            return RowCount(max(inputs, default=1.0))
        case _:
            assert_never(op)


def _changed_pairs(op: JoinChange, inputs: Sequence[RowCount], facts: Facts) -> RowCount:
    """All pairs, without those of old rows only."""
    sides = [rows for _, rows in op.sides(inputs)]
    share = _pair_share(op.condition, [rows[0] for rows in sides], facts)
    return RowCount(share * (prod(sum(rows) for rows in sides) - prod(rows[0] for rows in sides)))


def _pair_share(condition: tuple[Expr, ...], inputs: Sequence[RowCount], facts: Facts) -> float:
    """Pairs that a join leaves, as a fraction of all."""
    share = facts.selectivity.get(condition)
    if share is None:
        share = 1.0 / max(min(inputs), 1.0) if condition else 1.0
    return share


def _join_rows(op: Join, kind: str, inputs: Sequence[RowCount], facts: Facts) -> RowCount:
    if kind == "existence":
        return inputs[0]
    share = _pair_share(op.condition, inputs, facts)
    if kind in {"semi", "anti"}:
        found = 1.0 - exp(-inputs[1] * share) if len(inputs) > 1 else SEMI_SHARE
        return RowCount(inputs[0] * (found if kind == "semi" else max(1.0 - found, LEAST_ANTI_SHARE)))
    inner = prod(inputs) * share
    return RowCount(inner if kind == "inner" else max(inner, inputs[0]))


def read_rows(bounds: Bounds, inputs: Sequence[RowCount]) -> float:
    """Rows of the first input that a window with these bounds reads from the starts in the second input on."""
    if bounds.whole:
        return inputs[0]
    back = max(bounds.before, ROWS_SINCE if bounds.since else 0)
    return min(inputs[0], inputs[1] * (back + bounds.behind + 1))


def source_rows(facts: Facts, source: int, time: Time | None = None) -> float:
    """Rows of a source's snapshot at a moment, by default the last one."""
    known = facts.source_at(source, time)
    if known is None:
        return SOURCE_ROWS
    rows = known.rows
    if rows is None:
        rows = known.bytes / FILE_ROW_BYTES if known.bytes else SOURCE_ROWS
    return max(0.0, rows - facts.grown_after(source, time))


def change_rows(facts: Facts, source: int, start: Time, end: Time) -> float:
    """Rows of a source's change between two moments; an update counts as a delete and an insert."""
    change = facts.change_over(source, start, end)
    if change is None:
        return max(1.0, source_rows(facts, source, end) * CHANGED_SHARE)
    return sum(change)


def _groups(keys: Named, rows: float, facts: Facts) -> RowCount:
    if not keys:
        return RowCount(1.0)
    return RowCount(max(1.0, facts.groups([key for _, key in keys], rows)) if rows > 0 else 0.0)


def _key_share(keys: Sequence[Expr], inputs: Sequence[RowCount], facts: Facts) -> float:
    """Fraction of the first input's rows whose key is in the second input."""
    values = facts.groups(keys, inf)
    share = inputs[1] / max(values, 1.0) if values < inf else inputs[1] * ROWS_PER_KEY / max(inputs[0], 1.0)
    return min(1.0, max(share, LEAST_KEY_SHARE))


def _selectivity(query: Query, condition: object) -> float:
    info = query.info(condition) if isinstance(condition, Handle) else None
    if info is None:
        return CONDITION_SHARE
    if info.text.startswith("(isnotnull") or info.text.startswith("isnotnull"):
        return 1.0
    if info.compare is not None and info.compare.get("op") in {"=", "<=>"}:
        return EQUALITY_SHARE
    return CONDITION_SHARE
