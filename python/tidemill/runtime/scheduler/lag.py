"""Tells by how much the content of a view is behind its sources: the age of the oldest change that it has not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidemill.bridge.jvm import Jvm
from tidemill.runtime.scheduler.watch import sources_of
from tidemill.runtime.storage.files import child
from tidemill.runtime.view import views
from tidemill.runtime.view.views import View
from tidemill.sources.adapters import pin, tells_changes
from tidemill.sources.file_source import FileSource

_PLACE = {"files": "pages", "delta": "version", "view": "run"}
"""By kind of source, the part of its position that changes are told by."""


def lag_seconds(jvm: Jvm, view: View, now: float) -> int | None:
    """Returns the age in seconds of the oldest change that no run with output has read; 0 if there is none; None if a
    source does not tell, or before the first such run. `now`: epoch seconds. No Spark job runs.

    Raises the errors of sources that cannot be read.
    """
    head = view.head
    sources = [s for s in sources_of(view) if s["kind"] != "clock"]
    if head is None or not head.filled or not all(map(tells_changes, sources)):
        return None
    sources = [s for s in sources if s["kind"] != "static"]
    since = [head.position_of(str(s["name"])) for s in sources]
    oldest = now
    for source, before, pinned in zip(sources, since, pin(jvm, sources, since), strict=True):
        if pinned.change.changed:
            at = _changed_at(view, source, before, pinned.position)
            if at is None:
                return None
            oldest = min(oldest, at)
    return round(now - oldest)


def _changed_at(view: View, source: Mapping[str, Any], before: Any, position: Any) -> float | None:
    """Returns when a source changed first after a position (epoch seconds); None if nobody knows any more: the position
    may be that of another kind of table, which was there before."""
    if any(place is None or _PLACE[source["kind"]] not in place for place in (before, position)):
        return None
    match source["kind"]:
        case "files":
            oldest = FileSource().oldest(before, position)
            return None if oldest is None else oldest / 1000
        case "delta":
            log = child(str(source["location"]["root"]), "_delta_log")
            (found,) = view.files.stat([child(log, f"{before['version'] + 1:020d}.json")])
            return None if found is None else found.modified / 1000
        case "view":
            upstream = views.at_location(view.files, str(source["path"]))
            if upstream is None:
                return None
            for run in range(before["run"] + 1, position["run"] + 1):
                record = upstream.log.read(run)
                if record.output_run == run and record.output_at is not None:
                    return record.output_at / 1e6
    return None
