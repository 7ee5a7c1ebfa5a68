"""What views above a view have read of it: VACUUM keeps the changes that they have yet to take in.

A lease is a file `_tidemill/leases/<id of the view above>.json` below the upstream view's location; it is written after
each commit of the view above, so it never runs ahead of what that one has read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress

from tidemill.runtime.definition import VIEW_FILE
from tidemill.runtime.files import Files, child
from tidemill.runtime.record import Record
from tidemill.runtime.views import View

FOLDER = "_tidemill/leases"


def renew(view: View, record: Record) -> None:
    """Tells the views that `view` reads how far it has read them now."""
    locations = {str(s["name"]): str(s["path"]) for s in view.definition.sources if s["kind"] == "view"}
    for source in record.sources:
        if source.kind == "view" and source.position and source.name in locations:
            lease = {"view": view.definition.qualified, "location": view.location, "run": source.position["run"]}
            path = child(locations[source.name], FOLDER, f"{view.definition.id}.json")
            with suppress(Exception):  # a place that may not be written to; its retention still holds
                view.files.write(path, json.dumps(lease, ensure_ascii=False))


def give_up(view: View) -> None:
    """Removes the leases of a view that is dropped."""
    for source in view.definition.sources:
        if source["kind"] == "view":
            with suppress(Exception):  # the upstream view may be gone
                view.files.delete([child(str(source["path"]), FOLDER, f"{view.definition.id}.json")])


def positions(files: Files, location: str) -> Iterator[int]:
    """The runs up to which views above, that still exist, have read the view at this location."""
    paths = [s.path for s in files.list(child(location, FOLDER)) if s.name.endswith(".json")]
    leases = [json.loads(text) for text in files.read_many(paths) if text]
    for lease in leases:
        if files.exists(child(lease["location"], VIEW_FILE)):
            yield int(lease["run"])
