"""The log of a view."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.log_of_a_year import grow
from tidemill.errors import TidemillError
from tidemill.runtime.storage.files import Files, UndecidedError
from tidemill.runtime.storage.log import LONG, LONG_TEXT, SPAN, Log
from tidemill.runtime.storage.stage import Stage


def folder(location: str) -> Path:
    return Path(location.removeprefix("file:")) / "_tidemill" / "log"


def entries(location: str) -> list[int]:
    return sorted(int(p.stem) for p in folder(location).glob("*.json") if p.stem.isdigit())


@dataclass(frozen=True)
class Run:
    run: int
    content: Mapping[str, Any]

    def to_json(self) -> Mapping[str, Any]:
        return {"run": self.run, "metrics": {"row": self.run}, **self.content}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Run:
        return Run(data["run"], {k: v for k, v in data.items() if k not in ("run", "metrics", "mark")})


def history(log: Log[Run], limit: int | None = None) -> list[int]:
    return [row["row"] for row in log.history(limit)]


@pytest.fixture
def log(files: Files, location: str) -> Log[Run]:
    return Log(files, location, "default.v", Run.from_json)


def test_newest_is_found_with_and_without_its_hint(log: Log[Run], files: Files, location: str) -> None:
    hint = f"{location}/_tidemill/log/newest"
    for n in range(4):
        log.commit(Run(n, {}))
    for text in ("3", "0", "nonsense", "77"):  # as it is, left behind by a process that died, damaged
        files.write(hint, text)
        assert log.newest() == Run(3, {})
    files.delete([hint])
    assert log.newest() == Run(3, {})


def test_a_long_log_is_not_listed(log: Log[Run], files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    log.commit(Run(0, {}))
    monkeypatch.setattr(Files, "list", lambda *_, **__: pytest.fail("the log was listed"))
    log.commit(Run(1, {}))
    assert log.newest() == Run(1, {})
    assert history(log, 1) == [1]


def test_entries_are_numbered(log: Log[Run], files: Files, location: str) -> None:
    assert log.newest() is None
    for n in range(12):
        log.commit(Run(n, {"at": n}))
    assert log.newest() == Run(11, {"at": 11})
    assert history(log) == list(range(12))[::-1]
    assert history(log, 3) == [11, 10, 9]
    assert [e.run for e in log.newest_first()] == history(log)
    assert files.exists(f"{location}/_tidemill/log/{11:020d}.json")


def test_a_taken_number_is_a_concurrent_refresh_that_leaves_nothing(log: Log[Run], files: Files, location: str) -> None:
    log.commit(Run(0, {"files": [1]}))
    before = files.list(location, recursive=True)
    with pytest.raises(TidemillError) as error:
        log.commit(Run(0, {"files": list(range(2 * LONG))}))
    assert error.value.condition == "TIDEMILL_CONCURRENT_REFRESH"
    assert files.list(location, recursive=True) == before
    assert log.newest() == Run(0, {"files": [1]})


def test_of_many_that_commit_one_number_one_wins(log: Log[Run]) -> None:
    def commit(who: int) -> bool:
        try:
            log.commit(Run(0, {"who": who, "files": list(range(LONG))}))
        except TidemillError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(commit, range(16)))
    assert won.count(True) == 1
    newest = log.newest()
    assert newest is not None
    assert newest.content["who"] == won.index(True)
    assert newest.content["files"] == list(range(LONG))


def test_long_listings_lie_beside_the_entry(log: Log[Run], files: Files, location: str) -> None:
    content = {
        "data": [{"path": f"/a/{i}", "bytes": i} for i in range(LONG)],
        "sources": [{"position": {"files": [[1]] * LONG}}],
    }
    log.commit(Run(0, content))
    log.commit(Run(1, {"data": []}))
    assert log.read(0).content == content
    assert history(log) == [1, 0]
    text = files.read(f"{location}/_tidemill/log/{0:020d}.json")
    assert text is not None
    assert len(text) < 500


def test_what_an_entry_has_in_common_with_the_last_is_written_once(log: Log[Run], files: Files, location: str) -> None:
    pages = [str(n) * LONG_TEXT for n in range(5)]
    log.commit(Run(0, {"pages": pages, "short": "x"}))
    first = log.newest()
    assert first == Run(0, {"pages": pages, "short": "x"})
    before = {s.name for s in files.list(f"{location}/_tidemill/log")}
    pages[2] = "other" * LONG_TEXT
    log.commit(Run(1, {"pages": pages, "short": "x"}))
    new = {s.name: s.bytes for s in files.list(f"{location}/_tidemill/log") if s.name not in before}
    assert len(new) == 2
    assert min(new.values()) < 1000
    again = Log(files, location, "default.v", Run.from_json)
    assert [e.content["pages"][2][:5] for e in again.newest_first()] == ["other", "22222"]
    assert again.read(1).content["pages"] == pages


def test_only_what_the_entry_right_before_names_is_named_again(log: Log[Run], files: Files, location: str) -> None:
    """What an older one names may be gone by the time of the commit."""
    page = "x" * LONG_TEXT
    log.commit(Run(0, {"page": page}))
    log.commit(Run(1, {}))
    log.newest()
    log.read(0)
    log.commit(Run(2, {"page": page}))
    log.commit(Run(3, {"page": page}))  # nobody has looked at what run 2 names
    assert [len(list(folder(location).glob(f"{run:020d}-*.json"))) for run in range(4)] == [1, 0, 1, 1]


def test_the_row_of_a_run_is_never_parted(log: Log[Run], location: str) -> None:
    """A checkpoint takes it as it is."""
    row = {"row": 0, "text": "x" * LONG_TEXT, "list": list(range(LONG))}
    log.commit(Run(0, {"metrics": row}))
    assert log.history() == [row]
    assert list(folder(location).glob("*-*.json")) == []


def test_an_unknown_run_is_a_key_error(log: Log[Run]) -> None:
    with pytest.raises(KeyError):
        log.read(7)


@pytest.fixture
def old(log: Log[Run], location: str) -> Log[Run]:
    """A log of 2 SPAN + 5 runs, the first 2 SPAN of them covered and their entries removed."""
    log.commit(Run(0, {}))
    grow(location, 2 * SPAN + 5)
    log.cover(2 * SPAN)
    for run in range(2 * SPAN):
        (folder(location) / f"{run:020d}.json").unlink()
    return log


def test_the_history_is_whole_when_old_entries_are_gone(old: Log[Run], location: str) -> None:
    assert entries(location) == list(range(2 * SPAN, 2 * SPAN + 5))
    assert history(old) == list(range(2 * SPAN + 5))[::-1]
    assert history(old, 10) == list(range(2 * SPAN + 5))[:-11:-1]
    assert [e.run for e in old.newest_first()] == list(range(2 * SPAN + 5))[:-6:-1]
    assert old.covered() == 2 * SPAN
    old.commit(Run(2 * SPAN + 5, {}))
    assert history(old, 1) == [2 * SPAN + 5]


@pytest.mark.parametrize(
    "hint", ["0", "57", str(SPAN), str(2 * SPAN - 1), str(2 * SPAN + 4), "nonsense", "99999999", None]
)
def test_newest_is_right_whatever_the_hint_says(old: Log[Run], files: Files, location: str, hint: str | None) -> None:
    path = f"{location}/_tidemill/log/newest"
    if hint is None:
        files.delete([path])
    else:
        files.write(path, hint)
    for late in (57, 58, SPAN, 2 * SPAN - 1):  # of writers that died before they looked whether the number was free
        files.write(f"{location}/_tidemill/log/{late:020d}.json", '{"run": 57, "metrics": {"row": -1}}')
    newest = old.newest()
    assert newest is not None
    assert newest.run == 2 * SPAN + 4
    assert history(old) == list(range(2 * SPAN + 5))[::-1]
    assert [e.run for e in old.newest_first()] == list(range(2 * SPAN + 5))[:-6:-1]


@pytest.mark.parametrize("number", [0, 57, SPAN - 1, SPAN, 2 * SPAN - 1])
def test_a_number_is_never_committed_twice(old: Log[Run], location: str, number: int) -> None:
    before = entries(location)
    with pytest.raises(TidemillError) as error:
        old.commit(Run(number, {"late": list(range(LONG))}))
    assert error.value.condition == "TIDEMILL_CONCURRENT_REFRESH"
    assert entries(location) == before
    assert list(folder(location).glob("*-*.json")) == []
    assert history(old) == list(range(2 * SPAN + 5))[::-1]


def test_entries_that_are_removed_between_two_looks(
    old: Log[Run], location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer is held up before its commit, others commit, and VACUUM removes the entry that it meant to write."""
    write_new = Files.write_new

    def late(files: Files, path: str, text: str) -> bool:
        if path.endswith(f"log/{2 * SPAN + 5:020d}.json"):
            monkeypatch.setattr(Files, "write_new", write_new)
            grow(location, 3 * SPAN + 5)
            old.cover(3 * SPAN)
            for run in range(2 * SPAN, 3 * SPAN):
                (folder(location) / f"{run:020d}.json").unlink()
        return write_new(files, path, text)

    monkeypatch.setattr(Files, "write_new", late)
    with pytest.raises(TidemillError) as error:
        old.commit(Run(2 * SPAN + 5, {}))
    assert error.value.condition == "TIDEMILL_CONCURRENT_REFRESH"
    newest = old.newest()
    assert newest is not None
    assert newest.run == 3 * SPAN + 4
    assert history(old) == list(range(3 * SPAN + 5))[::-1]


