"""The log of a view."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from tidemill.errors import TidemillError
from tidemill.runtime.files import Files
from tidemill.runtime.log import LONG, Log
from tidemill.runtime.stage import Stage


@dataclass(frozen=True)
class Run:
    run: int
    content: Mapping[str, Any]

    def to_json(self) -> Mapping[str, Any]:
        return {"run": self.run, **self.content}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Run:
        return Run(data["run"], {k: v for k, v in data.items() if k != "run"})


@pytest.fixture
def log(files: Files, location: str) -> Log[Run]:
    return Log(files, location, "default.v", Run.from_json)


def test_newest_is_found_with_and_without_its_hint(log: Log[Run], files: Files, location: str) -> None:
    hint = f"{location}/_tidemill/log/newest"
    for n in range(4):
        log.commit(Run(n, {}))
    for text in ("3", "0", "nonsense"):  # as it is, left behind by a process that died, damaged
        files.write(hint, text)
        assert log.newest() == Run(3, {})
    files.delete([hint])
    assert log.newest() == Run(3, {})


def test_a_long_log_is_not_listed(log: Log[Run], files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    log.commit(Run(0, {}))
    monkeypatch.setattr(Files, "list", lambda *_, **__: pytest.fail("the log was listed"))
    log.commit(Run(1, {}))
    assert log.newest() == Run(1, {})
    assert [e.run for e in log.history(1)] == [1]


def test_entries_are_numbered(log: Log[Run], files: Files, location: str) -> None:
    assert log.newest() is None
    for n in range(12):
        log.commit(Run(n, {"at": n}))
    assert log.newest() == Run(11, {"at": 11})
    assert log.runs() == list(range(12))
    assert [e.run for e in log.history(3)] == [11, 10, 9]
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
    assert log.runs() == [0, 1]
    text = files.read(f"{location}/_tidemill/log/{0:020d}.json")
    assert text is not None
    assert len(text) < 500


def test_an_unknown_run_is_a_key_error(log: Log[Run]) -> None:
    with pytest.raises(KeyError):
        log.read(7)


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
            stage.settle([{"path": f"{folders[0]}/part-0.parquet", "bytes": 1, "modified": 1}])
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
