"""Delta tables.  A position is a version; changes come from the change data feed, or from added and removed files."""

from __future__ import annotations

from tidemill.sources.recorded import RecordedSource


class DeltaSource(RecordedSource):
    """{"version": n, "id": table id, "bytes" and "rows": number or None,
    "columns": {used column: physical name and type}}.
    """

    number = "version"
