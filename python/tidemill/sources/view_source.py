"""Incremental views that feed other views.  A position is a run with output; changes are the runs' signed deltas."""

from __future__ import annotations

from tidemill.sources.recorded import RecordedSource


class ViewSource(RecordedSource):
    """{"run": n, "id": view id, "rows": of the content, or None}.

    A run that was full without a delta is SOURCE_REWRITTEN to the views above.
    """

    number = "run"