@pytest.mark.parametrize("answered", [True, False])
def test_a_commit_that_was_covered_before_it_was_answered_is_one(
    old: Log[Run], location: str, monkeypatch: pytest.MonkeyPatch, answered: bool
) -> None:
    """The run commits, others follow, a checkpoint takes its entry in and VACUUM removes it; only then it goes on."""
    write_new = Files.write_new

    def slow(files: Files, path: str, text: str) -> bool:
        created = write_new(files, path, text)
        if path.endswith(f"log/{2 * SPAN + 5:020d}.json"):
            monkeypatch.setattr(Files, "write_new", write_new)
            grow(location, 3 * SPAN + 5)
            old.cover(3 * SPAN)
            for run in range(2 * SPAN, 3 * SPAN):
                (folder(location) / f"{run:020d}.json").unlink()
            if not answered:
                raise OSError("the answer got lost")
        return created

    monkeypatch.setattr(Files, "write_new", slow)
    old.commit(Run(2 * SPAN + 5, {}))
    newest = old.newest()
    assert newest is not None
    assert newest.run == 3 * SPAN + 4
    assert history(old) == list(range(3 * SPAN + 5))[::-1]


def test_whether_a_late_commit_counts_may_stay_open(old: Log[Run], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Files, "missing", lambda *_: (_ for _ in ()).throw(OSError("no answer")))
    with pytest.raises(UndecidedError):
        old.commit(Run(2 * SPAN + 5, {}))


