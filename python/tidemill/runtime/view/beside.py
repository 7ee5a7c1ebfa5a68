"""Small files of a view beside its log, which may be written when the view has just been dropped.

A late one would recreate the folder of the view, and stand in the way of the next CREATE there. So whoever writes one
looks for the view before and afterwards, and takes it back if the view is gone.
"""

from __future__ import annotations

from tidemill.runtime.storage.files import Files, child, parent
from tidemill.runtime.view.definition import VIEW_FILE


def write(files: Files, location: str, name: str, text: str, *, lasting: bool = True) -> bool:
    """Writes the file `name` of the view at a location over. Returns False, and leaves nothing, if the view is gone.

    `lasting`: as in `Files.write`.
    """
    if not files.exists(child(location, VIEW_FILE)):
        return False
    files.write(child(location, name), text, lasting=lasting)
    return not take_back_if_gone(files, location, name)


def take_back_if_gone(files: Files, location: str, name: str) -> bool:
    """Removes the file `name`, and the folders that it leaves empty, if the view at a location is gone. Returns whether
    it is."""
    if files.exists(child(location, VIEW_FILE)):
        return False
    files.delete([child(location, name)])
    folders = [parent(child(location, name))]
    while folders[-1] != location and len(folders[-1]) > len(location):
        folders.append(parent(folders[-1]))
    files.delete_empty(folders)
    return True
