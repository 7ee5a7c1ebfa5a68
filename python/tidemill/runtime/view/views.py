"""Finds a view by its name, with catalog entry, definition and log."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tidemill.bridge.jvm import Jvm, JvmFailure
from tidemill.errors import TidemillError
from tidemill.runtime.storage.files import Files, Status, child, numbered
from tidemill.runtime.storage.log import Log
from tidemill.runtime.storage.small import readable
from tidemill.runtime.view import catalog
from tidemill.runtime.view.arrivals import RUNS_READ, TIME_ZONE, ObservedRun, Outlook, zone_of
from tidemill.runtime.view.catalog import CatalogEntry
from tidemill.runtime.view.definition import AMENDMENTS, VIEW_FILE, Definition, definition_file
from tidemill.runtime.view.history import RunRow
from tidemill.runtime.view.record import File, RunRecord, arrived_of, split_in
from tidemill.runtime.view.results import Result, result_of
from tidemill.runtime.view.split import Split
from tidemill.search.contract.learned import NOTHING_LEARNED, Learned
from tidemill.search.contract.past import NOTHING_PAST, Past
from tidemill.search.contract.stored import HELD
from tidemill.settings import PlannerSettings
from tidemill.sql.codec import action_from_json, to_json
from tidemill.sql.statements import Action, SetSchedule

_LOG = logging.getLogger("tidemill")


@dataclass(frozen=True, slots=True)
class Lost:
    """The unreadable files of a run: for the content, and for each state by name, what is wrong with a file."""

    content: str | None
    states: Mapping[str, str]

    def __bool__(self) -> bool:
        return self.content is not None or bool(self.states)

    def __or__(self, other: Lost) -> Lost:
        return Lost(self.content or other.content, {**other.states, **self.states})


@dataclass
class View:
    """An incremental view as stored at its location.

    `head`: its last run when the view was opened. `entry`: its catalog entry if it was opened by its name.
    `lost_amendments`: files of amendments that cannot be read, and that count no more. The class is not frozen: what is
    read from storage is read once and cached for one statement.
    """

    definition: Definition
    files: Files
    head: RunRecord | None = None
    entry: CatalogEntry | None = None
    lost_amendments: tuple[str, ...] = ()

    @property
    def location(self) -> str:
        return self.definition.location

    @cached_property
    def log(self) -> Log[RunRecord]:
        return _log(self.files, self.location, self.definition.qualified)

    @cached_property
    def result(self) -> Result:
        """The result, which shows the content to other readers than Tidemill."""
        return result_of(self.definition, self.files)

    @property
    def next_run(self) -> int:
        return 0 if self.head is None else self.head.run + 1

    @property
    def status(self) -> str:
        """SUSPENDED; NOT_FILLED before the first run with output; else ACTIVE."""
        if self.definition.suspended:
            return "SUSPENDED"
        return "ACTIVE" if self.head is not None and self.head.filled else "NOT_FILLED"

    def outlook(self, *present: ObservedRun) -> Outlook:
        """Returns the outlook by statement and log. `present`: the run to be planned, with its arrivals."""
        definition = self.definition
        runs = []
        for row in reversed(self.log.history(RUNS_READ) if self.head is not None else []):
            if (arrived := arrived_of(row)) is not None:
                runs.append(ObservedRun(row["run"], row["started_at"] / 1e6, arrived, row["trigger"] == "CREATE"))
        create = definition.create
        return Outlook(
            schedule=create.schedule,
            expect=definition.expected,
            runs=(*runs, *present),
            said=definition.expect_said,
            zone=zone_of(definition.settings.get(TIME_ZONE, "UTC")),
        )

    def history(self, limit: int | None) -> list[RunRow]:
        """Returns the rows of its runs, newest first."""
        return [RunRow.from_json(row) for row in self.log.history(limit)]

    def splits(self, limit: int) -> list[tuple[RunRow, Split | None]]:
        """Returns the rows of its last runs, newest first, each with where its time went (None: not measured)."""
        return [(RunRow.from_json(row), split_in(row)) for row in self.log.history(limit)]

    def past(self) -> Past:
        """Returns the costs of its last runs."""
        return NOTHING_PAST if self.head is None else self.head.past

    def learned(self, settings: PlannerSettings) -> Learned:
        """Returns by what factors the estimates of runs of its definition were off; nothing under another cost model
        than `default`, whose unit need not be time."""
        head = self.head if settings.cost_model == "default" else None
        return NOTHING_LEARNED if head is None or head.definition != self.definition.number else head.learned

    def lost(self) -> Lost:
        """Returns which files of the last run are gone, or are not as they were written. No Spark job runs."""
        if self.head is None:
            return Lost(None, {})
        owned: list[tuple[str | None, File]] = [(None, f) for f in self.head.content_files]
        owned += [(name, f) for name, s in self.head.states.items() for f in s.files]
        owned += [(HELD, f) for f in self.head.held_files]
        found = self.files.stat([str(f["path"]) for _, f in owned])
        lost = Lost(None, {})
        for (state, file), status in zip(owned, found, strict=True):
            # Result files are moved once they are written, which on some file systems makes them newer.
            wrong = _wrong(file, status, dated=state is not None)
            if wrong is not None:
                lost |= Lost(wrong, {}) if state is None else Lost(None, {state: wrong})
        return lost

    def damaged(self, failure: JvmFailure) -> Lost:
        """Returns the files of the last run that a failure of Spark names, as lost."""
        told = "\n".join((failure.message, *failure.causes))
        lost = Lost(None, {})
        if self.head is None or "FAILED_READ_FILE" not in (failure.condition or "") + told:
            return lost
        for file in self.head.content_files:
            if _named(file, told):
                lost |= Lost(f"{file['path']} cannot be read", {})
        kept = [(name, file) for name, state in self.head.states.items() for file in state.files]
        for name, file in (*kept, *((HELD, f) for f in self.head.held_files)):
            if _named(file, told):
                lost |= Lost(None, {name: f"{file['path']} cannot be read"})
        return lost

    @property
    def columns_stay(self) -> bool:
        """True if the content of the last run has the columns that the definition gives it."""
        head, own = self.head, self.definition
        if head is None or head.definition == own.number:
            return True
        file = VIEW_FILE if head.definition == 0 else definition_file(head.definition)
        text = self.files.read(child(self.location, file))
        before = Definition.from_json(text, self.location).columns if text is not None else ()
        return [(c.name, c.type) for c in before] == [(c.name, c.type) for c in own.columns]

    def publish(self, record: RunRecord) -> None:
        """Publishes the content of the last run with output. It can be done again at any time."""
        if record.output_run is not None:
            self.result.publish(record, self.head)

    def describe(self) -> None:
        """Writes the present columns, comment and properties to the catalog and to a Delta table."""
        self.describe_entry()
        if self.head is None or self.head.output_run is None:
            self.result.prepare()
        else:
            self.result.publish(self.head, self.head)

    def amended(self, *actions: Action) -> View:
        """Returns the view as it will be once these actions are committed."""
        definition = self.definition.amended_by((*self.definition.amendments, *actions))
        return View(definition, self.files, self.head, self.entry)

    def publish_if_behind(self) -> None:
        """Finishes the work of a statement that died after its commit.

        The content comes first, then the catalog's columns: readers take the newest run with the catalog's columns.
        """
        head = self.head
        if head is not None and head.output_run is not None:
            shown = self.result.published(head)
            if shown != self.result.due(head):
                before = self.log.read(shown) if shown is not None and shown < head.run else None
                self.result.publish(head, before)
        create, entry = self.definition.create, self.entry
        if entry is not None and not (
            entry.has_columns(self.definition.schema) and entry.describes(dict(create.properties), create.comment)
        ):
            self.describe_entry()
            catalog.refresh_entry(self.files.jvm, self.definition.name)

    def describe_entry(self) -> None:
        """Writes the present columns, comment and properties to the catalog."""
        create, schema = self.definition.create, self.definition.schema
        catalog.alter_entry(
            self.files.jvm,
            self.definition.name,
            properties=dict(create.properties),
            comment=create.comment,
            schema=None if self.entry is not None and self.entry.has_columns(schema) else schema,
        )

    def refresh_readers(self, jvm: Jvm) -> None:
        """Makes the caller's session read the new content, in cached plans too."""
        # A view that was found by its path may have no entry.
        if catalog.lookup(jvm, self.definition.name) is not None:
            catalog.refresh_entry(jvm, self.definition.name)


