"""What an adapter of a kind of source answers.  Adapters only look at positions: all reading is done by the JVM."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from tidemill.plan.change import SourceChange

Source = Mapping[str, Any]
"""A source entry of the query document."""
Position = Any
"""JSON; None: the source has no positions."""
Summary = Mapping[str, Any]
"""What the JVM's metadata tells of the changes between two positions: see `ViewSource.summary` in the bridge."""

SOURCE_REWRITTEN = "SOURCE_REWRITTEN"
SOURCE_REPLACED = "SOURCE_REPLACED"
HISTORY_GONE = "HISTORY_GONE"
SCHEMA_CHANGED = "SCHEMA_CHANGED"  # said by the JVM: columns of a Delta table


class Adapter(Protocol):
    """One kind of source."""

    tells_changes: bool
    """Whether runs can be incremental over it (SOURCE_WITHOUT_CHANGES under REFRESH POLICY INCREMENTAL if not)."""

    def size(self, source: Source, position: Position) -> tuple[float | None, float | None]:
        """Rows and bytes of the snapshot at the position; None where unknown."""
        ...

    def rows(self, position: Position) -> int | None:
        """Exactly how many rows the snapshot at the position has, where the source's own log counts them."""
        ...

    def change(self, source: Source, old: Position, new: Position, summary: Summary | None) -> SourceChange:
        """What happened from `old` to `new`.  Without an old position: everything is new and nothing can be told."""
        ...

    def disturbed(self, source: Source, read: Position, now: Position) -> str | None:
        """Why what a run has read may not be the source at the position `read`, the source being at `now` after the
        run; None if it is.  What is gone is no reason: whoever read it has it, others have failed."""
        ...

    def warnings(self, source: Source, period: float | None) -> Iterator[str]:
        """What can be foreseen of a source that misbehaves.

        `period`: seconds that may lie between two runs; None if no clock fires them.
        """
        ...

    def text(self, position: Position) -> str:
        """The position for the column `positions` of SHOW REFRESHES."""
        ...


def size_known(source: Source) -> tuple[float | None, float | None]:
    """Rows and bytes as the catalog or the table's metadata gave them at analysis."""
    return source.get("rows"), source.get("bytes")
