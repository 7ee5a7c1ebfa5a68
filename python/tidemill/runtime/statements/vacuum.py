"""VACUUM INCREMENTAL VIEW: removes files that nothing needs any more.

These files are needed: all of the last two runs; files of older runs that were live within the retention; changes that
a downstream view has yet to read; files that a live writer has not committed yet. The definition in force, the rows of
failed refreshes and the manifests stay, and so do symbolic links with all that they lead to. The log keeps the rows of
all runs; those of the oldest runs are in checkpoints, in place of entries.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from tidemill.bridge.jvm import Jvm
from tidemill.runtime.storage import log, writers
from tidemill.runtime.storage.files import Files, Status, child, numbered, parent
from tidemill.runtime.storage.small import readable
from tidemill.runtime.storage.stage import upwards
from tidemill.runtime.view import failures, leases, notes, results, views
from tidemill.runtime.view.definition import AMENDMENTS, DEFINITIONS, VIEW_FILE, definition_file
from tidemill.runtime.view.record import RunRecord
from tidemill.runtime.view.views import View
from tidemill.sql.statements import Vacuum

RETAIN_HOURS = 168.0
KEPT_RUNS = 2
KEPT_FOLDERS = tuple(f"{folder}/" for folder in (*results.FOLDERS, log.CHECKPOINTS, leases.FOLDER, notes.FOLDER))
KEPT_FILES = (VIEW_FILE, failures.FILE)
CLOCKS_MS = 60_000
"""Most milliseconds by which the clocks of writer, file system and this process may differ."""
_HOUR_US = 3_600_000_000
_ENTRY = re.compile(r"^(\d{20})\.json$")
_NUMBER = re.compile(r"^(\d{20})[-.]")
"""Matches the number in the name of an entry, and of a file that was written beside it."""
_BESIDE = re.compile(r"^(\d{20})-\w+\.\d+\.json$")


def vacuum(jvm: Jvm, statement: Vacuum) -> list[list[Any]]:
    """Removes the files and returns their paths, one row each; with DRY RUN only returns them. No Spark job runs."""
    view = views.find(jvm, statement.name)
    if not statement.dry_run:
        view.publish_if_behind()
    hours = RETAIN_HOURS if statement.retain_hours is None else statement.retain_hours
    # In this order: the writer of a listed file still has its mark, or its run is in the log by now, or it gives up.
    found = [s for s in view.files.list(view.location, recursive=True) if not s.link]
    marks = writers.marks(view.files, view.location)
    if not statement.dry_run:
        writers.revoke(view.files, marks)
    since = marks.since
    view = views.find(jvm, statement.name)
    held = leases.standing(view)
    records, spared = _needed_records(view, hours, held.oldest)
    covered = _coverable(view, records)
    unneeded = _unneeded(view, records, held.void, found, covered)
    unknown = max((s.modified for s in found if _plain(s.path) in spared), default=0)
    gone = [s.path for s in unneeded if (since is None or s.modified < since - CLOCKS_MS) and s.modified >= unknown]
    gone += [*marks.over, *marks.expired]
    if not statement.dry_run:
        view.log.cover(covered)
        view.files.delete(gone)
        if since is None:
            _remove_empty_folders(view.files, view.location)
    return [[path] for path in sorted(gone)]


def _needed_records(view: View, hours: float, oldest_needed: int | None) -> tuple[list[RunRecord], set[str]]:
    """Returns the last two runs, runs that were live within the retention, and runs that downstream views must read;
    and the entries that followed damaged ones. What a damaged run needs is unknown, but it is older than these."""
    cutoff = time.time_ns() // 1000 - round(hours * _HOUR_US)
    found: list[RunRecord] = []
    damaged: set[int] = set()
    superseded_at: int | None = None
    for record in view.log.newest_first(damaged):
        recent = superseded_at is not None and superseded_at > cutoff
        read_above = oldest_needed is not None and record.run >= oldest_needed
        if len(found) >= KEPT_RUNS and not recent and not read_above:
            break
        found.append(record)
        superseded_at = record.row.started_at + 1000 * (record.row.duration_ms or 0)
    folder = child(view.location, log.FOLDER)
    return found, {_plain(numbered(folder, run + 1)) for run in damaged}


def _coverable(view: View, records: Iterable[RunRecord]) -> int:
    """Returns the number of the oldest runs that need no entry any more, in whole checkpoints."""
    needed = [record.run for record in records]
    if view.head is not None and view.head.output_run is not None:
        needed.append(view.head.output_run)  # downstream views read it, however many runs without output followed
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
            taken_in = amendment is None or int(amendment[1]) <= view.definition.takes_in
            if taken_in or status.path in view.lost_amendments:
                yield status
        elif base.startswith(f"{writers.FOLDER}/"):
            pass  # see `writers.marks`
        elif base in KEPT_FILES or base.startswith(KEPT_FOLDERS):
            if base.endswith(".tmp") or location + base in void:
                yield status
        elif _plain(location + base) not in needed:
            yield status


def _paths(record: RunRecord) -> Iterator[str]:
    yield from (str(f["path"]) for f in record.content_files)
    yield from (str(f["path"]) for f in record.delta or ())
    yield from (str(f["path"]) for f in record.held_files)
    yield from (str(f["path"]) for s in record.states.values() for f in s.files)


def _plain(path: str) -> str:
    """Returns a path in one spelling, however many slashes follow its scheme."""
    return re.sub(r"^(\w+):/+", r"\1:/", path)


def _beside_named(view: View, location: str, found: Iterable[Status], covered: int) -> set[str]:
    """Returns the files beside entries that an entry from `covered` on names, whichever run wrote them.

    A run without an entry yet names only these and its own files, which belong to a live writer; see `log`.
    """
    folder = child(location, log.FOLDER)
    names = [status.name for status in found if parent(status.path) == folder]
    if not any(map(_BESIDE.match, names)):
        return set()
    runs = {int(match[1]) for match in map(_NUMBER.match, names) if match}
    texts = view.files.read_many([numbered(folder, run) for run in sorted(runs) if run >= covered])
    named = [readable(text, log.named) for text in texts if text is not None]
    # A damaged entry may name any of them.
    return set(names) if None in named else {name for known in named if known is not None for name in known}


def _remove_empty_folders(files: Files, location: str) -> None:
    """Removes folders of runs and of states without files, and the folders that Spark makes in them to write."""
    runs = [s.path for s in files.list(location) if s.folder and s.name.startswith("data-")]
    runs += [s.path for s in files.list_below(location, "_tidemill", "delta") if s.folder]
    states = [s.path for s in files.list_below(location, "_tidemill", "state") if s.folder]
    runs += [s.path for state in states for s in files.list(state) if s.folder]
    empty = [path for run in runs for path in _without_files(files, run)]
    # Checked again after the folders are listed: a run that began meanwhile may have made one to write into.
    if writers.live_since(files, location) is None:
        files.delete(empty)
    files.delete_empty(states)
    files.delete_empty(upwards(_partition_folders(files, location), location))


def _without_files(files: Files, folder: str) -> list[str]:
    """Returns the folder if there is no file anywhere below it, else the folders directly in it without files."""
    found = files.list(folder)
    empty = [s.path for s in found if s.folder and not files.list(s.path, recursive=True)]
    return [folder] if len(empty) == len(found) else empty


def _partition_folders(files: Files, location: str) -> Iterator[str]:
    """Yields the folders of partitions, with those within others."""
    for found in files.list(location):
        if found.folder and "=" in found.name:
            yield found.path
            yield from _partition_folders(files, found.path)
