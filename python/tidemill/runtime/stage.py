"""Where a run writes before it commits, and how what it wrote goes away if it does not.

Folders carry the run's number and eight hex digits: two runs that want one number never write to one folder, and no
folder is ever written twice (layout: docs and the contract of the storage under a location).
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from tidemill.runtime.files import Files, child


class Stage:
    """The folders of one run; a context manager that removes them unless `keep` was called.

    Paths are handed out, not made: Spark's writer wants to create the folder itself.
    """

    def __init__(self, files: Files, location: str, run: int) -> None:
        self._files = files
        self._location = location
        self._run = run
        self._written: list[str] = []
        self._kept = False

    def data(self) -> str:
        """A new folder for result files."""
        return self._new(f"data-{self._run:010d}-{self._mark()}")

    def state(self, name: str) -> str:
        """A new folder for a base or segment of that state."""
        return self._new("_tidemill", "state", name, f"{self._run:010d}-{self._mark()}")

    def delta(self) -> str:
        """A new folder for the signed delta of the view."""
        return self._new("_tidemill", "delta", f"{self._run:010d}-{self._mark()}")

    def settle(self, written: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Moves result files from their folder to the location itself; answers their listing there.

        Only there does a plain `USING parquet LOCATION` table find them: Spark's index over a manifest leaves out what
        lies in folders unless the reader asks for `recursiveFileLookup`.  Spark's names of files are unique, they carry
        the job's UUID.
        """
        moved = []
        for file in written:
            target = child(self._location, str(file["path"]).rsplit("/", 1)[-1])
            if not self._files.rename(file["path"], target):
                raise OSError(f"{file['path']} could not be moved to {target}")
            self._written.append(target)
            moved.append({**file, "path": target})
        self._files.delete({str(f["path"]).rsplit("/", 1)[0] for f in written})
        return moved

    def keep(self) -> None:
        """The run has committed: its folders stay."""
        self._kept = True

    def give_up(self) -> None:
        """The run has not committed after all: its folders go."""
        self._kept = False

    def discard(self) -> None:
        """Removes what was written so far."""
        self._files.delete(self._written)
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
