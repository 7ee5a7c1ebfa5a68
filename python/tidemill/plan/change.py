"""Changes of sources between the position of the last run and the position of this run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf


@dataclass(frozen=True, slots=True)
class SourceChange:
    """The change of a source over the interval of a run.

    Attributes:
        changed: its position moved.
        old_readable: its snapshot at the old position can still be read.
        rows: rows of the new snapshot; None if unknown.
        bytes: bytes of the new snapshot; None if unknown.
        files: data files of the new snapshot; None if unknown.
        values: distinct values of fields, where they were counted.
        inserts: rows inserted; None if unknown.
        deletes: rows deleted; None if unknown.
        read: rows read to find the change, where these are more than the change: all rows of files that came or went.
        direct: no row came and went within the interval: all deleted rows existed at the old position, and all inserted
            rows exist at the new one. Both sides of an update may still agree in the columns that are read.
        reason: why the change is unknown (a reason code of SHOW REFRESHES); None if it is known.
    """

    changed: bool
    old_readable: bool
    rows: float | None = None
    bytes: float | None = None
    inserts: float | None = None
    deletes: float | None = None
    reason: str | None = None
    direct: bool = False
    read: float | None = None
    files: float | None = None
    values: Mapping[str, float] = field(default_factory=dict)

    @property
    def most_rows(self) -> float:
        """The rows that a snapshot can have at any moment of the interval; infinite if that is unknown.

        >>> SourceChange(changed=False, old_readable=True, rows=10.0).most_rows
        10.0
        >>> SourceChange(changed=True, old_readable=True, rows=10.0, inserts=3.0, deletes=4.0).most_rows
        17.0
        >>> SourceChange(changed=True, old_readable=True, rows=10.0).most_rows
        inf
        """
        moved = (self.inserts, self.deletes) if self.changed else ()
        return sum(inf if part is None else part for part in (self.rows, *moved))

    def then(self, later: SourceChange) -> SourceChange:
        """This change and the one that follows it, combined.

        >>> first = SourceChange(changed=True, old_readable=False, rows=10.0, inserts=5.0, deletes=0.0)
        >>> both = first.then(SourceChange(changed=True, old_readable=True, rows=9.0, inserts=None, deletes=1.0))
        >>> both.old_readable, both.rows, both.inserts, both.deletes
        (False, 9.0, None, 1.0)
        """
        if not self.changed or not later.changed:
            known = later if later.changed else self
            return replace(
                known, rows=later.rows, bytes=later.bytes, files=later.files, values=later.values or self.values
            )
        return SourceChange(
            changed=True,
            old_readable=self.old_readable,
            rows=later.rows,
            bytes=later.bytes,
            inserts=_sum(self.inserts, later.inserts),
            deletes=_sum(self.deletes, later.deletes),
            reason=self.reason or later.reason,
            read=None if self.read is None and later.read is None else (self.read or 0.0) + (later.read or 0.0),
            files=later.files,
            values=later.values or self.values,
        )


def joined(steps: Sequence[Mapping[int, SourceChange]]) -> dict[int, SourceChange]:
    """Combines the changes of consecutive transitions into one change per source."""
    found: dict[int, SourceChange] = {}
    for step in steps:
        found |= {source: found[source].then(change) if source in found else change for source, change in step.items()}
    return found


def _sum(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a + b
