"""VACUUM INCREMENTAL VIEW: removes files that nothing needs any more.

What is needed: everything of the last two runs; of older runs, what was live at some moment within the retention; what
a view above has yet to read; what a live writer has written and not committed. The definition in force and the
manifests stay. Of the log, the rows of all runs stay, those of the oldest in checkpoints in place of their entries.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from tidemill.bridge.jvm import Jvm
from tidemill.runtime.storage import log, writers
from tidemill.runtime.storage.files import Files, Status, child, numbered, parent
from tidemill.runtime.storage.stage import upwards
from tidemill.runtime.view import leases, results, views
from tidemill.runtime.view.definition import AMENDMENTS, DEFINITIONS, VIEW_FILE, definition_file
from tidemill.runtime.view.record import RunRecord
from tidemill.runtime.view.views import View
from tidemill.sql.statements import Vacuum

RETAIN_HOURS = 168.0
KEPT_RUNS = 2
KEPT_FOLDERS = tuple(f"{folder}/" for folder in (*results.FOLDERS, log.CHECKPOINTS, leases.FOLDER))
CLOCKS_MS = 60_000
"""By how much the clocks of writer, file system and this process may differ."""
_HOUR_US = 3_600_000_000
_ENTRY = re.compile(r"^(\d{20})\.json$")
_NUMBER = re.compile(r"^(\d{20})[-.]")
"""In the name of an entry and of what was written beside it."""
_BESIDE = re.compile(r"^(\d{20})-\w+\.\d+\.json$")


def vacuum(jvm: Jvm, statement: Vacuum) -> list[list[Any]]:
    """Removes the files, answers their paths; with DRY RUN only the latter.  No Spark job runs."""
    view = views.find(jvm, statement.name)
    if not statement.dry_run:
        view.publish_if_behind()
    hours = RETAIN_HOURS if statement.retain_hours is None else statement.retain_hours
    # In this order: a file that is listed is of a writer that is still marked, or of a run that is in the log by now.
    found = view.files.list(view.location, recursive=True)
    since = writers.live_since(view.files, view.location)
    view = views.find(jvm, statement.name)
    held = leases.standing(view)
    records = _needed_records(view, hours, held.oldest)
    covered = _coverable(view, records)
    unneeded = _unneeded(view, records, held.void, found, covered)
    gone = [s.path for s in unneeded if since is None or s.modified < since - CLOCKS_MS]
    if not statement.dry_run:
        view.log.cover(covered)
        view.files.delete(gone)
        if since is None:
            _remove_empty_folders(view.files, view.location)
    return [[path] for path in sorted(gone)]


def _needed_records(view: View, hours: float, oldest_needed: int | None) -> list[RunRecord]:
    """The last two runs, those whose files were live within the retention, and all that views above have not read."""
    cutoff = time.time_ns() // 1000 - round(hours * _HOUR_US)
    found: list[RunRecord] = []
    superseded_at: int | None = None
    for record in view.log.newest_first():
        recent = superseded_at is not None and superseded_at > cutoff
        read_above = oldest_needed is not None and record.run >= oldest_needed
        if len(found) >= KEPT_RUNS and not recent and not read_above:
            break
        found.append(record)
        superseded_at = record.row.started_at + 1000 * (record.row.duration_ms or 0)
    return found


def _coverable(view: View, records: Iterable[RunRecord]) -> int:
    """How many of the oldest runs need no entry any more, in whole checkpoints."""
    needed = [record.run for record in records]
    if view.head is not None and view.head.output_run is not None:
        needed.append(view.head.output_run)  # what views above read, however many runs without output followed
    return min(needed, default=0) // log.SPAN * log.SPAN


def _unneeded(
    view: View, records: Iterable[RunRecord], void: Collection[str], found: Sequence[Status], covered: int
) -> Iterator[Status]:
    location = view.location.rstrip("/") + "/"
    needed = {_plain(path) for record in records for path in _paths(record)}
    definitions = {definition_file(record.definition) for record in records}
    beside = _beside_named(view, location, found, covered)
    for status in found:
        name = status.path.removeprefix(location)
        base = re.sub(r"(^|/)\.([^/]*)\.crc$", r"\1\2", name)  # a checksum goes with its file
        if base.startswith(f"{log.FOLDER}/"):
            file = base.rsplit("/", 1)[-1]
            entry = _ENTRY.match(file)
            if (
                file.endswith(".tmp")
                or (_BESIDE.match(file) and file not in beside)
                or (entry and int(entry[1]) < covered)
            ):
                yield status
        elif base.startswith(f"{DEFINITIONS}/"):
            if base not in definitions and base != view.definition.file:
                yield status
        elif base.startswith(f"{AMENDMENTS}/"):
            amendment = _ENTRY.match(base.rsplit("/", 1)[-1])
            if amendment is None or int(amendment[1]) <= view.definition.takes_in:
                yield status
        elif base == VIEW_FILE or base.startswith(KEPT_FOLDERS):
            if base.endswith(".tmp") or location + base in void:
                yield status
        elif _plain(location + base) not in needed:
            yield status


def _paths(record: RunRecord) -> Iterator[str]:
    yield from (str(f["path"]) for f in record.files)
    yield from (str(f["path"]) for f in record.delta or ())
    yield from (str(f["path"]) for f in record.held_files)
    yield from (str(f["path"]) for s in record.states.values() for f in s.files)


def _plain(path: str) -> str:
    """A path in one spelling, however many slashes follow its scheme."""
    return re.sub(r"^(\w+):/+", r"\1:/", path)


def _beside_named(view: View, location: str, found: Iterable[Status], covered: int) -> set[str]:
    """The files beside entries that an entry from `covered` on refers to, whichever run wrote them.

    A run whose entry is not there yet names no others than these and its own, which are a live writer's; see `log`.
    """
    folder = child(location, log.FOLDER)
    names = [status.name for status in found if parent(status.path) == folder]
    if not any(map(_BESIDE.match, names)):
        return set()
    runs = {int(match[1]) for match in map(_NUMBER.match, names) if match}
    texts = view.files.read_many([numbered(folder, run) for run in sorted(runs) if run >= covered])
    return {name for text in texts if text for name in log.named(text)}


def _remove_empty_folders(files: Files, location: str) -> None:
    """Folders of runs and of states in which no file is left, and those that Spark makes in them to write."""
    runs = [s.path for s in files.list(location) if s.folder and s.name.startswith("data-")]
    runs += [s.path for s in files.list(child(location, "_tidemill", "delta"))]
    states = [s.path for s in files.list(child(location, "_tidemill", "state"))]
    runs += [s.path for state in states for s in files.list(state)]
    empty = [path for run in runs for path in _without_files(files, run)]
    # Looked at again, now that the folders are listed: a run that began meanwhile may have made one to write into.
    if writers.live_since(files, location) is None:
        files.delete(empty)
    files.delete_empty(states)
    files.delete_empty(upwards(_partition_folders(files, location), location))


def _without_files(files: Files, folder: str) -> list[str]:
    """The folder if no file lies anywhere below it, else those directly in it of which that is true."""
    found = files.list(folder)
    empty = [s.path for s in found if s.folder and not files.list(s.path, recursive=True)]
    return [folder] if len(empty) == len(found) else empty


def _partition_folders(files: Files, location: str) -> Iterator[str]:
    """The folders of partitions, those within others included."""
    for found in files.list(location):
        if found.folder and "=" in found.name:
            yield found.path
            yield from _partition_folders(files, found.path)
