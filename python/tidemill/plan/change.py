"""What happened to a source between the last run's position and this run's."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SourceChange:
    """A source over the interval of a run.

    Attributes:
        changed: its position moved.
        old_readable: its snapshot at the old position can still be read.
        rows: rows of the new snapshot; None if unknown.
        bytes: bytes of the new snapshot; None if unknown.
        inserts: rows inserted; None if unknown.
        deletes: rows deleted; None if unknown.
        reason: why the change cannot be told (a reason code of SHOW REFRESHES); None if it can.
    """

    changed: bool
    old_readable: bool
    rows: float | None = None
    bytes: float | None = None
    inserts: float | None = None
    deletes: float | None = None
    reason: str | None = None
