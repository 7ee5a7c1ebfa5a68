"""Writer marks of runs under way: VACUUM leaves alone the files that a live writer has not committed yet.

A mark is a file `_tidemill/writers/<id>.json` with host, process and start. On its own host a mark counts as long as
its process lives. On other hosts this cannot be checked, so it counts for a day.
"""

from __future__ import annotations

import json
import os
import socket
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tidemill.runtime.storage.files import Files, child, parent

FOLDER = "_tidemill/writers"
_ACTIVE: set[str] = set()
"""Marks of this process whose runs are under way. A mark that could not be removed does not count for ever."""
ELSEWHERE_MS = 24 * 3_600_000
"""Milliseconds for which a mark of another host counts."""


@contextmanager
def writing(files: Files, location: str) -> Iterator[None]:
    """Marks a writer for the length of the block."""
    mark_id = uuid.uuid4().hex
    path = child(location, FOLDER, f"{mark_id}.json")
    mark = {
        "id": mark_id,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "born": _born(os.getpid()),
        "started": _now(),
    }
    _ACTIVE.add(mark_id)
    try:
        files.write(path, json.dumps(mark))
        yield
    finally:
        _ACTIVE.discard(mark_id)
        with suppress(Exception):  # the next VACUUM finds that a mark that stays is dead
            files.delete([path])


def live_since(files: Files, location: str) -> int | None:
    """Returns the start of the oldest live writer (epoch milliseconds); None if there is none."""
    paths = [s.path for s in files.list(child(location, FOLDER)) if s.name.endswith(".json")]
    marks = [json.loads(text) for text in files.read_many(paths) if text]
    return min((m["started"] for m in marks if _lives(m)), default=None)


def only_dead_marks(files: Files, location: str) -> bool:
    """Returns True if there are only marks of writers that died before they had completed any other file."""
    home = FOLDER.split("/")[0]
    if [s.name for s in files.list(location)] != [home]:
        return False
    folder = child(location, FOLDER) + "/"
    found = [s for s in files.list(location, recursive=True) if not s.path.startswith(folder)]
    half_written = all(s.name.startswith(".") and parent(s.path) == child(location, home) for s in found)
    return half_written and live_since(files, location) is None


def _lives(mark: dict[str, object]) -> bool:
    if mark["host"] != socket.gethostname():
        return _now() - int(str(mark["started"])) < ELSEWHERE_MS
    pid = int(str(mark["pid"]))
    if pid == os.getpid():
        return mark.get("id") in _ACTIVE
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # another user's
    # The number may have gone to another process since.
    return mark["born"] is None or _born(pid) == mark["born"]


def _born(pid: int) -> str | None:
    """Returns the start of the process in the kernel's ticks; None if /proc does not tell."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stat:
            return stat.read().rpartition(")")[2].split()[19]
    except OSError:
        return None


def _now() -> int:
    return time.time_ns() // 1_000_000
