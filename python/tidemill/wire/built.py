"""Wire nodes that the runtime itself builds: small plans over Parquet files that apply, compare and count.

Shapes are those of the codec (see the query document in `tidemill.plan`): a node is a JSON object with "op", an
expression a JSON object with "col", "lit", "fn" or "cast". Column ids handed out here begin far above those of any
query document.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tidemill.plan import grouping
from tidemill.plan.expr import expr_to_json, type_to_text

Node = dict[str, Any]
Expr = dict[str, Any]
Type = Any  # DataType.json, parsed: a name, or an object for array, struct and map

FIRST_OWN_COLUMN = 1_000_000


class Ids:
    """Hands out fresh column ids for one plan."""

    def __init__(self) -> None:
        self._next: Iterator[int] = itertools.count(FIRST_OWN_COLUMN)

    def fresh(self, n: int) -> list[int]:
        return [next(self._next) for _ in range(n)]

    def one(self) -> int:
        return next(self._next)


def col(column: int) -> Expr:
    return {"col": column}


def lit(value: object, type_: Type) -> Expr:
    return {"lit": value, "type": type_}


def long(value: int) -> Expr:
    return lit(value, "long")


def fn(name: str, *args: Expr) -> Expr:
    return {"fn": name, "args": list(args)}


def partition_text(column: int) -> Expr:
    """The value of a partition column as the text that names its folder; NULL stays NULL."""
    return fn("tidemill_partition_text", col(column))


def holds(plan: Node, op: str) -> bool:
    """Whether a node of this kind is in a plan."""
    return plan["op"] == op or any(holds(i, op) for i in plan.get("inputs", ()))


def changed(plan: Node) -> set[int]:
    """The sources whose changes are read in a plan."""
    below = set[int]().union(*map(changed, plan.get("inputs", ())))
    return below | {int(plan["source"])} if plan["op"] == "changes" else below


def count(plan: Node, op: str) -> int:
    """How many nodes of this kind are in a plan."""
    return int(plan["op"] == op) + sum(count(i, op) for i in plan.get("inputs", ()))


def looked_up(plan: Node) -> Iterator[tuple[str, str]]:
    """The steps and fields whose values are looked up in a plan."""
    if "among" in plan:
        yield plan["among"]["step"], plan["among"]["field"]
    for below in plan.get("inputs", ()):
        yield from looked_up(below)


def files(
    listed: Sequence[Mapping[str, Any]], columns: Sequence[tuple[int, str, Type]], path_column: int | None = None
) -> Node:
    """Exactly the listed Parquet files; an empty relation if there are none."""
    if not listed:
        known = [[c, t] for c, _, t in columns]
        return {"op": "empty", "columns": known + ([[path_column, "string"]] if path_column is not None else [])}
    node: Node = {
        "op": "files",
        "paths": [{"path": f["path"], "bytes": f["bytes"], "modified": f["modified"]} for f in listed],
        "columns": [list(c) for c in columns],
    }
    if path_column is not None:
        node["path_column"] = path_column
    return node


def project(columns: Iterable[tuple[int, Expr]], child: Node) -> Node:
    return {"op": "project", "columns": [list(c) for c in columns], "inputs": [child]}


def where(child: Node, *condition: Expr) -> Node:
    return {"op": "filter", "condition": list(condition), "inputs": [child]}


def union(columns: Sequence[int], *inputs: tuple[Sequence[int], Node]) -> Node:
    return {
        "op": "union",
        "columns": list(columns),
        "inputs": [node for _, node in inputs],
        "from": [list(ids) for ids, _ in inputs],
    }


def join(
    kind: str,
    left: Node,
    right: Node,
    condition: Sequence[Expr],
    broadcast: str | None = None,
    exists: int | None = None,
) -> Node:
    node: Node = {
        "op": "join",
        "kind": kind,
        "condition": list(condition),
        "broadcast": broadcast,
        "inputs": [left, right],
    }
    if exists is not None:
        node["exists"] = exists
    return node


def aggregate(keys: Iterable[tuple[int, Expr]], aggregates: Iterable[tuple[int, Expr]], child: Node) -> Node:
    return {
        "op": "aggregate",
        "keys": [list(k) for k in keys],
        "aggregates": [list(a) for a in aggregates],
        "inputs": [child],
    }


def replicate(count: Expr, child: Node) -> Node:
    return {"op": "replicate", "count": count, "inputs": [child]}


def observe(name: str, metrics: Iterable[tuple[str, Expr]], child: Node) -> Node:
    return {"op": "observe", "name": name, "metrics": [list(m) for m in metrics], "inputs": [child]}


def observed_sum(value: Expr) -> Expr:
    """A metric of `observe`: the sum of BIGINTs, in which a task that Spark does again counts once."""
    return fn("tidemill_observed_sum", value)


def observed_values(value: Expr, most: int) -> Expr:
    """A metric of `observe`: the different values but NULL; NULL if there are more than so many."""
    return fn("tidemill_observed_values", value, long(most))


def among(column: int, type_: Type, values: Iterable[Any], *, nulls: bool) -> Expr:
    """Whether a column has one of these values; `nulls`: or none."""
    found = fn("in", col(column), *(lit(value, type_) for value in values))
    return fn("or", found, fn("isnull", col(column))) if nulls else found


def signed_counts(count: int) -> list[tuple[str, Expr]]:
    """The metrics `inserts` and `deletes` over a column of signed counts."""
    zero = long(0)
    return [
        ("inserts", observed_sum(fn("if", fn(">", col(count), zero), col(count), zero))),
        ("deletes", observed_sum(fn("if", fn("<", col(count), zero), fn("negative", col(count)), zero))),
    ]


def groupable(column: int, type_: Type) -> Expr:
    """`column`, or where Spark cannot group or join by its type, a value that is equal exactly if the column's is."""
    return expr_to_json(grouping.groupable(column, type_to_text(type_)))


def plain(column: int, type_: Type) -> bool:
    """Whether Spark itself groups and joins by this column as it is."""
    return "col" in groupable(column, type_)
