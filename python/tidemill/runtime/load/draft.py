"""A definition in the making: CREATE, OR REPLACE and ALTER ... AS analyse a query before they write anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from tidemill.bridge.jvm import Jvm
from tidemill.errors import TidemillError
from tidemill.plan.datatype import DataType
from tidemill.runtime.before import analysis, graph, sessions
from tidemill.runtime.before.foresight import foreseen
from tidemill.runtime.run.occasion import Occasion
from tidemill.runtime.scheduler import watch
from tidemill.runtime.view import arrivals
from tidemill.runtime.view.definition import ViewColumn
from tidemill.sql.codec import to_json
from tidemill.sql.statements import Create

CASE_SENSITIVE = "spark.sql.caseSensitive"


@dataclass(frozen=True, slots=True)
class Draft:
    """A statement, analysed in a working session under the settings that the view will keep.

    `occasion`: of the initial load, which began with the analysis.
    """

    statement: Create
    name: tuple[str, ...]
    working: Jvm
    captured: Mapping[str, Any]
    document: analysis.Document
    columns: tuple[ViewColumn, ...]
    query_columns: tuple[str, ...]
    occasion: Occasion

    def fields(self) -> dict[str, Any]:
        """Returns the fields of a `Definition` that depend on the query."""
        return {
            "statement": to_json(self.statement),
            "query": self.statement.query,
            "settings": self.captured["confs"],
            "catalog": self.captured["catalog"],
            "namespace": tuple(self.captured["namespace"]),
            "columns": self.columns,
            "query_columns": self.query_columns,
            "sources": tuple(self.document["sources"]),
            "functions": analysis.session_functions(self.document),
            "time_dependent": bool(self.document["findings"].get("time_dependent")),
        }

    def warnings(self, jvm: Jvm) -> Iterator[str]:
        """Yields the warnings for the user."""
        view = ".".join(self.name)
        for function in analysis.session_functions(self.document):
            yield (
                f"{view} uses the function {function}, which exists in this session only: a refresh in a"
                " session without it will fail."
            )
        yield from (f"{view}: {text}" for text in foreseen(jvm, self.statement, self.document["sources"]))
        if self.document.get("order_dropped"):
            yield f"{view}: a stored view has no order; the ORDER BY at its end is left out."


@contextmanager
def drafted(jvm: Jvm, statement: Create, name: tuple[str, ...]) -> Iterator[Draft]:
    """Analyses the statement's query under the caller's settings; the analysis lasts as long as the block.

    Raises TIDEMILL_TEMPORARY_OBJECT, TIDEMILL_NON_DETERMINISTIC, TIDEMILL_COLUMN_MISMATCH, TIDEMILL_INVALID_CLAUSE
    (EXPECT), TIDEMILL_INVALID_SCHEDULE (ON CHANGE), RECURSIVE_VIEW, and Spark's own errors.
    """
    occasion = Occasion.now(jvm, len(statement.schedule), "CREATE")
    captured = sessions.captured(jvm)
    working = sessions.working(jvm, captured["confs"])
    assert isinstance(statement.query, str), "the iterative form is refused by the parser"
    with analysis.analysed(working, statement.query, captured["catalog"], captured["namespace"]) as found:
        analysis.check_findings(found, statement.policy)
        arrivals.expectations(statement.expect, captured["namespace"], (s["name"] for s in found["sources"]))
        watch.check_triggers(statement.schedule, found["sources"], captured["namespace"])
        graph.refuse_cycle(jvm, name, found["sources"])
        cased = working.session.conf().get(CASE_SENSITIVE) == "true"
        columns = _columns(statement, found, name, cased=cased)
        partitions = _partitions(statement, columns, name, cased=cased)
        statement = replace(statement, partitioned_by=partitions)
        named = {**found, "output": [[c, v.name] for (c, _), v in zip(found["output"], columns, strict=True)]}
        document = analysis.partitioned(named, partitions)
        names = tuple(name for _, name in found["output"])
        yield Draft(statement, name, working, captured, document, columns, names, occasion)


def _columns(
    statement: Create, document: analysis.Document, name: Sequence[str], *, cased: bool
) -> tuple[ViewColumn, ...]:
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
        known = column.name if cased else column.name.lower()
        if known in seen:
            raise TidemillError("COLUMN_ALREADY_EXISTS", {"columnName": f"`{column.name}`"})
        seen.add(known)
    return columns


def _partitions(
    statement: Create, columns: Sequence[ViewColumn], name: Sequence[str], *, cased: bool
) -> tuple[str, ...]:
    """Returns the partition columns as the view spells them. Checks them as Spark checks those of a table."""
    found: list[str] = []
    for given in statement.partitioned_by:
        column = next((c for c in columns if c.name == given or (not cased and c.name.lower() == given.lower())), None)
        if column is None:
            raise TidemillError(
                "COLUMN_NOT_DEFINED_IN_TABLE",
                {
                    "colType": "partition",
                    "colName": f"`{given}`",
                    "tableName": ".".join(f"`{part}`" for part in name),
                    "tableCols": ", ".join(f"`{c.name}`" for c in columns),
                },
            )
        if column.name in found:
            raise TidemillError("COLUMN_ALREADY_EXISTS", {"columnName": f"`{column.name}`"})
        if not _parts(column.type):
            type_ = f'"{analysis.type_text(column.type).upper()}"'
            raise TidemillError("INVALID_PARTITION_COLUMN_DATA_TYPE", {"type": type_})
        found.append(column.name)
    if columns and len(found) == len(columns):
        raise TidemillError("ALL_PARTITION_COLUMNS_NOT_ALLOWED", {})
    return tuple(found)


def _parts(type_: DataType) -> bool:
    """Returns True if text can tell all values of the type apart, so that a folder can stand for a value."""
    if not isinstance(type_, str):
        return False
    other = ("binary", "variant", "calendar interval", "interval", "void", "geo", "string collate")
    return not type_.startswith(other)
