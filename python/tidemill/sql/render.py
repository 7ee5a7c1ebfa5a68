"""Renders a CREATE INCREMENTAL VIEW statement as text. Parsing that text gives the same statement again."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tidemill.sql.schedule import clock
from tidemill.sql.statements import (
    AtProgress,
    AtTime,
    ColumnClause,
    Create,
    Cron,
    Every,
    Expectation,
    Iterate,
    Name,
    OnChange,
    OnDemand,
    Point,
    Trigger,
)

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ESCAPES = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\0": "\\u0000"}


def create_text(statement: Create) -> str:
    """Returns the text of a statement, one clause per line. Defaults are left out; the query stays as written."""
    head = "CREATE OR REPLACE" if statement.or_replace else "CREATE"
    head += " INCREMENTAL VIEW " + ("IF NOT EXISTS " if statement.if_not_exists else "") + name_text(statement.name)
    if statement.columns:
        head += f" ({', '.join(_column(column) for column in statement.columns)})"
    return "\n".join([head, *_clauses(statement), "AS", _query(statement.query)])


def _clauses(statement: Create) -> Iterable[str]:
    if statement.comment is not None:
        yield f"COMMENT {string_text(statement.comment)}"
    if statement.format is not None:
        # One quoted part, so that a class name with dots is read back as one name.
        yield f"USING {name_text((statement.format,))}"
    if statement.partitioned_by:
        yield f"PARTITIONED BY ({_names(statement.partitioned_by)})"
    if statement.location is not None:
        yield f"LOCATION {string_text(statement.location)}"
    if statement.properties:
        pairs = (f"{string_text(key)} = {string_text(value)}" for key, value in statement.properties)
        yield f"TBLPROPERTIES ({', '.join(pairs)})"
    yield f"SCHEDULE ({schedule_text(statement.schedule)})"
    if statement.work is not None:
        yield f"{statement.work.which} WORK <= {number_text(statement.work.limit)}"
    if statement.state_budget is not None:
        yield f"STATE BUDGET {string_text(statement.state_budget)}"
    if statement.expect:
        yield f"EXPECT ({expect_text(statement.expect)})"
    if statement.policy != "AUTO":
        yield f"REFRESH POLICY {statement.policy}"
    if statement.deferred:
        yield "INITIALIZE DEFERRED"


def schedule_text(points: Iterable[Point]) -> str:
    """Returns the text between the parentheses of SCHEDULE."""
    return ", ".join(_point(point) for point in points)


def _point(point: Point) -> str:
    price = "" if point.cost == 1 else f" COST {number_text(point.cost)}"
    return trigger_text(point.trigger) + price + ("" if point.output else " NO OUTPUT")


def trigger_text(trigger: Trigger) -> str:
    """Returns a trigger as SCHEDULE takes it."""
    match trigger:
        case OnDemand():
            return "ON DEMAND"
        case OnChange(tables, count, unit):
            of = f" OF {', '.join(name_text(table) for table in tables)}" if tables else ""
            return f"ON CHANGE{of}" + (f" AFTER {count} {unit}" if count is not None else "")
        case AtTime(second):
            return f"AT {string_text(clock(second))}"
        case Every(number, unit):
            return f"EVERY {number} {unit}"
        case Cron(expression, zone):
            at = f" AT TIME ZONE {string_text(zone)}" if zone is not None else ""
            return f"CRON {string_text(expression)}{at}"
        case AtProgress(percent):
            return f"AT PROGRESS {number_text(percent)} PERCENT"


def expect_text(expectations: Iterable[Expectation]) -> str:
    """Returns the text between the parentheses of EXPECT."""
    return ", ".join(map(_expectation, expectations))


def _expectation(expectation: Expectation) -> str:
    table = name_text(expectation.table)
    if expectation.rows is None:
        return f"{table} COMPLETE"
    per = " PER DAY" if expectation.per == "DAY" else ""
    deletes = f" WITH {number_text(expectation.deletes)} PERCENT DELETES" if expectation.deletes else ""
    return f"{table} {expectation.rows} ROWS{per}{deletes}"


def _query(query: str | Iterate) -> str:
    if isinstance(query, str):
        return query
    rounds = str(query.times) if query.exactly else f"MAX {query.times}"
    lines = [
        f"ITERATE {name_text((query.name,))}({_names(query.columns)}) {rounds} TIMES",
        f"  FROM ({query.initial})",
        f"  STEP ({query.step})",
    ]
    if query.until is not None:
        lines.append(f"  UNTIL ({query.until}) KEY ({_names(query.key)})")
    return "\n".join([*lines, "  APPROXIMATE"] if query.approximate else lines)


def _column(column: ColumnClause) -> str:
    return name_text((column.name,)) + (f" COMMENT {string_text(column.comment)}" if column.comment is not None else "")


def _names(names: Iterable[str]) -> str:
    return ", ".join(name_text((name,)) for name in names)


def name_text(name: Name) -> str:
    """Returns the text of a name of one or more parts, quoted where it must be.

    >>> name_text(("db", "my view"))
    'db.`my view`'
    """
    return ".".join(part if _PLAIN.fullmatch(part) else "`" + part.replace("`", "``") + "`" for part in name)


def string_text(value: str) -> str:
    r"""Returns a string literal with this value. Text that looks like a variable is escaped from Spark's substitution.

    >>> print(string_text("it's 100\\%"), string_text("${x}"))
    'it\'s 100\\%' '\u0024{x}'
    """
    return "'" + "".join(_ESCAPES.get(char, char) for char in value).replace("${", "\\u0024{") + "'"


def number_text(value: float) -> str:
    """Returns the shortest text that reads back as this number.

    >>> number_text(0.25), number_text(3.0)
    ('0.25', '3')
    """
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
