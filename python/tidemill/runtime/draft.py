"""A definition in the making: what CREATE, OR REPLACE and ALTER ... AS find out about a query before anything is
written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tidemill.bridge.jvm import Jvm
from tidemill.errors import TidemillError
from tidemill.runtime import analysis, sessions
from tidemill.runtime.definition import ViewColumn
from tidemill.sql.not_yet import not_in_effect
from tidemill.sql.statements import Create, to_json


@dataclass(frozen=True, slots=True)
class Draft:
    """A statement, analysed in a working session under the settings that the view will keep."""

    statement: Create
    name: tuple[str, ...]
    working: Jvm
    captured: Mapping[str, Any]
    document: analysis.Document
    columns: tuple[ViewColumn, ...]
    query_columns: tuple[str, ...]

    def fields(self) -> dict[str, Any]:
        """The fields of a `Definition` that the query decides."""
        return {
            "statement": to_json(self.statement),
            "query": self.statement.query,
            "settings": self.captured["confs"],
            "catalog": self.captured["catalog"],
            "namespace": tuple(self.captured["namespace"]),
            "columns": self.columns,
            "query_columns": self.query_columns,
            "sources": tuple(self.document["sources"]),
            "functions": analysis.functions(self.document),
            "order_dropped": bool(self.document.get("order_dropped")),
            "time_dependent": bool(self.document["findings"].get("time_dependent")),
        }

    def warnings(self) -> Iterator[str]:
        """What the user should know, one text each."""
        view = ".".join(self.name)
        for clause, text in not_in_effect(self.statement):
            yield f"{view}: {clause} is not in effect. {text}"
        for function in analysis.functions(self.document):
            yield (
                f"{view} uses the function {function}, which exists in this session only: a refresh in a"
                " session without it will fail."
            )
        if self.document.get("order_dropped"):
            yield f"{view}: a stored view has no order; the ORDER BY at its end is left out."


@contextmanager
def drafted(jvm: Jvm, statement: Create, name: tuple[str, ...]) -> Iterator[Draft]:
    """Analyses the statement's query under the caller's settings; the analysis lasts as long as the block.

    Raises TIDEMILL_TEMPORARY_OBJECT, TIDEMILL_NON_DETERMINISTIC, TIDEMILL_COLUMN_MISMATCH, and what Spark says.
    """
    captured = jvm.invoke("settings", {})
    working = sessions.working(jvm, captured["confs"])
    assert isinstance(statement.query, str), "the iterative form is refused by the parser"
    with analysis.analysed(working, statement.query, captured["catalog"], captured["namespace"]) as found:
        analysis.check_findings(found, statement.policy)
        columns = _columns(statement, found, name)
        document = {**found, "output": [[c, v.name] for (c, _), v in zip(found["output"], columns, strict=True)]}
        yield Draft(statement, name, working, captured, document, columns, tuple(n for _, n in found["output"]))


def schema_of(columns: Sequence[ViewColumn]) -> dict[str, Any]:
    """The catalog's schema of a view."""
    return {"type": "struct", "fields": [_field(c) for c in columns]}


def _columns(statement: Create, document: analysis.Document, name: Sequence[str]) -> tuple[ViewColumn, ...]:
    types = analysis.column_types(document)
    output = document["output"]
    if statement.columns and len(statement.columns) != len(output):
        raise TidemillError(
            "TIDEMILL_COLUMN_MISMATCH",
            {"view": ".".join(name), "expected": len(statement.columns), "actual": len(output)},
        )
    given = statement.columns or [None] * len(output)
    columns = tuple(
        ViewColumn(c.name if c else n, types[i], c.comment if c else None)
        for (i, n), c in zip(output, given, strict=True)
    )
    seen: set[str] = set()
    for column in columns:
        # Parquet files of a view are read in sessions of either case sensitivity.
        if column.name.lower() in seen:
            raise TidemillError("COLUMN_ALREADY_EXISTS", {"columnName": f"`{column.name}`"})
        seen.add(column.name.lower())
    return columns


def _field(column: ViewColumn) -> dict[str, Any]:
    metadata = {"comment": column.comment} if column.comment is not None else {}
    # A refresh may bring the first NULL: a stored column is always nullable.
    return {"name": column.name, "type": column.type, "nullable": True, "metadata": metadata}
