"""Reads CREATE INCREMENTAL VIEW, and the clauses that it shares with ALTER INCREMENTAL VIEW."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tidemill.errors import TidemillError
from tidemill.search.contract.run_kinds import POLICIES, Policy
from tidemill.sql.cursor import Cursor, TextRange
from tidemill.sql.schedule import read_schedule, trigger_follows
from tidemill.sql.statements import ColumnClause, Create, Expectation, Iterate, OnDemand, Point, WorkBound

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
    for word in ("INCREMENTAL", "VIEW"):
        if cursor.at("MATERIALIZED"):
            raise cursor.error("an incremental view is always stored: write CREATE INCREMENTAL VIEW")
        cursor.expect(word)
    if_not_exists = cursor.at("IF", "NOT", "EXISTS")
    if if_not_exists:
        span = cursor.here()[0], cursor.peek(2).stop
        cursor.take("IF", "NOT", "EXISTS")
        if or_replace:
            raise invalid_clause("IF NOT EXISTS", "it cannot be used together with OR REPLACE", span)
    name = _read_name(cursor)
    columns = _read_columns(cursor) if cursor.at("(") else ()
    given = {"schedule": (Point(OnDemand()),), **_read_clauses(cursor)}
    cursor.expect("AS")
    if (late := misplaced(cursor)) is not None:
        clause, ahead = late
        raise cursor.error(f"{clause.text} belongs before AS", cursor.peek(ahead))
    query, span_of_query = read_query(cursor)
    statement = Create(
        name=name, columns=columns, query=query, or_replace=or_replace, if_not_exists=if_not_exists, **given
    )
    return statement, span_of_query


def _read_name(cursor: Cursor) -> tuple[str, ...]:
    """Reads the name of the view. A clause where the name should be is no name."""
    if cursor.at("IF", "EXISTS"):
        raise cursor.error("missing 'NOT'", cursor.peek(1))
    parts = 0
    while True:
        at = 2 * parts
        # `as (a)` is a name with a column
        query = cursor.at("AS", ahead=at) and cursor.at_query(at + 1) and not cursor.at("(", ahead=at + 1)
        if query or any(_clearly(cursor, clause, at) for clause in CLAUSES):
            raise cursor.error("expected a name", cursor.peek(at))
        parts += 1
        if not cursor.at(".", ahead=2 * parts - 1):
            return cursor.names()


def misplaced(cursor: Cursor) -> tuple[Clause, int] | None:
    """Returns the first clause of CREATE within the query ahead, and how far ahead it is; None if there is none."""
    for ahead in cursor.outside_parentheses():
        for clause in CLAUSES:
            if _clearly(cursor, clause, ahead):
                return clause, ahead
    return None


def _clearly(cursor: Cursor, clause: Clause, ahead: int) -> bool:
    """Returns True if a clause stands there that is no part of any query, and no name with what may follow one."""
    if not cursor.at(*clause.words, ahead=ahead):
        return False
    behind = ahead + len(clause.words)
    match clause.field:
        case "comment" | "location" | "state_budget":
            return cursor.peek(behind).text.startswith("'")  # double quotes may be those of an alias
        case "format":
            return any(cursor.at(name.upper(), ahead=behind) for name in FORMATS)
        case "partitioned_by":
            return cursor.at("(", ahead=behind)
        case "schedule":
            return trigger_follows(cursor, behind + cursor.at("(", ahead=behind))
        case "work":
            return cursor.at("<=", ahead=behind)
        case "policy":
            return any(cursor.at(policy, ahead=behind) for policy in POLICIES)
        case "deferred":
            return cursor.at("IMMEDIATE", ahead=behind) or cursor.at("DEFERRED", ahead=behind)
        case _:
            return False


def _read_clauses(cursor: Cursor) -> dict[str, Any]:
    """Reads the clauses up to AS. Returns the fields of Create that they give."""
    given: dict[str, tuple[Clause, Any]] = {}
    by_words = {clause.words: clause for clause in CLAUSES}
    while not (cursor.at("AS") or cursor.at_end()):
        start = cursor.peek().start
        if cursor.at("POLICY"):
            raise cursor.error("write REFRESH POLICY")
        if cursor.at("("):
            raise cursor.error("a list of columns stands right behind the name")
        if cursor.at_query():
            raise cursor.error("missing 'AS' before the query")
        clause = by_words[cursor.choice(by_words, "AS, or a clause such as SCHEDULE")]
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
        column = ColumnClause(name, cursor.string() if cursor.take("COMMENT") else None)
        if cursor.peek().kind == "word":
            raise cursor.error("expected ',' or ')': columns have the types of the query")
        return column

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
    """Returns a policy; `INCREMENTAL STRICT` is read as STRICT."""
    policy = cursor.choose(*POLICIES)
    return "STRICT" if policy == "INCREMENTAL" and cursor.take("STRICT") else policy


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
