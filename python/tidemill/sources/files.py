"""Tables and paths of Parquet, ORC, CSV or JSON files.

A position is a listing; new files are insertions (design 10).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tidemill.plan.change import SourceChange
from tidemill.sources.base import SOURCE_REPLACED, SOURCE_REWRITTEN, Position, Source, Summary, size_known

Listed = Sequence[Any]  # [path, bytes, modified]


class FileSource:
    """Files may come.

    A file that went or was written over says which rows came and went to nobody: SOURCE_REWRITTEN.
    """

    tells_changes = True

    def size(self, source: Source, position: Position) -> tuple[float | None, float | None]:
        """Bytes as listed; rows as the catalog last counted them, in proportion to the bytes it saw then."""
        rows, counted = size_known(source)
        size = float(sum(f[1] for f in position["files"])) if position else counted
        if rows is not None and counted and size is not None:
            rows = rows * size / counted
        return rows, size

    def change(self, source: Source, old: Position, new: Position, summary: Summary | None) -> SourceChange:
        rows, size = self.size(source, new)
        if old is None:
            return SourceChange(changed=True, old_readable=False, rows=rows, bytes=size)
        if old.get("id") != new.get("id"):
            replaced = f"{SOURCE_REPLACED}: {source['name']} is another table now"
            return SourceChange(changed=True, old_readable=False, rows=rows, bytes=size, reason=replaced)
        before, now = _by_path(old), _by_path(new)
        gone = [path for path in before if path not in now]
        rewritten = [path for path in before if path in now and now[path] != before[path]]
        added = [f for path, f in now.items() if path not in before]
        reason: str | None = None
        if gone or rewritten:
            what = f"{gone[0]} is gone" if gone else f"{rewritten[0]} was written over"
            reason = f"{SOURCE_REWRITTEN}: {what}"
        elif _moved(old, new):
            reason = f"{SOURCE_REWRITTEN}: a partition has other values"
        inserts = None
        if rows is not None and size:
            inserts = rows * sum(f[1] for f in added) / size
        return SourceChange(
            changed=bool(added) or reason is not None,
            old_readable=reason is None,
            rows=rows,
            bytes=size,
            inserts=inserts if added else 0.0,
            deletes=None if reason else 0.0,
            reason=reason,
        )

    def text(self, position: Position) -> str:
        """How many files of how many bytes, up to which time (epoch milliseconds): a listing is too long for a cell."""
        files = position["files"]
        newest = max((f[2] for f in files), default=0)
        return f"{len(files)} files, {sum(f[1] for f in files)} bytes, modified {newest}"


def _by_path(position: Mapping[str, Any]) -> dict[str, Listed]:
    return {f[0]: f for f in position["files"]}


def _moved(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether a folder that the catalog gives values to has others now."""
    values = dict(map(tuple, new.get("partitions") or ()))
    return any(folder in values and values[folder] != spec for folder, spec in old.get("partitions") or ())
