"""Removes a view's files in an order that tells later statements if a removal was cut off.

The view's own file goes first, the mark DROPPING last. If the mark is there without that file, the rest may go.
"""

from __future__ import annotations

from tidemill.runtime.storage import writers
from tidemill.runtime.storage.files import Files, child
from tidemill.runtime.view import failures, notes
from tidemill.runtime.view.definition import DROPPING, VIEW_FILE

FOLDER = "_tidemill"
_LAST = {DROPPING, writers.FOLDER}


def remove(files: Files, location: str) -> None:
    """Removes the location with everything in it. Meanwhile nobody can create a view there.

    Of a symbolic link, the link goes, and what it leads to stays.
    """
    if lies_elsewhere(files, location):
        files.delete([location])
        return
    with writers.writing(files, location):
        if not files.exists(child(location, DROPPING)):
            files.write(child(location, DROPPING), "")
        files.delete([child(location, VIEW_FILE)])
        files.delete([s.path for s in files.list(location) if s.name != FOLDER])
        inner = files.list(child(location, FOLDER))
        files.delete([s.path for s in inner if f"{FOLDER}/{s.name}" not in _LAST])
    files.delete([location])


def lies_elsewhere(files: Files, location: str) -> bool:
    """Returns True if the view's own folder at the location is a symbolic link."""
    return any(s.link for s in files.list(location) if s.name == FOLDER)


def was_cut_off(files: Files, location: str) -> bool:
    """Returns True if the files there were left by a removal that died."""
    if files.exists(child(location, VIEW_FILE)) or writers.live_since(files, location) is not None:
        return False
    dropping = files.exists(child(location, DROPPING))
    # A refresh that failed while the view was dropped may have noted it afterwards, and so may a scheduler.
    return dropping or writers.only_dead_marks(files, location, besides=(failures.FILE, notes.FOLDER))