def _wrong(file: File, status: Status | None, *, dated: bool) -> str | None:
    """Returns how the file at a path differs from the file that was written there; None if it does not."""
    if status is None:
        return f"{file['path']} is gone"
    if status.folder:
        return f"{file['path']} is a folder"
    if status.bytes != file["bytes"]:
        return f"{file['path']} has {status.bytes} bytes, not {file['bytes']}"
    if dated and status.modified != file["modified"]:
        return f"{file['path']} was changed"
    return None


def _named(file: File, text: str) -> bool:
    """Returns True if a text names a file. Spark's file names are unique; folders may be spelt in other ways."""
    return str(file["path"]).rsplit("/", 1)[-1] in text


def entry(jvm: Jvm, name: Sequence[str]) -> CatalogEntry:
    """Returns the catalog entry of an incremental view.

    Raises TIDEMILL_NOT_FOUND, TIDEMILL_NOT_AN_INCREMENTAL_VIEW, TIDEMILL_CATALOG_UNSUPPORTED.
    """
    qualified, found = catalog.find(jvm, name)
    if found is None:
        raise catalog.not_found(jvm, ".".join(qualified))
    if not found.is_view:
        raise TidemillError("TIDEMILL_NOT_AN_INCREMENTAL_VIEW", {"name": ".".join(qualified), "object": found.what})
    return found


