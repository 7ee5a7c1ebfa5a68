"""Small files in a folder whose owner may have just removed it, as a view that is dropped does.

A late one would recreate the folder, and stand in the way of whoever comes next there. So whoever writes one looks for
the owner's own file before and afterwards, and takes it back if that is gone.
"""

from __future__ import annotations

from tidemill.runtime.storage.files import Files, child, parent


def write(files: Files, location: str, owner: str, name: str, text: str, *, lasting: bool = True) -> bool:
    """Writes the file `name` below a location over. Returns False, and leaves nothing, if the file `owner` is gone.

    `lasting`: as in `Files.write`.
    """
    if not files.exists(child(location, owner)):
        return False
    files.write(child(location, name), text, lasting=lasting)
    return not take_back_if_gone(files, location, owner, name)


def take_back_if_gone(files: Files, location: str, owner: str, name: str) -> bool:
    """Removes the file `name` below a location, and the folders that it leaves empty, if the file `owner` is gone.
    Returns whether it is."""
    if files.exists(child(location, owner)):
        return False
    files.delete([child(location, name)])
    folders = [parent(child(location, name))]
    while folders[-1] != location and len(folders[-1]) > len(location):
        folders.append(parent(folders[-1]))
    files.delete_empty(folders)
    return True
