"""What a tick of the scheduler costs over a thousand views of which none, one or a tenth is due, and how far views are
behind the inserts of another process.

`--only tick`, `logs`, `follow`: one part. `--scale 0.1` takes a tenth of the views, and of the minutes.
"""

from __future__ import annotations

import os
import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import Row, SparkSession
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks import clock_writer
from benchmarks.data import BUILD
from benchmarks.harness import ROUNDS, SCALE, fresh_session
from tests.conftest import location_of
from tests.faults.processes import started
from tests.log_of_a_year import grow
from tidemill.driver.attach import jvm_of
from tidemill.runtime.scheduler import service
from tidemill.runtime.scheduler.clock import RealClock, SimulatedClock
from tidemill.runtime.scheduler.service import Service, Span
from tidemill.runtime.scheduler.ticks import Ticks

FOLDER = BUILD / "bench" / "clock" / str(os.getpid())
VIEWS = max(20, round(1_000 * SCALE))
LOGGED = max(10, VIEWS // 10)
"""Views whose logs are long."""
LENGTHS = (10, 1_000)
"""Entries of a log."""
FOLLOWED = max(60.0, 600.0 * SCALE)
"""Seconds for which views follow another process."""
MOST_BEHIND = 15.0
START = 1_774_656_000.0
MINUTE, HOUR = 60.0, 3600.0
BY_G = "SELECT g, sum(v + {n}) AS s, count(*) AS n FROM {t} GROUP BY g"
AT_ONCE = 4
"""Threads that create views."""
IDLE = 20
"""Ticks with nothing due, of which the figure is the mean: the catalog is not listed at each."""


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    session = fresh_session(FOLDER, {"spark.sql.session.timeZone": "UTC"})
    yield session
    session.stop()
    shutil.rmtree(FOLDER)


@dataclass
class Scheduler:
    """The scheduler of a service that has begun just now, and its clock."""

    spark: SparkSession
    ticks: Ticks
    clock: SimulatedClock

    @staticmethod
    def begun(spark: SparkSession, start: float = START) -> Scheduler:
        clock = SimulatedClock(start)
        return Scheduler(
            spark, service._ticks(jvm_of(spark).clone({}), None, clock, lambda: False, lasting=True), clock
        )

    def measured(self, rows: int, times: int, before: Callable[[], object] = lambda: None) -> dict[str, float]:
        """The mean of what a tick takes in which so many views are run: wall and CPU milliseconds, and Spark jobs.

        `before`: makes them due, each time. CPU is that of this process and of its JVM, jobs included.
        """
        scheduler = self.spark.sparkContext._jsc.sc().dagScheduler()
        wall, cpu, jobs = 0.0, 0.0, 0
        for _ in range(times):
            before()
            jobs_before, cpu_before, began = int(scheduler.numTotalJobs()), cpu_seconds(), time.perf_counter()
            found = self.ticks.tick()
            wall += time.perf_counter() - began
            cpu += cpu_seconds() - cpu_before
            jobs += int(scheduler.numTotalJobs()) - jobs_before
            assert len(found) == rows
            assert {row.kind for _, row in found} <= {"INCREMENTAL", "NO_DATA"}
        return {"wall_ms": 1000 * wall / times, "cpu_ms": 1000 * cpu / times, "jobs": jobs / times}

    def on(self, seconds: float) -> None:
        """Sets the clock to the next full so many seconds."""
        self.clock.wait((self.clock.now() // seconds + 1) * seconds, Event())


def cpu_seconds() -> float:
    """CPU time so far of this process and of its JVM."""
    gateway = SparkContext._gateway
    assert gateway is not None
    fields = Path(f"/proc/{gateway.proc.pid}/stat").read_text().rpartition(")")[2].split()
    return time.process_time() + (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def created(spark: SparkSession, database: str, schedules: list[str]) -> None:
    """A table and so many views over it, each with another query."""
    spark.sql(f"CREATE DATABASE {database}")
    spark.sql(f"CREATE TABLE {database}.t (g BIGINT, v BIGINT) USING delta")
    spark.sql(f"INSERT INTO {database}.t SELECT id % 10, id FROM range(1000)")

    def create(n: int) -> None:
        query = BY_G.format(n=n, t=f"{database}.t")
        spark.sql(f"CREATE INCREMENTAL VIEW {database}.v{n} SCHEDULE ({schedules[n]}) AS {query}")

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(create, range(len(schedules))))


def dropped(spark: SparkSession, database: str, views: int) -> None:
    for n in range(views):
        spark.sql(f"DROP INCREMENTAL VIEW {database}.v{n}")
    spark.sql(f"DROP DATABASE {database} CASCADE")


def test_logs(benchmark: BenchmarkFixture, spark: SparkSession) -> None:
    """Views with logs of ten entries, then of a thousand."""
    tenth = LOGGED // 10
    created(spark, "logged", [*["EVERY 1 HOURS"] * tenth, *["EVERY 30 DAYS"] * (LOGGED - tenth)])
    spark.sql("INSERT INTO logged.t VALUES (1, 1)")
    spark.sql("REFRESH INCREMENTAL VIEWS IN logged")
    shown: list[dict[str, object]] = []

    def of(entries: int) -> None:
        for n in range(LOGGED):
            grow(str(location_of(spark, f"logged.v{n}")), entries)
        # By another clock, which has dealt with nothing yet.
        scheduler = Scheduler.begun(spark, START + entries * 24 * HOUR)

        def each_hour() -> None:
            spark.sql("INSERT INTO logged.t VALUES (1, 1)")
            scheduler.on(HOUR)

        for what, due, times, before in (
            ("the service begins", 0, 1, lambda: None),
            ("nothing is due", 0, IDLE, lambda: None),
            ("compiled", tenth, 1, each_hour),
            ("a tenth is due, a row came", tenth, ROUNDS, each_hour),
            ("a tenth is due, nothing came", tenth, ROUNDS, lambda: scheduler.on(HOUR)),
        ):
            figures = scheduler.measured(due, times, before)
            shown.append({"what": what, "views": LOGGED, "entries": entries, "due": due, **figures})

    of(LENGTHS[0])
    benchmark.pedantic(of, (LENGTHS[1],), rounds=1)
    for n in (0, LOGGED - 1):
        assert spark.sql(f"VERIFY INCREMENTAL VIEW logged.v{n}").collect()[0].matches
    dropped(spark, "logged", LOGGED)
    benchmark.extra_info.update(part="logs", rows=[row for row in shown if row["what"] != "compiled"])


def test_tick(benchmark: BenchmarkFixture, spark: SparkSession) -> None:
    """All views over one table: first all wait for changes, then one is due each minute, a tenth of them each hour."""
    tenth = VIEWS // 10
    began = time.perf_counter()
    created(spark, "many", ["ON CHANGE"] * VIEWS)
    shown: list[dict[str, object]] = []
    created_ms = 1000 * (time.perf_counter() - began) / VIEWS
    benchmark.extra_info.update(part="tick", rows=shown, created_ms=created_ms)
    scheduler = Scheduler.begun(spark)

    def come() -> None:
        spark.sql("INSERT INTO many.t VALUES (1, 1)")

    def note(what: str, due: int, found: dict[str, float]) -> None:
        shown.append({"what": what, "views": VIEWS, "due": due, **found})

    def each_minute() -> None:
        come()
        scheduler.on(MINUTE)

    def each_hour() -> None:
        come()
        scheduler.on(HOUR)

    note("the service begins", 0, scheduler.measured(0, 1))
    note("all wait for a change, nothing came", 0, scheduler.measured(0, IDLE))
    often = ["EVERY 1 MINUTES", *["EVERY 1 HOURS"] * (tenth - 1)]
    for n, schedule in enumerate([*often, *["EVERY 30 DAYS"] * (VIEWS - tenth)]):
        spark.sql(f"ALTER INCREMENTAL VIEW many.v{n} SET SCHEDULE ({schedule})")
    scheduler.measured(0, 1)  # looks at what was altered
    note("nothing is due", 0, benchmark.pedantic(scheduler.measured, (0, IDLE), rounds=1))
    scheduler.measured(1, 2, each_minute)  # compiled
    note("one is due, a row came", 1, scheduler.measured(1, ROUNDS, each_minute))
    note("one is due, nothing came", 1, scheduler.measured(1, ROUNDS, lambda: scheduler.on(MINUTE)))
    scheduler.measured(tenth, 1, each_hour)
    note("a tenth is due, a row came", tenth, scheduler.measured(tenth, ROUNDS, each_hour))
    note("a tenth is due, nothing came", tenth, scheduler.measured(tenth, ROUNDS, lambda: scheduler.on(HOUR)))
    assert all(f["jobs"] == 0 for f in shown if f["due"] == 0 or "nothing" in str(f["what"]))
    assert all(spark.sql(f"VERIFY INCREMENTAL VIEW many.v{n}").collect()[0].matches for n in (0, tenth - 1, VIEWS - 1))


def test_follow(benchmark: BenchmarkFixture, spark: SparkSession, tmp_path: Path) -> None:
    """Two views follow a table into which another process inserts."""
    path = tmp_path / "inserted"
    spark.sql(f"CREATE TABLE inserted (n BIGINT, g BIGINT) USING delta LOCATION '{path}'")
    spark.sql("INSERT INTO inserted VALUES (0, 0)")
    schedules = {"each_ten_seconds": "EVERY 10 SECONDS", "at_once": "ON CHANGE"}
    for name, schedule in schedules.items():
        query = "SELECT g, count(*) AS n, max(n) AS newest FROM inserted GROUP BY g"
        spark.sql(f"CREATE INCREMENTAL VIEW {name} SCHEDULE ({schedule}) AS {query}")
    following = Service(jvm_of(spark), Span(RealClock(), [(name,) for name in schedules]))
    following.start()

    def inserts() -> None:
        with started(tmp_path, "writer", clock_writer.__name__, str(tmp_path), str(path), str(FOLLOWED)) as writer:
            writer.ended_well(FOLLOWED + 300)

    benchmark.pedantic(inserts, rounds=1)
    came = {int(file.stem): file.stat().st_mtime for file in (path / "_delta_log").glob("*[0-9].json")}
    until = time.monotonic() + 2 * MOST_BEHIND
    shown: list[dict[str, Any]] = []
    for name, schedule in schedules.items():
        while position(newest_run(spark, name)) < max(came):
            assert time.monotonic() < until, f"{name} does not follow"
            time.sleep(0.5)
        runs = [row for row in spark.sql(f"SHOW REFRESHES IN {name}").collect()[::-1] if row.kind != "FAILED"]
        behind = [
            next(ended(row) for row in runs if position(row) >= version) - at
            for version, at in sorted(came.items())
            if version > position(runs[0])
        ]
        assert spark.sql(f"VERIFY INCREMENTAL VIEW {name}").collect()[0].matches
        shown.append(
            {
                "schedule": schedule,
                "seconds": FOLLOWED,
                "inserts": len(behind),
                "runs": len(runs) - 1,
                "median_s": statistics.median(behind),
                "most_s": max(behind),
            }
        )
    following.stop(60.0)
    assert following.failure is None
    benchmark.extra_info.update(part="follow", rows=shown)
    print(*shown, sep="\n")
    assert all(row["most_s"] < MOST_BEHIND for row in shown)


def newest_run(spark: SparkSession, view: str) -> Row:
    return next(row for row in spark.sql(f"SHOW REFRESHES IN {view} LIMIT 5").collect() if row.kind != "FAILED")


def position(run: Row) -> int:
    """The version up to which a run has read its table."""
    (found,) = run.positions.values()
    return int(found)


def ended(run: Row) -> float:
    """When a run was committed, or soon after it (epoch seconds)."""
    return float(run.started_at.timestamp()) + int(run.duration_ms) / 1000
