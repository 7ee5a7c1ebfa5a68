"""What views above a view have read of it: VACUUM keeps the changes that they have yet to take in.

A lease is a file `_tidemill/leases/<id of the view above>.json` below the upstream view's location. It says where the
view above lies; how far that one has read is said by its own log, so a lease is never out of date. One whose view is
gone, or no longer reads this one, holds nothing back.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tidemill.runtime.storage.files import child
from tidemill.runtime.view import views
from tidemill.runtime.view.definition import VIEW_FILE
from tidemill.runtime.view.record import RunRecord
from tidemill.runtime.view.views import View

FOLDER = "_tidemill/leases"


@dataclass(frozen=True, slots=True)
class Leases:
    """`oldest`: the oldest run up to which a view above has read (None: there is none); `void`: files of leases that
    hold nothing back."""

    oldest: int | None
    void: frozenset[str]


def take(view: View, sources: Iterable[Mapping[str, Any]], record: RunRecord) -> None:
    """Tells the views among `sources`, entries of the query's document, that `view` has read them."""
    read = {s.name: s.position["run"] for s in record.stands_at[0] if s.kind == "view" and s.position}
    for source in sources:
        if source["kind"] == "view" and source["name"] in read:
            lease = {"view": view.definition.qualified, "location": view.location, "run": read[source["name"]]}
            with suppress(Exception):  # a place that may not be written to; its retention still holds
                view.files.write(_file(source, view), json.dumps(lease, ensure_ascii=False))


def give_up(view: View, kept: Iterable[Mapping[str, Any]] = ()) -> None:
    """Removes the leases of a view that is dropped, or that reads only the sources `kept` from now on."""
    stay = {source["path"] for source in kept}
    for source in view.definition.sources:
        if source["kind"] == "view" and source["path"] not in stay:
            with suppress(Exception):  # the upstream view may be gone
                view.files.delete([_file(source, view)])


def standing(view: View) -> Leases:
    """The leases on `view`."""
    paths = [s.path for s in view.files.list(child(view.location, FOLDER)) if s.name.endswith(".json")]
    texts = view.files.read_many(paths)
    found = {path: _read_up_to(view, json.loads(text)) for path, text in zip(paths, texts, strict=True) if text}
    runs = [run for run in found.values() if run is not None]
    return Leases(min(runs, default=None), frozenset(path for path, run in found.items() if run is None))


def _read_up_to(view: View, lease: Mapping[str, Any]) -> int | None:
    """The run of `view` up to which the holder of the lease has read; None if it is no reader any more."""
    if not view.files.exists(child(lease["location"], VIEW_FILE)):
        return None
    try:
        above = views.at_location(view.files, lease["location"])
    except Exception:  # damaged, or of another version: it may be mended, so the lease stands as it was written
        return int(lease["run"])
    if above is None or above.head is None:
        return None
    own = view.definition.id
    return min((int(s.position["run"]) for s in above.head.stands_at[0] if _is(s.kind, s.position, own)), default=None)


def _is(kind: str, position: Any, view_id: str) -> bool:
    return kind == "view" and position is not None and position["id"] == view_id


def _file(source: Mapping[str, Any], view: View) -> str:
    return child(str(source["path"]), FOLDER, f"{view.definition.id}.json")
