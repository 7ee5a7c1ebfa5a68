"""VACUUM INCREMENTAL VIEW: removes files that nothing needs any more.

What is needed: everything of the last two runs; of older runs, what was live at some moment within the retention; what
a view above has yet to read; what a live writer has written and not committed. The log, the definition in force and
the manifests stay.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from typing import Any

from tidemill.bridge.jvm import Jvm
from tidemill.runtime import leases, log, publish, views, writers
from tidemill.runtime.definition import AMENDMENTS, DEFINITIONS, DROPPING, VIEW_FILE
from tidemill.runtime.files import Files, Status, child
from tidemill.runtime.record import Record
from tidemill.runtime.views import View
from tidemill.sql.statements import Vacuum

RETAIN_HOURS = 168.0
KEPT_RUNS = 2
CLOCKS_MS = 60_000
"""By how much the clocks of writer, file system and this process may differ."""
_HOUR_US = 3_600_000_000
_BESIDE = re.compile(r"^(\d{20})-\w+\.\d+\.json$")


def vacuum(jvm: Jvm, statement: Vacuum, sql: str, warnings: list[str]) -> list[list[Any]]:
    """Removes the files, answers their paths; with DRY RUN only the latter.  No Spark job runs."""
    view = views.find(jvm, statement.name)
    if not statement.dry_run:
        view.publish_if_behind()
        view.files.delete([child(view.location, DROPPING)])  # of a DROP that died early: the view is there
    hours = RETAIN_HOURS if statement.retain_hours is None else statement.retain_hours
    # In this order: a file that is listed is of a writer that is still marked, or of a run that is in the log by now.
    found = view.files.list(view.location, recursive=True)
    since = writers.live_since(view.files, view.location)
    view = views.find(jvm, statement.name)
    records = _needed_records(view, hours)
    gone = [s.path for s in _unneeded(view, records, found) if since is None or s.modified < since - CLOCKS_MS]
    if not statement.dry_run:
        view.files.delete(gone)
        if since is None:
            _remove_empty_folders(view.files, view.location)
    return [[path] for path in sorted(gone)]


def _needed_records(view: View, hours: float) -> list[Record]:
    """The last two runs, those whose files were live within the retention, and all that views above have not read."""
    oldest_needed = min(leases.positions(view.files, view.location), default=None)
    cutoff = time.time_ns() // 1000 - round(hours * _HOUR_US)
    found: list[Record] = []
    superseded_at: int | None = None
    for record in view.log.newest_first():
        recent = superseded_at is not None and superseded_at > cutoff
        read_above = oldest_needed is not None and record.run >= oldest_needed
        if len(found) >= KEPT_RUNS and not recent and not read_above:
            break
        found.append(record)
        superseded_at = record.row.started_at + 1000 * (record.row.duration_ms or 0)
    return found


def _unneeded(view: View, records: Iterable[Record], found: Iterable[Status]) -> Iterator[Status]:
    location = view.location.rstrip("/") + "/"
    needed = {_plain(path) for record in records for path in _paths(record)}
    definitions = {f"{DEFINITIONS}/{record.definition:020d}.json" for record in records}
    newest = view.head.run if view.head is not None else -1
    for status in found:
        name = status.path.removeprefix(location)
        base = re.sub(r"(^|/)\.([^/]*)\.crc$", r"\1\2", name)  # a checksum goes with its file
        if base.startswith(f"{log.FOLDER}/"):
            if _left_beside(view, base.rsplit("/", 1)[-1], newest):
                yield status
        elif base.startswith(f"{DEFINITIONS}/"):
            if base not in definitions and base != view.definition.file:
                yield status
        elif base in (VIEW_FILE, DROPPING) or base.startswith(
            (f"{publish.FOLDER}/", f"{AMENDMENTS}/", f"{leases.FOLDER}/")
        ):
            if base.endswith(".tmp"):
                yield status
        elif _plain(location + base) not in needed:
            yield status


def _paths(record: Record) -> Iterator[str]:
    yield from (str(f["path"]) for f in record.files)
    yield from (str(f["path"]) for f in record.delta or ())
    yield from (str(f["path"]) for s in record.states.values() for f in s.files)


def _plain(path: str) -> str:
    """A path in one spelling, however many slashes follow its scheme."""
    return re.sub(r"^(\w+):/+", r"\1:/", path)


def _left_beside(view: View, name: str, newest: int) -> bool:
    """Whether a file in the log's folder is a listing, or a half-written entry, that no entry refers to."""
    if name.endswith(".tmp"):
        return True
    match = _BESIDE.match(name)
    if match is None:
        return False
    run = int(match[1])
    return run > newest or name not in (view.files.read(child(view.location, log.FOLDER, f"{run:020d}.json")) or "")


def _remove_empty_folders(files: Files, location: str) -> None:
    """Folders of runs and of states in which nothing is left."""
    runs = [s.path for s in files.list(location) if s.folder and s.name.startswith("data-")]
    runs += [s.path for s in files.list(child(location, "_tidemill", "delta"))]
    states = [s.path for s in files.list(child(location, "_tidemill", "state"))]
    runs += [s.path for state in states for s in files.list(state)]
    files.delete([path for path in runs if not files.list(path)])
    files.delete([path for path in states if not files.list(path)])
