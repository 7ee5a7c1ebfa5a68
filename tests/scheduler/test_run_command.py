"""`tidemill run` as a process, over a Hive metastore in its working directory."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from tidemill import cli
from tidemill.driver import serve

pytestmark = [pytest.mark.jvm, pytest.mark.slow]
CONFS = ("--conf", "spark.ui.enabled=false", "--conf", "spark.sql.shuffle.partitions=2", "--master", "local[2]")
with socket.create_server(("127.0.0.1", 0)) as probe:
    PORT = probe.getsockname()[1]
    """A port that was free just now."""
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
    """A working directory with a table, a view of every hour that is two hours old, and data that came since."""
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


def health() -> dict[str, Any]:
    """What the service serves."""
    with urlopen(f"http://127.0.0.1:{PORT}/health") as answer:
        found: dict[str, Any] = json.load(answer)
    return found


@pytest.fixture
def service(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A service over the folder that has fired what was due. Its log is JSON, and it serves health at `PORT`."""
    command = [str(PROGRAM), "run", *CONFS, "--conf", f"spark.tidemill.monitor.port={PORT}"]
    environment = {**os.environ, "TIDEMILL_LOG": "json"}
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as process:
        limit = time.monotonic() + 240
        while len(runs(folder)) < 2 and process.poll() is None and time.monotonic() < limit:
            time.sleep(0.5)
        yield process
        process.kill()


def test_a_service_ends_when_it_is_told_to(folder: Path, service: subprocess.Popen[str]) -> None:
    assert [r["trigger"] for r in runs(folder)] == ["CREATE", "SCHEDULE"]
    # The log has the run before its tick is over, and only then the lag is told.
    limit = time.monotonic() + 60
    while (found := health())["last_tick"]["ended"] is None and time.monotonic() < limit:
        time.sleep(0.5)
    view = found["views"]["spark_catalog.default.v"]
    assert (view["run"], view["lag_seconds"]) == (1, 0)
    # The metastore is the service's: another process is told so.
    other = tidemill(folder, "run", "--once")
    assert other.returncode == 1
    assert "is open in another process" in other.stderr
    assert "spark.tidemill.scheduler.enabled=true" in other.stderr
    service.send_signal(signal.SIGTERM)
    assert service.wait(60) == 0
    assert service.stdout is not None
    lines = [line for line in service.stdout if line.startswith("{")]
    assert [json.loads(line)["trigger"] for line in lines] == ["SCHEDULE"]
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
    """A simulated week fires each hour: the first has something to do, and the note has the last."""
    start = datetime(2026, 3, 28, 22, 30, tzinfo=UTC).timestamp()
    done = tidemill(folder, "run", "--clock", "2026-03-28T22:30+00:00", "--until", "2026-04-04T22:30+00:00")
    assert done.returncode == 0, done.stderr
    assert [r["trigger"] for r in runs(folder)] == ["CREATE", "SCHEDULE"]
    note = json.loads(next(folder.glob("spark-warehouse/v/_tidemill/scheduler/note.json")).read_text())
    (name,) = note["fired"]["instants"]
    assert name == f"simulated from {start:.0f}"
    assert list(note["fired"]["instants"][name].values()) == [start + 7 * 24 * 3600]


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


DRIVER = """
import time
import tidemill
from pyspark.sql import SparkSession

def session():
    builder = tidemill.configure(SparkSession.Builder().master("local[2]").config(map=CONFS))
    return builder.getOrCreate()

def fires(spark, view):
    spark.sql(f"CREATE TABLE {view}_t (k INT) USING parquet")
    spark.sql(f"CREATE INCREMENTAL VIEW {view} SCHEDULE (EVERY 1 SECONDS) AS SELECT k FROM {view}_t")
    spark.sql(f"INSERT INTO {view}_t VALUES (1)")
    limit = time.monotonic() + 60
    while len(found := spark.sql(f"SHOW REFRESHES IN {view}").collect()) < 2:
        assert time.monotonic() < limit
        time.sleep(0.2)
    print(view, [row.trigger for row in found], flush=True)

CONFS = {
    "spark.tidemill.scheduler.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.warehouse.dir": "warehouse",
}
spark = session()
fires(spark, "v")
spark.stop()
spark = session()
fires(spark, "w")
spark.stop()
"""


def test_each_application_of_a_process_fires_schedules(tmp_path: Path) -> None:
    """The service of the one that has ended is asleep when the next one begins."""
    done = subprocess.run(
        [sys.executable, "-c", DRIVER], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["v ['SCHEDULE', 'CREATE']", "w ['SCHEDULE', 'CREATE']"]
