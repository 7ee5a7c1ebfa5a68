"""Trees of operators: the queries as they are read, before the memo shares their parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

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
)


@dataclass(frozen=True, slots=True)
class Tree:
    """An operator of a query over its inputs."""

    op: QueryOp
    inputs: tuple[Tree, ...] = ()


def columns_of(tree: Tree) -> tuple[int, ...]:
    """The column ids of a query's tree, in order."""
    match tree.op:
        case Scan(_, columns, _):
            return tuple(c for c, _ in columns)
        case Project(columns):
            return tuple(c for c, _ in columns)
        case Aggregate(keys, calls):
            return tuple(c for c, _ in (*keys, *calls))
        case Union(ids, _) | RowWise(columns=ids) | Window(columns=ids) | Opaque(columns=ids):
            return ids
        case Join(kind="inner" | "left" | "right" | "full"):
            return tuple(c for i in tree.inputs for c in columns_of(i))
        case Join(kind="existence", exists=exists):
            assert exists is not None
            return (*columns_of(tree.inputs[0]), exists)
        case Join() | Filter() | Sort() | Limit():
            return columns_of(tree.inputs[0])
        case _:
            assert_never(tree.op)
