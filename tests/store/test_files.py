"""File operations, above all create-if-absent."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from tests.store.conftest import Store
from tidemill.runtime.storage.files import Files


def test_of_many_threads_one_creates_a_file(files: Files, location: str) -> None:
    with ThreadPoolExecutor(8) as pool:
        for number in range(60):
            path = f"{location}/log/{number}.json"
            won = list(pool.map(lambda who, path=path: files.write_new(path, f"writer {who}"), range(8)))
            assert won.count(True) == 1
            assert files.read(path) == f"writer {won.index(True)}"
    assert {s.name for s in files.list(f"{location}/log")} == {f"{n}.json" for n in range(60)}


def test_of_several_processes_one_creates_a_file(store: Store, files: Files, tmp_path: Path) -> None:
    """The other processes race with the JVM on the same names, by the same means: a hard link of a complete file."""
    folder = tmp_path / "log"
    folder.mkdir()
    racer = textwrap.dedent("""
        import os, sys
        folder, me, won = sys.argv[1], sys.argv[2], 0
        for n in range(400):
            temporary = f"{folder}/.{n}.{me}.tmp"
            with open(temporary, "w") as f:
                f.write(me)
            try:
                os.link(temporary, f"{folder}/{n}.json")
                won += 1
            except FileExistsError:
                pass
            os.unlink(temporary)
        print(won)
    """)
    others = [
        subprocess.Popen([sys.executable, "-c", racer, str(folder), f"p{i}"], stdout=subprocess.PIPE, text=True)
        for i in range(2)
    ]
    won = sum(files.write_new(f"file:{folder}/{n}.json", "jvm") for n in range(400))
    theirs = [int(p.communicate()[0]) for p in others]
    assert won + sum(theirs) == 400
    assert sum((folder / f"{n}.json").read_text() == "jvm" for n in range(400)) == won


def test_a_temporary_file_that_vacuum_takes_for_an_orphan(files: Files, tmp_path: Path) -> None:
    """It may go at any moment before it has its name: the file is written again."""
    stop = threading.Event()
    taken: list[str] = []

    def take() -> None:
        while not stop.is_set():
            for name in os.listdir(tmp_path):
                if name.endswith(".tmp"):
                    with suppress(FileNotFoundError):
                        (tmp_path / name).unlink()
                        taken.append(name)

    thread = threading.Thread(target=take)
    thread.start()
    try:
        for number in itertools.count():
            assert files.write_new(f"{tmp_path}/{number}.json", f"text {number}")
            files.write(f"{tmp_path}/same", f"text {number}")
            assert (tmp_path / f"{number}.json").read_text() == (tmp_path / "same").read_text() == f"text {number}"
            if len(taken) > 20:
                break
    finally:
        stop.set()
        thread.join()


def test_new_files_have_the_permissions_of_hadoops_umask(files: Files, location: str, tmp_path: Path) -> None:
    files.write_new(f"{location}/new", "x")
    files.write(f"{location}/replaced", "x")
    for name in ("new", "replaced"):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o644


def test_write_replaces_and_forgets_the_checksum(files: Files, location: str, tmp_path: Path) -> None:
    files.write(f"{location}/a", "one")
    (tmp_path / ".a.crc").write_bytes(b"crc\0\0\0\2\0\0\0\0\0")
    files.write(f"{location}/a", "zwei ü")
    assert files.read(f"{location}/a") == "zwei ü"
    assert [s.name for s in files.list(location)] == ["a"]


def test_what_is_not_there(files: Files, location: str) -> None:
    assert files.read(f"{location}/nothing") is None
    assert files.list(f"{location}/nothing") == []
    assert not files.exists(f"{location}/nothing")
    assert files.delete([f"{location}/nothing"]) == 0
    assert files.missing([f"{location}/nothing", location]) == {f"{location}/nothing"}


def test_list_is_deep_on_request_and_delete_takes_folders(files: Files, location: str) -> None:
    for name in ("a", "x/b c", "x/y/d%20e"):
        files.write(f"{location}/{name}", name)
    found = files.list(location, recursive=True)
    assert sorted(s.path for s in found) == sorted(f"{location}/{n}" for n in ("a", "x/b c", "x/y/d%20e"))
    assert [files.read(s.path) for s in found] == [s.path.removeprefix(f"{location}/") for s in found]
    assert {(s.name, s.folder) for s in files.list(location)} == {("a", False), ("x", True)}
    assert files.delete([f"{location}/x"]) == 1
    assert [s.name for s in files.list(location, recursive=True)] == ["a"]


def test_rename_never_overwrites(files: Files, location: str) -> None:
    files.write(f"{location}/a", "a")
    files.write(f"{location}/b", "b")
    assert not files.rename(f"{location}/a", f"{location}/b")
    assert files.rename(f"{location}/a", f"{location}/c")
    assert files.read(f"{location}/c") == "a"
