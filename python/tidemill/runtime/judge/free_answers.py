"""LIMIT leaves freedom: all rows ranked before the cut must be there, and of the rows tied at the cut any.

Used by VERIFY when the plain comparison finds a difference and the query ends in a LIMIT.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidemill.runtime.judge.compare import Columns, File, Verdict, bag, comparable
from tidemill.runtime.run.jobs import Execution
from tidemill.wire import built as wire
from tidemill.wire.built import Expr, Ids, Node


@dataclass(frozen=True, slots=True)
class Cut:
    """A query that ends in LIMIT: the projections above it (outermost first) and the limit node."""

    projections: tuple[Mapping[str, Any], ...]
    limit: Mapping[str, Any]

    def over(self, ids: Ids, child: Node, extra: Sequence[tuple[int, Expr]], needed: Iterable[int]) -> Node:
        """`child`, made to show `needed` and the `extra` columns."""
        return wire.project([*((c, wire.col(c)) for c in sorted(needed)), *extra], child)

    def above(self, child: Node, carried: Sequence[int]) -> Node:
        """The projections over `child`, each carrying the columns `carried` along."""
        node = child
        for p in reversed(self.projections):
            node = wire.project([*((c, e) for c, e in p["columns"]), *((c, wire.col(c)) for c in carried)], node)
        return node


def find_cut(root: Mapping[str, Any]) -> Cut | None:
    """The LIMIT at the top of a query, under projections at most."""
    projections = []
    node = root
    while node["op"] == "project":
        projections.append(node)
        node = node["inputs"][0]
    return Cut(tuple(projections), node) if node["op"] == "limit" else None


def compare_cut(
    execution: Execution,
    cut: Cut,
    needed: frozenset[int],
    output: Sequence[int],
    columns: Columns,
    live: Sequence[File],
) -> Verdict:
    """Compares as `compare` does, for a bound query ending in LIMIT.

    `needed`: the columns below the limit that the projections above it, or the output, read.
    """
    if not cut.limit["order"]:
        return _any_rows(execution, cut, output, columns, live)
    ids = Ids()
    ranks = ids.fresh(len(cut.limit["order"]))
    with_ranks = [(r, order[0]) for r, order in zip(ranks, cut.limit["order"], strict=True)]
    below = cut.over(ids, cut.limit["inputs"][0], with_ranks, needed)
    top: Node = {**cut.limit, "inputs": [below], "order": [[wire.col(r), *o[1:]] for r, o in _zip(ranks, cut)]}
    expected = _collect(execution, ids, cut.above(top, ranks), ranks, output, columns)
    actual = bag(_stored(execution, ids, columns, live))
    last = _rank(expected[-1], len(ranks)) if expected else None
    before = bag([r[len(ranks) :] for r in expected if _rank(r, len(ranks)) != last])
    # Everything that ties with some answer row: those at the cut are candidates.
    other = ids.fresh(len(ranks))
    answer = wire.project([(o, wire.col(r)) for o, r in zip(other, ranks, strict=True)], top)
    same = [wire.fn("<=>", wire.col(a), wire.col(b)) for a, b in zip(ranks, other, strict=True)]
    ties = wire.join("semi", below, answer, same)
    rows = _collect(execution, ids, cut.above(ties, ranks), ranks, output, columns)
    candidates = bag([r[len(ranks) :] for r in rows if _rank(r, len(ranks)) == last])
    rest = actual - before
    missing = (before - actual).total()
    unexpected = (rest - candidates).total()
    short = len(expected) - actual.total()
    return Verdict(max(missing, short), max(unexpected, -short))


def _zip(ranks: Sequence[int], cut: Cut) -> Iterable[tuple[int, Sequence[Any]]]:
    return zip(ranks, cut.limit["order"], strict=True)


def _rank(row: Sequence[Any], n: int) -> str:
    return next(iter(bag([row[:n]])))


def _collect(
    execution: Execution, ids: Ids, node: Node, ranks: Sequence[int], output: Sequence[int], columns: Columns
) -> list[list[Any]]:
    shown = ids.fresh(len(output))
    plan = wire.project(
        [
            *((r, wire.col(r)) for r in ranks),
            *((s, comparable(c, type_)) for s, c, (_, type_) in zip(shown, output, columns, strict=True)),
        ],
        node,
    )
    wanted = [(c, f"c{i}") for i, c in enumerate([*ranks, *shown])]
    return execution.rows(plan, wanted, step="verify ties")


def _stored(execution: Execution, ids: Ids, columns: Columns, live: Sequence[File]) -> list[list[Any]]:
    stored = ids.fresh(len(columns))
    leaf = wire.files(live, [(i, name, type_) for i, (name, type_) in zip(stored, columns, strict=True)])
    return _collect(execution, ids, leaf, [], stored, columns)


def _any_rows(execution: Execution, cut: Cut, output: Sequence[int], columns: Columns, live: Sequence[File]) -> Verdict:
    """LIMIT without order: any rows of the input are right, as many as the limit wants."""
    ids = Ids()
    rows = cut.above(cut.limit["inputs"][0], [])
    offered: Counter[str] = bag(_collect(execution, ids, rows, [], output, columns))
    actual = bag(_stored(execution, ids, columns, live))
    wanted = max(0, offered.total() - int((cut.limit.get("offset") or {}).get("lit") or 0))
    size = min(wanted, int(cut.limit["limit"]["lit"])) if "lit" in cut.limit["limit"] else actual.total()
    short = size - actual.total()
    return Verdict(max(0, short), max((actual - offered).total(), -short))
