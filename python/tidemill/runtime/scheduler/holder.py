"""One scheduler at a time works on a view: whoever creates its lease first. The others leave the view to that one.

The lease saves work that would be lost, and is no fence: the log's create-if-absent is, and whoever comes second there
leaves the view alone as well. A lease counts while its file `_tidemill/scheduler/holder.json` is younger than
`LEASE_SECONDS`; its holder writes it anew, unless another one has taken it since. The lease of a process that is known
to be dead counts no more.
"""

from __future__ import annotations

import json
import logging
import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from py4j.java_gateway import JavaObject

from tidemill.bridge.jvm import Jvm
from tidemill.runtime.storage import beside, liveness
from tidemill.runtime.storage.files import Files, child
from tidemill.runtime.storage.small import readable
from tidemill.runtime.view.definition import VIEW_FILE
from tidemill.runtime.view.notes import FOLDER

FILE = f"{FOLDER}/holder.json"
LEASE_SECONDS = 300.0
RENEW_SECONDS = 60.0
_LOG = logging.getLogger("tidemill.scheduler")


@contextmanager
def holding(jvm: Jvm, locations: Iterable[str]) -> Iterator[frozenset[str]]:
    """Takes the leases of views for the length of the block. Yields the locations of those that nobody else holds."""
    files = Files(jvm)
    mine = json.dumps({"token": liveness.own_token(), "id": uuid.uuid4().hex})
    held: list[str] = []
    ended = threading.Event()
    renewing: threading.Thread | None = None

    def renew(properties: JavaObject) -> None:
        while not ended.wait(RENEW_SECONDS):
            with suppress(Exception), jvm.in_thread(properties):  # the next time may do
                for path in [child(location, FILE) for location in held]:
                    if not ended.is_set() and files.read(path) == mine:
                        files.write(path, mine, lasting=False)

    try:
        for location in locations:
            if _taken(files, child(location, FILE), mine):
                held.append(location)
        if held and jvm.has_threads:
            properties = jvm.thread_properties()
            renewing = threading.Thread(target=renew, args=(properties,), name="tidemill-leases", daemon=True)
            renewing.start()
        yield frozenset(held)
    finally:
        ended.set()
        if renewing is not None:
            renewing.join()  # what it is about to write would stay
        for location in held:
            _release(files, location, mine)


def _taken(files: Files, path: str, mine: str) -> bool:
    try:
        if files.write_new(path, mine):
            return True
        if not _void(files, path):
            return False
        files.delete([path])
        return files.write_new(path, mine)
    except Exception as failure:  # the view is gone, or cannot be written: the run itself will say so
        _LOG.debug("no lease at %s: %s", path, failure)
        return True


def _void(files: Files, path: str) -> bool:
    """Returns True if the holder of a lease is dead, or has not written it for too long."""
    (status,) = files.stat([path])
    if status is None:
        return True
    token = readable(files.read(path), lambda data: str(data["token"]))
    if token is not None and token != liveness.own_token() and liveness.is_dead(token):
        return True
    return time.time() - status.modified / 1000 > LEASE_SECONDS


def _release(files: Files, location: str, mine: str) -> None:
    path = child(location, FILE)
    with suppress(Exception):  # it expires
        if files.read(path) == mine:
            files.delete([path])
            beside.take_back_if_gone(files, location, VIEW_FILE, FILE)
