"""Nodes of the plans that go to the JVM (wire format 1): a function for each kind makes its JSON.

A node's own arguments come first, its inputs last. Types of columns are texts as of `plan.datatype`. Leaves that only
`runtime.run.binder` can resolve (`state`, `staged`, `result`, `held`) never reach the JVM: they become `files`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias, get_args

from tidemill.plan.datatype import type_from_text, type_to_text
from tidemill.plan.expr import Col, Expr
from tidemill.plan.ops import Named, SortKey
from tidemill.wire.expressions import expr_to_json, exprs_to_json, named_to_json, order_to_json

Node: TypeAlias = dict[str, Any]
Stored: TypeAlias = tuple[int, str, str]
"""A column of stored rows: (id, field, type)."""
Side: TypeAlias = Literal["left", "right"]
Kind: TypeAlias = Literal[
    "scan",
    "changes",
    "state",
    "staged",
    "result",
    "held",
    "files",
    "empty",
    "filter",
    "project",
    "join",
    "aggregate",
    "union",
    "sort",
    "limit",
    "row_wise",
    "window",
    "opaque",
    "replicate",
    "observe",
]
_KINDS: Mapping[str, Kind] = {kind: kind for kind in get_args(Kind)}


def kind_named(name: str) -> Kind:
    """The kind of this name.

    Raises:
        ValueError: for a kind that this version does not know.
    """
    kind = _KINDS.get(name)
    if kind is None:
        raise ValueError(f"unknown operator on the wire: {name!r}")
    return kind


def kind_of(made: Mapping[str, Any]) -> Kind:
    """The kind of a node; raises like `kind_named`."""
    return kind_named(made["op"])


def inputs_of(made: Mapping[str, Any]) -> list[Node]:
    """The inputs of a node; none of a leaf."""
    return list(made.get("inputs", ()))


def same(columns: Iterable[int]) -> Named:
    """Columns as they are, for `project` and `aggregate`."""
    return tuple((c, Col(c)) for c in columns)


def node(kind: Kind, payload: Mapping[str, Any], *inputs: Node) -> Node:
    """A node of any kind; the functions below know what belongs into each."""
    made = {"op": kind, **payload}
    return over(made, inputs) if inputs else made


def over(made: Mapping[str, Any], inputs: Iterable[Node]) -> Node:
    """The same node over other inputs."""
    return {**made, "inputs": list(inputs)}


# -- leaves -----------------------------------------------------------------------------------------------------------


def scan(source: int, columns: Iterable[tuple[int, str]], at: Any) -> Node:
    """A source at a moment, which the binder turns into a position; None: as it is now."""
    return node("scan", {"source": source, "columns": [list(c) for c in columns], "at": at})


def changes(source: int, columns: Iterable[tuple[int, str]], count: int, start: int, end: int) -> Node:
    """A source's signed changes between two moments; `count` is the column of counts."""
    shown = [list(c) for c in columns]
    return node("changes", {"source": source, "columns": shown, "count": count, "from": start, "to": end})


def state(name: str, columns: Iterable[Stored], part: str = "") -> Node:
    """The pieces of a state. `part` as of `plan.ops.StateScan`."""
    payload = {"name": name, "columns": _stored(columns)}
    return node("state", {**payload, "part": part} if part else payload)


def pieces_from(leaf: Node, first: int) -> Node:
    """The pieces of a state from number `first` on."""
    return {**leaf, "first": first}


def pieces_until(leaf: Node, end: int) -> Node:
    """The pieces of a state before number `end`."""
    return {**leaf, "end": end}


@dataclass(frozen=True, slots=True)
class Among:
    """Which rows of a state are wanted: those whose `column` is among the values of a step's `field`.

    `nulls`: or is NULL.
    """

    column: int
    step: str
    field: str
    nulls: bool


def looked_up(leaf: Node, among: Among) -> Node:
    """The rows of a state, of which those that are not wanted may be left out."""
    return {**leaf, "among": asdict(among)}


def among_of(leaf: Mapping[str, Any]) -> Among | None:
    """Which rows of a state are wanted; None for all."""
    among = leaf.get("among")
    return None if among is None else Among(**among)


