"""DROP INCREMENTAL VIEW: the catalog entry, and the files of a view that was created without LOCATION."""

from __future__ import annotations

from typing import Any

from tidemill.bridge.jvm import Jvm
from tidemill.errors import TidemillError
from tidemill.runtime import catalog, leases, views
from tidemill.runtime.definition import DROPPING
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
    view = views.at_location(files, location, entry.name) if location is not None else None
    owned = view is not None and view.definition.owns_files and catalog.KEEP_FILES not in entry.properties
    if view is not None and owned:
        # Should this process die between entry and files, the next CREATE knows that they are nobody's.
        files.write(child(view.location, DROPPING), "")
    catalog.drop_entry(jvm, entry.name)
    if view is not None:
        leases.give_up(view)
        if owned:
            files.delete([view.location])
    return []
