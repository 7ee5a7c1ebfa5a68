"""Reads CREATE INCREMENTAL VIEW, and the clauses that it shares with ALTER INCREMENTAL VIEW."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tidemill.errors import TidemillError
from tidemill.search.contract.run_kinds import POLICIES, Policy
from tidemill.sql.cursor import Cursor, TextRange
from tidemill.sql.schedule import read_schedule
from tidemill.sql.statements import ColumnClause, Create, Expectation, Iterate, WorkBound

UNKNOWN_FORMAT = "USING another format"
FORMATS = ("parquet", "delta")


@dataclass(frozen=True, slots=True)
class Clause:
    """A clause between the column list and AS: its first words, its field of Create, and its reader."""

    words: tuple[str, ...]
    field: str
    read: Callable[[Cursor], Any]
    mark: bool = False

    @property
    def text(self) -> str:
        return " ".join(self.words)


def read_create(cursor: Cursor) -> tuple[Create, TextRange | None]:
    """Reads the statement from CREATE on. Returns it with the range of its query (None for the iterative form)."""
    start = cursor.peek().start
    cursor.expect("CREATE")
    or_replace = cursor.take("OR", "REPLACE")
    if or_replace:
        cursor.mark("OR REPLACE", cursor.since(start))
    cursor.expect("INCREMENTAL", "VIEW")
    if_not_exists = cursor.at("IF", "NOT", "EXISTS")
    if if_not_exists:
        span = cursor.here()[0], cursor.peek(2).stop
        cursor.take("IF", "NOT", "EXISTS")
        if or_replace:
            raise invalid_clause("IF NOT EXISTS", "it cannot be used together with OR REPLACE", span)
    name = cursor.names()
    columns = _read_columns(cursor) if cursor.at("(") else ()
    given = _read_clauses(cursor)
    if "schedule" not in given:
        raise cursor.error("missing 'SCHEDULE'")
    cursor.expect("AS")
    query, span_of_query = read_query(cursor)
    statement = Create(
        name=name, columns=columns, query=query, or_replace=or_replace, if_not_exists=if_not_exists, **given
    )
    return statement, span_of_query


def _read_clauses(cursor: Cursor) -> dict[str, Any]:
    """Reads the clauses up to AS. Returns the fields of Create that they give."""
    given: dict[str, tuple[Clause, Any]] = {}
    while not (cursor.at("AS") or cursor.at_end()):
        clause = next((clause for clause in CLAUSES if cursor.at(*clause.words)), None)
        if clause is None:
            raise cursor.error("expected AS" if "schedule" in given else "expected a clause such as SCHEDULE")
        start = cursor.peek().start
        cursor.take(*clause.words)
        if clause.field in given:
            _refuse_second(given[clause.field][0], clause, cursor.since(start))
        given[clause.field] = clause, clause.read(cursor)
        if clause.mark:
            cursor.mark(clause.text, cursor.since(start))
    return {field: value for field, (_, value) in given.items()}


def _refuse_second(first: Clause, second: Clause, span: TextRange) -> None:
    if first.words != second.words:
        raise invalid_clause(second.text, f"it cannot be used together with {first.text}", span)
    raise TidemillError("DUPLICATE_CLAUSES", {"clauseName": second.text}, span)


def _read_columns(cursor: Cursor) -> tuple[ColumnClause, ...]:
    seen: set[str] = set()

    def read() -> ColumnClause:
        start = cursor.peek().start
        name = cursor.name()
        if name in seen:
            quoted = "`" + name.replace("`", "``") + "`"
            raise TidemillError("COLUMN_ALREADY_EXISTS", {"columnName": quoted}, cursor.since(start))
        seen.add(name)
        return ColumnClause(name, cursor.string() if cursor.take("COMMENT") else None)

    return cursor.listed(read)


def read_query(cursor: Cursor) -> tuple[str | Iterate, TextRange | None]:
    """Reads the query behind AS, to the end of the statement."""
    if cursor.at("ITERATE"):
        return _read_iterate(cursor), None
    span = cursor.query()
    return cursor.sql[span[0] : span[1]], span


def _read_iterate(cursor: Cursor) -> Iterate:
    start = cursor.peek().start

    def part() -> str:
        span = cursor.parenthesised()
        return cursor.sql[span[0] : span[1]]

    cursor.expect("ITERATE")
    name = cursor.name()
    columns = cursor.listed(cursor.name)
    exactly = not cursor.take("MAX")
    place = cursor.here()
    times = cursor.integer()
    if times == 0:
        raise invalid_clause("ITERATE", "the number of rounds must be at least 1", place)
    cursor.expect("TIMES", "FROM")
    initial = part()
    cursor.expect("STEP")
    step = part()
    until: str | None = None
    key: tuple[str, ...] = ()
    if cursor.take("UNTIL"):
        until = part()
        cursor.expect("KEY")
        key = cursor.listed(cursor.name)
    approximate = cursor.take("APPROXIMATE")
    cursor.mark("ITERATE", cursor.since(start))
    return Iterate(name, columns, exactly, times, initial, step, until, key, approximate)


# The clauses, from behind their first words on


def read_properties(cursor: Cursor) -> tuple[tuple[str, str], ...]:
    """Reads `( key [=] value [, ...] )` with Spark's keys and values."""
    seen: set[str] = set()

    def read() -> tuple[str, str]:
        start = cursor.peek().start
        key = read_property_key(cursor)
        if key in seen:
            quoted = "`" + key.replace("`", "``") + "`"
            raise TidemillError("DUPLICATE_KEY", {"keyColumn": quoted}, cursor.since(start))
        seen.add(key)
        if cursor.at(",") or cursor.at(")"):
            raise invalid_clause("TBLPROPERTIES", f"the key {key} has no value", cursor.since(start))
        if not cursor.take("="):
            cursor.take("==")
        if cursor.at("TRUE") or cursor.at("FALSE"):
            return key, cursor.skip().text.lower()
        return key, cursor.string() if cursor.peek().kind == "string" else cursor.decimal_text()

    return cursor.listed(read)


