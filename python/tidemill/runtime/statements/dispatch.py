"""Calls the function that executes a statement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

from tidemill.bridge.jvm import Jvm
from tidemill.runtime.statements.alter import alter
from tidemill.runtime.statements.create import create
from tidemill.runtime.statements.describe import describe
from tidemill.runtime.statements.drop import drop
from tidemill.runtime.statements.explain import explain
from tidemill.runtime.statements.refresh import refresh, refresh_views
from tidemill.runtime.statements.show import show_create, show_refreshes, show_views
from tidemill.runtime.statements.vacuum import vacuum
from tidemill.runtime.statements.verify import verify
from tidemill.sql.codec import from_json
from tidemill.sql.statements import (
    Alter,
    Create,
    Describe,
    Drop,
    Explain,
    Refresh,
    RefreshViews,
    ShowCreate,
    ShowRefreshes,
    ShowViews,
    Statement,
    Vacuum,
    Verify,
)


def execute(jvm: Jvm, document: Mapping[str, Any], sql: str) -> dict[str, Any]:
    """Executes a statement, given as JSON, in the session of `jvm`: {"rows": [[cell...]...], "warnings": [text...]}.

    `sql` is its text. Cells are in the encoding of the bridge.

    Raises TidemillError, or JvmFailure for an error of Spark's.
    """
    warnings: list[str] = []
    rows = _rows(jvm, from_json(document), sql, warnings)
    return {"rows": rows, "warnings": warnings}


def _rows(jvm: Jvm, statement: Statement, sql: str, warnings: list[str]) -> list[list[Any]]:
    """Executes a statement and returns its rows; appends to `warnings`."""
    match statement:
        case Create():
            return create(jvm, statement, sql, warnings)
        case Alter():
            return alter(jvm, statement, sql, warnings)
        case Drop():
            return drop(jvm, statement, warnings)
        case Refresh():
            return refresh(jvm, statement)
        case RefreshViews():
            return refresh_views(jvm, statement)
        case Verify():
            return verify(jvm, statement)
        case Vacuum():
            return vacuum(jvm, statement)
        case Explain():
            return explain(jvm, statement)
        case Describe():
            return describe(jvm, statement)
        case ShowViews():
            return show_views(jvm, statement)
        case ShowRefreshes():
            return show_refreshes(jvm, statement)
        case ShowCreate():
            return show_create(jvm, statement)
        case _:
            assert_never(statement)
