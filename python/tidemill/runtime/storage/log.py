"""The log of a view: one entry per run, the only commit point.

Entries are `<location>/_tidemill/log/<run, 20 digits>.json`. Runs are numbered from 0 without gaps. Entries are created
if absent: if two runs want the same number, one commits and the other fails.

Long lists and texts of an entry have files of their own beside it. These are written before the entry, which names them
as {"$in": name}. So a reader of the newest row of a long history does not read the listings. The row for the history is
never in such a file.

A part that is equal in the entry before is not written again: the new entry names the same file. Of the listing of a
million files, a run writes only the page that changed. So a file beside entries is needed as long as any entry names
it, whichever run wrote it. An entry only takes over names from the entry right before. VACUUM keeps the newest entry
and all files that the remaining entries name. So a run under way finds the files that it names, or its number is taken.

A file `newest` has a number at or below the newest one, so that a long log need not be listed: readers try the numbers
from there on. It is a hint, written after the commit. Only the entries count.

Checkpoints `_tidemill/checkpoints/<n>.json` replace old entries, `SPAN` in each. They keep the row of each run for the
history and nothing else; then the entries are removed. A checkpoint is created if absent, never changed and never
removed. This is safe against a writer that slept:

- An entry is removed only after the checkpoint that covers it was written. So if the file of a committed run is absent,
  a reader that looks for the checkpoint afterwards finds it.
- If a checkpoint covers a number, the checkpoint counts and an entry does not. A late writer can create an entry under
  a number whose entry was removed. It then looks for the checkpoint, sees that another run has the number, and fails.
  If it dies before it has looked, nobody reads its files.
- A checkpoint only covers runs that newer runs follow, so the newest entry is never covered.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeVar

from tidemill.errors import TidemillError
from tidemill.runtime.storage.files import Files, UndecidedError, child, numbered
from tidemill.runtime.storage.small import DamagedError, decoded, readable

FOLDER = "_tidemill/log"
CHECKPOINTS = "_tidemill/checkpoints"
HINT = "newest"
LONG = 500
"""A list of so many elements or more is kept beside the entry."""
LONG_TEXT = 16_384
"""A text of so many characters or more is kept beside the entry."""
SPAN = 1000
"""Runs that one checkpoint covers; also in `ViewLog.scala`, and part of the format."""
MARK = "mark"
"""The field of an entry that tells it from every other entry under its number."""
SUMMARY = "metrics"
"""The field of an entry that a checkpoint keeps, for the history."""
_TOGETHER = 50
"""Number of entries that one call reads, where many are read."""


class LogEntry(Protocol):
    """The content of one commit."""

    @property
    def run(self) -> int: ...

    def to_json(self) -> Mapping[str, Any]: ...


E = TypeVar("E", bound=LogEntry)
D = TypeVar("D")


class Log(Generic[E]):
    """The entries under one location. Nothing is cached: another driver may commit at any time."""

    def __init__(self, files: Files, location: str, view: str, decode: Callable[[Mapping[str, Any]], E]) -> None:
        """`view`: its name, for messages. `decode`: makes an entry from the answer of its `to_json`."""
        self._files = files
        self._location = location
        self._folder = child(location, FOLDER)
        self._view = view
        self._decode = decode
        self._kept: tuple[int, Mapping[bytes, str]] = (-1, {})

    def newest(self) -> E | None:
        """Returns the last committed entry; None if the log is empty. Raises DamagedError."""
        return self.opened(self._files.newest_entry(self._location))

    def opened(self, found: tuple[int, str] | None) -> E | None:
        """Returns the last committed entry, of which this is the run with its text. Raises as `newest`."""
        if found is None:
            return None
        run, text = found
        entry = decoded(self._path(run), text, dict)
        parts = self._parts([entry])
        self._kept = (run, {_digest(part): name for name, part in parts.items()})
        return self._entry(run, entry, parts)

    def read(self, run: int) -> E:
        """Returns the entry of that run. Raises KeyError if there is none, DamagedError if it cannot be read."""
        (text,) = self._files.read_many([self._path(run)])
        if text is None:
            raise KeyError(f"no run {run} in {self._folder}")
        entry = decoded(self._path(run), text, dict)
        return self._entry(run, entry, self._parts([entry]))

    def newest_first(self, damaged: set[int] | None = None) -> Iterator[E]:
        """Yields the entries from the newest on, as far back as they go without a gap.

        `damaged`: gets the numbers of damaged entries. Without it these raise DamagedError.
        """
        found = self._files.newest_entry(self._location)
        runs = [] if found is None else list(range(found[0], self.covered() - 1, -1))
        for start in range(0, len(runs), _TOGETHER):
            texts = self._files.read_many([self._path(run) for run in runs[start : start + _TOGETHER]])
            there = texts[: texts.index(None)] if None in texts else texts
            entries = [readable(text, dict) for text in there]
            parts = self._parts([entry for entry in entries if entry is not None])
            for run, text, entry in zip(runs[start:], there, entries, strict=False):
                try:
                    yield self._entry(run, decoded(self._path(run), text, dict) if entry is None else entry, parts)
                except DamagedError:
                    if damaged is None:
                        raise
                    damaged.add(run)
            if len(there) < len(texts):
                return

    def _entry(self, run: int, entry: Any, parts: Mapping[str, str]) -> E:
        """Returns the whole entry of a run from its own file and the texts of those beside it."""

        def part(name: str) -> Any:
            return decoded(child(self._folder, name), parts.get(name), lambda value: value)

        whole = _whole(entry, part)
        return decoded(self._path(run), json.dumps(entry), lambda _: self._decode(whole))

    def _parts(self, entries: Sequence[Any]) -> dict[str, str]:
        """Returns the texts of the files beside the entries, by name."""
        names = list(dict.fromkeys(name for entry in entries for name in _beside(entry)))
        parts = self._files.read_many([child(self._folder, name) for name in names])
        return {name: part for name, part in zip(names, parts, strict=True) if part is not None}

    def _parted(self, entry: E, prefix: str, beside: dict[str, str]) -> dict[str, Any]:
        """Returns the entry without its long parts. Puts these into `beside`, unless the entry before has them."""
        run, kept = self._kept
        known = kept if run == entry.run - 1 else {}
        content = entry.to_json()
        return {k: v if k == SUMMARY else _parted(v, prefix, beside, known) for k, v in content.items()}

    def history(self, limit: int | None = None) -> list[Mapping[str, Any]]:
        """Returns the "metrics" of the `limit` newest runs, or of all, newest first, without those of damaged files.

        Raises FileNotFoundError for an entry that is gone.
        """
        found = self._files.newest_entry(self._location)
        if found is None:
            return []
        newest = found[0]
        oldest = 0 if limit is None else max(0, newest - limit + 1)
        spans = range(oldest // SPAN, newest // SPAN + 1)
        covered = self._covered(spans)
        summaries: dict[int, Mapping[str, Any] | None] = {}
        for span in spans:
            runs = range(max(oldest, span * SPAN), min(newest, (span + 1) * SPAN - 1) + 1)
            if span not in covered:
                summaries |= self._summaries(runs)
        for span in covered | self._covered([span for span in spans if span not in covered]):
            path = self._checkpoint_path(span)
            rows = readable(self._files.read(path), _rows) or [{SUMMARY: {}}] * SPAN
            summaries |= {span * SPAN + i: row[SUMMARY] or {} for i, row in enumerate(rows)}
        newest_first = [summaries[run] for run in range(newest, oldest - 1, -1)]
        gap = next((newest - i for i, summary in enumerate(newest_first) if summary is None), None)
        if gap is not None:
            raise FileNotFoundError(self._path(gap))
        return [summary for summary in newest_first if summary]

    def _summaries(self, runs: Sequence[int]) -> dict[int, Mapping[str, Any] | None]:
        """Returns the "metrics" by run: None for an entry that is gone, nothing in it for one that is damaged."""
        texts = self._files.read_many([self._path(run) for run in runs])
        return {
            run: None if t is None else readable(t, lambda entry: dict(entry[SUMMARY])) or {}
            for run, t in zip(runs, texts, strict=True)
        }

    def covered(self) -> int:
        """Returns the number of the oldest runs that checkpoints cover."""
        return SPAN * (max(self._files.numbers(child(self._location, CHECKPOINTS)), default=-1) + 1)

    def cover(self, runs: int) -> None:
        """Writes the missing checkpoints for the `runs` oldest runs, a multiple of `SPAN`.

        Afterwards their entries may be removed. Newer runs must have been committed.
        """
        for span in range(self.covered() // SPAN, runs // SPAN):
            rows = []
            for first in range(span * SPAN, (span + 1) * SPAN, _TOGETHER):
                texts = self._files.read_many([self._path(run) for run in range(first, first + _TOGETHER)])
                entries = [
                    readable(text, lambda e: {MARK: e[MARK], SUMMARY: e[SUMMARY]}) for text in texts if text is not None
                ]
                rows += [{MARK: None, SUMMARY: None} if entry is None else entry for entry in entries]
            if len(rows) == SPAN:
                self._files.write_new(self._checkpoint_path(span), json.dumps(rows, ensure_ascii=False))
            elif not self._covered([span]):  # else another VACUUM was here, and removes them
                raise FileNotFoundError(f"entries of runs {span * SPAN} to {(span + 1) * SPAN - 1} in {self._folder}")

    def _covered(self, spans: Sequence[int]) -> set[int]:
        missing = self._files.missing([self._checkpoint_path(span) for span in spans])
        return {span for span in spans if self._checkpoint_path(span) not in missing}

    def commit(self, entry: E) -> None:
        """Commits the run.

        Raises TIDEMILL_CONCURRENT_REFRESH if its number is taken; nothing is left then. If the answer gets lost, the
        entry is looked up. Raises `UndecidedError` if that is not possible either.
        """
        mark = uuid.uuid4().hex
        beside: dict[str, str] = {}
        parted = self._parted(entry, f"{entry.run:020d}-{mark[:8]}", beside)
        text = json.dumps({**parted, MARK: mark}, ensure_ascii=False)
        written = [child(self._folder, name) for name in beside]
        committed = False
        try:
            for path, part in zip(written, beside.values(), strict=True):
                self._files.write(path, part)
            committed = self._create(entry.run, text, mark)
        except UndecidedError:
            raise
        except BaseException:
            with suppress(Exception):
                self._files.delete(written)
            raise
        if not committed:
            self._files.delete(written)
            raise TidemillError("TIDEMILL_CONCURRENT_REFRESH", {"view": self._view})
        with suppress(Exception):  # an older hint does as well
            self._files.write(child(self._folder, HINT), str(entry.run), lasting=False)

    def _create(self, run: int, text: str, mark: str) -> bool:
        path = self._path(run)
        try:
            created = self._files.write_new(path, text)
        except TidemillError:  # the file system was asked, and refused
            raise
        except BaseException as failure:
            found = self._decided(path, failure, lambda: self._files.read(path))
            if found != text and not self._decided(path, failure, lambda: self._has(run, mark)):
                raise
            created = True
        if not created:
            return False
        void = self._decided(path, None, lambda: bool(self._covered([run // SPAN])) and not self._has(run, mark))
        if void:  # the number was another run's, whose entry is gone
            with suppress(Exception):  # nobody reads it
                self._files.delete([path])
        return not void

    def _has(self, run: int, mark: str) -> bool:
        """Returns True if a checkpoint says that the run is the one with this mark."""
        if not self._covered([run // SPAN]):
            return False
        path = self._checkpoint_path(run // SPAN)
        return bool(decoded(path, self._files.read(path), _rows)[run % SPAN][MARK] == mark)

    @staticmethod
    def _decided(path: str, failure: BaseException | None, look: Callable[[], D]) -> D:
        try:
            return look()
        except Exception as second:
            raise UndecidedError(f"whether {path} was written and counts: {failure or second}") from second

    def _path(self, run: int) -> str:
        return numbered(self._folder, run)

    def _checkpoint_path(self, span: int) -> str:
        return numbered(child(self._location, CHECKPOINTS), span)


def _parted(value: Any, prefix: str, beside: dict[str, str], kept: Mapping[bytes, str]) -> Any:
    """Returns `value` without its long parts. Moves these to `beside` (name to text), unless `kept` (digest to name)
    has them.
    """
    match value:
        case list() | tuple() if len(value) >= LONG:
            return _moved(value, prefix, beside, kept)
        case str() if len(value) >= LONG_TEXT:
            return _moved(value, prefix, beside, kept)
        case list() | tuple():
            return [_parted(item, prefix, beside, kept) for item in value]
        case Mapping():
            return {key: _parted(item, prefix, beside, kept) for key, item in value.items()}
        case _:
            return value


def _moved(value: Any, prefix: str, beside: dict[str, str], kept: Mapping[bytes, str]) -> dict[str, str]:
    part = json.dumps(value, ensure_ascii=False)
    name = kept.get(_digest(part))
    if name is None:
        name = f"{prefix}.{len(beside)}.json"
        beside[name] = part
    return {"$in": name}


def _rows(checkpoint: Any) -> list[Mapping[str, Any]]:
    """Returns the rows of a checkpoint. Raises ValueError if they are not as many as it covers."""
    rows: list[Mapping[str, Any]] = [{MARK: row[MARK], SUMMARY: row[SUMMARY]} for row in checkpoint]
    if len(rows) != SPAN:
        raise ValueError(f"{len(rows)} rows, not {SPAN}")
    return rows


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def named(entry: Any) -> set[str]:
    """Returns the names of the files beside it that an entry names."""
    return set(_beside(entry))


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


def _whole(value: Any, part: Callable[[str], Any]) -> Any:
    """Returns a value with the parts in their places. `part`: reads a part by its name."""
    match value:
        case {"$in": str(name)}:
            return part(name)
        case list():
            return [_whole(item, part) for item in value]
        case dict():
            return {key: _whole(item, part) for key, item in value.items()}
        case _:
            return value
