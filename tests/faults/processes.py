"""Sessions in processes of their own, for tests that kill them or let them compete."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from pyspark.sql import SparkSession

import tidemill
from tests.conftest import ROOT, delta_jars
from tests.faults.checks import wait_for
from tidemill.driver.attach import CATALOG, DELTA_CATALOG, DELTA_EXTENSION

STILL = {"T", "Z", "X"}
"""Of the states of a thread, those in which it does nothing: halted or dead."""


def session(folder: Path, settings: Mapping[str, str] | None = None) -> SparkSession:
    """A small session of this process with an in-memory catalog, Delta beside Tidemill; its files lie in `folder`."""
    scratch = folder / "scratch" / str(os.getpid())
    scratch.mkdir(parents=True, exist_ok=True)
    found = {
        "spark.master": "local[2]",
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": f'"-Djava.io.tmpdir={scratch}"',
        "spark.driver.extraClassPath": os.pathsep.join(map(str, delta_jars())),
        "spark.local.dir": str(scratch),
        "spark.sql.extensions": DELTA_EXTENSION,
        CATALOG: DELTA_CATALOG,
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **(settings or {}),
    }
    builder = SparkSession.builder
    for name, value in found.items():
        builder = builder.config(name, value)
    spark = tidemill.configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


class Process:
    """A command that runs in a process group of its own; what it says lies in files."""

    def __init__(self, folder: Path, name: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._out, self._err = folder / f"{name}.out", folder / f"{name}.err"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def lines(self) -> list[str]:
        """What it has printed so far, line by line."""
        return self._out.read_text().splitlines()

    @property
    def errors(self) -> str:
        """The end of its standard error."""
        return self._err.read_text(errors="replace")[-6000:]

    @property
    def status(self) -> int | None:
        """None as long as it runs."""
        return self._process.poll()

    @contextmanager
    def halted(self) -> Iterator[None]:
        """No thread of the group goes on during the block: what lies on disk is what a kill would leave."""
        wait_for(self._halt, "a halt")
        try:
            yield
        finally:
            os.killpg(self._process.pid, signal.SIGCONT)

    def _halt(self) -> bool:
        """Fails while a thread begins a process: it waits for that, which is halted; so both have to go on first."""
        os.killpg(self._process.pid, signal.SIGSTOP)
        for _ in range(50):
            if set(_states(self._process.pid)) <= STILL:
                return True
            time.sleep(0.01)
        os.killpg(self._process.pid, signal.SIGCONT)
        return False

    def kill(self) -> None:
        """Ends the whole group at once, as `kill -9` does; what is left of it, if it has ended by itself."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def ended_well(self, seconds: float) -> None:
        """Waits for its end by itself."""
        assert self._process.wait(seconds) == 0, self.errors


def _states(group: int) -> Iterator[str]:
    """The states of all threads of a process group, as letters of /proc."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if int(_fields(process)[2]) == group:
                yield from (_fields(thread)[0] for thread in (process / "task").iterdir())


def _fields(task: Path) -> list[str]:
    """What /proc says of a process or thread, from its state on."""
    return (task / "stat").read_text(errors="replace").rpartition(")")[2].split()


@contextmanager
def running(
    folder: Path, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None
) -> Iterator[Process]:
    """A process that does not outlive the block."""
    process = Process(folder, name, command, environment or {})
    try:
        yield process
    finally:
        process.kill()


def started(folder: Path, name: str, module: str, *arguments: str) -> AbstractContextManager[Process]:
    """A module of the tests that runs with its JVM."""
    return running(folder, name, [sys.executable, "-m", module, *arguments])
