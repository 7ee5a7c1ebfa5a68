"""Incremental views as sources of other views. A position is a run with output; changes are the runs' signed deltas."""

from __future__ import annotations

from tidemill.sources.recorded import RecordedSource


class ViewSource(RecordedSource):
    """{"run": n, "id": view id, "rows": of the content, or None}.

    For downstream views, a full run that computed no delta (it was not to tell what it changed) is SOURCE_REWRITTEN.
    """

    number = "run"
