"""The query document that the JVM hands over (version 1), read into frozen objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

from tidemill.plan.expr import Expr, expr_from_json, type_to_text
from tidemill.plan.kinds import JOIN_KINDS, OPERATOR_NAMES, SOURCE_KINDS, one_of
from tidemill.plan.ops import (
    Aggregate,
    Filter,
    Join,
    Limit,
    Named,
    Opaque,
    Project,
    QueryOp,
    RowWise,
    Scan,
    Sort,
    SortKey,
    Tree,
    Union,
    Window,
    WindowCall,
)
from tidemill.plan.query import Call, Column, Equality, ExpressionInfo, Query, SourceInfo

WIRE_VERSION = 1


def read_query(document: Mapping[str, Any]) -> Query:
    """Read a query document.

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
        sources={s["source"]: _source(s) for s in document["sources"]},
        root=_tree(document["root"]),
        output=tuple((c, n) for c, n in document["output"]),
        findings=document.get("findings", {}),
        document=document,
    )


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
        args=tuple(expr_from_json(a) for a in data["args"]),
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
    """A node of the document with all below it."""
    inputs = tuple(_tree(i) for i in data.get("inputs", ()))
    return Tree(_op(data), inputs)


def _op(data: Mapping[str, Any]) -> QueryOp:
    name = next((name for name in OPERATOR_NAMES if name == data["op"]), None)
    match name:
        case "scan":
            return Scan(data["source"], tuple((c, f) for c, f in data["columns"]))
        case "filter":
            return Filter(_exprs(data["condition"]))
        case "project":
            return Project(_named(data["columns"]))
        case "join":
            return Join(
                one_of(JOIN_KINDS, data["kind"], "a join's kind"), _exprs(data["condition"]), data.get("exists")
            )
        case "aggregate":
            return Aggregate(_named(data["keys"]), _named(data["aggregates"]))
        case "union":
            return Union(tuple(data["columns"]), tuple(tuple(b) for b in data["from"]))
        case "sort":
            return Sort(_order(data["order"]))
        case "limit":
            offset = data.get("offset")
            return Limit(
                expr_from_json(data["limit"]), expr_from_json(offset) if offset else None, _order(data["order"])
            )
        case "row_wise":
            return RowWise(data["name"], data["node"], tuple(data["columns"]), data["text"])
        case "window":
            calls = tuple(WindowCall(c["function"], c["frame"], c["floating"]) for c in data["calls"])
            return Window(data["node"], tuple(data["columns"]), _exprs(data["partition"]), calls, data["text"])
        case "opaque":
            columns = tuple(data["columns"])
            return Opaque(data["name"], data["node"], data["reason"], columns, data["children"], data["text"])
        case None:
            raise ValueError(f"unknown operator on the wire: {data['op']!r}")
        case _:
            assert_never(name)


def _exprs(data: Any) -> tuple[Expr, ...]:
    return tuple(expr_from_json(e) for e in data)


def _named(data: Any) -> Named:
    return tuple((c, expr_from_json(e)) for c, e in data)


def _order(data: Any) -> tuple[SortKey, ...]:
    return tuple(SortKey(expr_from_json(e), bool(up), bool(nulls)) for e, up, nulls in data)
