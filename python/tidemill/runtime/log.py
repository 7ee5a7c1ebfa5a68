"""The log of a view: one entry per run, the only commit point (design 9a.1).

Entries are `<location>/_tidemill/log/<run, 20 digits>.json`.
Runs are numbered from 0 without gaps.  Entries are created if absent, so of two runs that want the same number one
commits and the other fails.  Long lists of an entry lie in files of their own beside it, written before the entry and
named by it as {"$in": name}: whoever reads only the newest row of a long history does not read the listings.

A file `newest` holds a number at or below the newest one, so that a long log need not be listed: from there on, numbers
are tried one by one. It is a hint, written after the commit; the entries alone count.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeVar

from tidemill.errors import TidemillError
from tidemill.runtime.files import Files, child

FOLDER = "_tidemill/log"
_ENTRY = re.compile(r"^(\d{20})\.json$")
HINT = "newest"
LONG = 500
"""Elements from which a list is kept beside the entry."""


class Entry(Protocol):
    """What a run commits."""

    @property
    def run(self) -> int: ...

    def to_json(self) -> Mapping[str, Any]: ...


E = TypeVar("E", bound=Entry)


class Log(Generic[E]):
    """The entries under one location.  Nothing is cached: another driver may commit at any time."""

    def __init__(self, files: Files, location: str, view: str, decode: Callable[[Mapping[str, Any]], E]) -> None:
        """`view`: its name, for messages.  `decode`: an entry from what its `to_json` gave."""
        self._files = files
        self._folder = child(location, FOLDER)
        self._view = view
        self._decode = decode

    def runs(self) -> list[int]:
        """The numbers of all committed runs, ascending; there are no gaps."""
        newest = self._newest()
        return [] if newest is None else list(range(newest + 1))

    def newest(self) -> E | None:
        """The last committed entry; None if the log is empty."""
        newest = self._newest()
        return None if newest is None else self.read(newest)

    def _newest(self) -> int | None:
        hint = self._files.read(child(self._folder, HINT))
        if hint is None or not hint.isdigit():
            matches = (_ENTRY.match(s.name) for s in self._files.list(self._folder))
            return max((int(m.group(1)) for m in matches if m), default=None)
        run = int(hint)
        while self._files.exists(self._path(run + 1)):
            run += 1
        return run

    def read(self, run: int) -> E:
        """The entry of that run; a KeyError if there is none."""
        return self.read_all([run])[0]

    def read_all(self, runs: Sequence[int]) -> list[E]:
        """The entries of these runs, in this order; a KeyError for one that does not exist."""
        texts = self._files.read_many([self._path(run) for run in runs])
        entries = []
        for run, text in zip(runs, texts, strict=True):
            if text is None:
                raise KeyError(f"no run {run} in {self._folder}")
            entries.append(json.loads(text))
        names = [name for entry in entries for name in _beside(entry)]
        parts = self._files.read_many([child(self._folder, name) for name in names])
        known = {name: json.loads(part) for name, part in zip(names, parts, strict=True) if part is not None}
        return [self._decode(_whole(entry, known)) for entry in entries]

    def history(self, limit: int | None = None) -> list[E]:
        """The newest entries, newest first."""
        newest_first = self.runs()[::-1]
        return self.read_all(newest_first if limit is None else newest_first[:limit])

    def newest_first(self) -> Iterator[E]:
        """All entries from the newest on, read one by one as they are asked for."""
        for run in self.runs()[::-1]:
            yield self.read(run)

    def commit(self, entry: E) -> None:
        """Makes the run visible.  Raises TIDEMILL_CONCURRENT_REFRESH, leaving nothing, if its number is taken."""
        mark = uuid.uuid4().hex[:8]
        beside: dict[str, str] = {}
        text = json.dumps(_parted(entry.to_json(), f"{entry.run:020d}-{mark}", beside), ensure_ascii=False)
        written = []
        committed = False
        try:
            for name, part in beside.items():
                written.append(child(self._folder, name))
                self._files.write(written[-1], part)
            committed = self._files.write_new(self._path(entry.run), text)
        finally:
            # an answer that got lost must not take the listings from a commit that was made
            if not committed and written and self._files.read(self._path(entry.run)) != text:
                self._files.delete(written)
        if not committed:
            raise TidemillError("TIDEMILL_CONCURRENT_REFRESH", {"view": self._view})
        with suppress(Exception):  # an older hint does as well
            self._files.write(child(self._folder, HINT), str(entry.run))

    def holds(self, entry: E) -> bool:
        """Whether exactly this entry was committed: to be asked when the answer of `commit` got lost."""
        try:
            found = self.read(entry.run)
        except KeyError:
            return False
        return _text(found) == _text(entry)

    def _path(self, run: int) -> str:
        return child(self._folder, f"{run:020d}.json")


def _text(entry: Entry) -> str:
    return json.dumps(entry.to_json(), sort_keys=True)


def _parted(value: Any, prefix: str, beside: dict[str, str]) -> Any:
    """`value` with long lists moved to `beside` (name to text)."""
    match value:
        case list() | tuple() if len(value) >= LONG:
            name = f"{prefix}.{len(beside)}.json"
            beside[name] = json.dumps(value, ensure_ascii=False)
            return {"$in": name}
        case list() | tuple():
            return [_parted(item, prefix, beside) for item in value]
        case Mapping():
            return {key: _parted(item, prefix, beside) for key, item in value.items()}
        case _:
            return value


def _beside(value: Any) -> Iterator[str]:
    match value:
        case {"$in": str(name)}:
            yield name
        case list():
            for item in value:
                yield from _beside(item)
        case dict():
            for item in value.values():
                yield from _beside(item)


def _whole(value: Any, known: Mapping[str, Any]) -> Any:
    match value:
        case {"$in": str(name)}:
            return known[name]
        case list():
            return [_whole(item, known) for item in value]
        case dict():
            return {key: _whole(item, known) for key, item in value.items()}
        case _:
            return value
