"""DROP INCREMENTAL VIEW: the catalog entry, and the files of a view that was created without LOCATION."""

from __future__ import annotations

from typing import Any

from tidemill.bridge.jvm import Jvm
from tidemill.errors import TidemillError
from tidemill.runtime import catalog, views
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
    definition = views.read_definition(jvm, entry)
    catalog.drop_entry(jvm, entry.name)
    if definition is not None and definition.owns_files:
        jvm.invoke("files", {"do": "delete", "paths": [definition.location]})
    return []
