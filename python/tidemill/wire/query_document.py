"""The reader of the query document that the JVM hands over (version 1): JSON to frozen objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

from tidemill.plan.datatype import type_to_text
from tidemill.plan.kinds import JOIN_KINDS, OPERATOR_NAMES, SOURCE_KINDS, one_of
from tidemill.plan.ops import (
    Aggregate,
    Filter,
    Join,
    Limit,
    Opaque,
    Project,
    QueryOp,
    RowWise,
    Scan,
    Sort,
    Union,
    Window,
    WindowCall,
)
from tidemill.plan.query import Call, Column, Equality, ExpressionInfo, Query, SourceInfo
from tidemill.plan.tree import Tree
from tidemill.wire.expressions import expr_from_json, exprs_from_json, named_from_json, order_from_json
from tidemill.wire.nodes import inputs_of

WIRE_VERSION = 1


def read_query(document: Mapping[str, Any]) -> Query:
    """Reads a query document.

    Raises:
        ValueError: if its version is not `WIRE_VERSION`, or for an operator that this version does not know.
    """
    if document["version"] != WIRE_VERSION:
        raise ValueError(f"query document of version {document['version']}, expected {WIRE_VERSION}")
    return Query(
        number=document.get("query", 0),
        columns={
            c["id"]: Column(c["id"], c["name"], type_to_text(c["type"]), c["nullable"]) for c in document["columns"]
        },
        expressions={e["handle"]: _expression(e) for e in document["expressions"]},
        sources=read_sources(document),
        root=_tree(document["root"]),
        output=tuple((c, n) for c, n in document["output"]),
        findings=document.get("findings", {}),
        document=document,
    )


def read_sources(document: Mapping[str, Any]) -> dict[int, SourceInfo]:
    """Reads the sources of a query document, by number."""
    return {s["source"]: _source(s) for s in document["sources"]}


def _expression(data: Mapping[str, Any]) -> ExpressionInfo:
    equal, aggregate = data.get("equal"), data.get("aggregate")
    return ExpressionInfo(
        handle=data["handle"],
        text=data["text"],
        columns=frozenset(data["columns"]),
        type=type_to_text(data["type"]),
        nullable=data["nullable"],
        deterministic=data["deterministic"],
        time_dependent=data.get("time_dependent", False),
        functions=tuple(data.get("functions") or ()),
        equal=Equality(expr_from_json(equal["left"]), expr_from_json(equal["right"]), equal["null_safe"])
        if equal
        else None,
        compare=data.get("compare"),
        aggregate=_call(aggregate) if aggregate else None,
    )


def _call(data: Mapping[str, Any]) -> Call:
    condition, buffers = data.get("filter"), data.get("buffers")
    return Call(
        function=data["function"].lower(),
        args=exprs_from_json(data["args"]),
        distinct=data["distinct"],
        filter=expr_from_json(condition) if condition else None,
        buffers=tuple(type_to_text(b) for b in buffers) if buffers is not None else None,
    )


def _source(data: Mapping[str, Any]) -> SourceInfo:
    return SourceInfo(
        source=data["source"],
        kind=one_of(SOURCE_KINDS, data["kind"], "a source's kind"),
        name=data["name"],
        id=data["id"],
        fields=tuple((n, type_to_text(t), bool(nullable)) for n, t, nullable in data["fields"]),
        rows=data.get("rows"),
        bytes=data.get("bytes"),
        entry=data,
    )


def _tree(data: Mapping[str, Any]) -> Tree:
    """A node of the document with all nodes below it."""
    inputs = tuple(map(_tree, inputs_of(data)))
    return Tree(_op(data), inputs)


def _op(data: Mapping[str, Any]) -> QueryOp:
    name = next((name for name in OPERATOR_NAMES if name == data["op"]), None)
    match name:
        case "scan":
            return Scan(data["source"], tuple((c, f) for c, f in data["columns"]))
        case "filter":
            return Filter(exprs_from_json(data["condition"]))
        case "project":
            return Project(named_from_json(data["columns"]))
        case "join":
            kind = one_of(JOIN_KINDS, data["kind"], "a join's kind")
            return Join(kind, exprs_from_json(data["condition"]), data.get("exists"))
        case "aggregate":
            return Aggregate(named_from_json(data["keys"]), named_from_json(data["aggregates"]))
        case "union":
            return Union(tuple(data["columns"]), tuple(tuple(b) for b in data["from"]))
        case "sort":
            return Sort(order_from_json(data["order"]))
        case "limit":
            return read_limit(data)
        case "row_wise":
            return RowWise(data["name"], data["node"], tuple(data["columns"]), data["text"])
        case "window":
            return _window(data)
        case "opaque":
            columns = tuple(data["columns"])
            return Opaque(data["name"], data["node"], data["reason"], columns, data["children"], data["text"])
        case None:
            raise ValueError(f"unknown operator on the wire: {data['op']!r}")
        case _:
            assert_never(name)


def _window(data: Mapping[str, Any]) -> Window:
    calls = tuple(map(_window_call, data["calls"]))
    partition, order = exprs_from_json(data["partition"]), order_from_json(data.get("order", ()))
    return Window(data["node"], tuple(data["columns"]), partition, calls, data["text"], order)


def _window_call(data: Mapping[str, Any]) -> WindowCall:
    rows = tuple(data["rows"]) if data.get("rows") else None
    since = expr_from_json(data["since"]) if data.get("since") else None
    return WindowCall(data["function"], data["frame"], data["floating"], rows, since)


def read_limit(data: Mapping[str, Any]) -> Limit:
    """The operator of a `limit` node."""
    limit, offset = expr_from_json(data["limit"]), data.get("offset")
    return Limit(limit, expr_from_json(offset) if offset else None, order_from_json(data["order"]))
