"""Ctrl-C at the prompt of spark-sql, typed at a terminal: the statement ends, the shell and its planner live on."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.faults.checks import SLOW, everything_under, unneeded, wait_for
from tests.front.servers import children
from tests.front.test_spark_sql_process import command_of, environment, interpreter

pytestmark = pytest.mark.slow

PLANNER = Path(__file__).with_name("planner_waiting.py")
QUERY = f"SELECT k, sum({SLOW}) AS s, count(*) AS n FROM events GROUP BY k"
PROMPT = re.compile(r"spark-sql( \(\w+\))?> $")


class Terminal:
    """spark-sql at a terminal of its own."""

    def __init__(self, folder: Path, python: Path) -> None:
        self._keys, terminal = pty.openpty()
        self._shown = ""
        self.process = subprocess.Popen(
            command_of(folder, python),
            cwd=folder,
            env={**environment(), "TERM": "dumb"},
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
            preexec_fn=lambda: os.close(os.open(os.ttyname(0), os.O_RDWR)),  # the first one opened controls the session
        )
        os.close(terminal)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        with suppress(OSError):  # its end
            while data := os.read(self._keys, 4096):
                self._shown += data.decode(errors="replace")

    def type(self, text: str) -> None:
        self._shown = ""
        os.write(self._keys, text.encode())

    def answer(self) -> str:
        """What is shown until the next prompt."""

        def prompted() -> bool:
            assert self.process.poll() is None, self._shown[-3000:]
            return PROMPT.search(self._shown) is not None

        wait_for(prompted, "the prompt", 240)
        return self._shown

    def run(self, statement: str) -> str:
        self.type(f"{statement};\n")
        return self.answer()


@contextmanager
def terminal(folder: Path, python: Path) -> Iterator[Terminal]:
    shell = Terminal(folder, python)
    try:
        yield shell
    finally:
        shell.process.kill()
        shell.process.wait()


def folders_of_runs(root: Path) -> set[Path]:
    """What jobs write into: the result, changes and states."""
    return {p for p in root.rglob("*-*") if p.is_dir()}


def test_ctrl_c_during_a_refresh(tmp_path: Path) -> None:
    """Once while a job runs, which the shell cancels; once between the jobs and the commit, which the planner hears."""
    root = tmp_path / "warehouse" / "v"
    with terminal(tmp_path, interpreter(tmp_path, PLANNER)) as shell:
        shell.answer()
        shell.run("CREATE TABLE events (k INT, v BIGINT) USING parquet")
        shell.run("INSERT INTO events VALUES (1, 10), (2, 20)")
        shell.run(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) REFRESH POLICY INCREMENTAL AS {QUERY}")
        shell.run("INSERT INTO events SELECT id % 3, id FROM range(40)")
        planner = children(shell.process.pid)
        before, runs = everything_under(root), folders_of_runs(root)

        shell.type("REFRESH INCREMENTAL VIEW v;\n")

        def writes() -> bool:
            """A job writes, and Hadoop has started no program: the terminal's Ctrl-C would end that one too."""
            return folders_of_runs(root) != runs and children(shell.process.pid) == planner

        wait_for(writes, "a job that writes")
        shell.type("\x03")
        # The second, if the folder was seen before the job began: the shell finds no job, the planner begins no other.
        # The third, if it began a program all the same (chmod): SIGINT ended that.
        said = shell.answer()
        assert re.search(r"SPARK_JOB_CANCELLED|\[OPERATION_CANCELED\]|signal: 2|exitCode=130", said), said
        assert not re.search(r"\tMANUAL\t|TIDEMILL_", said), said
        assert everything_under(root) == before

        (tmp_path / "wait").touch()
        shell.type("REFRESH INCREMENTAL VIEW v;\n")
        wait_for((tmp_path / "waits").exists, "the commit")
        (tmp_path / "wait").unlink()
        shell.type("\x03")
        assert "[OPERATION_CANCELED]" in shell.answer()
        assert everything_under(root) == before

        history = shell.run("SHOW REFRESHES IN v")
        assert re.findall(r"\tMANUAL\t\w+|\tCREATE\t\w+", history) == [*["\tMANUAL\tFAILED"] * 2, "\tCREATE\tFULL"]
        assert "\tMANUAL\tINCREMENTAL\t" in shell.run("REFRESH INCREMENTAL VIEW v")
        assert "true\t0\t0" in shell.run("VERIFY INCREMENTAL VIEW v")
        assert "0\t273\t14\r\n1\t257\t14\r\n2\t280\t14\r\n" in shell.run("SELECT * FROM v ORDER BY k")
        shell.run("VACUUM INCREMENTAL VIEW v RETAIN 0 HOURS")
        assert unneeded(root) == set()
        assert children(shell.process.pid) == planner
        shell.type("quit;\n")
        assert shell.process.wait(60) == 0
