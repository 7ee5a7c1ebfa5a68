"""Parses the text of a statement into its value, the columns of its answer and the range of its query."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tidemill.errors import TidemillError, utf16_offset
from tidemill.sql import not_yet
from tidemill.sql.answers import AnswerColumns, columns_of
from tidemill.sql.clauses import FORMATS, UNKNOWN_FORMAT, read_create
from tidemill.sql.codec import to_json
from tidemill.sql.cursor import Cursor, TextRange
from tidemill.sql.statements import Statement
from tidemill.sql.verbs import (
    read_alter,
    read_describe,
    read_drop,
    read_explain,
    read_refresh,
    read_show,
    read_vacuum,
    read_verify,
)


@dataclass(frozen=True, slots=True)
class Parsed:
    """A statement, the columns [name, Spark's JSON type, nullable] of its answer, and the range of its query.

    `query` is the character range (start, stop) in Python's characters (code points), stop exclusive; None if the
    statement has no query of its own.
    """

    statement: Statement
    columns: AnswerColumns
    query: TextRange | None

    def to_json(self, sql: str) -> dict[str, Any]:
        """Returns the planner endpoint's answer to `parse`. `sql` is the text: the JVM counts UTF-16 characters."""
        query = [utf16_offset(sql, offset) for offset in self.query] if self.query is not None else None
        return {"statement": to_json(self.statement), "columns": self.columns, "query": query}


def parse(sql: str) -> Parsed:
    """Reads one statement that this version supports. Raises TidemillError, which points into `sql`, for any other."""
    statement, query, clauses = read(sql)
    for clause, (start, stop) in clauses:
        if clause == UNKNOWN_FORMAT:
            reason = f"a view is stored as {' or '.join(FORMATS)}"
            raise TidemillError(
                "TIDEMILL_FORMAT_UNSUPPORTED", {"format": sql[start:stop], "reason": reason}, (start, stop)
            )
    not_yet.check(clauses)
    return Parsed(statement, columns_of(statement), query)


def read(sql: str) -> tuple[Statement, TextRange | None, list[tuple[str, TextRange]]]:
    """Reads any statement of Tidemill's SQL. Returns it, the range of its query, and the clauses for `not_yet`."""
    cursor = Cursor(sql)
    for word, reader in _READERS.items():
        if cursor.at(word):
            statement, query = reader(cursor)
            cursor.end()
            return statement, query, cursor.clauses
    raise cursor.error("expected a statement on incremental views")


def _without_query(reader: Callable[[Cursor], Statement]) -> Callable[[Cursor], tuple[Statement, None]]:
    return lambda cursor: (reader(cursor), None)


_READERS: Mapping[str, Callable[[Cursor], tuple[Statement, TextRange | None]]] = {
    "CREATE": read_create,
    "REFRESH": _without_query(read_refresh),
    "VERIFY": _without_query(read_verify),
    "EXPLAIN": read_explain,
    "SHOW": _without_query(read_show),
    "DESCRIBE": _without_query(read_describe),
    "DESC": _without_query(read_describe),
    "ALTER": read_alter,
    "VACUUM": _without_query(read_vacuum),
    "DROP": _without_query(read_drop),
}
