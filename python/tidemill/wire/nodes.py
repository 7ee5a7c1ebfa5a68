"""Nodes of the plans that go to the JVM (wire format 1): for each kind a function that makes its JSON.

A node's own arguments come first, its inputs last. Types of columns are texts as in `plan.datatype`. The leaves
`state`, `staged`, `result` and `held` never reach the JVM: `runtime.run.binder` turns them into `files`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias, get_args

from tidemill.plan.datatype import type_from_text, type_to_text
from tidemill.plan.expr import Col, Expr
from tidemill.plan.ops import Named, SortKey
from tidemill.wire.expressions import expr_to_json, exprs_to_json, named_to_json, order_to_json

WireNode: TypeAlias = dict[str, Any]
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
    "numbered",
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


def inputs_of(made: Mapping[str, Any]) -> list[WireNode]:
    """The inputs of a node; empty for a leaf."""
    return list(made.get("inputs", ()))


def same(columns: Iterable[int]) -> Named:
    """Columns that stay as they are, for `project` and `aggregate`."""
    return tuple((c, Col(c)) for c in columns)


def node(kind: Kind, payload: Mapping[str, Any], *inputs: WireNode) -> WireNode:
    """A node of any kind; the functions below know the arguments of each kind."""
    made = {"op": kind, **payload}
    return over(made, inputs) if inputs else made


def over(made: Mapping[str, Any], inputs: Iterable[WireNode]) -> WireNode:
    """The same node over other inputs."""
    return {**made, "inputs": list(inputs)}


# -- leaves -----------------------------------------------------------------------------------------------------------


def scan(source: int, columns: Iterable[tuple[int, str]], at: Any) -> WireNode:
    """A source at a moment, which the binder turns into a position; None: its current position."""
    return node("scan", {"source": source, "columns": [list(c) for c in columns], "at": at})


def changes(source: int, columns: Iterable[tuple[int, str]], count: int, start: int, end: int) -> WireNode:
    """A source's signed changes between two moments; `count` is the column of counts."""
    shown = [list(c) for c in columns]
    return node("changes", {"source": source, "columns": shown, "count": count, "from": start, "to": end})


def state(name: str, columns: Iterable[Stored], part: str = "") -> WireNode:
    """The pieces of a state; `part` as in `plan.ops.StateScan`."""
    payload = {"name": name, "columns": _stored(columns)}
    return node("state", {**payload, "part": part} if part else payload)


def pieces_from(leaf: WireNode, first: int) -> WireNode:
    """The pieces of a state from number `first` on."""
    return {**leaf, "first": first}


def pieces_until(leaf: WireNode, end: int) -> WireNode:
    """The pieces of a state before number `end`."""
    return {**leaf, "end": end}


@dataclass(frozen=True, slots=True)
class Among:
    """A filter on a state: rows whose `column` is among the values of a step's `field`.

    `nulls`: rows where it is NULL are wanted too.
    """

    column: int
    step: str
    field: str
    nulls: bool


def looked_up(leaf: WireNode, among: Among) -> WireNode:
    """The rows of a state; rows that `among` does not want may be left out."""
    return {**leaf, "among": asdict(among)}


def among_of(leaf: Mapping[str, Any]) -> Among | None:
    """The filter on a state's rows; None if all rows are wanted."""
    among = leaf.get("among")
    return None if among is None else Among(**among)


def staged(step: str, columns: Iterable[Stored]) -> WireNode:
    """The rows that an earlier step of the run wrote."""
    return node("staged", {"step": step, "columns": _stored(columns)})


def result(columns: Iterable[Stored], path_column: int | None = None, row_column: int | None = None) -> WireNode:
    """The view's present content; `path_column` and `row_column` as in `files`."""
    told = {"path_column": path_column, "row_column": row_column}
    return node("result", {"columns": _stored(columns)} | {name: c for name, c in told.items() if c is not None})


def held(columns: Iterable[Stored]) -> WireNode:
    """The held change of the view."""
    return node("held", {"columns": _stored(columns)})


def files(
    listed: Sequence[Mapping[str, Any]],
    columns: Sequence[Stored],
    path_column: int | None = None,
    row_column: int | None = None,
) -> WireNode:
    """The rows of the listed Parquet files that no deletion vector marks; an empty relation if there are no files.

    `path_column` names each row's file, `row_column` the number of the row in it.
    """
    told = {"path_column": (path_column, "string"), "row_column": (row_column, "long")}
    asked = {name: (c, kind) for name, (c, kind) in told.items() if c is not None}
    if not listed:
        return empty([*((c, t) for c, _, t in columns), *asked.values()])
    paths = [{name: f[name] for name in ("path", "bytes", "modified", "dv") if name in f} for f in listed]
    payload: dict[str, Any] = {"paths": paths, "columns": _stored(columns)}
    return node("files", payload | {name: c for name, (c, _) in asked.items()})


