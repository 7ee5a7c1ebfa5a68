"""Reads the statements about existing views: REFRESH, VERIFY, EXPLAIN, SHOW, DESCRIBE, ALTER, VACUUM, DROP."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tidemill.errors import TidemillError
from tidemill.sql.clauses import (
    invalid_clause,
    misplaced,
    read_create,
    read_expect,
    read_policy,
    read_properties,
    read_property_key,
    read_query,
    read_state_budget,
    read_work,
)
from tidemill.sql.cursor import Cursor, TextRange
from tidemill.sql.schedule import read_schedule
from tidemill.sql.statements import (
    Action,
    Alter,
    Describe,
    Drop,
    Explain,
    Name,
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
    Suspend,
    UnsetProperties,
    Vacuum,
    Verify,
)

EXPLAIN_MODES = ("PLAN", "COST", "STATE", "MEMO", "JSON", "DOT")


def read_refresh(cursor: Cursor) -> Refresh | RefreshViews:
    if cursor.take("REFRESH", "INCREMENTAL", "VIEWS"):
        return RefreshViews(*_read_which(cursor))
    cursor.expect("REFRESH", "INCREMENTAL", "VIEW")
    name = cursor.names()
    options: dict[str, Any] = {}
    choices: Mapping[tuple[str, ...], tuple[str, Callable[[], Any]]] = {
        ("AT",): ("point", cursor.signed_integer),
        ("FULL",): ("full", lambda: True),
        ("DRY", "RUN"): ("dry_run", lambda: True),
        ("CASCADE",): ("cascade", lambda: True),
    }
    while not cursor.at_end():
        start = cursor.peek().start
        words = cursor.choice(choices, "AT, FULL, DRY RUN or CASCADE")
        field, read = choices[words]
        if field in options:
            raise TidemillError("DUPLICATE_CLAUSES", {"clauseName": " ".join(words)}, cursor.since(start))
        options[field] = read()
    return Refresh(name, **options)


def read_verify(cursor: Cursor) -> Verify:
    cursor.expect("VERIFY", "INCREMENTAL", "VIEW")
    name = cursor.names()
    start = cursor.peek().start
    if not cursor.take("SAMPLE"):
        return Verify(name)
    place = cursor.peek().start
    sample = cursor.number()
    if not 0 < sample <= 100:
        raise invalid_clause("SAMPLE", "the percentage must be above 0 and up to 100", cursor.since(place))
    cursor.expect("PERCENT")
    cursor.mark("SAMPLE", cursor.since(start))
    return Verify(name, sample)


def read_explain(cursor: Cursor) -> tuple[Explain, TextRange | None]:
    cursor.expect("EXPLAIN", "INCREMENTAL")
    mode = next((mode for mode in EXPLAIN_MODES if cursor.take(mode)), "PLAN")
    if cursor.take("VIEW"):
        return Explain(mode, view=cursor.names()), None
    if cursor.at("CREATE"):
        create, span = read_create(cursor)
        return Explain(mode, create=create), span
    span = cursor.query()
    return Explain(mode, query=cursor.sql[span[0] : span[1]]), span


def read_show(cursor: Cursor) -> ShowViews | ShowRefreshes | ShowCreate:
    cursor.expect("SHOW")
    if cursor.take("CREATE", "INCREMENTAL", "VIEW"):
        return ShowCreate(cursor.names())
    if cursor.take("REFRESHES"):
        name = None
        if not (cursor.at_end() or cursor.at("LIMIT")):
            cursor.choose("FROM", "IN")
            name = cursor.names()
        return ShowRefreshes(name, cursor.integer() if cursor.take("LIMIT") else None)
    cursor.expect("INCREMENTAL", "VIEWS")
    return ShowViews(*_read_which(cursor))


def _read_which(cursor: Cursor) -> tuple[Name | None, str | None]:
    """Reads which views are meant: a database and a pattern, both optional."""
    database = cursor.names() if cursor.take("FROM") or cursor.take("IN") else None
    pattern = cursor.string() if cursor.take("LIKE") or cursor.peek().kind == "string" else None
    return database, pattern


def read_describe(cursor: Cursor) -> Describe:
    cursor.choose("DESCRIBE", "DESC")
    cursor.expect("INCREMENTAL", "VIEW")
    # A view may be called `extended`.
    extended = cursor.at("EXTENDED") and cursor.at_name(1)
    if extended:
        cursor.skip()
    return Describe(cursor.names(), extended)


def read_vacuum(cursor: Cursor) -> Vacuum:
    start = cursor.peek().start
    cursor.expect("VACUUM", "INCREMENTAL", "VIEW")
    name = cursor.names()
    retain = None
    if cursor.take("RETAIN"):
        place = cursor.peek().start
        retain = cursor.number()
        if retain < 0:
            raise invalid_clause("RETAIN", "the number of hours must not be negative", cursor.since(place))
        cursor.expect("HOURS")
    dry_run = cursor.take("DRY", "RUN")
    cursor.mark("VACUUM INCREMENTAL VIEW", cursor.since(start))
    return Vacuum(name, retain, dry_run)


def read_drop(cursor: Cursor) -> Drop:
    cursor.expect("DROP", "INCREMENTAL", "VIEW")
    if cursor.at("IF") and cursor.at_name(1) and not cursor.at("EXISTS", ahead=1):
        raise cursor.error("missing 'EXISTS'", cursor.peek(1))
    if_exists = cursor.take("IF", "EXISTS")
    return Drop(cursor.names(), if_exists)


def read_alter(cursor: Cursor) -> tuple[Alter, TextRange | None]:
    cursor.expect("ALTER", "INCREMENTAL", "VIEW")
    if any(len(words) > 1 and cursor.at(*words) for words in _ACTIONS):
        raise cursor.error("expected a name")
    name = cursor.names()
    start = cursor.peek().start
    words = cursor.choice(_ACTIONS, "one of " + ", ".join(" ".join(words) for words in _ACTIONS))
    if words == ("AS",) and (late := misplaced(cursor)) is not None:
        clause, ahead = late
        raise cursor.error(f"{clause.text} is not part of a query; it has an ALTER of its own", cursor.peek(ahead))
    action, span = _ACTIONS[words](cursor)
    cursor.mark("ALTER INCREMENTAL VIEW ... " + " ".join(words), cursor.since(start))
    return Alter(name, action), span


def _set_query(cursor: Cursor) -> tuple[Action, TextRange | None]:
    query, span = read_query(cursor)
    return SetQuery(query), span


def _unset_properties(cursor: Cursor) -> tuple[Action, None]:
    if_exists = cursor.take("IF", "EXISTS")
    return UnsetProperties(cursor.listed(lambda: read_property_key(cursor)), if_exists), None


_ACTIONS: Mapping[tuple[str, ...], Callable[[Cursor], tuple[Action, TextRange | None]]] = {
    ("SET", "SCHEDULE"): lambda cursor: (SetSchedule(read_schedule(cursor)), None),
    ("SET", "FINAL", "WORK"): lambda cursor: (SetWork(read_work("FINAL")(cursor)), None),
    ("SET", "TOTAL", "WORK"): lambda cursor: (SetWork(read_work("TOTAL")(cursor)), None),
    ("SET", "STATE", "BUDGET"): lambda cursor: (SetStateBudget(read_state_budget(cursor)), None),
    ("SET", "EXPECT"): lambda cursor: (SetExpect(read_expect(cursor, empty=True)), None),
    ("SET", "REFRESH", "POLICY"): lambda cursor: (SetPolicy(read_policy(cursor)), None),
    ("SET", "TBLPROPERTIES"): lambda cursor: (SetProperties(read_properties(cursor)), None),
    ("SET", "COMMENT"): lambda cursor: (SetComment(cursor.string()), None),
    ("UNSET", "TBLPROPERTIES"): _unset_properties,
    ("AS",): _set_query,
    ("RENAME", "TO"): lambda cursor: (RenameTo(cursor.names()), None),
    ("SUSPEND",): lambda cursor: (Suspend(), None),
    ("RESUME",): lambda cursor: (Resume(), None),
}
