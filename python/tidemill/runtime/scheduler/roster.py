"""The views of the catalog as they were last seen. What has not changed since then is not read again.

A look asks the catalog for its views, and the file system in one call for the numbers that would come next in the logs
and among the amendments of views: only views that have one are opened again. So a look at views at rest reads no log.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from tidemill.bridge.jvm import Jvm, JvmFailure
from tidemill.errors import TidemillError
from tidemill.runtime.run.failing import message
from tidemill.runtime.storage.files import Files, child, numbered
from tidemill.runtime.storage.log import FOLDER as LOG
from tidemill.runtime.view import catalog, notes, views
from tidemill.runtime.view.arrivals import Outlook
from tidemill.runtime.view.catalog import VIEW_PROPERTY, CatalogEntry
from tidemill.runtime.view.definition import AMENDMENTS
from tidemill.runtime.view.notes import NO_NOTE, Note
from tidemill.runtime.view.views import View

LISTED_SHARE = 20.0
"""The catalog is asked again after so many times the time that it took to answer."""
_LOG = logging.getLogger("tidemill.scheduler")


@dataclass
class Seen:
    """A view as it was last seen. `note`: as the file has it, with what this process adds before it writes it.

    `amendment`: the number of its newest amendment. `written`: when the note was (by this machine's monotonic clock).
    `unwritten`: the file does not have all of the note. `outlook`: of this view at its last run, once it was asked for;
    another `Seen` begins without it.
    """

    entry: CatalogEntry
    view: View
    amendment: int
    note: Note = NO_NOTE
    written: float = float("-inf")
    unwritten: bool = False
    outlook: Outlook | None = None

    @property
    def location(self) -> str:
        return self.view.location

    @property
    def run(self) -> int:
        """Its last run; -1 if it has none."""
        return self.view.head.run if self.view.head is not None else -1

    def following(self) -> tuple[str, str]:
        """Returns the files that a next run and a next ALTER would create."""
        next_amendment = numbered(child(self.location, AMENDMENTS), self.amendment + 1)
        return numbered(child(self.location, LOG), self.run + 1), next_amendment


class Roster:
    """The views of all databases of the catalog, or some of them."""

    def __init__(self, jvm: Jvm, only: Collection[tuple[str, ...]] | None = None) -> None:
        """`only`: qualified names; None: all."""
        self._jvm, self._only = jvm, only
        self._files = Files(jvm)
        self._seen: dict[tuple[str, ...], Seen] = {}
        self._unreadable: dict[tuple[str, ...], str] = {}
        self._entries: Sequence[CatalogEntry] = ()
        self._list_again = float("-inf")

    def look(self) -> list[Seen]:
        """Returns the views that can be read, as they are now, by name. No Spark job runs."""
        entries = self._listed()
        known = {e.name: self._seen[e.name] for e in entries if self._still(e)}
        moved = self._moved(known.values())
        found = {e.name: known[e.name] for e in entries if e.name in known and e.name not in moved}
        for entry in entries:
            if entry.name not in found and (seen := self._opened(entry)) is not None:
                found[entry.name] = seen
        self._seen = dict(sorted(found.items()))
        for seen, note in zip(self.last, notes.read_each([s.view for s in self.last]), strict=True):
            # What this process has yet to write counts as well.
            seen.note = replace(note, fired=note.fired.then(seen.note.fired))
        return self.last

    @property
    def last(self) -> list[Seen]:
        """The views as the last look saw them."""
        return list(self._seen.values())

    def _listed(self) -> Sequence[CatalogEntry]:
        if time.monotonic() < self._list_again:
            return self._entries
        began = time.monotonic()
        try:
            found = catalog.everywhere(self._jvm)
        except JvmFailure as failure:
            if "NOT_FOUND" not in (failure.condition or ""):
                raise
            found = catalog.everywhere(self._jvm)  # a database was dropped just now
        self._entries = [e for e in found if self._only is None or e.name in self._only]
        took = time.monotonic() - began
        self._list_again = began + took * (1 + LISTED_SHARE)
        return self._entries

    def _still(self, entry: CatalogEntry) -> bool:
        """Returns True if the entry of a name is of the same view at the same place as before."""
        before = self._seen.get(entry.name)
        if before is None:
            return False
        same = before.entry.properties.get(VIEW_PROPERTY) == entry.properties.get(VIEW_PROPERTY)
        return same and before.entry.location == entry.location

    def _moved(self, known: Iterable[Seen]) -> set[tuple[str, ...]]:
        """Returns the names of the views that have a newer run or amendment."""
        asked = [(seen.entry.name, path) for seen in known for path in seen.following()]
        missing = self._files.missing([path for _, path in asked])
        return {name for name, path in asked if path not in missing}

    def _opened(self, entry: CatalogEntry) -> Seen | None:
        try:
            view = views.open_entry(self._jvm, entry)
            amendment = views.newest_amendment(view)
        except Exception as failure:  # no view stops the others
            if self._unreadable.get(entry.name) != (text := message(failure)):
                self._unreadable[entry.name] = text
                where = None if isinstance(failure, (TidemillError, JvmFailure)) else failure
                name = ".".join(entry.name)
                _LOG.warning("%s cannot be opened, and is not refreshed: %s", name, text, exc_info=where)
            return None
        self._unreadable.pop(entry.name, None)
        before = self._seen.get(entry.name)
        if before is None or not self._still(entry):
            return Seen(entry, view, amendment)
        return Seen(entry, view, amendment, before.note, unwritten=before.unwritten)
