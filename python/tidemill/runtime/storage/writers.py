"""Writer marks of runs under way: VACUUM leaves alone the files that a live writer has not committed yet.

A mark is a file `_tidemill/writers/<token>-<id>.json`. The token is random and belongs to one process. Neither the name
of a host nor the number of a process says who writes: containers share both.

A mark is a lease by the clock of the store. The process writes its marks anew each `RENEW_MS`, and a mark that was not
written for `LEASE_MS` has expired. Both times are the store's own, so clocks that differ do no harm. A dead process is
known sooner where its lock can be seen: each process holds a lock on a file of its token in the folder for temporary
files, which the operating system releases when the process ends, and not before. Whoever gets that lock knows that the
process is dead; whoever does not see the file knows nothing, and waits for the lease.

A process may sleep for longer than its lease: a machine is suspended, a collection of garbage takes an hour. So whoever
finds a mark expired first revokes it: it creates `<token>-<id>.revoked` before it removes any file. Nothing takes that
back. A run looks for it right before its commit (`Writer.confirm`), and gives up if it is there.
"""

from __future__ import annotations

import json
import logging
import re
import threading
import time
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from tidemill.errors import TidemillError
from tidemill.runtime.storage import liveness
from tidemill.runtime.storage.files import Files, Status, child, parent
from tidemill.runtime.storage.small import readable

FOLDER = "_tidemill/writers"
RENEW_MS = 60_000
"""Milliseconds after which a process writes its marks anew."""
LEASE_MS = 3_600_000
"""Milliseconds for which a mark counts after it was written."""
FOREIGN_MS = 24 * LEASE_MS
"""The same for marks of earlier versions, which are never written anew."""
KEEP_REVOKED_MS = 7 * 24 * 3_600_000
"""Milliseconds for which a revocation is kept: a process may sleep for as long as it likes."""
_MARK = re.compile(r"^([0-9a-f]{32})-[0-9a-f]{32}\.json$")
_LOG = logging.getLogger("tidemill")


