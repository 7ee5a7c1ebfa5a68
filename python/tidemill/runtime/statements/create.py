"""CREATE INCREMENTAL VIEW: checks, loads, commits, publishes; the catalog entry comes last.

A failure on the way leaves nothing: no file, no new folder, no catalog entry. If the location has the same view
already, that view is attached instead. OR REPLACE switches a view that exists to the new query.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tidemill.bridge.jvm import Jvm
from tidemill.errors import TidemillError
from tidemill.runtime.before import planning, sessions
from tidemill.runtime.load import adopt
from tidemill.runtime.load.draft import Draft, drafted
from tidemill.runtime.load.replace import replace_view
from tidemill.runtime.run import attempt
from tidemill.runtime.run.occasion import publish
from tidemill.runtime.storage import writers
from tidemill.runtime.storage.files import Files, UndecidedError, child
from tidemill.runtime.view import catalog, failures, removal
from tidemill.runtime.view.definition import VIEW_FILE, Definition
from tidemill.runtime.view.views import View
from tidemill.sql.statements import Create


@dataclass(frozen=True, slots=True)
class ViewLocation:
    """The qualified location of the view. `owned`: chosen by Tidemill, so that DROP removes it."""

    location: str
    owned: bool


def create(jvm: Jvm, statement: Create, sql: str, warnings: list[str]) -> list[list[object]]:
    """Creates the view, with an initial load unless INITIALIZE DEFERRED. Returns no rows.

    Raises TIDEMILL_CATALOG_UNSUPPORTED, TIDEMILL_ALREADY_EXISTS, TIDEMILL_LOCATION_NOT_EMPTY,
    TIDEMILL_LOCATION_MISMATCH, TIDEMILL_COLUMN_MISMATCH, TIDEMILL_TEMPORARY_OBJECT, TIDEMILL_NON_DETERMINISTIC,
    TIDEMILL_NOT_INCREMENTAL, TIDEMILL_SOURCE_WITHOUT_CHANGES, and Spark's own errors for the query.
    """
    name = catalog.qualify(jvm, statement.name)
    catalog.check_name(jvm, name)
    if (found := catalog.lookup(jvm, name)) is not None:
        if statement.if_not_exists and found.is_view:
            return []
        if statement.or_replace and found.is_view:
            replace_view(jvm, found, statement, sql, warnings)
            return []
        raise TidemillError("TIDEMILL_ALREADY_EXISTS", {"view": ".".join(name), "object": found.what})
    files = Files(jvm)
    location = files.qualify(statement.location or catalog.default_location(jvm, name))
    if catalog.in_memory(jvm):
        warnings.append(_forgotten(name, location))
    if files.exists(child(location, VIEW_FILE)) and adopt.attach(jvm, files, location, name, statement, warnings):
        return []
    place = _place(files, name, location, owned=statement.location is None)
    with drafted(jvm, statement, name) as draft:
        definition = Definition(
            id=uuid.uuid4().hex,
            name=name,
            text=sql,
            owns_files=place.owned,
            created_at=time.time_ns() // 1000,
            location=place.location,
            deletion_vectors=True,
            **draft.fields(),
        )
        warnings += draft.warnings(jvm)
        _make(jvm, files, definition, draft)
    return []


def _forgotten(name: Sequence[str], location: str) -> str:
    return (
        f"{'.'.join(name)}: the catalog of this session is in memory, so the name ends with this process. The content"
        f" stays: CREATE INCREMENTAL VIEW ... LOCATION '{location}' with the same query attaches it again. A session"
        " with a metastore, such as one with enableHiveSupport(), keeps the name."
    )


def _make(jvm: Jvm, files: Files, definition: Definition, draft: Draft) -> None:
    view = View(definition, files)
    create = definition.create
    settings = sessions.planner_settings(jvm)
    situation, plan = planning.initial_load(draft.working, draft.document, definition.terms, settings)
    view.result.check()
    with _nothing_left(view), writers.writing(files, definition.location, definition.qualified) as writer:
        if not files.write_new(child(definition.location, VIEW_FILE), definition.to_json()):
            # Another CREATE of this name came first; its files are not ours to remove.
            raise _TakenError(definition)
        failures.prepare(files, definition.location)
        if create.deferred:
            view.result.prepare()
            writer.confirm()
        else:
            record = attempt.run(draft.working, view, situation, lambda _: plan, draft.occasion)
            publish(jvm, view, record, draft.occasion)
        catalog.create_entry(
            jvm,
            definition.name,
            definition.location,
            definition.schema,
            definition.id,
            definition.format,
            dict(create.properties),
            create.comment,
        )


class _TakenError(TidemillError):
    """The location was taken while this statement ran."""

    def __init__(self, definition: Definition) -> None:
        super().__init__("TIDEMILL_LOCATION_NOT_EMPTY", {"view": definition.qualified, "location": definition.location})


@contextmanager
def _nothing_left(view: View) -> Iterator[None]:
    """Removes what the statement made at the location, and the folders above that it made, if the block fails."""
    files, location = view.files, view.location
    root = _first_missing(files, location)
    try:
        yield
    except (_TakenError, UndecidedError):
        raise
    except BaseException as error:
        if isinstance(error, TidemillError) and error.condition == "TIDEMILL_RUN_GIVEN_UP":
            raise  # the place may be another statement's by now
        try:
            files.delete([root] if root is not None else [s.path for s in files.list(location)])
            view.result.forget()
        except Exception as failure:
            error.add_note(f"the files at {location} could not be removed: {failure}")
        raise


def _first_missing(files: Files, location: str) -> str | None:
    """Returns the topmost folder of the path `location` that does not exist yet; None if all exist."""
    missing = None
    path = location.rstrip("/")
    while path.count("/") > 2 and not files.exists(path):
        missing, path = path, path.rsplit("/", 1)[0]
    return missing


def _place(files: Files, name: Sequence[str], location: str, *, owned: bool) -> ViewLocation:
    if removal.was_cut_off(files, location):
        files.delete([location])
    if files.list(location) or (files.exists(location) and not _is_folder(files, location)):
        raise TidemillError("TIDEMILL_LOCATION_NOT_EMPTY", {"view": ".".join(name), "location": location})
    return ViewLocation(location, owned)


def _is_folder(files: Files, location: str) -> bool:
    (found,) = files.stat([location])
    return found is not None and found.folder
