"""Leases of downstream views on an upstream view: VACUUM keeps the changes that they have yet to read.

A lease is a file `_tidemill/leases/<id of the downstream view>.json` below the upstream view's location. It has the
location of the downstream view. That view's own log tells how far it has read, so a lease is never out of date. A lease
is void if its view is gone, or no longer reads this one. A damaged lease says nothing: all that is there is kept until
the downstream view's next run writes it anew, but not for ever.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tidemill.runtime.storage.files import child
from tidemill.runtime.storage.small import readable
from tidemill.runtime.view import views
from tidemill.runtime.view.definition import VIEW_FILE
from tidemill.runtime.view.record import RunRecord
from tidemill.runtime.view.views import View

FOLDER = "_tidemill/leases"
DAMAGED_MS = 7 * 24 * 3_600_000
"""Milliseconds for which a damaged lease keeps everything."""


@dataclass(frozen=True, slots=True)
class Leases:
    """`oldest`: the oldest run up to which a downstream view has read (None: there is none). `void`: files of leases
    that are void."""

    oldest: int | None
    void: frozenset[str]


def take(view: View, sources: Iterable[Mapping[str, Any]], record: RunRecord) -> None:
    """Writes the leases of `view` on the views among `sources`, which are entries of the query document."""
    read = {s.name: s.position["run"] for s in record.stands_at[0] if s.kind == "view" and s.position}
    for source in sources:
        if source["kind"] == "view" and source["name"] in read:
            lease = {"view": view.definition.qualified, "location": view.location, "run": read[source["name"]]}
            with suppress(Exception):  # the location may not be writable; the retention still holds
                view.files.write(_file(source, view), json.dumps(lease, ensure_ascii=False))


def taken(view: View) -> bool:
    """Returns True if views that read `view` have left leases on it."""
    return any(s.name.endswith(".json") for s in view.files.list(child(view.location, FOLDER)))


def give_up(view: View, kept: Iterable[Mapping[str, Any]] = ()) -> None:
    """Removes the leases of a view that is dropped, or that from now on reads only the sources `kept`."""
    stay = {source["path"] for source in kept}
    for source in view.definition.sources:
        if source["kind"] == "view" and source["path"] not in stay:
            with suppress(Exception):  # the upstream view may be gone
                view.files.delete([_file(source, view)])


def standing(view: View) -> Leases:
    """Returns the leases on `view`."""
    files = [s for s in view.files.list(child(view.location, FOLDER)) if s.name.endswith(".json")]
    found: dict[str, int | None] = {}
    for status, text in zip(files, view.files.read_many([s.path for s in files]), strict=True):
        if text is not None:
            lease = readable(text, lambda data: (str(data["location"]), int(data["run"])))
            old = time.time_ns() // 1_000_000 - status.modified > DAMAGED_MS
            found[status.path] = _read_up_to(view, *lease) if lease is not None else None if old else 0
    runs = [run for run in found.values() if run is not None]
    return Leases(min(runs, default=None), frozenset(path for path, run in found.items() if run is None))


def _read_up_to(view: View, location: str, run: int) -> int | None:
    """Returns the run of `view` up to which the holder of a lease has read; None if it is no reader any more.

    `location`, `run`: as the lease was written.
    """
    try:
        if not view.files.exists(child(location, VIEW_FILE)):
            return None
        above = views.at_location(view.files, location)
    except Exception:  # damaged, or of another version: it may be repaired, so the lease counts as it was written
        return run
    if above is None or above.head is None:
        return None
    own = view.definition.id
    return min((int(s.position["run"]) for s in above.head.stands_at[0] if _is(s.kind, s.position, own)), default=None)


def _is(kind: str, position: Any, view_id: str) -> bool:
    return kind == "view" and position is not None and position["id"] == view_id


def _file(source: Mapping[str, Any], view: View) -> str:
    return child(str(source["path"]), FOLDER, f"{view.definition.id}.json")