@dataclass
class Writer:
    """A mark of this process. `since`: its start by the store's clock; None: it is the time of the file."""

    files: Files
    path: str
    view: str
    since: int | None = None

    def confirm(self) -> None:
        """Checks right before a commit that nobody took the writer for dead. Raises TIDEMILL_RUN_GIVEN_UP."""
        mark, revoked = self.files.stat([self.path, _revoked(self.path)])
        if mark is None or revoked is not None:
            raise TidemillError("TIDEMILL_RUN_GIVEN_UP", {"view": self.view, "minutes": LEASE_MS // 60_000})

    def write(self) -> None:
        """Writes the mark, with the present time of the store."""
        # When the machine stops, the writer stops with it.
        self.files.write(self.path, json.dumps({"started": self.since}), lasting=False)

    def renew(self) -> None:
        """Writes the mark anew, unless it is gone."""
        (found,) = self.files.stat([self.path])
        if found is not None:
            if self.since is None:
                self.since = found.modified
            self.write()


_ACTIVE: dict[str, Writer] = {}
"""Marks of this process whose runs are under way, by path. A mark that could not be removed does not count for ever."""
_GUARD = threading.Lock()
_renewer: threading.Thread | None = None
"""The thread that renews the marks of this process; it ends when it finds none."""


@contextmanager
def writing(files: Files, location: str, view: str | None = None) -> Iterator[Writer]:
    """Marks a writer for the length of the block. `view`: its name, for messages."""
    path = child(location, FOLDER, f"{liveness.own_token()}-{uuid.uuid4().hex}.json")
    writer = Writer(files, path, view or location)
    _register(writer)
    try:
        writer.write()
        yield writer
    finally:
        with _GUARD:
            del _ACTIVE[path]
        with suppress(Exception):  # the next VACUUM finds that a mark that stays is dead
            files.delete([path])


def _register(writer: Writer) -> None:
    """Has a mark renewed from now on. Of many short runs, all find the thread of the first one waiting."""
    global _renewer  # one per process, as `_ACTIVE`
    with _GUARD:
        _ACTIVE[writer.path] = writer
        if _renewer is None or not _renewer.is_alive():
            _renewer = threading.Thread(target=_renewing, name="tidemill-writers", daemon=True)
            _renewer.start()


def _renewing() -> None:
    """Renews the marks of this process as long as there are any."""
    global _renewer
    while True:
        time.sleep(RENEW_MS / 1000)
        with _GUARD:
            active = list(_ACTIVE.values())
            if not active:
                if _renewer is threading.current_thread():  # else another one has begun, and goes on
                    _renewer = None
                return
        for writer in active:
            try:
                writer.renew()
            except Exception as failure:  # the next time may do; the lease is long
                _LOG.warning("Tidemill: the mark %s could not be renewed: %s", writer.path, failure)


@dataclass(frozen=True, slots=True)
class Marks:
    """`since`: the start of the oldest live writer by the store's clock (epoch milliseconds; None: there is none).
    `expired`: marks of writers of which it is unknown if they will go on. `over`: files that nobody needs any more.
    """

    since: int | None
    expired: Sequence[str] = ()
    over: Sequence[str] = ()


def marks(files: Files, location: str) -> Marks:
    """Returns the writers at a location, by their marks."""
    found = files.list(child(location, FOLDER))
    undecided: list[Status] = []
    since: list[Status] = []
    over: list[str] = []
    for status in found:
        match _lives(status):
            case True:
                since.append(status)
            case False:
                over.append(status.path)
            case None:
                undecided.append(status)
    expired: list[str] = []
    now = _now(files, location) if undecided else 0
    for status in undecided:
        age = now - status.modified
        if status.name.endswith(".revoked"):
            over += [status.path] if age > KEEP_REVOKED_MS else []
        elif status.name.endswith(".json"):
            if age < (LEASE_MS if _MARK.match(status.name) else FOREIGN_MS):
                since.append(status)
            else:
                expired.append(status.path)
        elif age >= LEASE_MS:
            over.append(status.path)
    return Marks(min(_starts(files, since), default=None), tuple(expired), tuple(over))


def live_since(files: Files, location: str) -> int | None:
    """Returns the start of the oldest live writer by the store's clock (epoch milliseconds); None if there is none.

    Whoever gets None may remove what no commit names: writers that may be asleep are told to give up.
    """
    found = marks(files, location)
    if found.since is None:
        revoke(files, found)
    return found.since


def revoke(files: Files, found: Marks) -> None:
    """Tells writers whose marks have expired to give up if they ever go on. Only then may their files be removed."""
    for path in found.expired:
        files.write(_revoked(path), "{}")
    files.delete(found.expired)


def only_dead_marks(files: Files, location: str, besides: Collection[str]) -> bool:
    """Returns True if there are only marks of writers that died before they had completed any other file.

    `besides`: names of files and folders below the location that may be there all the same.
    """
    home = FOLDER.split("/")[0]
    if [s.name for s in files.list(location)] != [home]:
        return False
    folder = child(location, FOLDER) + "/"
    found = [s for s in files.list(location, recursive=True) if not s.path.startswith(folder)]
    besides = [child(location, name) for name in besides]
    found = [s for s in found if not any(s.path == path or s.path.startswith(f"{path}/") for path in besides)]
    half_written = all(s.name.startswith(".") and parent(s.path) == child(location, home) for s in found)
    return half_written and live_since(files, location) is None


def _lives(status: Status) -> bool | None:
    """Returns if the process of a mark still writes; None if that cannot be known."""
    match = _MARK.match(status.name)
    if match is None:
        return None
    if match[1] == liveness.own_token():
        return any(path.endswith(status.name) for path in _ACTIVE)
    return False if liveness.is_dead(match[1]) else None


def _starts(files: Files, live: Sequence[Status]) -> Iterator[int]:
    """Yields the starts of live writers. A mark that cannot be read tells nothing: its writer may have begun ever so
    long ago."""
    texts = files.read_many([status.path for status in live])
    for status, text in zip(live, texts, strict=True):
        known = None if text is None else readable(text, _started)
        yield 0 if known is None else known[0] if known[0] is not None else status.modified


def _started(mark: Mapping[str, Any]) -> tuple[int | None]:
    started = mark["started"]
    return (None if started is None else int(started),)


def _now(files: Files, location: str) -> int:
    """Returns the present time by the store's clock (epoch milliseconds)."""
    probe = child(location, FOLDER, f"{uuid.uuid4().hex}.clock")
    files.write(probe, "")
    (found,) = files.stat([probe])
    files.delete([probe])
    if found is None:
        raise FileNotFoundError(probe)
    return found.modified


def _revoked(mark: str) -> str:
    return mark.removesuffix(".json") + ".revoked"
