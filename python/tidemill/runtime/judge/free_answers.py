"""Compares a view whose query ends in LIMIT, which has several right answers.

All rows ranked before the cut must be there, and any of the rows tied at the cut. VERIFY uses this if the plain
comparison finds a difference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tidemill.plan.expr import Col, Expr, Lit, fn
from tidemill.plan.ops import Limit, Named
from tidemill.runtime.judge.compare import File, TypedColumns, Verdict, bag, comparable
from tidemill.runtime.run.jobs import SparkJobs
from tidemill.runtime.run.row_expressions import Ids
from tidemill.wire import nodes
from tidemill.wire.expressions import named_from_json
from tidemill.wire.nodes import WireNode, inputs_of, kind_of
from tidemill.wire.query_document import read_limit


@dataclass(frozen=True, slots=True)
class Cut:
    """A query that ends in LIMIT: the projections above it (outermost first), the limit, and the limit's input."""

    projections: tuple[Named, ...]
    limit: Limit
    below: WireNode

    def above(self, child: WireNode, carried: Sequence[int]) -> WireNode:
        """Returns the projections over `child`, each of which also passes the columns `carried` on."""
        node = child
        for columns in reversed(self.projections):
            node = nodes.project([*columns, *nodes.same(carried)], node)
        return node


def find_cut(root: Mapping[str, Any]) -> Cut | None:
    """Returns the LIMIT at the top of a query, under any projections; None if there is none."""
    projections = []
    node = root
    while kind_of(node) == "project":
        projections.append(named_from_json(node["columns"]))
        (node,) = inputs_of(node)
    if kind_of(node) != "limit":
        return None
    (below,) = inputs_of(node)
    return Cut(tuple(projections), read_limit(node), below)


def compare_cut(
    execution: SparkJobs,
    cut: Cut,
    needed: frozenset[int],
    output: Sequence[int],
    columns: TypedColumns,
    live: Sequence[File],
) -> Verdict:
    """Compares as `compare` does, for a bound query ending in LIMIT.

    `needed`: the columns below the limit that the projections above it, or the output, read.
    """
    order = cut.limit.order
    if not order:
        return _any_rows(execution, cut, output, columns, live)
    ids = Ids()
    ranks = ids.fresh(len(order))
    ranked = [(r, key.expr) for r, key in zip(ranks, order, strict=True)]
    below = nodes.project([*nodes.same(sorted(needed)), *ranked], cut.below)
    by_ranks = [replace(key, expr=Col(r)) for r, key in zip(ranks, order, strict=True)]
    top = nodes.limit(cut.limit.limit, cut.limit.offset, by_ranks, below)
    expected = _collect(execution, ids, cut.above(top, ranks), ranks, output, columns)
    actual = bag(_stored(execution, ids, columns, live))
    last = _rank(expected[-1], len(ranks)) if expected else None
    before = bag([r[len(ranks) :] for r in expected if _rank(r, len(ranks)) != last])
    # All rows that tie with some row of the answer; those at the cut are candidates.
    other = ids.fresh(len(ranks))
    answer = nodes.project([(o, Col(r)) for o, r in zip(other, ranks, strict=True)], top)
    same = [fn("<=>", Col(a), Col(b)) for a, b in zip(ranks, other, strict=True)]
    ties = nodes.join("semi", same, below, answer)
    rows = _collect(execution, ids, cut.above(ties, ranks), ranks, output, columns)
    candidates = bag([r[len(ranks) :] for r in rows if _rank(r, len(ranks)) == last])
    rest = actual - before
    missing = (before - actual).total()
    unexpected = (rest - candidates).total()
    short = len(expected) - actual.total()
    return Verdict(max(missing, short), max(unexpected, -short))


def _rank(row: Sequence[Any], n: int) -> str:
    return next(iter(bag([row[:n]])))


def _collect(
    execution: SparkJobs, ids: Ids, node: WireNode, ranks: Sequence[int], output: Sequence[int], columns: TypedColumns
) -> list[list[Any]]:
    shown = ids.fresh(len(output))
    plan = nodes.project(
        [
            *nodes.same(ranks),
            *((s, comparable(c, type_)) for s, c, (_, type_) in zip(shown, output, columns, strict=True)),
        ],
        node,
    )
    wanted = [(c, f"c{i}") for i, c in enumerate([*ranks, *shown])]
    return execution.rows(plan, wanted, step="verify ties")


def _stored(execution: SparkJobs, ids: Ids, columns: TypedColumns, live: Sequence[File]) -> list[list[Any]]:
    stored = ids.fresh(len(columns))
    leaf = nodes.files(live, [(i, name, type_) for i, (name, type_) in zip(stored, columns, strict=True)])
    return _collect(execution, ids, leaf, [], stored, columns)


def _any_rows(
    execution: SparkJobs, cut: Cut, output: Sequence[int], columns: TypedColumns, live: Sequence[File]
) -> Verdict:
    """Compares for LIMIT without order: any rows of the input are right, if their number is."""
    ids = Ids()
    rows = cut.above(cut.below, [])
    offered: Counter[str] = bag(_collect(execution, ids, rows, [], output, columns))
    actual = bag(_stored(execution, ids, columns, live))
    wanted = max(0, offered.total() - (_number(cut.limit.offset) or 0))
    most = _number(cut.limit.limit)
    size = actual.total() if most is None else min(wanted, most)
    short = size - actual.total()
    return Verdict(max(0, short), max((actual - offered).total(), -short))


def _number(expr: Expr | None) -> int | None:
    """Returns the value of a literal; None for anything else."""
    return int(expr.value) if isinstance(expr, Lit) and expr.value is not None else None
