"""The columns of each statement's answer, with types in Spark's JSON form."""

from __future__ import annotations

from typing import Any, TypeAlias

from tidemill.sql.statements import (
    Describe,
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

AnswerColumns: TypeAlias = list[list[Any]]

_STRINGS = {"type": "array", "elementType": "string", "containsNull": False}
_CHANGES = {
    "type": "struct",
    "fields": [
        {"name": "inserts", "type": "long", "nullable": False, "metadata": {}},
        {"name": "deletes", "type": "long", "nullable": False, "metadata": {}},
    ],
}
_STRING_MAP = {"type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": True}

# Name, type, nullable: the meaning of each is in docs/statements.md.
REFRESH: AnswerColumns = [
    ["run", "long", True],
    ["view", "string", False],
    ["point", "integer", True],
    ["trigger", "string", False],
    ["kind", "string", False],
    ["reason", "string", True],
    ["methods", _STRINGS, True],
    ["rows_in", _CHANGES, True],
    ["rows_out", _CHANGES, True],
    ["started_at", "timestamp", True],
    ["duration_ms", "long", True],
    ["cpu_ms", "long", True],
    ["jobs", "integer", True],
    ["estimated_cost", "double", True],
    ["measured_cost", "double", True],
    ["state_bytes", "long", True],
    ["positions", _STRING_MAP, True],
    ["regret", "double", True],
    ["rows_read", "long", True],
]

_COLUMNS: dict[type[Any], AnswerColumns] = {
    Refresh: REFRESH,
    RefreshViews: REFRESH,
    ShowRefreshes: REFRESH,
    Verify: [["matches", "boolean", False], ["missing", "long", False], ["unexpected", "long", False]],
    Explain: [["plan", "string", False]],
    ShowViews: [
        ["namespace", "string", False],
        ["viewName", "string", False],
        ["status", "string", False],
        ["policy", "string", True],
        ["lastRun", "long", True],
        ["lastOutputAt", "timestamp", True],
        ["lastKind", "string", True],
        ["lastReason", "string", True],
        ["nextPointAt", "timestamp", True],
        ["lagSeconds", "long", True],
    ],
    ShowCreate: [["createtab_stmt", "string", False]],
    Describe: [["col_name", "string", False], ["data_type", "string", False], ["comment", "string", True]],
    Vacuum: [["path", "string", False]],
}


def columns_of(statement: Statement) -> AnswerColumns:
    """Returns the columns of the answer; none for statements that return nothing."""
    return _COLUMNS.get(type(statement), [])
