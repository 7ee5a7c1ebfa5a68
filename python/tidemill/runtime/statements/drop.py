"""DROP INCREMENTAL VIEW: removes the catalog entry, and the files of a view that was created without LOCATION."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from tidemill.bridge.jvm import Jvm
from tidemill.errors import TidemillError
from tidemill.monitor.observer import OBSERVERS
from tidemill.runtime.storage.files import Files, child
from tidemill.runtime.storage.small import DamagedError
from tidemill.runtime.view import catalog, leases, removal, views
from tidemill.runtime.view.definition import DROPPING, VIEW_FILE, Definition
from tidemill.runtime.view.views import View
from tidemill.sql.statements import Drop


def drop(jvm: Jvm, statement: Drop, warnings: list[str]) -> list[list[Any]]:
    """Drops the view. Returns no rows.

    The catalog entry goes first: a view that is half removed must not be readable.

    Raises TIDEMILL_NOT_FOUND (not with IF EXISTS), TIDEMILL_NOT_AN_INCREMENTAL_VIEW.
    """
    try:
        entry = views.entry(jvm, statement.name)
    except TidemillError as error:
        if statement.if_exists and error.condition == "TIDEMILL_NOT_FOUND":
            return []
        raise
    files = Files(jvm)
    location = files.qualify(entry.location) if entry.location is not None else None
    first, view = None, None
    if location is not None:
        with suppress(DamagedError):  # it can be dropped all the same
            first = _first(files, location)
        with suppress(DamagedError):
            view = views.at_location(files, location, entry.name)
    owned = first is not None and first.owns_files and catalog.KEEP_FILES not in entry.properties
    if owned and view is not None and not removal.lies_elsewhere(files, view.location):
        # If this process dies between entry and files, the mark tells the next CREATE that the files can go.
        files.write(child(view.location, DROPPING), str(view.next_run))
    catalog.drop_entry(jvm, entry.name)
    OBSERVERS.view_gone(".".join(entry.name))
    # the newest definition may be damaged; the first is better than none
    known = view if view is not None or first is None else View(first, files)
    if known is not None:
        leases.give_up(known)
    if owned:
        removal.remove(files, str(location))
    elif first is None and location is not None and files.exists(location):
        warnings.append(
            f"{'.'.join(entry.name)} is dropped, but its files are left at {location}: {VIEW_FILE} there is gone or"
            " damaged, and nothing else tells whether they go with the view."
        )
    if known is not None:
        with suppress(Exception):  # a session that cannot have Delta tables has nothing to forget
            known.result.forget()
    return []


def _first(files: Files, location: str) -> Definition | None:
    """Returns the definition that CREATE made, which tells if the view owns its files; None if it is gone."""
    text = files.read(child(location, VIEW_FILE))
    return None if text is None else Definition.from_json(text, location)
