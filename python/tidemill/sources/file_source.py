"""Tables and paths of Parquet, ORC, CSV or JSON files.

A position is a file listing, with the number of rows in these files where it is known ("rows"; an estimate where there
are many files). New files are insertions.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tidemill.plan.change import SourceChange
from tidemill.sources.base import SOURCE_REPLACED, SOURCE_REWRITTEN, Position, Source, Summary, size_known

Stamp = tuple[str, str]
"""Bytes and time of modification, as written on a page of the listing."""
INFERRED = ("json", "csv", "xml")
"""Formats whose columns Spark guesses from the data."""


class FileSource:
    """Files may be added.

    If a file was removed or overwritten, nobody knows which rows changed: SOURCE_REWRITTEN.
    """

    tells_changes = True
    counts = frozenset({"FILES"})

    def size(self, source: Source, position: Position) -> tuple[float | None, float | None]:
        """Returns rows and bytes: bytes as listed, rows as footers tell them, else by the catalog's last count in
        proportion to its bytes then."""
        rows, counted = size_known(source)
        size = float(position["bytes"]) if position else counted
        if position and position.get("rows") is not None:
            return float(position["rows"]), size
        if rows is not None and counted and size is not None:
            rows = rows * size / counted
        return rows, size

    def rows(self, position: Position) -> int | None:
        return None

    def change(self, source: Source, old: Position, new: Position, summary: Summary | None) -> SourceChange:
        rows, size = self.size(source, new)
        if old is None:
            return SourceChange(changed=True, old_readable=False, rows=rows, bytes=size)
        if old.get("id") != new.get("id"):
            replaced = f"{SOURCE_REPLACED}: another table under this name"
            return SourceChange(changed=True, old_readable=False, rows=rows, bytes=size, reason=replaced)
        before, now = _differing(old, new)
        added = [path for path in now if path not in before]
        reason = _rewritten(before, now) or _moved(old, new)
        inserts, known = None, (old.get("rows"), new.get("rows"))
        if reason is None and None not in known:
            inserts = float(known[1] - known[0])
        elif rows is not None and size:
            inserts = rows * sum(int(now[path][0]) for path in added) / size
        return SourceChange(
            changed=bool(added) or reason is not None,
            old_readable=reason is None,
            rows=rows,
            bytes=size,
            inserts=inserts if added else 0.0,
            deletes=None if reason else 0.0,
            reason=reason,
        )

    def disturbed(self, source: Source, read: Position, now: Position) -> str | None:
        """See `Adapter`. A removed file is no reason; an overwritten file may have been read as old or as new."""
        before, after = _differing(read, now)
        over = (path for path in before if path in after and after[path] != before[path])
        return next((f"{path} was written over" for path in over), None)

    def warnings(self, source: Source, period: float | None) -> Iterator[str]:
        if source["format"] in INFERRED and not (source.get("location") or {}).get("table"):
            yield (
                f"the columns of {source['name']} were guessed from the files there now: a file with other columns"
                " will make refreshes fail with TIDEMILL_SCHEMA_CHANGED. A table over the path fixes them."
            )

    def mark(self, position: Position) -> str:
        digest = hashlib.sha256(str(position.get("id")).encode())
        for page in sorted(position["pages"]):
            digest.update(page.encode())
        digest.update(json.dumps(position.get("partitions")).encode())
        return digest.hexdigest()[:32]

    def new_files(self, old: Position, new: Position, summary: Summary | None) -> float | None:
        before, now = _differing(old, new)
        return float(sum(before.get(path) != stamp for path, stamp in now.items()))

    def oldest(self, old: Position, new: Position) -> int | None:
        """Returns when the oldest file was written that came between two positions (epoch milliseconds)."""
        before, now = _differing(old, new)
        return min((int(stamp[1]) for path, stamp in now.items() if before.get(path) != stamp), default=None)

    def text(self, position: Position) -> str:
        """Returns number of files, bytes and latest time (epoch milliseconds): a listing is too long for a cell."""
        return f"{position['files']} files, {position['bytes']} bytes, modified {position['modified']}"


def _differing(old: Position, new: Position) -> tuple[dict[str, Stamp], dict[str, Stamp]]:
    """Returns, for each listing, the files of the pages that the other listing does not have."""
    before, now = set(old["pages"]), set(new["pages"])
    return dict(_read(before - now)), dict(_read(now - before))


def _read(pages: Iterable[str]) -> Iterator[tuple[str, Stamp]]:
    """Yields path and stamp of each file on pages; see `Listing` in the bridge."""
    for page in pages:
        parts = page.split("\0")
        for folder, files in zip(parts[::2], parts[1::2], strict=True):
            cells = files.split("/")
            for name, size, modified in zip(cells[::3], cells[1::3], cells[2::3], strict=True):
                yield f"{folder}/{name}", (size, modified)


def _rewritten(before: Mapping[str, Stamp], now: Mapping[str, Stamp]) -> str | None:
    rewritten = None
    for path, stamp in before.items():
        if path not in now:
            return f"{SOURCE_REWRITTEN}: {path} is gone"
        if rewritten is None and now[path] != stamp:
            rewritten = f"{SOURCE_REWRITTEN}: {path} was written over"
    return rewritten


def _moved(old: Position, new: Position) -> str | None:
    """Returns the reason if the catalog gives the files of a folder other partition values than before, else None."""
    before, now = _values(old), _values(new)
    moved = {folder for folder in before | now if before.get(folder) != now.get(folder)}
    if moved and any(path.rsplit("/", 1)[0] in moved for path, _ in _read(old["pages"])):
        return f"{SOURCE_REWRITTEN}: a partition has other values"
    return None


def _values(position: Position) -> dict[str, list[Any]]:
    """Returns the partition values of each folder whose name does not tell them."""
    found: dict[str, list[Any]] = defaultdict(list)
    for folder, values in position["partitions"]:
        found[folder].append(values)
    return found
