"""From a parsed statement to the function that executes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tidemill.bridge.jvm import Jvm
from tidemill.runtime.statements.alter import alter
from tidemill.runtime.statements.create import create
from tidemill.runtime.statements.describe import describe
from tidemill.runtime.statements.drop import drop
from tidemill.runtime.statements.explain import explain
from tidemill.runtime.statements.refresh import refresh
from tidemill.runtime.statements.show import show_create, show_refreshes, show_views
from tidemill.runtime.statements.vacuum import vacuum
from tidemill.runtime.statements.verify import verify
from tidemill.sql.codec import from_json
from tidemill.sql.statements import Statement

AnswerRows = list[list[Any]]


@dataclass(slots=True)
class StatementAnswer:
    """Rows in the cell encoding of the bridge, and warnings for the log."""

    rows: AnswerRows = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


Handler = Callable[[Jvm, Any, str, list[str]], AnswerRows]

# kind of statement -> function(jvm, statement, text, warnings) -> rows
HANDLERS: Mapping[str, Handler] = {
    "create": create,
    "refresh": refresh,
    "vacuum": vacuum,
    "verify": verify,
    "explain": explain,
    "show_views": show_views,
    "show_refreshes": show_refreshes,
    "show_create": show_create,
    "describe": describe,
    "alter": alter,
    "drop": drop,
}


def execute(jvm: Jvm, statement: Statement | Mapping[str, Any], sql: str) -> dict[str, Any]:
    """Executes one statement in the session of `jvm`: {"rows": [[cell...]...], "warnings": [text...]}.

    Raises TidemillError, or JvmFailure for an error of Spark's.
    """
    parsed = from_json(statement) if isinstance(statement, Mapping) else statement
    answer = StatementAnswer()
    answer.rows = HANDLERS[parsed.kind](jvm, parsed, sql, answer.warnings)
    return {"rows": answer.rows, "warnings": answer.warnings}
