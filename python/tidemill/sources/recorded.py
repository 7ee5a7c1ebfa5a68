"""The common part of sources with numbered versions: it turns the JVM's summary of the changes into a SourceChange."""

from __future__ import annotations

from collections.abc import Iterator

from tidemill.plan.change import SourceChange
from tidemill.sources.base import HISTORY_GONE, Position, Source, Summary, size_known


class RecordedSource:
    """A source whose own log tells the changes between two numbers; `number` is the field of a position with them."""

    tells_changes = True
    counts = frozenset({"ROWS"})
    number: str

    def size(self, source: Source, position: Position) -> tuple[float | None, float | None]:
        rows, size = size_known(source)
        if position and position.get("bytes") is not None:
            if rows is not None and size:
                rows = rows * position["bytes"] / size
            size = float(position["bytes"])
        counted = self.rows(position)
        return rows if counted is None else float(counted), size

    def rows(self, position: Position) -> int | None:
        return position.get("rows") if position else None

    def expects_direct(self, source: Source) -> bool:
        """Returns True if its changes are expected to be direct (see `SourceChange`) while none is known."""
        return True

    def change(self, source: Source, old: Position, new: Position, summary: Summary | None) -> SourceChange:
        rows, size = self.size(source, new)
        if old is None:
            direct = self.expects_direct(source)
            return SourceChange(changed=True, old_readable=False, rows=rows, bytes=size, direct=direct)
        if summary is None:
            reason = f"{HISTORY_GONE}: the changes of {source['name']} are not known"
            return SourceChange(changed=True, old_readable=False, rows=rows, bytes=size, reason=reason)
        if summary["reason"]:
            return SourceChange(
                changed=True, old_readable=summary["old_readable"], rows=rows, bytes=size, reason=summary["reason"]
            )
        inserts, deletes, read = summary["inserts"], summary["deletes"], None
        if rows is not None and size and summary["bytes"] is not None:
            files = rows * summary["bytes"] / size
            if inserts is None:
                inserts = files
            if not summary["direct"] and files > inserts + (deletes or 0.0):
                read = files
        return SourceChange(
            changed=summary["changed"],
            old_readable=summary["old_readable"],
            rows=rows,
            bytes=size,
            inserts=inserts,
            deletes=deletes,
            direct=summary["direct"],
            read=read,
        )

    def disturbed(self, source: Source, read: Position, now: Position) -> str | None:
        if read["id"] != now["id"] or now[self.number] < read[self.number]:
            return f"{source['name']} is another one now"
        return None

    def warnings(self, source: Source, period: float | None) -> Iterator[str]:
        yield from ()

    def mark(self, position: Position) -> str:
        return f"{position.get('id')} {position[self.number]}"

    def new_files(self, old: Position, new: Position, summary: Summary | None) -> float | None:
        return None if summary is None else summary.get("files")

    def text(self, position: Position) -> str:
        return str(position[self.number])
