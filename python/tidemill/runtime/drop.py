"""DROP INCREMENTAL VIEW: the catalog entry, and the files of a view that was created without LOCATION."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from tidemill.bridge.jvm import Jvm
from tidemill.errors import TidemillError
from tidemill.runtime import catalog, leases, views
from tidemill.runtime.definition import DROPPING, VIEW_FILE, Definition
from tidemill.runtime.files import Files, child
from tidemill.sql.statements import Drop


def drop(jvm: Jvm, statement: Drop, sql: str, warnings: list[str]) -> list[list[Any]]:
    """Raises TIDEMILL_NOT_FOUND (not with IF EXISTS), TIDEMILL_NOT_AN_INCREMENTAL_VIEW.

    The entry goes first: a view that is half removed must not be readable.
    """
    try:
        entry = views.entry(jvm, statement.name)
    except TidemillError as error:
        if statement.if_exists and error.condition == "TIDEMILL_NOT_FOUND":
            return []
        raise
    files = Files(jvm)
    location = files.qualify(entry.location) if entry.location is not None else None
    view, owned = None, False
    if location is not None:
        with suppress(ValueError, KeyError, TypeError):  # a view whose files are damaged can be dropped all the same
            owned = _owned(files, location) and catalog.KEEP_FILES not in entry.properties
            view = views.at_location(files, location, entry.name)
    if owned and view is not None:
        # Should this process die between entry and files, the next CREATE knows that they are nobody's.
        files.write(child(view.location, DROPPING), str(view.next_run))
    catalog.drop_entry(jvm, entry.name)
    if view is not None:
        leases.give_up(view)
    if owned:
        files.delete([str(location)])
    if view is not None:
        with suppress(Exception):  # a session that cannot have Delta tables has nothing to forget
            view.result.forget()
    return []


def _owned(files: Files, location: str) -> bool:
    """Whether the files go with the view: not if CREATE named the place, or if nothing there says what it did."""
    text = files.read(child(location, VIEW_FILE))
    return text is not None and Definition.from_json(text, location).owns_files
