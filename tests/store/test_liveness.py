"""Marks of writers: who lives, who is dead, and who may come back; by the clock of a store that is not ours."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tidemill.errors import TidemillError
from tidemill.runtime.storage import liveness, writers
from tidemill.runtime.storage.files import Files
from tidemill.runtime.storage.writers import FOREIGN_MS, KEEP_REVOKED_MS, LEASE_MS, marks, revoke, writing

HOLDER = "from tidemill.runtime.storage import liveness; print(liveness.own_token(), flush=True); input()"
ELSEWHERE = "a" * 32
"""The token of a process that no lock here tells of: in another container, whatever host and number it has."""


class Clocked:
    """Files in memory, with a clock of their own that is hours off; what `Files` needs of a Jvm."""

    def __init__(self) -> None:
        self.now = 12_345_678
        self.texts: dict[str, str] = {}
        self.times: dict[str, int] = {}

    def invoke(self, method: str, request: Mapping[str, Any] | None = None) -> Any:
        assert method == "files"
        assert request is not None
        path = str(request.get("path"))
        match request["do"]:
            case "write":
                self.texts[path], self.times[path] = request["text"], self.now
            case "read_many":
                return [self.texts.get(p) for p in request["paths"]]
            case "list":
                return [self._status(p) for p in self.texts if p.startswith(path + "/")]
            case "stat":
                return [self._status(p) if p in self.texts else None for p in request["paths"]]
            case "delete":
                return sum(self.texts.pop(p, None) is not None for p in request["paths"])
            case other:
                raise AssertionError(other)
        return True

    def _status(self, path: str) -> dict[str, Any]:
        return {"path": path, "bytes": len(self.texts[path]), "modified": self.times[path], "folder": False}


@pytest.fixture
def store() -> Clocked:
    return Clocked()


@pytest.fixture
def files(store: Clocked) -> Files:
    return Files(store)


def elsewhere(store: Clocked, text: str = '{"started": null}', name: str = f"{ELSEWHERE}-{'b' * 32}.json") -> str:
    """A mark that another process has just written."""
    path = f"/v/{writers.FOLDER}/{name}"
    store.invoke("files", {"do": "write", "path": path, "text": text})
    return path


def test_a_writer_of_this_process_lives_as_long_as_its_block(store: Clocked, files: Files) -> None:
    with writing(files, "/v") as writer:
        begun = store.now
        assert marks(files, "/v").since == begun
        store.now += 10 * LEASE_MS  # no lease, its own process knows
        writer.renew()
        assert marks(files, "/v").since == begun
        writer.confirm()
        store.texts[writer.path] = "half a ma"
        assert marks(files, "/v").since == 0
    assert marks(files, "/v") == writers.Marks(None)


def test_a_mark_that_could_not_be_removed_is_dead(store: Clocked, files: Files) -> None:
    with writing(files, "/v") as writer:
        pass
    writer.write()
    assert marks(files, "/v") == writers.Marks(None, (), (writer.path,))


def test_a_writer_elsewhere_lives_as_long_as_it_renews(store: Clocked, files: Files) -> None:
    path = elsewhere(store)
    begun = store.now
    store.now += LEASE_MS - 1
    assert marks(files, "/v").since == begun
    elsewhere(store, f'{{"started": {begun}}}')
    store.now += LEASE_MS - 1
    assert marks(files, "/v").since == begun
    store.now += 1
    found = marks(files, "/v")
    assert (found.since, found.expired) == (None, (path,))


def test_a_writer_that_slept_gives_up(store: Clocked, files: Files) -> None:
    """Its files may be gone. It may have written its mark anew in between."""
    with writing(files, "/v") as writer:
        other = writers.Writer(files, elsewhere(store), "v")
        other.confirm()
        store.now += LEASE_MS
        found = marks(files, "/v")
        assert found.expired == (other.path,)
        revoke(files, found)
        other.write()
        with pytest.raises(TidemillError, match="TIDEMILL_RUN_GIVEN_UP"):
            other.confirm()
        writer.confirm()
    store.invoke("files", {"do": "delete", "paths": [other.path]})
    assert marks(files, "/v").over == ()  # the revocation stays
    store.now += KEEP_REVOKED_MS + 1
    assert len(marks(files, "/v").over) == 1


def test_renewing_does_not_bring_back_what_was_removed(store: Clocked, files: Files) -> None:
    with writing(files, "/v") as writer:
        store.texts.clear()
        writer.renew()
        assert store.texts == {}
        with pytest.raises(TidemillError, match="TIDEMILL_RUN_GIVEN_UP"):
            writer.confirm()


def test_marks_are_renewed(store: Clocked, files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writers, "RENEW_MS", 5)
    monkeypatch.setattr(writers, "_renewer", None)  # one of an earlier run may be asleep
    with writing(files, "/v") as writer:
        begun, store.now = store.now, store.now + 1000
        for _ in range(400):
            if store.times[writer.path] == store.now:
                break
            time.sleep(0.01)
        assert store.times[writer.path] == store.now
        assert marks(files, "/v").since == begun


def test_many_short_runs_have_one_thread(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writers, "_renewer", None)
    before = set(threading.enumerate())  # threads of other tests may be asleep
    for _ in range(20):
        with writing(files, "/v"):
            pass
    begun = set(threading.enumerate()) - before
    assert [thread.name for thread in begun] == ["tidemill-writers"]


def test_a_renewer_that_ends_leaves_another_alone(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was begun earlier may still be asleep."""
    other = threading.current_thread()
    monkeypatch.setattr(writers, "RENEW_MS", 1)
    monkeypatch.setattr(writers, "_ACTIVE", {})
    monkeypatch.setattr(writers, "_renewer", other)
    ending = threading.Thread(target=writers._renewing)
    ending.start()
    ending.join()
    assert writers._renewer is other


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"started": "x"}', '{"started"', "7"])
def test_a_damaged_mark_costs_only_itself(store: Clocked, files: Files, text: str) -> None:
    """It tells nothing of its writer's start as long as that may live."""
    path = elsewhere(store, text)
    assert marks(files, "/v").since == 0
    store.now += LEASE_MS
    assert marks(files, "/v") == writers.Marks(None, (path,))


def test_marks_of_earlier_versions_count_for_a_day(store: Clocked, files: Files) -> None:
    path = elsewhere(store, '{"host": "h", "pid": 1, "born": "1", "started": 5, "id": "x"}', "x.json")
    store.now += FOREIGN_MS - 1
    assert marks(files, "/v").since == 5
    store.now += 1
    assert marks(files, "/v").expired == (path,)


@pytest.fixture
def holder() -> Iterator[subprocess.Popen[str]]:
    """Another process with a token of its own, which it has told."""
    command = [sys.executable, "-c", HOLDER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def test_a_killed_process_is_known_to_be_dead(
    store: Clocked, files: Files, holder: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert holder.stdout is not None
    token = holder.stdout.readline().strip()
    path = elsewhere(store, name=f"{token}-{'b' * 32}.json")
    assert not liveness.is_dead(token)
    assert marks(files, "/v").since == store.now
    holder.kill()
    holder.wait()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # as another container sees it: nothing is known
    assert marks(files, "/v").since == store.now
    monkeypatch.undo()
    assert marks(files, "/v") == writers.Marks(None, (), (path,))
    assert liveness.is_dead(token)  # for marks at other views, too