def read_property_key(cursor: Cursor) -> str:
    """Reads a string, or identifiers separated by dots."""
    return cursor.string() if cursor.peek().kind == "string" else ".".join(cursor.names())


def read_policy(cursor: Cursor) -> Policy:
    return cursor.choose(*POLICIES)


def read_work(which: str) -> Callable[[Cursor], WorkBound]:
    """Returns the reader of `<= x` behind FINAL WORK or TOTAL WORK."""

    def read(cursor: Cursor) -> WorkBound:
        cursor.expect("<=")
        start = cursor.peek().start
        limit = cursor.number()
        if which == "FINAL" and not 0 < limit <= 1:
            raise invalid_clause("FINAL WORK", "the fraction must be above 0 and up to 1", cursor.since(start))
        if which == "TOTAL" and limit < 1:
            raise invalid_clause("TOTAL WORK", "the factor must be at least 1", cursor.since(start))
        return WorkBound(which, limit)

    return read


def read_state_budget(cursor: Cursor) -> str:
    start = cursor.peek().start
    text = cursor.string()
    try:
        byte_string(text)
    except ValueError:
        reason = f"'{text}' is not a size such as '2GB', '512m' or '0'"
        raise invalid_clause("STATE BUDGET", reason, cursor.since(start)) from None
    return text


