"""The query document that the JVM hands over (version 1), read into frozen objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tidemill.plan.expr import Col, Expr, Handle, expr_from_json, type_to_text, walk
from tidemill.plan.ops import Op, Scan, Tree, tree_from_json

WIRE_VERSION = 1


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the query: `type` is Spark's JSON type as text."""

    id: int
    name: str
    type: str
    nullable: bool


@dataclass(frozen=True, slots=True)
class Equality:
    """`left = right`, or `left <=> right` when null-safe."""

    left: Expr
    right: Expr
    null_safe: bool


@dataclass(frozen=True, slots=True)
class Call:
    """One aggregate call; `buffers` are Spark's buffer types, None for imperative aggregates."""

    function: str
    args: tuple[Expr, ...]
    distinct: bool
    filter: Expr | None
    buffers: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class ExpressionInfo:
    """What planning may know of an expression kept in the JVM; `text` names columns by #id."""

    handle: int
    text: str
    columns: frozenset[int]
    type: str
    nullable: bool
    deterministic: bool
    time_dependent: bool
    functions: tuple[str, ...]
    equal: Equality | None
    compare: Mapping[str, Any] | None
    aggregate: Call | None


@dataclass(frozen=True, slots=True)
class SourceInfo:
    """A source of the query; `rows` and `bytes` are None where no statistics exist."""

    source: int
    kind: str
    name: str
    id: str
    fields: tuple[tuple[str, str, bool], ...]
    rows: float | None
    bytes: float | None
    entry: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Query:
    """An analysed and normalised query: the tree, and what is known of its columns, expressions and sources."""

    number: int
    columns: Mapping[int, Column]
    expressions: Mapping[int, ExpressionInfo]
    sources: Mapping[int, SourceInfo]
    root: Tree
    output: tuple[tuple[int, str], ...]
    findings: Mapping[str, Any]
    document: Mapping[str, Any]

    def info(self, expr: Expr) -> ExpressionInfo | None:
        """What is known of a handle; None for the other forms."""
        return self.expressions.get(expr.number) if isinstance(expr, Handle) else None

    def columns_of(self, expr: Expr) -> frozenset[int]:
        """Ids of the columns that an expression reads."""
        found: set[int] = set()
        for part in walk(expr):
            if isinstance(part, Col):
                found.add(part.id)
            elif isinstance(part, Handle):
                found |= self.expressions[part.number].columns
        return frozenset(found)

    def scans(self, source: int) -> tuple[Scan, ...]:
        """The places where a source is read, each once, in the order of the tree."""
        return tuple(dict.fromkeys(op for op in _operators(self.root) if isinstance(op, Scan) and op.source == source))


def _operators(tree: Tree) -> Iterator[Op]:
    yield tree.op
    for below in tree.inputs:
        yield from _operators(below)


COUNT_FIELD = "_n"
"""The column of signed counts in files of which nothing says otherwise."""


def count_field(names: Iterable[str]) -> str:
    """The column of signed counts in files that have columns of these names beside it.

    >>> count_field(["a", "n"]), count_field(["_N", "__n"])
    ('_n', '___n')
    """
    taken = {name.lower() for name in names}
    name = COUNT_FIELD
    while name in taken:
        name = f"_{name}"
    return name


def read_query(document: Mapping[str, Any]) -> Query:
    """Read a query document.

    Raises:
        ValueError: if its version is not `WIRE_VERSION`.
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
        root=tree_from_json(document["root"]),
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
        kind=data["kind"],
        name=data["name"],
        id=data["id"],
        fields=tuple((n, type_to_text(t), bool(nullable)) for n, t, nullable in data["fields"]),
        rows=data.get("rows"),
        bytes=data.get("bytes"),
        entry=data,
    )
