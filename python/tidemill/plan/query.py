"""The analysed query as the planner knows it: its tree, and facts about columns, expressions and sources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tidemill.plan.expr import Col, Expr, Handle, Timed, walk
from tidemill.plan.kinds import SourceKind
from tidemill.plan.ops import Scan
from tidemill.plan.tree import Tree


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
    """Facts about an expression that stays in the JVM; `text` names columns by #id."""

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
    kind: SourceKind
    name: str
    id: str
    fields: tuple[tuple[str, str, bool], ...]
    rows: float | None
    bytes: float | None
    entry: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Query:
    """An analysed and normalised query: its tree, and facts about its columns, expressions and sources."""

    number: int
    columns: Mapping[int, Column]
    expressions: Mapping[int, ExpressionInfo]
    sources: Mapping[int, SourceInfo]
    root: Tree
    output: tuple[tuple[int, str], ...]
    findings: Mapping[str, Any]
    document: Mapping[str, Any]

    def info(self, expr: Expr) -> ExpressionInfo | None:
        """Facts about a handle; None for other expressions."""
        return self.expressions.get(expr.number) if isinstance(expr, Handle | Timed) else None

    def columns_of(self, expr: Expr) -> frozenset[int]:
        """Ids of the columns that an expression reads."""
        found: set[int] = set()
        for part in walk(expr):
            if isinstance(part, Col):
                found.add(part.id)
            elif isinstance(part, Handle | Timed):
                found |= self.expressions[part.number].columns
        return frozenset(found)

    @property
    def clock(self) -> int | None:
        """The number of the source that stands for the clock; None if nothing in the query reads the clock."""
        return next((n for n, s in self.sources.items() if s.kind == "clock"), None)

    def reads_clock(self, expr: Expr) -> bool:
        """True if the value of an expression of the query depends on the clock."""
        return any(info is not None and info.time_dependent for info in map(self.info, walk(expr)))

    def has(self, tree: Tree) -> bool:
        """True if a part of the query is written like this."""
        return tree in _parts(self.root)

    def scans(self, source: int) -> tuple[Scan, ...]:
        """The distinct scans of a source, in the order of the tree."""
        operators = (part.op for part in _parts(self.root))
        return tuple(dict.fromkeys(op for op in operators if isinstance(op, Scan) and op.source == source))


def _parts(tree: Tree) -> Iterator[Tree]:
    yield tree
    for below in tree.inputs:
        yield from _parts(below)


COUNT_FIELD = "_n"
"""Default name of the count column in files of signed rows."""


def count_field(names: Iterable[str]) -> str:
    """A name for the count column in files that have columns of these names.

    >>> count_field(["a", "n"]), count_field(["_N", "__n"])
    ('_n', '___n')
    """
    taken = {name.lower() for name in names}
    name = COUNT_FIELD
    while name in taken:
        name = f"_{name}"
    return name
