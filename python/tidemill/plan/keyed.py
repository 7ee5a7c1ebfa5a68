"""Fields of sources whose values bring rows together: what windows are partitioned by, and aggregates grouped."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from tidemill.plan.expr import Col, Expr
from tidemill.plan.grouping import is_exact
from tidemill.plan.ops import Aggregate, Join, Limit, Project, Scan, Union, Window
from tidemill.plan.query import Query
from tidemill.plan.tree import Tree

Field: TypeAlias = tuple[int, str]
"""A field of a source: (number, name)."""


def keyed_fields(query: Query) -> dict[int, tuple[str, ...]]:
    """The fields by source. Only fields that a query shows as they are, of types whose equal values are the same."""
    found: dict[int, set[str]] = defaultdict(set)
    for source, field in _keyed(query.root):
        kinds = {f: kind for f, kind, _ in query.sources[source].fields}
        if is_exact(kinds[field]):
            found[source].add(field)
    return {source: tuple(sorted(fields)) for source, fields in found.items()}


def _keyed(tree: Tree) -> Iterator[Field]:
    below: dict[int, Field] = {}
    for i in tree.inputs:
        yield from _keyed(i)
        below |= _origins(i)
    match tree.op:
        case Window(partition=partition):
            yield from _of(partition, below)
        case Aggregate(keys):
            yield from _of((e for _, e in keys), below)
        case _:  # no other operator brings rows together by value
            pass


def _of(exprs: Iterable[Expr], origins: Mapping[int, Field]) -> Iterator[Field]:
    yield from (origins[e.id] for e in exprs if isinstance(e, Col) and e.id in origins)


def _origins(tree: Tree) -> dict[int, Field]:
    """The fields that columns show as they are."""
    below = {c: field for i in tree.inputs for c, field in _origins(i).items()}
    match tree.op:
        case Scan(source, columns):
            return {c: (source, field) for c, field in columns}
        case Project(named) | Aggregate(keys=named):
            return {c: below[e.id] for c, e in named if isinstance(e, Col) and e.id in below}
        case Join(kind="semi" | "anti" | "existence"):
            return _origins(tree.inputs[0])
        case (
            Union() | Limit()
        ):  # rows of several tables; or only some rows, of which values are no measure of the table
            return {}
        case _:  # rows of the inputs, with their columns
            return below