def staged(step: str, columns: Iterable[Stored]) -> Node:
    """What an earlier step of the run has written."""
    return node("staged", {"step": step, "columns": _stored(columns)})


def result(columns: Iterable[Stored]) -> Node:
    """The view's present content."""
    return node("result", {"columns": _stored(columns)})


def held(columns: Iterable[Stored]) -> Node:
    """The view's change that is held back."""
    return node("held", {"columns": _stored(columns)})


def files(listed: Sequence[Mapping[str, Any]], columns: Sequence[Stored], path_column: int | None = None) -> Node:
    """Exactly the listed Parquet files; an empty relation if there are none. `path_column` names each row's file."""
    if not listed:
        known = [(c, t) for c, _, t in columns]
        return empty(known if path_column is None else [*known, (path_column, "string")])
    paths = [{"path": f["path"], "bytes": f["bytes"], "modified": f["modified"]} for f in listed]
    payload: dict[str, Any] = {"paths": paths, "columns": _stored(columns)}
    return node("files", payload if path_column is None else {**payload, "path_column": path_column})


def empty(columns: Iterable[tuple[int, str]]) -> Node:
    """No rows; columns as (id, type)."""
    return node("empty", {"columns": [[c, type_from_text(t)] for c, t in columns]})


def _stored(columns: Iterable[Stored]) -> list[list[Any]]:
    return [[c, f, type_from_text(t)] for c, f, t in columns]


def stored_columns(leaf: Mapping[str, Any]) -> list[Stored]:
    """The columns of a node that reads stored rows."""
    return [(c, f, type_to_text(t)) for c, f, t in leaf["columns"]]


# -- operators --------------------------------------------------------------------------------------------------------


def project(columns: Iterable[tuple[int, Expr]], child: Node) -> Node:
    """Exactly these columns."""
    return node("project", {"columns": named_to_json(columns)}, child)


def where(condition: Iterable[Expr], child: Node) -> Node:
    """Rows for which every conjunct is true."""
    return node("filter", {"condition": exprs_to_json(condition)}, child)


def union(columns: Sequence[int], *inputs: tuple[Sequence[int], Node]) -> Node:
    """The rows of all inputs, each with its columns in the order of the result's."""
    branches = [list(ids) for ids, _ in inputs]
    return node("union", {"columns": list(columns), "from": branches}, *(node for _, node in inputs))


def join(
    kind: str,
    condition: Iterable[Expr],
    left: Node,
    right: Node,
    broadcast: Side | None = None,
    exists: int | None = None,
) -> Node:
    """A join; `broadcast` names a side to be broadcast, `exists` the column of an existence join."""
    payload = {"kind": kind, "condition": exprs_to_json(condition), "broadcast": broadcast}
    return node("join", payload if exists is None else {**payload, "exists": exists}, left, right)


def aggregate(keys: Iterable[tuple[int, Expr]], aggregates: Iterable[tuple[int, Expr]], child: Node) -> Node:
    """Grouping; each aggregate one call."""
    return node("aggregate", {"keys": named_to_json(keys), "aggregates": named_to_json(aggregates)}, child)


def limit(most: Expr, offset: Expr | None, order: Iterable[SortKey], child: Node) -> Node:
    """The first rows in an order, after those that `offset` skips."""
    skipped = None if offset is None else expr_to_json(offset)
    return node("limit", {"limit": expr_to_json(most), "offset": skipped, "order": order_to_json(order)}, child)


def opaque(number: int, children: int, columns: Iterable[int], inputs: Iterable[Node]) -> Node:
    """An operator that the JVM keeps, by its number there; the inputs after the `children` are its sub-queries'."""
    return over(node("opaque", {"node": number, "children": children, "columns": list(columns)}), inputs)


def replicate(count: Expr, child: Node) -> Node:
    """Each row as often as its count says."""
    return node("replicate", {"count": expr_to_json(count)}, child)


def observe(name: str, metrics: Iterable[tuple[str, Expr]], child: Node) -> Node:
    """The rows as they are, and `metrics` over them, which come back under the name."""
    return node("observe", {"name": name, "metrics": [[m, expr_to_json(e)] for m, e in metrics]}, child)
