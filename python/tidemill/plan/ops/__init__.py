"""Operators of the plan IR: frozen payloads without their inputs, so that trees and the memo share them."""

from __future__ import annotations

from typing import TypeAlias

from tidemill.plan.ops.forms import (
    Answer,
    CallParts,
    Changes,
    Combine,
    Crossing,
    Empty,
    Final,
    FinalChange,
    FormOp,
    FromStart,
    Gather,
    HeldScan,
    JoinChange,
    KeyFilter,
    Keys,
    Less,
    LookUp,
    Merge,
    Negate,
    Net,
    Pad,
    Partial,
    Reach,
    ReachedWindow,
    ResultScan,
    StateScan,
    Sum,
    Unsign,
)
from tidemill.plan.ops.query import (
    Aggregate,
    Bounds,
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
    Union,
    Window,
    WindowCall,
)

__all__ = [
    "Aggregate",
    "Answer",
    "Bounds",
    "CallParts",
    "Changes",
    "Combine",
    "Crossing",
    "Empty",
    "Filter",
    "Final",
    "FinalChange",
    "FormOp",
    "FromStart",
    "Gather",
    "HeldScan",
    "Join",
    "JoinChange",
    "KeyFilter",
    "Keys",
    "Less",
    "Limit",
    "LookUp",
    "Merge",
    "Named",
    "Negate",
    "Net",
    "Op",
    "Opaque",
    "Pad",
    "Partial",
    "Project",
    "QueryOp",
    "Reach",
    "ReachedWindow",
    "ResultScan",
    "RowWise",
    "Scan",
    "Sort",
    "SortKey",
    "StateScan",
    "Sum",
    "Union",
    "Unsign",
    "Window",
    "WindowCall",
    "state_of",
]

Op: TypeAlias = QueryOp | FormOp
"""All operators. An exhaustive `match` ends in `assert_never`, so that mypy reports operators that it forgets."""


def state_of(op: Op) -> str | None:
    """The name of the state that an operator reads; None if it reads none."""
    match op:
        case StateScan(name=name) | LookUp(StateScan(name=name)):
            return name
        case _:  # no other operator reads a state
            return None
