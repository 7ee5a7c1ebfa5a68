"""Every Python that Tidemill starts imports nothing of the working directory; what it reads before a token is short."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from tests.front.traps import lay_traps
from tidemill import isolated
from tidemill.driver.callbacks import GREETING, MOST, ShortGreeting
from tidemill.search.service.pool import SearchWorker

TEXT = Path(isolated.__file__).read_text(encoding="utf-8")
PROBE = "import json, logging, sys, tidemill\nprint(tidemill.__file__)\nprint(sys.argv)\n"


def started(folder: Path, module: str, **variables: str) -> list[str]:
    """The lines that the module prints."""
    done = subprocess.run(
        [sys.executable, "-I", "-c", TEXT, module, "argument"],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("path", ["", ":", ".", ":{mine}", "{mine}:."])
def test_nothing_of_the_working_directory(tmp_path: Path, path: str) -> None:
    hostile, mine = tmp_path / "hostile", tmp_path / "mine"
    hostile.mkdir()
    mine.mkdir()
    seen = lay_traps(hostile)
    (mine / "probe.py").write_text(PROBE)
    (mine / "logging.py").write_text("raise ImportError('not the standard library')\n")
    named = path.format(mine=mine)
    if "mine" in path:
        place, arguments = started(hostile, "probe", PYTHONPATH=named)
        assert Path(place).is_relative_to(Path(isolated.__file__).parent)
        assert arguments.endswith("'argument']")
    else:
        assert started(hostile, "tidemill.version", PYTHONPATH=named) == []
    assert not seen.exists(), seen.read_text()


def test_packages_of_pythonpath_come_before_installed_ones(tmp_path: Path) -> None:
    (tmp_path / "sqlparse.py").write_text("print('of the user')\n")
    assert started(tmp_path, "sqlparse", PYTHONPATH=str(tmp_path)) == ["of the user"]


def test_a_search_worker_in_a_hostile_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = lay_traps(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", str(tmp_path), *sys.path])
    worker = SearchWorker()
    try:
        with pytest.raises(Exception, match="not iterable"):
            worker.search(cast(Any, None))  # not a request; the process lives
        assert worker._process.stdin is not None
        worker._process.stdin.write("no request\n")
        worker._process.stdin.flush()
        assert worker._process.stdout is not None
        assert "failed" in worker._process.stdout.readline()
    finally:
        worker.end()
    assert not seen.exists(), seen.read_text()


class Endless:
    """A connection that sends one line without an end."""

    def __init__(self) -> None:
        self.read = 0

    def readline(self, size: int = -1) -> bytes:
        assert size > 0, "it would never end"
        self.read += size
        return b"x" * size


def test_an_endless_line_before_the_token_ends_the_connection() -> None:
    endless = Endless()
    with pytest.raises(OSError, match="did not begin with a token"):
        ShortGreeting(cast(Any, endless)).readline()
    assert endless.read <= MOST + 1


def test_behind_the_token_lines_have_any_length(tmp_path: Path) -> None:
    lines = [b"A\n", b"token\n", b"e\n"] + [b"x" * 3 * MOST + b"\n"] * 2
    assert len(lines) > GREETING
    file = tmp_path / "lines"
    file.write_bytes(b"".join(lines))
    with file.open("rb") as stream:
        greeting = ShortGreeting(stream)
        assert [greeting.readline() for _ in lines] == lines
