"""Answers as text for people, in place of columns: what `tidemill sql` shows for CREATE, REFRESH and SHOW REFRESHES."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from tidemill.sql.answers import REFRESH, AnswerColumns

KINDS = ("create", "refresh", "refresh_views", "show_refreshes")
"""The kinds of statements whose answers have a form as text."""
_NAMES = [name for name, *_ in REFRESH]
_OF_VIEWS = ("view", "run", "kind", "reason", "rows_in", "rows_out", "duration_ms", "jobs", "rows_read")
"""The columns of REFRESH INCREMENTAL VIEWS that are shown."""
_SHORT = ("run", "kind", "reason", "rows_in", "rows_out", "started_at", "duration_ms", "jobs", "rows_read", "methods")
"""The columns of SHOW REFRESHES that are shown."""


def columns(kind: str) -> AnswerColumns:
    """Returns the columns of the answer to a statement of `KINDS`: one, of lines."""
    names = {"create": "created", "refresh": "run", "refresh_views": "runs", "show_refreshes": "refreshes"}
    return [[names[kind], "string", False]]


def of_run(row: Sequence[Any], zone: str) -> list[str]:
    """Returns the lines for one run, a row of REFRESH: name and value of each column. Times are in `zone`."""
    width = max(map(len, _NAMES))
    return [f"{name:{width}}  {_text(name, cell, zone)}" for name, cell in zip(_NAMES, row, strict=True)]


def of_history(rows: Sequence[Sequence[Any]], zone: str, *, of_all: bool = False) -> list[str]:
    """Returns a table of runs, rows of SHOW REFRESHES, with the columns that are read most.

    `of_all`: they are of several views, which are named then.
    """
    return _table(("view", *_SHORT) if of_all else _SHORT, rows, zone)


def newest_run(rows: Iterable[Sequence[Any]]) -> Sequence[Any] | None:
    """Returns the newest of rows of SHOW REFRESHES that is of a run; None if there is none."""
    return next((row for row in rows if row[_NAMES.index("run")] is not None), None)


def of_views(rows: Sequence[Sequence[Any]], zone: str) -> list[str]:
    """Returns a table of the runs of several views, rows of REFRESH."""
    return _table(_OF_VIEWS, rows, zone)


def _table(names: Sequence[str], rows: Sequence[Sequence[Any]], zone: str) -> list[str]:
    places = [_NAMES.index(name) for name in names]
    table = [[*names], *([_text(_NAMES[p], row[p], zone) for p in places] for row in rows)]
    widths = [max(len(line[n]) for line in table) for n in range(len(names))]
    return ["  ".join(f"{cell:{width}}" for cell, width in zip(line, widths, strict=True)).rstrip() for line in table]


def of_create(name: str, newest: Sequence[Any] | None, began: int) -> str:
    """Returns the line that says what CREATE did.

    `newest`: the row of the view's newest run, if there is one. `began`: when the statement did, in microseconds.
    """
    if newest is None:
        return f"{name} is created and not filled: the first REFRESH fills it"
    run = dict(zip(_NAMES, newest, strict=True))
    name = run["view"]
    if run["started_at"] < began:
        return f"{name} was there already, with its run {run['run']}; nothing was loaded"
    rows = f"{run['rows_out'][0]} rows" if run["rows_out"] is not None else "its rows"
    return f"{name} is created and holds {rows}: run {run['run']}, {run['duration_ms']} ms, {run['jobs']} jobs"


def _text(name: str, cell: Any, zone: str) -> str:
    match cell:
        case None:
            return "-"
        case float():
            return f"{cell:.1f}"
        case [int(inserts), int(deletes)]:
            return f"+{inserts} -{deletes}"
        case list() | tuple():
            return ", ".join(map(str, cell))
        case Mapping():
            return ", ".join(f"{key}: {value}" for key, value in cell.items())
        case int() if name == "started_at":
            return f"{datetime.fromtimestamp(cell / 1e6, _zone(zone)):%Y-%m-%d %H:%M:%S}"
    return str(cell)


def _zone(name: str) -> ZoneInfo | Any:
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, LookupError):  # an offset, which Spark knows as a zone
        return UTC
