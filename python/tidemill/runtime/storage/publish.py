"""Publishes a run: Spark's own file-sink manifest names the view's live files.

`<location>/_spark_metadata/<run>.compact` lists all of them, in the format of Spark's `FileStreamSinkLog`: a line "v1",
then one JSON object per file. Spark reads the highest compacted batch and those that follow it. So a plain `USING
parquet LOCATION` table reads exactly these files, and one rename switches all readers. Publishing comes after the
commit and can always be done again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from tidemill.runtime.storage.files import Files, Status, child

FOLDER = "_spark_metadata"
KEPT = 2
"""Number of manifests that stay: a reader that has listed the folder may still open the one before the newest."""
LOOKED_AT = 1000
"""Most files of a manifest whose text each statement compares."""
_MANIFEST = re.compile(r"^(\d+)\.compact$")


def manifest(live: Iterable[Mapping[str, Any]]) -> str:
    """Returns the text of a manifest of these files ({"path", "bytes", "modified"})."""
    lines = [
        json.dumps(
            {
                "path": _uri(file["path"]),
                "size": file["bytes"],
                "isDir": False,
                "modificationTime": file["modified"],
                "blockReplication": 1,
                "blockSize": 33554432,
                "action": "add",
            },
            separators=(",", ":"),
        )
        for file in live
    ]
    return "\n".join(["v1", *lines])


def _uri(path: str) -> str:
    """Returns the URI of a path. Spark's manifests have URIs; our paths are as Hadoop prints them, not encoded."""
    scheme, colon, rest = path.partition(":")
    if not colon or "/" in scheme:
        scheme, rest = "", path
    return (f"{scheme}:" if scheme else "") + quote(rest, safe="/:@!$&'()*+,;=~-._")


def published(
    files: Files, location: str, run: int | None = None, live: Sequence[Mapping[str, Any]] = ()
) -> int | None:
    """Returns the run that plain readers see; None if none was published.

    `run`: the last one, whose live files these are. A manifest of it that does not show them is removed, so that it is
    published again. A long one is not looked at: the next run replaces it.
    """
    folder = child(location, FOLDER)
    if run is None or len(live) > LOOKED_AT:
        return max(_runs(files.list(folder)), default=None)
    path = child(folder, f"{run}.compact")
    shown, listed = files.read_and_list(path, folder)
    runs = _runs(listed)
    if shown is not None and shown != manifest(live):
        files.delete([path])
        runs = [other for other in runs if other != run]
    return max(runs, default=None)


def publish(files: Files, location: str, run: int, live: Iterable[Mapping[str, Any]]) -> bool:
    """Shows the live files as of `run` to plain readers. Returns False if that was done before.

    After the initial load every run is published, even without output: Spark takes the distance of the two newest
    manifests for its compaction interval, so their numbers must be consecutive. Two calls at once write the same text
    for the same run. An older run never hides a newer one, because the highest number counts. Manifests are removed
    except for the last two.
    """
    runs = _runs(files.list(child(location, FOLDER)))
    if runs and max(runs) >= run:
        return False
    text = manifest(live)
    fresh = range(max(runs) + 1 if runs else run, run + 1)
    for number in fresh:
        files.write(child(location, FOLDER, f"{number}.compact"), text)
    old = sorted({*runs, *fresh})[:-KEPT]
    # Spark ignores numbers below a compacted batch, so the order of removal does not matter
    files.delete(child(location, FOLDER, f"{number}.compact") for number in old)
    return True


def _runs(listed: Sequence[Status]) -> list[int]:
    matches = (_MANIFEST.match(s.name) for s in listed)
    return sorted(int(m.group(1)) for m in matches if m)
