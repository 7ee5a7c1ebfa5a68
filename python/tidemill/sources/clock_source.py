"""The clock as a source of queries that read it: it has no rows, but it moves.

A position is {"clock": microseconds since 1970, "values": what the query reads of it then}. The values are days where
the query reads no more than the day, so that the clock stands still until midnight in the view's time zone.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime

from tidemill.plan.change import SourceChange
from tidemill.sources.base import Position, Source, Summary

TIME_DEPENDENT = "TIME_DEPENDENT"


class ClockSource:
    """See above. Any moment can be read, since what it shows is written in the position."""

    tells_changes = True
    counts = frozenset({"ROWS", "FILES"})  # there is nothing to count

    @staticmethod
    def now() -> int:
        """Returns what the clock shows, in microseconds since 1970."""
        return time.time_ns() // 1000

    def size(self, source: Source, position: Position) -> tuple[float | None, float | None]:
        return 1.0, 0.0

    def rows(self, position: Position) -> int | None:
        return None

    def change(self, source: Source, old: Position, new: Position, summary: Summary | None) -> SourceChange:
        known = SourceChange(changed=True, old_readable=old is not None, rows=1.0, bytes=0.0, inserts=1.0, deletes=1.0)
        if old is None or old["values"] != new["values"]:
            return known
        return SourceChange(changed=False, old_readable=True, rows=1.0, bytes=0.0, inserts=0.0, deletes=0.0)

    def disturbed(self, source: Source, read: Position, now: Position) -> str | None:
        return None

    def warnings(self, source: Source, period: float | None) -> Iterator[str]:
        yield from ()

    def mark(self, position: Position) -> str:
        return ""

    def new_files(self, old: Position, new: Position, summary: Summary | None) -> float | None:
        return 0.0

    def text(self, position: Position) -> str:
        return datetime.fromtimestamp(position["clock"] / 1e6, UTC).isoformat(sep=" ", timespec="microseconds")
