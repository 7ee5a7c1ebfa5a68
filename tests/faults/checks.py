"""What must hold of a view whatever has happened to it, and statements that take their time."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from tests.conftest import location_of

# A fraction of a second for each row, spent where no cancelling reaches it; the value is that of v.
SLOW = (
    "v + 0 * aggregate(sequence(1, 500), 0L,"
    " (a, x) -> a + aggregate(sequence(1, 500), 0L, (b, y) -> (b + x * y + v) % 1000003))"
)


def slow_rows(spark: SparkSession, seconds: float) -> int:
    """How many rows of SLOW keep two task slots busy for so long: tried out, with ever more of them.

    Compiled code is ten times as fast as new, so it is told by rows that take long enough to have compiled it.
    """
    rows, took = 32, 0.0
    while took < seconds / 2:
        rows *= 2
        start = time.monotonic()
        spark.sql(f"SELECT sum({SLOW}) FROM (SELECT id AS v FROM range(0, {rows}, 1, 2))").collect()
        took = time.monotonic() - start
    return round(rows * seconds / took)


def wait_for(condition: Callable[[], bool], what: str, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what}: not within {seconds} seconds"
        time.sleep(0.02)


def running_tasks(spark: SparkSession) -> int:
    infos = spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
    return sum(int(i.numRunningTasks()) for i in infos)


def jobs_so_far(spark: SparkSession) -> int:
    return int(spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())


def slow_job_runs(spark: SparkSession, first: int, lasting: float = 0.0) -> bool:
    """Whether a job runs that is not older than `first` and lasts for so many seconds more."""
    tracker = spark.sparkContext.statusTracker()
    active = {job for job in tracker.getActiveJobsIds() if job >= first}
    if not active or running_tasks(spark) == 0:
        return False
    time.sleep(lasting)
    return bool(active & set(tracker.getActiveJobsIds())) and running_tasks(spark) > 0


class Statement:
    """A statement in a thread of its own."""

    def __init__(self, run: Callable[[], object]) -> None:
        self.error: BaseException | None = None

        def target() -> None:
            try:
                run()
            except BaseException as error:
                self.error = error

        self.thread = threading.Thread(target=target)
        self.thread.start()

    def ended(self) -> BaseException | None:
        self.thread.join(60)
        assert not self.thread.is_alive(), "the statement goes on"
        return self.error


def everything_under(root: Path) -> set[str]:
    """All files and folders; not checksums, and not the fixed folders that every view comes to have."""
    found = {p for p in root.rglob("*") if not p.name.endswith(".crc")}
    return {str(p.relative_to(root)) for p in found if not (p.is_dir() and p.parent.name == "_tidemill")}


def check(spark: SparkSession, view: str, where: str) -> None:
    """The view is what its last run says, its history is whole, and nothing is left that a VACUUM would not take."""
    assert spark.sql(f"VERIFY INCREMENTAL VIEW {view}").collect()[0].matches, where
    runs = [r.run for r in spark.sql(f"SHOW REFRESHES IN {view}").collect() if r.kind != "FAILED"]
    assert runs == list(range(len(runs)))[::-1], where
    spark.sql(f"VACUUM INCREMENTAL VIEW {view} RETAIN 0 HOURS")
    root = location_of(spark, view)
    assert unneeded(root) == set(), where


def unneeded(root: Path) -> set[str]:
    """What lies below a view's location and belongs to no run: files of data, of the log and of definitions, marks,
    half-written files, empty folders."""
    found = {p for p in root.rglob("*") if not p.name.endswith(".crc")}
    found -= {p for p in found if "_delta_log" in p.parts and p.suffix != ".tmp"}  # the rest there is Delta's
    log = root / "_tidemill" / "log"
    entries = {p.name: p.read_text() for p in log.glob("*.json")}
    named = "".join(entries.values())
    definitions = {str(json.loads(text).get("definition", 0)) for name, text in entries.items() if "-" not in name}
    left = {p for p in found if p.suffix in {".parquet", ".bin"} and p.name not in named}
    left |= {p for p in found if p.parent == log and "-" in p.name and p.name not in named}
    left |= {p for p in found if p.parent.name == "definition" and p.stem.lstrip("0") not in definitions}
    left |= {p for p in found if p.suffix == ".tmp" or (p.is_file() and "writers" in p.parts)}
    left |= {p for p in found if p.is_dir() and p.parent.name != "_tidemill" and not any(p.iterdir())}
    return {str(p.relative_to(root)) for p in left}
