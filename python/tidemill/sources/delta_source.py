"""Delta tables. A position is a version. Changes come from the change data feed, or from added and removed files."""

from __future__ import annotations

from collections.abc import Iterator

from tidemill.sources.base import Source
from tidemill.sources.recorded import RecordedSource


class DeltaSource(RecordedSource):
    """{"version": n, "id": table id, "bytes", "rows" and "file_count": number or None,
    "columns": {used column: physical name and type}}.
    """

    number = "version"
    counts = frozenset({"ROWS", "FILES"})

    def expects_direct(self, source: Source) -> bool:
        return bool(source.get("feed"))

    def warnings(self, source: Source, period: float | None) -> Iterator[str]:
        name = source["name"]
        if not source.get("feed"):
            yield (
                f"{name} has no change data feed: updates, deletes and merges are read from whole files that were added"
                " and removed. ALTER TABLE ... SET TBLPROPERTIES (delta.enableChangeDataFeed = true) makes later ones"
                " cheaper to read."
            )
        retention = source.get("retention_ms")
        if period is not None and retention is not None and period * 1000 > retention:
            yield (
                f"{name} keeps removed files and its log for {retention / 3_600_000:g} hours, but"
                f" {period / 3600:g} hours may lie between two runs: what VACUUM removes in between makes the next run"
                " full, with the reason HISTORY_GONE. Set delta.deletedFileRetentionDuration and"
                " delta.logRetentionDuration to more."
            )