def find(jvm: Jvm, name: Sequence[str]) -> View:
    """Returns the incremental view of that name. Raises as `entry`."""
    return open_entry(jvm, entry(jvm, name))


def open_entry(jvm: Jvm, found: CatalogEntry) -> View:
    """Returns the view of a catalog entry. Raises TIDEMILL_NOT_FOUND if its files are gone."""
    files = Files(jvm)
    opened = None if found.location is None else at_location(files, found.location, found.name)
    if opened is None:
        place = f"its location {found.location}, though the catalog names it"
        raise TidemillError("TIDEMILL_NOT_FOUND", {"view": ".".join(found.name), "catalog": place})
    opened.entry = found
    return opened


def at_location(files: Files, location: str, name: Sequence[str] | None = None) -> View | None:
    """Returns the view at a location, under the name that the catalog has for it now; None if there is none.

    Raises DamagedError if its definition or the last entry of its log cannot be read.
    """
    opening = files.opening(location, VIEW_FILE, AMENDMENTS)
    location, first = opening.location, opening.text
    if first is None:
        return None
    log = _log(files, location, ".".join(name) if name else location)
    head = log.opened(opening.newest)
    number = head.definition if head is not None else 0
    file = VIEW_FILE if number == 0 else definition_file(number)
    text = first if number == 0 else files.read(child(location, file))
    definition = Definition.from_json(text, location, file)
    found, damaged = _amendments(files, location, [n for n in opening.numbers if n > definition.takes_in])
    definition = replace(definition, name=tuple(name) if name else definition.name)
    definition = definition.amended_by(found)
    for path in damaged:
        _LOG.warning("Tidemill: %s cannot be read: what that ALTER said of %s is lost", path, definition.qualified)
    view = View(definition, files, head, lost_amendments=damaged)
    view.log = log  # it knows the files beside the entry of `head`
    return view


def amend(view: View, action: Action) -> None:
    """Commits an action of ALTER. Raises TIDEMILL_CONCURRENT_REFRESH if another one came first."""
    if isinstance(action, SetSchedule) and action.at is None:
        action = replace(action, at=time.time_ns() // 1000)
    number = newest_amendment(view) + 1
    path = numbered(child(view.location, AMENDMENTS), number)
    created = view.files.write_new(path, json.dumps(to_json(action), ensure_ascii=False))
    if created:
        # VACUUM may have freed a number that a later definition has taken in; nobody reads such a number.
        now = at_location(view.files, view.location, view.definition.name)
        if now is not None and now.definition.takes_in < number:
            return
        view.files.delete([path])
    raise TidemillError("TIDEMILL_CONCURRENT_REFRESH", {"view": view.definition.qualified})


def newest_amendment(view: View) -> int:
    """Returns the number of the last amendment; 0 without any. VACUUM removes those that a definition has taken in."""
    return max(view.files.numbers(child(view.location, AMENDMENTS)), default=view.definition.takes_in)


def _amendments(files: Files, location: str, numbers: Sequence[int]) -> tuple[list[Action], tuple[str, ...]]:
    """Returns the amendments of these numbers, in order, and the files of those that are damaged."""
    paths = [numbered(child(location, AMENDMENTS), n) for n in numbers]
    found: list[Action] = []
    damaged: list[str] = []
    for path, text in zip(paths, files.read_many(paths), strict=True):
        if text is not None:
            action = readable(text, action_from_json)
            if action is None:
                damaged.append(path)
            else:
                found.append(action)
    return found, tuple(damaged)


def _log(files: Files, location: str, view: str) -> Log[RunRecord]:
    return Log(files, location, view, RunRecord.from_json)
