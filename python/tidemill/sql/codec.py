"""Converts statements and their parts to JSON, and back to the same value.

An object of their classes is {"kind": ..., field: ...}; a tuple is a list.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from tidemill.plan.kinds import one_of
from tidemill.search.contract.run_kinds import POLICIES
from tidemill.sql.statements import (
    Action,
    Alter,
    AtProgress,
    Attached,
    AtTime,
    ColumnClause,
    Create,
    Cron,
    Describe,
    Drop,
    Every,
    Expectation,
    Explain,
    Iterate,
    OnChange,
    OnDemand,
    Point,
    Refresh,
    RefreshViews,
    RenameTo,
    Resume,
    SetComment,
    SetExpect,
    SetPolicy,
    SetProperties,
    SetQuery,
    SetSchedule,
    SetStateBudget,
    SetWork,
    ShowCreate,
    ShowRefreshes,
    ShowViews,
    Statement,
    Suspend,
    UnsetProperties,
    Vacuum,
    Verify,
    WorkBound,
)

_STATEMENTS: tuple[type[Any], ...] = (
    Create,
    Refresh,
    RefreshViews,
    Verify,
    Explain,
    ShowViews,
    ShowRefreshes,
    ShowCreate,
    Describe,
    Alter,
    Vacuum,
    Drop,
)
_ACTIONS: tuple[type[Any], ...] = (
    *(SetSchedule, SetWork, SetStateBudget, SetExpect, SetPolicy, SetProperties, UnsetProperties, SetComment),
    *(SetQuery, RenameTo, Suspend, Resume, Attached),
)
_PARTS: tuple[type[Any], ...] = (
    *(OnDemand, OnChange, AtTime, Every, Cron, AtProgress, Point, ColumnClause, WorkBound, Expectation, Iterate),
    *_ACTIONS,
)
_CLASSES: Mapping[str, type[Any]] = {cls.kind: cls for cls in (*_STATEMENTS, *_PARTS)}


def to_json(statement: Statement | Action | Point | Expectation | WorkBound) -> dict[str, Any]:
    """Returns the JSON object of a statement or of one of its parts."""
    encoded: dict[str, Any] = _encode(statement)
    return encoded


def from_json(document: Mapping[str, Any]) -> Statement:
    """Returns the statement of a JSON object. Raises ValueError if it is no statement."""
    statement = _decode(document)
    if not isinstance(statement, _STATEMENTS):
        raise ValueError(f"not a statement: {document.get('kind')!r}")
    return statement  # type: ignore[no-any-return]  # isinstance with a tuple of Any narrows to Any


def action_from_json(document: Mapping[str, Any]) -> Action:
    """Returns the action of a JSON object. Raises ValueError if it is no action of ALTER."""
    action: Action = _decode(document)
    if not isinstance(action, _ACTIONS):
        raise ValueError(f"not an action of ALTER: {document.get('kind')!r}")
    return action  # type: ignore[no-any-return]  # isinstance with a tuple of Any narrows to Any


def _encode(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_encode(item) for item in value]
    if hasattr(value, "kind"):
        return {"kind": value.kind} | {field.name: _encode(getattr(value, field.name)) for field in fields(value)}
    return value


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_decode(item) for item in value)
    if isinstance(value, Mapping):
        if value.get("kind") not in _CLASSES:
            raise ValueError(f"unknown kind: {value.get('kind')!r}")
        rest = {name: _decode(item) for name, item in value.items() if name != "kind"}
        if "policy" in rest:
            one_of(POLICIES, rest["policy"], "policy")
        return _CLASSES[value["kind"]](**rest)
    return value
