"""Removing a view's files in an order by which whoever finds a part of them knows that they are nobody's.

The view's own file goes first, the mark DROPPING last: where the mark lies without that file, the rest may go.
"""

from __future__ import annotations

from tidemill.runtime.storage import writers
from tidemill.runtime.storage.files import Files, child
from tidemill.runtime.view.definition import DROPPING, VIEW_FILE

FOLDER = "_tidemill"
_LAST = {DROPPING, writers.FOLDER}


def remove(files: Files, location: str) -> None:
    """Removes the location with all that lies there; as long as that lasts, nobody makes a view there."""
    with writers.writing(files, location):
        if not files.exists(child(location, DROPPING)):
            files.write(child(location, DROPPING), "")
        files.delete([child(location, VIEW_FILE)])
        files.delete([s.path for s in files.list(location) if s.name != FOLDER])
        inner = files.list(child(location, FOLDER))
        files.delete([s.path for s in inner if f"{FOLDER}/{s.name}" not in _LAST])
    files.delete([location])


def was_cut_off(files: Files, location: str) -> bool:
    """Whether what lies there is what a removal left that died."""
    if files.exists(child(location, VIEW_FILE)) or writers.live_since(files, location) is not None:
        return False
    return files.exists(child(location, DROPPING)) or writers.only_dead_marks(files, location)
