"""The refreshes of a view that ended with an error: rows of SHOW REFRESHES beside those of its runs.

They are in `_tidemill/failures.json`, which is no part of the log: numbers of runs have no gaps, and no run reads this
file. CREATE makes it, empty, so that a failed refresh adds no file. It is written as a whole: readers see the old rows
or the new ones. Each row has the id of its view, so that rows that a late writer leaves for a view that was dropped are
never shown for another one at that place. The newest `MOST` rows are kept.

Writing is of no consequence for anything else: if it fails, the row is lost. So it is if two processes note failures of
one view at the same moment.
"""

from __future__ import annotations

import heapq
import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any

from tidemill.runtime.storage import beside
from tidemill.runtime.storage.files import Files, child
from tidemill.runtime.storage.small import readable
from tidemill.runtime.view.definition import VIEW_FILE
from tidemill.runtime.view.history import RunRow
from tidemill.runtime.view.views import View

FILE = "_tidemill/failures.json"
FORMAT = 1
MOST = 100
"""Failed refreshes of a view that are kept."""
_WRITING = threading.Lock()


def prepare(files: Files, location: str) -> None:
    """Makes the file of a view that CREATE is about to make, if it can be made."""
    with suppress(Exception):
        files.write(child(location, FILE), _text([]), lasting=False)


def note(view: View, row: RunRow) -> None:
    """Adds the row of a failed refresh of a view, unless the view is gone or the file cannot be written."""
    with suppress(Exception), _WRITING:
        files, location = view.files, view.location
        there, text = files.read_many([child(location, VIEW_FILE), child(location, FILE)])
        if there is None:
            return
        rows = [{"id": view.definition.id, **row.to_json()}, *_stored(text)]
        files.write(child(location, FILE), _text(rows[:MOST]))
        beside.take_back_if_gone(files, location, VIEW_FILE, FILE)


def noted(view: View) -> list[RunRow]:
    """Returns the rows of failed refreshes of a view, newest first. Those in a damaged file are lost."""
    stored = _stored(view.files.read(child(view.location, FILE)))
    return [RunRow.from_json(row) for row in stored if row["id"] == view.definition.id]


def history(view: View, limit: int | None = None) -> list[RunRow]:
    """Returns the `limit` newest rows of runs and of failed refreshes of a view, or all of them, newest first."""
    found = newest_first([view.history(limit), noted(view)])
    return [*islice(found, limit)]


def newest_first(histories: Iterable[Iterable[RunRow]]) -> Iterator[RunRow]:
    """Yields the rows of several histories by the time at which they ended. Each history keeps its order."""
    return heapq.merge(*histories, key=lambda row: -(row.started_at + 1000 * (row.duration_ms or 0)))


def _stored(text: str | None) -> list[Mapping[str, Any]]:
    return readable(text, _rows) or []


def _rows(content: Any) -> list[Mapping[str, Any]]:
    """Returns the rows of a file. Raises ValueError, or what `RunRow.from_json` raises, if they are none."""
    if content["format"] != FORMAT:
        raise ValueError(content["format"])
    for row in content["rows"]:
        RunRow.from_json(row)
        str(row["id"])
    return list(content["rows"])


def _text(rows: Iterable[Mapping[str, Any]]) -> str:
    return json.dumps({"format": FORMAT, "rows": list(rows)}, ensure_ascii=False)
