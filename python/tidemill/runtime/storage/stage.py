"""The stage of a run: the folders that it writes before it commits, and that are removed if it does not.

Their names have the run's number and eight hex digits: two runs that want one number never write to one folder, and no
folder is ever written twice.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any

from tidemill.runtime.storage.files import Files, child


class Stage:
    """The folders of one run. The context manager removes them unless `keep` was called.

    The methods return paths and make no folders: Spark's writer wants to create the folder itself.
    """

    def __init__(self, files: Files, location: str, run: int) -> None:
        self._files = files
        self._location = location
        self._run = run
        self._written: list[str] = []
        self._data: list[str] = []
        self._shared: list[str] = []
        self._folders: list[str] = []
        self._kept = False

    def data(self) -> str:
        """Returns a new folder for result files."""
        path = self._new(f"data-{self._run:010d}-{self._mark()}")
        self._data.append(path)
        return path

    def vectors(self) -> str:
        """Returns the path of a new file of deletion vectors: Delta looks for it at the location, under such a name."""
        return self._new(f"deletion_vector_{uuid.uuid4()}.bin")

    def state(self, name: str) -> str:
        """Returns a new folder for a base or segment of that state."""
        return self._new("_tidemill", "state", name, f"{self._run:010d}-{self._mark()}")

    def delta(self) -> str:
        """Returns a new folder for the signed delta of the view."""
        return self._new("_tidemill", "delta", f"{self._run:010d}-{self._mark()}")

    def shared(self) -> str:
        """Returns a new folder for files that only steps of the run read."""
        self._shared.append(self.delta())
        return self._shared[-1]

    def drop_shared(self) -> None:
        """Removes the files that only steps of the run read."""
        if self._shared:
            self._files.delete(self._shared)
            self._shared.clear()

    def move_into_place(self, written: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Moves result files from their folder to the location itself, or to the folders of their partitions there.
        Returns their listing there.

        A plain `USING parquet LOCATION` table finds them only there: Spark's index over a manifest leaves out folders
        that are no partitions, unless the reader asks for `recursiveFileLookup`. Spark's file names are unique, since
        they have the job's UUID.
        """
        moved = []
        for file in written:
            folder = child(self._location, file["folder"]) if "folder" in file else self._location
            target = child(folder, str(file["path"]).rsplit("/", 1)[-1])
            self._written.append(target)
            self._move(str(file["path"]), target, folder)
            moved.append({key: value for key, value in file.items() if key != "folder"} | {"path": target})
        self._files.delete({f for f in self._data if any(str(w["path"]).startswith(f + "/") for w in written)})
        return moved

    def _move(self, path: str, target: str, folder: str) -> None:
        if folder != self._location and folder not in self._folders:
            self._folders.append(folder)
            self._files.mkdirs(folder)
        if self._files.rename(path, target):
            return
        # A VACUUM, or a run that failed, may have removed the folder as long as it was empty.
        self._files.mkdirs(folder)
        if not self._files.rename(path, target):
            raise OSError(f"{path} could not be moved to {target}")

    def keep(self) -> None:
        """Keeps the folders, because the run has committed."""
        self._kept = True

    def discard(self) -> None:
        """Removes everything that was written so far."""
        self._files.delete(self._written)
        self._files.delete_empty(upwards(self._folders, self._location))
        self._written.clear()

    def __enter__(self) -> Stage:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._kept:
            return
        try:
            self.discard()
        except Exception as failure:
            if error is None:
                raise
            error.add_note(f"the run's files could not be removed: {failure}")

    def _new(self, *names: str) -> str:
        path = child(self._location, *names)
        self._written.append(path)
        return path

    @staticmethod
    def _mark() -> str:
        return uuid.uuid4().hex[:8]


def upwards(folders: Iterable[str], root: str) -> list[str]:
    """Returns these folders and their parents below `root`, deepest first.

    >>> upwards(["/v/a=1/b=2", "/v/a=1/b=3"], "/v")
    ['/v/a=1/b=2', '/v/a=1/b=3', '/v/a=1']
    """
    found: set[str] = set()
    for folder in folders:
        while folder.startswith(root.rstrip("/") + "/"):
            found.add(folder)
            folder = folder.rsplit("/", 1)[0]
    return sorted(found, key=lambda f: (-f.count("/"), f))