def test_a_checkpoint_is_written_once_and_only_over_what_is_there(log: Log[Run], files: Files, location: str) -> None:
    log.commit(Run(0, {}))
    grow(location, SPAN + 2)
    log.cover(SPAN)
    path = f"{location}/_tidemill/checkpoints/{0:020d}.json"
    text = files.read(path)
    files.write(f"{location}/_tidemill/log/{5:020d}.json", '{"run": 5, "metrics": {"row": -1}}')
    log.cover(SPAN)
    assert files.read(path) == text
    grow(location, 2 * SPAN + 2)
    (folder(location) / f"{SPAN + 7:020d}.json").unlink()
    with pytest.raises(FileNotFoundError):
        log.cover(2 * SPAN)
    assert log.covered() == SPAN


def test_a_stage_that_is_not_kept_goes_away(files: Files, location: str) -> None:
    def fill(stage: Stage) -> list[str]:
        folders = [stage.data(), stage.data(), stage.state("s"), stage.delta()]
        for folder in folders:
            files.write(f"{folder}/part-0.parquet", "x")
        return folders

    def fail() -> None:
        with Stage(files, location, 3) as stage:
            folders = fill(stage)
            assert len(set(folders)) == 4
            stage.move_into_place([{"path": f"{folders[0]}/part-0.parquet", "bytes": 1, "modified": 1}])
            assert files.exists(f"{location}/part-0.parquet")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert files.list(location, recursive=True) == []
    with Stage(files, location, 3) as stage:
        kept = fill(stage)
        stage.keep()
    assert [files.exists(folder) for folder in kept] == [True] * 4
    assert kept[0].startswith(f"{location}/data-0000000003-")
