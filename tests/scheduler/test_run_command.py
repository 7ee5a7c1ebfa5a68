"""`tidemill run` as a process, over a Hive metastore in its working directory."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tidemill import cli
from tidemill.driver import serve

pytestmark = [pytest.mark.jvm, pytest.mark.slow]
CONFS = ("--conf", "spark.ui.enabled=false", "--conf", "spark.sql.shuffle.partitions=2", "--master", "local[2]")
PROGRAM = Path(sys.executable).with_name("tidemill")


def tidemill(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PROGRAM, *arguments, *CONFS], cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )


def sql(folder: Path, *statements: str) -> str:
    """Runs statements by spark-sql in the folder; what it prints."""
    done = tidemill(folder, "sql", "-S", "-e", "; ".join(statements))
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working directory with a table, a view of every minute, and data that came since; its creation is long ago."""
    sql(
        tmp_path,
        "CREATE TABLE t (k INT) USING parquet",
        "INSERT INTO t VALUES (1)",
        "CREATE INCREMENTAL VIEW v SCHEDULE (EVERY 1 HOURS) AS SELECT k, count(*) AS n FROM t GROUP BY k",
        "INSERT INTO t VALUES (1), (2)",
    )
    definition = next(tmp_path.glob("spark-warehouse/v/_tidemill/view.json"))
    created = json.loads(definition.read_text())
    definition.write_text(json.dumps({**created, "created_at": created["created_at"] - 7_200_000_000}))
    crc = definition.with_name(".view.json.crc")
    crc.unlink(missing_ok=True)
    return tmp_path


def runs(folder: Path) -> list[dict[str, object]]:
    """The rows of the log."""
    entries = sorted(folder.glob("spark-warehouse/v/_tidemill/log/*[0-9].json"))
    return [json.loads(entry.read_text())["metrics"] for entry in entries]


def test_once_and_once_more(folder: Path) -> None:
    first = tidemill(folder, "run", "--once")
    assert first.returncode == 0, first.stderr
    assert "INCREMENTAL" in first.stdout or "FULL" in first.stdout
    assert [(r["run"], r["trigger"], r["point"]) for r in runs(folder)] == [(0, "CREATE", 1), (1, "SCHEDULE", 1)]
    second = tidemill(folder, "run", "--once", "--view", "default.v")
    assert second.returncode == 0, second.stderr
    assert second.stdout.strip() == "nothing was due, or there was no data"
    assert len(runs(folder)) == 2
    unknown = tidemill(folder, "run", "--once", "--view", "w")
    assert unknown.returncode == 1
    assert "TIDEMILL_NOT_FOUND" in unknown.stderr


@pytest.fixture
def service(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A service over the folder that has fired what was due."""
    with subprocess.Popen(
        [PROGRAM, "run", *CONFS], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        limit = time.monotonic() + 240
        while len(runs(folder)) < 2 and process.poll() is None and time.monotonic() < limit:
            time.sleep(0.5)
        yield process
        process.kill()


def test_a_service_ends_when_it_is_told_to(folder: Path, service: subprocess.Popen[str]) -> None:
    assert [r["trigger"] for r in runs(folder)] == ["CREATE", "SCHEDULE"]
    # The metastore is the service's: another process is told so.
    other = tidemill(folder, "run", "--once")
    assert other.returncode == 1
    assert "is open in another process" in other.stderr
    assert "spark.tidemill.scheduler.enabled=true" in other.stderr
    service.send_signal(signal.SIGTERM)
    assert service.wait(60) == 0
    assert not list(folder.glob("spark-warehouse/v/_tidemill/scheduler/holder.json"))
    # Another one goes on where it was.
    again = tidemill(folder, "run", "--once")
    assert (again.returncode, again.stdout.strip()) == (0, "nothing was due, or there was no data")


def test_killed_and_begun_again(folder: Path, service: subprocess.Popen[str]) -> None:
    service.kill()
    service.wait(60)
    again = tidemill(folder, "run", "--once")
    assert (again.returncode, again.stdout.strip()) == (0, "nothing was due, or there was no data"), again.stderr
    assert [r["run"] for r in runs(folder)] == [0, 1]


def test_a_rehearsal(folder: Path) -> None:
    """A simulated week with nothing to do fires each point once: there is nothing to see but the note."""
    done = tidemill(folder, "run", "--clock", "2026-03-28T22:30", "--until", "2026-03-29T04:00")
    assert done.returncode == 0, done.stderr
    assert [r["trigger"] for r in runs(folder)] == ["CREATE", "SCHEDULE"]
    note = json.loads(next(folder.glob("spark-warehouse/v/_tidemill/scheduler/note.json")).read_text())
    (name,) = note["fired"]["instants"]
    assert name.startswith("simulated from ")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--speed", "60"], "a simulated clock, which --clock starts"),
        (["--clock", "2026-03-28T22:00"], "say --until when it ends"),
        (["--clock", "half past ten", "--once"], "is no time of the form"),
        (["--clock", "2026-03-28T22:00", "--once", "--until", "2026-03-29T22:00"], "have no meaning"),
    ],
)
def test_options_that_contradict_each_other(
    options: Sequence[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["run", *options]) == 2
    assert said in capsys.readouterr().err


def test_errors_of_derby_are_explained() -> None:
    error = RuntimeError("Caused by: ERROR XSDB6: Another instance of Derby may have already booted the database /x.")
    assert "takes one process at a time" in serve._reason(error)


def test_a_shell_fires_schedules(tmp_path: Path) -> None:
    """spark-sql has no Python driver: the planner's process does it, though no statement of Tidemill's starts that."""
    sql(
        tmp_path,
        "CREATE TABLE t (k INT) USING parquet",
        "CREATE INCREMENTAL VIEW v SCHEDULE (EVERY 1 SECONDS) AS SELECT k, count(*) AS n FROM t GROUP BY k",
        "INSERT INTO t VALUES (1)",
    )
    assert len(runs(tmp_path)) == 1
    sleep = "SELECT reflect('java.lang.Thread', 'sleep', 300000L)"
    command = [str(PROGRAM), "sql", "-S", "-e", sleep, *CONFS, "--conf", "spark.tidemill.scheduler.enabled=true"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as shell:
        limit = time.monotonic() + 240
        while len(runs(tmp_path)) < 2 and shell.poll() is None and time.monotonic() < limit:
            time.sleep(0.5)
        shell.kill()
    assert [r["trigger"] for r in runs(tmp_path)] == ["CREATE", "SCHEDULE"]
