"""The interface of the adapters, one for each kind of source. They only look at positions; the JVM does all reading."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from tidemill.plan.change import SourceChange

Source = Mapping[str, Any]
"""A source entry of the query document."""
Position = Any
"""A position as JSON; None: the source has no positions."""
Summary = Mapping[str, Any]
"""The changes between two positions according to the JVM's metadata: see `ViewSource.summary` in the bridge."""

SOURCE_REWRITTEN = "SOURCE_REWRITTEN"
SOURCE_REPLACED = "SOURCE_REPLACED"
HISTORY_GONE = "HISTORY_GONE"
SCHEMA_CHANGED = "SCHEMA_CHANGED"  # said by the JVM: columns of a Delta table


class Adapter(Protocol):
    """One kind of source."""

    tells_changes: bool
    """True if runs over it can be incremental. If not, REFRESH POLICY INCREMENTAL gives SOURCE_WITHOUT_CHANGES."""
    counts: frozenset[str]
    """What ON CHANGE ... AFTER can count of its changes: `ROWS`, `FILES`."""

    def size(self, source: Source, position: Position) -> tuple[float | None, float | None]:
        """Returns rows and bytes of the snapshot at the position; None where unknown."""
        ...

    def rows(self, position: Position) -> int | None:
        """Returns the exact number of rows of the snapshot at the position; None if the source's log has no counts."""
        ...

    def change(self, source: Source, old: Position, new: Position, summary: Summary | None) -> SourceChange:
        """Returns the change from `old` to `new`. Without an old position all is new and the change is unknown."""
        ...

    def disturbed(self, source: Source, read: Position, now: Position) -> str | None:
        """Returns why a run may have read something else than the source at the position `read`; None if it did not.

        `now`: the source's position after the run. Files that are gone are no reason: a run that read them has their
        rows, and a run that did not has failed.
        """
        ...

    def warnings(self, source: Source, period: float | None) -> Iterator[str]:
        """Yields a warning for each foreseeable reason why runs over the source will be full, or fail.

        `period`: seconds that may lie between two runs; None if no clock fires them.
        """
        ...

    def mark(self, position: Position) -> str:
        """Returns a short text that tells the position from every other one of the source."""
        ...

    def new_files(self, old: Position, new: Position, summary: Summary | None) -> float | None:
        """Returns the number of data files that came between two positions; None if it is not known."""
        ...

    def text(self, position: Position) -> str:
        """Returns the position for the column `positions` of SHOW REFRESHES."""
        ...


def size_known(source: Source) -> tuple[float | None, float | None]:
    """Returns rows and bytes as the catalog or the table's metadata gave them at analysis."""
    return source.get("rows"), source.get("bytes")
