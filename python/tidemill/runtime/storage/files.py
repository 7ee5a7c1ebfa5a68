"""Files of views, through Hadoop's FileSystem in the JVM.

Paths are texts with scheme, as Hadoop prints them. Text is UTF-8.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidemill.bridge.invoker import Invoker
from tidemill.errors import TidemillError

_NUMBERED = re.compile(r"^(\d{20})\.json$")


class UndecidedError(Exception):
    """It is unknown if an operation was carried out: files that depend on it must not be removed."""


@dataclass(frozen=True, slots=True)
class Status:
    """A file or folder: `bytes` long, last changed at `modified` (epoch milliseconds).

    `link`: it is a symbolic link, found in a listing. It is no folder then, whatever it leads to.
    """

    path: str
    bytes: int
    modified: int
    folder: bool
    link: bool = False

    @property
    def name(self) -> str:
        return self.path.rsplit("/", 1)[-1]


def _status(found: Mapping[str, Any]) -> Status:
    return Status(found["path"], found["bytes"], found["modified"], found["folder"], bool(found.get("link")))


@dataclass(frozen=True, slots=True)
class Opening:
    """The files of a view that tell all others: `location` with scheme, `text` of its first file (None: no such file),
    its last committed run with the text of the entry, and the `numbers` of the files in a folder, ascending."""

    location: str
    text: str | None
    newest: tuple[int, str] | None
    numbers: Sequence[int]


def _numbers(listed: Iterable[Status]) -> Sequence[int]:
    matches = (_NUMBERED.match(s.name) for s in listed)
    return sorted(int(m[1]) for m in matches if m)


def _newest(found: Mapping[str, Any] | None) -> tuple[int, str] | None:
    return None if found is None else (int(found["run"]), str(found["text"]))


def child(folder: str, *names: str) -> str:
    """Returns a path below `folder`."""
    return "/".join((folder.rstrip("/"), *names))


def parent(path: str) -> str:
    """Returns the folder of a path."""
    return path.rstrip("/").rpartition("/")[0]


def numbered(folder: str, number: int) -> str:
    """Returns the path of a number in a folder of numbered files."""
    return child(folder, f"{number:020d}.json")


@dataclass(frozen=True, slots=True)
class Files:
    """File operations. Each is one call of the bridge; none runs a Spark job."""

    jvm: Invoker

    def read(self, path: str) -> str | None:
        """Returns the whole text; None if there is no such file."""
        text: str | None = self._do("read", path=path)
        return text

    def read_many(self, paths: Sequence[str]) -> list[str | None]:
        texts: list[str | None] = self._do("read_many", paths=list(paths)) if paths else []
        return texts

    def write_new(self, path: str, text: str) -> bool:
        """Creates the file, complete at once, unless the name is taken. Returns True if it did: exactly one of many
        callers gets True.

        Raises TIDEMILL_LOCATION_UNSUPPORTED on a file system that cannot promise this.
        """
        answer = self._do("write_new", path=path, text=text)
        if "refused" in answer:
            raise TidemillError("TIDEMILL_LOCATION_UNSUPPORTED", {"location": path, "reason": answer["refused"]})
        return bool(answer["created"])

    def write(self, path: str, text: str, *, lasting: bool = True) -> None:
        """Writes the text, whatever was there. Readers see the old file or the new one.

        `lasting`: also if the machine stops right afterwards. If not, the file may be empty then, and the call need not
        wait for the disk.
        """
        self._do("write", path=path, text=text, lasting=lasting)

    def list(self, path: str, recursive: bool = False) -> list[Status]:
        """Returns files and folders in the folder; with `recursive`, all files below it. Empty if it does not exist.

        Symbolic links are listed and not followed.
        """
        return [_status(s) for s in self._list(path, recursive)]

    def list_below(self, location: str, *names: str) -> Sequence[Status]:
        """Returns files and folders in the folder of these names below `location`.

        Empty if it does not exist, or if a part of the way from `location` to it is a symbolic link.
        """
        folder = location
        for name in names:
            if not any(s.folder for s in self.list(folder) if s.name == name):
                return []
            folder = child(folder, name)
        return self.list(folder)

    def _list(self, path: str, recursive: bool) -> Iterable[Mapping[str, Any]]:
        found: Iterable[Mapping[str, Any]] = self._do("list", path=path, recursive=recursive)
        return found

    def numbers(self, folder: str) -> Sequence[int]:
        """Returns the numbers of the numbered files in a folder, ascending."""
        return _numbers(self.list(folder))

    def opening(self, location: str, file: str, folder: str) -> Opening:
        """Returns what lies at a location, in one call: the text of `file` and the numbers in `folder`."""
        qualified, text, newest, listed = self._each(
            {"do": "qualify", "path": location},
            {"do": "read", "path": child(location, file)},
            {"do": "newest", "path": location},
            {"do": "list", "path": child(location, folder), "recursive": False},
        )
        return Opening(str(qualified), text, _newest(newest), _numbers(map(_status, listed)))

    def read_and_list(self, path: str, folder: str) -> tuple[str | None, Sequence[Status]]:
        """Returns what `read` says of a path and then `list` of a folder, in one call."""
        text, listed = self._each({"do": "read", "path": path}, {"do": "list", "path": folder, "recursive": False})
        return text, [_status(s) for s in listed]

    def newest_entry(self, location: str) -> tuple[int, str] | None:
        """Returns the last committed run at a location, and the text of its entry; None if there is none."""
        return _newest(self._do("newest", path=location))

    def mkdirs(self, path: str) -> None:
        self._do("mkdirs", path=path)

    def delete(self, paths: Iterable[str]) -> int:
        """Removes files and whole folders. Returns how many of them were there."""
        wanted = [*paths]
        return int(self._do("delete", paths=wanted)) if wanted else 0

    def delete_empty(self, folders: Iterable[str]) -> None:
        """Removes the empty ones of the folders, in this order. Files that appear there meanwhile stay."""
        wanted = [*folders]
        if wanted:
            self._do("delete_empty", paths=wanted)

    def exists(self, path: str) -> bool:
        return bool(self._do("exists", path=path))

    def missing(self, paths: Sequence[str]) -> set[str]:
        """Returns the paths that do not exist."""
        return set(self._do("missing", paths=[*paths])) if paths else set()

    def stat(self, paths: Sequence[str]) -> Sequence[Status | None]:
        """Returns the file or folder at each of the paths; None if there is nothing."""
        found = self._do("stat", paths=[*paths]) if paths else []
        return [None if s is None else _status(s) for s in found]

    def rename(self, source: str, target: str) -> bool:
        """Renames a file. Returns False if the new name is taken or the old file does not exist.

        Not safe against other writers at the same time: see `write_new`.
        """
        return bool(self._do("rename", **{"from": source, "to": target}))

    def qualify(self, path: str) -> str:
        """Returns the path with scheme and absolute."""
        return str(self._do("qualify", path=path))

    def _each(self, *operations: Mapping[str, Any]) -> Sequence[Any]:
        answers: Sequence[Any] = self._do("each", each=list(operations))
        return answers

    def _do(self, what: str, **arguments: Any) -> Any:
        return self.jvm.invoke("files", {"do": what, **arguments})