def empty(columns: Iterable[tuple[int, str]]) -> WireNode:
    """A relation without rows; columns as (id, type)."""
    return node("empty", {"columns": [[c, type_from_text(t)] for c, t in columns]})


def _stored(columns: Iterable[Stored]) -> list[list[Any]]:
    return [[c, f, type_from_text(t)] for c, f, t in columns]


def stored_columns(leaf: Mapping[str, Any]) -> list[Stored]:
    """The columns of a node that reads stored rows."""
    return [(c, f, type_to_text(t)) for c, f, t in leaf["columns"]]


# -- operators --------------------------------------------------------------------------------------------------------


def project(columns: Iterable[tuple[int, Expr]], child: WireNode) -> WireNode:
    """Exactly these columns."""
    return node("project", {"columns": named_to_json(columns)}, child)


def with_columns(made: Mapping[str, Any], columns: Iterable[tuple[int, Expr]], child: WireNode) -> WireNode:
    """A projection with more columns, over another input."""
    return over({**made, "columns": [*made["columns"], *named_to_json(columns)]}, [child])


def with_aggregates(made: Mapping[str, Any], calls: Iterable[tuple[int, Expr]], child: WireNode) -> WireNode:
    """A grouping with more aggregates, over another input."""
    return over({**made, "aggregates": [*made["aggregates"], *named_to_json(calls)]}, [child])


def where(condition: Iterable[Expr], child: WireNode) -> WireNode:
    """Rows for which every conjunct is true."""
    return node("filter", {"condition": exprs_to_json(condition)}, child)


def union(columns: Sequence[int], *inputs: tuple[Sequence[int], WireNode]) -> WireNode:
    """The rows of all inputs; each input lists its columns in the order of the result."""
    branches = [list(ids) for ids, _ in inputs]
    return node("union", {"columns": list(columns), "from": branches}, *(node for _, node in inputs))


def join(
    kind: str,
    condition: Iterable[Expr],
    left: WireNode,
    right: WireNode,
    broadcast: Side | None = None,
    exists: int | None = None,
    *,
    few: bool = False,
) -> WireNode:
    """A join; `broadcast` names the side to broadcast, `exists` the column of an existence join.

    `few`: the left side has so few rows that they may be found first.
    """
    payload: dict[str, Any] = {"kind": kind, "condition": exprs_to_json(condition), "broadcast": broadcast}
    if exists is not None:
        payload["exists"] = exists
    if few:
        payload["few"] = True
    return node("join", payload, left, right)


def aggregate(keys: Iterable[tuple[int, Expr]], aggregates: Iterable[tuple[int, Expr]], child: WireNode) -> WireNode:
    """Grouping; each aggregate is one call."""
    return node("aggregate", {"keys": named_to_json(keys), "aggregates": named_to_json(aggregates)}, child)


def limit(most: Expr, offset: Expr | None, order: Iterable[SortKey], child: WireNode) -> WireNode:
    """The first rows in an order, after the `offset` rows that are skipped."""
    skipped = None if offset is None else expr_to_json(offset)
    return node("limit", {"limit": expr_to_json(most), "offset": skipped, "order": order_to_json(order)}, child)


def numbered(
    partition: Iterable[Expr], order: Iterable[SortKey], number: int, rank: int, child: WireNode, through: int | None
) -> WireNode:
    """The rows with their number in the order of their partition, and their rank, which rows that tie share.

    `through`: the column for the number of the last row that ties with a row.
    """
    by = {"partition": exprs_to_json(partition), "order": order_to_json(order), "number": number, "rank": rank}
    return node("numbered", by if through is None else {**by, "through": through}, child)


def opaque(number: int, children: int, columns: Iterable[int], inputs: Iterable[WireNode]) -> WireNode:
    """An operator that stays in the JVM, by its number there; inputs after its `children` are those of sub-queries."""
    return over(node("opaque", {"node": number, "children": children, "columns": list(columns)}), inputs)


def replicate(count: Expr, child: WireNode) -> WireNode:
    """Each row repeated as often as its count says."""
    return node("replicate", {"count": expr_to_json(count)}, child)


def observe(name: str, metrics: Iterable[tuple[str, Expr]], child: WireNode) -> WireNode:
    """The rows unchanged, and `metrics` computed over them, which are reported under the name."""
    return node("observe", {"name": name, "metrics": [[m, expr_to_json(e)] for m, e in metrics]}, child)
