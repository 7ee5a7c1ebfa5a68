"""A view by its name: catalog entry, definition and log together."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tidemill.bridge.jvm import Jvm
from tidemill.errors import TidemillError
from tidemill.runtime import catalog
from tidemill.runtime.catalog import Entry
from tidemill.runtime.definition import AMENDMENTS, VIEW_FILE, Definition, definition_file
from tidemill.runtime.files import Files, child
from tidemill.runtime.log import Log
from tidemill.runtime.publish import publish, published
from tidemill.runtime.record import Record
from tidemill.sql.statements import Action, action_from_json, to_json

_NUMBERED = re.compile(r"^\d{20}\.json$")


@dataclass(frozen=True, slots=True)
class Lost:
    """Files that should be there: the first missing one of the content, and of each state that misses some."""

    content: str | None
    states: Mapping[str, str]


@dataclass
class View:
    """An incremental view as its location tells; `head` is its last run when the view was opened.

    Not frozen: what is read from storage is read once and kept for the length of one statement.
    """

    definition: Definition
    files: Files
    head: Record | None = None

    @property
    def location(self) -> str:
        return self.definition.location

    @cached_property
    def log(self) -> Log[Record]:
        return _log(self.files, self.location, self.definition.qualified)

    @property
    def next_run(self) -> int:
        return 0 if self.head is None else self.head.run + 1

    @property
    def status(self) -> str:
        """SUSPENDED; NOT_FILLED before the first run with output; else ACTIVE."""
        if self.definition.suspended:
            return "SUSPENDED"
        return "ACTIVE" if self.head is not None and self.head.filled else "NOT_FILLED"

    def history(self, limit: int | None) -> list[Record]:
        """Records, newest first."""
        return self.log.history(limit)

    def lost(self) -> Lost:
        """What of the last run's files is gone."""
        if self.head is None:
            return Lost(None, {})
        states = {f["path"]: name for name, s in self.head.states.items() for f in s.files}
        missing = sorted(self.files.missing([*(f["path"] for f in self.head.files), *states]))
        content = [path for path in missing if path not in states]
        return Lost(content[0] if content else None, {states[p]: p for p in reversed(missing) if p in states})

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
    files = Files(jvm)
    opened = None if found.location is None else at_location(files, files.qualify(found.location), found.name)
    if opened is None:
        raise TidemillError("TIDEMILL_NOT_FOUND", {"view": f"{'.'.join(found.name)} (its files at {found.location})"})
    return opened


def at_location(files: Files, location: str, name: Sequence[str] | None = None) -> View | None:
    """The view that lies there, under the name that the catalog has for it now; None if there is none."""
    first = files.read(child(location, VIEW_FILE))
    if first is None:
        return None
    head = _log(files, location, ".".join(name) if name else location).newest()
    number = head.definition if head is not None else 0
    text = first if number == 0 else files.read(child(location, definition_file(number)))
    if text is None:
        raise FileNotFoundError(f"{child(location, definition_file(number))}, which run {head and head.run} refers to")
    definition = Definition.from_json(text, location)
    found = _amendments(files, location)
    definition = replace(
        definition,
        name=tuple(name) if name else definition.name,
        amendments=tuple(action for number, action in found if number > definition.takes_in),
    )
    return View(definition, files, head)


def amend(view: View, action: Action) -> None:
    """Commits an action of ALTER.  Raises TIDEMILL_CONCURRENT_REFRESH if another one came first."""
    number = max((n for n, _ in _amendments(view.files, view.location)), default=0) + 1
    text = json.dumps(to_json(action), ensure_ascii=False)
    if not view.files.write_new(child(view.location, AMENDMENTS, f"{number:020d}.json"), text):
        raise TidemillError("TIDEMILL_CONCURRENT_REFRESH", {"view": view.definition.qualified})


def newest_amendment(view: View) -> int:
    """How many amendments there are; 0 if there are none."""
    return max((n for n, _ in _amendments(view.files, view.location)), default=0)


def _amendments(files: Files, location: str) -> list[tuple[int, Action]]:
    names = sorted(s.name for s in files.list(child(location, AMENDMENTS)) if _NUMBERED.match(s.name))
    texts = files.read_many([child(location, AMENDMENTS, name) for name in names])
    return [(int(n[:20]), action_from_json(json.loads(t))) for n, t in zip(names, texts, strict=True) if t is not None]


def _log(files: Files, location: str, view: str) -> Log[Record]:
    return Log(files, location, view, Record.from_json)