def read_expect(cursor: Cursor, *, empty: bool = False) -> tuple[Expectation, ...]:
    """Reads `( table { n ROWS [PER DAY | PER CYCLE] [WITH d PERCENT DELETES] | COMPLETE } [, ...] )`.

    `empty`: accept `( )` too.
    """
    if empty and cursor.take("(", ")"):
        return ()
    seen: set[tuple[str, ...]] = set()

    def read() -> Expectation:
        start = cursor.peek().start
        table = cursor.names()
        if table in seen:
            raise invalid_clause("EXPECT", f"the table {'.'.join(table)} is given twice", cursor.since(start))
        seen.add(table)
        return _read_expectation(cursor, table)

    return cursor.listed(read)


def _read_expectation(cursor: Cursor, table: tuple[str, ...]) -> Expectation:
    if cursor.take("COMPLETE"):
        return Expectation(table)
    rows = cursor.integer()
    cursor.expect("ROWS")
    per = cursor.choose("DAY", "CYCLE") if cursor.take("PER") else "CYCLE"
    deletes = 0.0
    if cursor.take("WITH"):
        start = cursor.peek().start
        deletes = cursor.number()
        if not 0 <= deletes <= 100:
            raise invalid_clause("EXPECT", "a percentage of deletes lies between 0 and 100", cursor.since(start))
        cursor.expect("PERCENT", "DELETES")
    return Expectation(table, rows, per, abs(deletes))


def _read_format(cursor: Cursor) -> str:
    start = cursor.peek().start
    text = ".".join(cursor.names())
    if text.lower() in FORMATS:
        return text.lower()
    cursor.mark("USING iceberg" if text.lower() == "iceberg" else UNKNOWN_FORMAT, cursor.since(start))
    return text


def _read_location(cursor: Cursor) -> str:
    start = cursor.peek().start
    path = cursor.string()
    if not path.strip():
        raise invalid_clause("LOCATION", "the path is empty", cursor.since(start))
    return path


def _read_deferred(cursor: Cursor) -> bool:
    return cursor.choose("IMMEDIATE", "DEFERRED") == "DEFERRED"


CLAUSES = (
    Clause(("COMMENT",), "comment", Cursor.string),
    Clause(("USING",), "format", _read_format),
    Clause(("PARTITIONED", "BY"), "partitioned_by", lambda cursor: cursor.listed(cursor.name)),
    Clause(("LOCATION",), "location", _read_location),
    Clause(("TBLPROPERTIES",), "properties", read_properties),
    Clause(("SCHEDULE",), "schedule", read_schedule),
    Clause(("FINAL", "WORK"), "work", read_work("FINAL"), mark=True),
    Clause(("TOTAL", "WORK"), "work", read_work("TOTAL"), mark=True),
    Clause(("STATE", "BUDGET"), "state_budget", read_state_budget, mark=True),
    Clause(("EXPECT",), "expect", read_expect),
    Clause(("REFRESH", "POLICY"), "policy", read_policy),
    Clause(("INITIALIZE",), "deferred", _read_deferred),
)


def invalid_clause(clause: str, reason: str, span: TextRange) -> TidemillError:
    """Returns the error for a clause that is well formed but wrong."""
    return TidemillError("TIDEMILL_INVALID_CLAUSE", {"clause": clause, "reason": reason}, span)


_BYTE_STRING = re.compile(r"([0-9]+)([a-z]+)?")
_BYTE_UNITS = {
    unit: 1 << (10 * power)
    for power, units in enumerate((("", "b"), ("k", "kb"), ("m", "mb"), ("g", "gb"), ("t", "tb"), ("p", "pb")))
    for unit in units
}


def byte_string(text: str) -> int:
    """Returns the bytes of a byte string as Spark writes them ('2GB', '512m', '0'). Raises ValueError for other text.

    >>> byte_string("2GB"), byte_string("512m"), byte_string("0")
    (2147483648, 536870912, 0)
    """
    match = _BYTE_STRING.fullmatch(text.strip().lower())
    if match is None or (match[2] or "") not in _BYTE_UNITS or len(match[1]) > 18:
        raise ValueError(f"not a size: {text!r}")
    return int(match[1]) * _BYTE_UNITS[match[2] or ""]
