"""A view by its name: catalog entry, definition and log together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from tidemill.bridge.jvm import Jvm
from tidemill.errors import TidemillError
from tidemill.runtime import catalog
from tidemill.runtime.catalog import Entry
from tidemill.runtime.definition import VIEW_FILE, Definition
from tidemill.runtime.files import Files, child
from tidemill.runtime.log import Log
from tidemill.runtime.publish import publish, published
from tidemill.runtime.record import Record


@dataclass
class View:
    """An incremental view as its location tells; `head` is its last run at the moment of first asking.

    Not frozen: what is read from storage is read once and kept for the length of one statement.
    """

    definition: Definition
    files: Files

    @property
    def location(self) -> str:
        return self.definition.location

    @cached_property
    def log(self) -> Log[Record]:
        return Log(self.files, self.location, self.definition.qualified, Record.from_json)

    @cached_property
    def head(self) -> Record | None:
        return self.log.newest()

    @property
    def next_run(self) -> int:
        return 0 if self.head is None else self.head.run + 1

    @property
    def status(self) -> str:
        """ACTIVE, or NOT_FILLED before the first run with output."""
        return "ACTIVE" if self.head is not None and self.head.filled else "NOT_FILLED"

    def history(self, limit: int | None) -> list[Record]:
        """Records, newest first."""
        return self.log.history(limit)

    def lost_files(self) -> str | None:
        """STATE_LOST with the first file of result or states that is gone; None if all are there."""
        if self.head is None:
            return None
        wanted = [f["path"] for f in self.head.files]
        wanted += [f["path"] for s in self.head.states.values() for f in s.files]
        missing = self.files.missing(wanted)
        return f"STATE_LOST: {min(missing)} is gone" if missing else None

    def publish(self, record: Record) -> None:
        """Shows the content of the last run with output to plain readers; may be done again at any time."""
        if record.output_run is not None:
            publish(self.files, self.location, record.run, record.files)

    def publish_if_behind(self) -> None:
        """Does what a run that died between commit and publishing left undone (design 9a.2)."""
        head = self.head
        if head is not None and head.output_run is not None and published(self.files, self.location) != head.run:
            self.publish(head)

    def refresh_readers(self, jvm: Jvm) -> None:
        """Has the caller's session read the new content, cached plans included."""
        catalog.refresh_entry(jvm, self.definition.name)


def entry(jvm: Jvm, name: Sequence[str]) -> Entry:
    """The catalog entry of an incremental view.

    Raises TIDEMILL_NOT_FOUND, TIDEMILL_NOT_AN_INCREMENTAL_VIEW, TIDEMILL_CATALOG_UNSUPPORTED.
    """
    qualified = catalog.qualify(jvm, name)
    found = catalog.lookup(jvm, qualified)
    if found is None:
        raise TidemillError("TIDEMILL_NOT_FOUND", {"view": ".".join(qualified)})
    if not found.is_view:
        raise TidemillError("TIDEMILL_NOT_AN_INCREMENTAL_VIEW", {"name": ".".join(qualified), "object": found.what})
    return found


def find(jvm: Jvm, name: Sequence[str]) -> View:
    """The incremental view of that name.  Raises as `entry`."""
    return open_entry(jvm, entry(jvm, name))


def open_entry(jvm: Jvm, found: Entry) -> View:
    """The view that a catalog entry points to.  Raises TIDEMILL_NOT_FOUND if its files are gone."""
    definition = read_definition(jvm, found)
    if definition is None:
        raise TidemillError("TIDEMILL_NOT_FOUND", {"view": f"{'.'.join(found.name)} (its files at {found.location})"})
    return View(definition, Files(jvm))


def read_definition(jvm: Jvm, found: Entry) -> Definition | None:
    """The definition at the entry's location; None if there is none."""
    if found.location is None:
        return None
    files = Files(jvm)
    location = files.qualify(found.location)
    text = files.read(child(location, VIEW_FILE))
    return None if text is None else Definition.from_json(text, location)
