"""Sources without positions: constants, and sources whose changes cannot be known.

The latter are JDBC tables, tables of other catalogs, and fixed versions of a table.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidemill.plan.change import SourceChange
from tidemill.sources.base import Position, Source, Summary, size_known


class StaticSource:
    """A source that is assumed never to change.

    If it does change, REFRESH ... FULL reads it again. The view's policy decides if it may have such a source.
    """

    tells_changes = False
    counts = frozenset({"ROWS", "FILES"})  # there is nothing to count

    def size(self, source: Source, position: Position) -> tuple[float | None, float | None]:
        return size_known(source)

    def rows(self, position: Position) -> int | None:
        return None

    def change(self, source: Source, old: Position, new: Position, summary: Summary | None) -> SourceChange:
        rows, size = size_known(source)
        return SourceChange(changed=False, old_readable=True, rows=rows, bytes=size, inserts=0.0, deletes=0.0)

    def disturbed(self, source: Source, read: Position, now: Position) -> str | None:
        return None

    def warnings(self, source: Source, period: float | None) -> Iterator[str]:
        if not source.get("constant"):
            yield (
                f"{source['name']} cannot tell its changes ({source.get('reason')}): every refresh will be full, with"
                " the reason NOT_INCREMENTAL."
            )

    def mark(self, position: Position) -> str:
        return ""

    def new_files(self, old: Position, new: Position, summary: Summary | None) -> float | None:
        return 0.0

    def text(self, position: Position) -> str:
        return ""
