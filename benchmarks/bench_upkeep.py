"""What a run costs as things grow: a log over a year of runs every five minutes, a source's folder to a million files,
the runs of one session, the views of one session, and the cycles of views that work early.

`--only year`, `listing`, `session`, `views`, `cycles`: one part. None depends on `--scale`.
"""

from __future__ import annotations

import os
import shutil
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.data import BUILD
from benchmarks.harness import fresh_session
from tests.conftest import location_of, newest_entry
from tests.log_of_a_year import grow

FOLDER = BUILD / "bench" / "upkeep"
REPEATED = 5
"""Times that a statement is timed; the figure is the median."""
LINKS = 50_000
"""Names that one file gets: file systems bound them."""
CYCLES = 100
"""Cycles of the views that work early."""
SHOWN_CYCLES = (1, 2, 5, 10, 20, 50, 100)
"""Those that give figures."""
EARLY_VIEWS = {
    "aggregate": "SELECT item, avg(amount) AS a, count(*) AS n FROM sold GROUP BY item",
    "aggregate over a join": """SELECT area, avg(amount * price) AS a, count(*) AS n
                                FROM sold JOIN items ON sold.item = items.item GROUP BY area""",
}
"""Views with early work, by what they are."""


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    session = fresh_session(FOLDER, {})
    yield session
    session.stop()


def wall_ms(spark: SparkSession, statement: str, change: str = "") -> float:
    """The median of a statement's wall milliseconds; before each time, `change`."""
    found = []
    for _ in range(REPEATED):
        if change:
            spark.sql(change)
        started = time.perf_counter()
        spark.sql(statement).collect()
        found.append((time.perf_counter() - started) * 1000)
    return statistics.median(found)


@pytest.mark.parametrize("runs", [1_000, 10_000, 105_120])
def test_year(benchmark: BenchmarkFixture, spark: SparkSession, runs: int) -> None:
    """The run of that number: its log in checkpoints as VACUUM leaves them."""
    spark.sql("CREATE TABLE IF NOT EXISTS events (k INT, v BIGINT) USING delta")
    spark.sql("CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS SELECT k, sum(v) AS s FROM events GROUP BY k")
    spark.sql("INSERT INTO events VALUES (0, 1)")
    spark.sql("REFRESH INCREMENTAL VIEW v")
    grow(str(location_of(spark, "v")), runs, vacuumed=True)
    refresh = "REFRESH INCREMENTAL VIEW v"
    wall_ms(spark, refresh, "INSERT INTO events VALUES (1, 1)")  # compiled
    rows = benchmark.pedantic(wall_ms, (spark, refresh, "INSERT INTO events VALUES (1, 1)"), rounds=1)
    assert spark.sql("VERIFY INCREMENTAL VIEW v").collect()[0].matches
    last = spark.sql("SHOW REFRESHES IN v LIMIT 1").collect()[0]
    assert (last.run, last.kind) == (runs + 2 * REPEATED - 1, "INCREMENTAL")
    benchmark.extra_info.update(
        part="year",
        runs=runs,
        rows_ms=rows,
        nothing_ms=wall_ms(spark, refresh),
        plan_ms=wall_ms(spark, "EXPLAIN INCREMENTAL VIEW v"),
        history_ms=wall_ms(spark, "SHOW REFRESHES IN v LIMIT 10"),
        vacuum_ms=wall_ms(spark, "VACUUM INCREMENTAL VIEW v"),
        jobs=last.jobs,
    )
    spark.sql("DROP INCREMENTAL VIEW v")


@pytest.mark.parametrize("files", [1_000, 10_000, 100_000, 1_000_000])
def test_listing(benchmark: BenchmarkFixture, spark: SparkSession, files: int) -> None:
    """A folder of so many files of one line each, to which one comes."""
    folder = FOLDER / "files"
    shutil.rmtree(folder, ignore_errors=True)
    many_files(folder, files)
    few_tasks = {"spark.sql.files.openCostInBytes": 1, "spark.sql.files.maxPartitionNum": 2}  # for the filling alone
    for name, value in few_tasks.items():
        spark.conf.set(name, value)
    query = f"SELECT length(value) AS n, count(*) AS c FROM text.`{folder}` GROUP BY length(value)"
    spark.sql(f"CREATE INCREMENTAL VIEW l SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {query}")
    for name in few_tasks:
        spark.conf.unset(name)
    log = location_of(spark, "l") / "_tidemill" / "log"
    listed = {path.name for path in log.iterdir()}
    spark.sql("REFRESH INCREMENTAL VIEW l")
    (folder / "one more.txt").write_text("1\n")
    row = benchmark.pedantic(lambda: spark.sql("REFRESH INCREMENTAL VIEW l").collect()[0], rounds=1)
    assert (row.kind, row.rows_in.inserts) == ("INCREMENTAL", 1)
    assert sorted(spark.table("l").collect()) == [(1, 1), (8, files)]
    written = [path for path in log.iterdir() if path.name not in listed]
    nothing = wall_ms(spark, "REFRESH INCREMENTAL VIEW l")
    started = time.perf_counter()
    assert len(spark.read.text(str(folder)).inputFiles()) == files + 1
    benchmark.extra_info.update(
        part="listing",
        files=files,
        rows_ms=row.duration_ms,
        cpu_ms=row.cpu_ms,
        jobs=row.jobs,
        nothing_ms=nothing,
        spark_ms=(time.perf_counter() - started) * 1000,
        log_bytes=sum(path.stat().st_size for path in written),
    )
    spark.sql("DROP INCREMENTAL VIEW l")
    shutil.rmtree(folder)


def test_session(benchmark: BenchmarkFixture, spark: SparkSession) -> None:
    """500 refreshes of one view in one session, a row for each."""
    spark.sql("CREATE TABLE ticks (k BIGINT, v BIGINT) USING delta")
    spark.sql("INSERT INTO ticks SELECT id % 100, id FROM range(100000)")
    spark.sql("CREATE INCREMENTAL VIEW s AS SELECT k, sum(v) AS s, count(*) AS n FROM ticks GROUP BY k")
    folder = location_of(spark, "s")
    shown: list[dict[str, float]] = []

    def hundred() -> None:
        spent = []
        for n in range(100):
            spark.sql(f"INSERT INTO ticks VALUES ({n}, 1)")
            spent.append(refresh_ms(spark, "s"))
        spark.sql("VACUUM INCREMENTAL VIEW s RETAIN 0 HOURS")
        files = sum(path.is_file() for path in folder.rglob("*"))
        shown.append({"rows_ms": statistics.median(spent), "files": files, **memory(spark)})

    benchmark.pedantic(hundred, rounds=5)
    assert spark.sql("VERIFY INCREMENTAL VIEW s").collect()[0].matches
    benchmark.extra_info.update(
        part="session", rows=[{"refreshes": 100 * n, **row} for n, row in enumerate(shown, start=1)]
    )
    spark.sql("DROP INCREMENTAL VIEW s")


def test_views(benchmark: BenchmarkFixture, spark: SparkSession) -> None:
    """200 views in one session, over one table."""
    spark.sql("CREATE DATABASE many")
    spark.sql("CREATE TABLE many.t (k BIGINT, g BIGINT, v BIGINT) USING delta")
    spark.sql("INSERT INTO many.t SELECT id, id % 100, id FROM range(100000)")
    shown: list[dict[str, float]] = []

    def fifty() -> None:
        first = 50 * len(shown)
        for n in range(first, first + 50):
            query = f"SELECT g, sum(v + {n}) AS s, count(*) AS n FROM many.t GROUP BY g"
            spark.sql(f"CREATE INCREMENTAL VIEW many.v{n} AS {query}")
        spark.sql("INSERT INTO many.t VALUES (1, 1, 1)")
        all_ms = refresh_ms(spark, "many", "VIEWS IN")
        spent = []
        for _ in range(20):
            spark.sql("INSERT INTO many.t VALUES (1, 1, 1)")
            spent.append(refresh_ms(spark, "many.v0"))
        nothing = wall_ms(spark, "REFRESH INCREMENTAL VIEW many.v0")
        views = first + 50
        row = {"views": views, "all_ms": all_ms / views, "rows_ms": statistics.median(spent), "nothing_ms": nothing}
        shown.append({**row, **memory(spark)})

    benchmark.pedantic(fifty, rounds=4)
    assert all(spark.sql(f"VERIFY INCREMENTAL VIEW many.v{n}").collect()[0].matches for n in (0, 199))
    benchmark.extra_info.update(part="views", rows=shown)


def test_cycles(benchmark: BenchmarkFixture, spark: SparkSession) -> None:
    """100 cycles of views that work early at a cheap point: a hundred rows come before each point, and one goes."""
    spark.sql("CREATE TABLE items (item BIGINT, area BIGINT, price BIGINT) USING delta")
    spark.sql("CREATE TABLE sold (item BIGINT, amount BIGINT) USING delta")
    spark.sql("INSERT INTO items SELECT id, id % 1000, id % 97 FROM range(5000)")
    spark.sql("INSERT INTO sold SELECT id * 7 % 5000, id FROM range(100000)")
    names = {f"early{n}": what for n, what in enumerate(EARLY_VIEWS)}
    for name, what in names.items():
        schedule = "SCHEDULE (AT '12:00' COST 0.2 NO OUTPUT, AT '24:00' COST 1)"
        spark.sql(f"CREATE INCREMENTAL VIEW {name} {schedule} REFRESH POLICY STRICT AS {EARLY_VIEWS[what]}")
    more = "INSERT INTO items VALUES ({0}, {1}, 1), ({1}, {1}, 2)"
    shown: list[dict[str, Any]] = []
    worked: dict[str, list[bool]] = {name: [] for name in names}
    spent: dict[tuple[str, int], list[float]] = {(name, point): [] for name in names for point in (1, 2)}

    def cycle(number: int) -> None:
        for point in (1, 2):
            first = 100_000 + (2 * number + point) * 100
            spark.sql(f"INSERT INTO sold SELECT id * 7 % 5000, id FROM range({first}, {first + 100})")
            spark.sql(f"DELETE FROM sold WHERE amount = {number}" if point == 1 else more.format(first, number))
            for name in names:
                row = spark.sql(f"REFRESH INCREMENTAL VIEW {name} AT {point}").collect()[0]
                assert row.kind == ("PARTIAL" if point == 1 else "INCREMENTAL")
                spent[name, point].append(row.cpu_ms)
                if point == 1:
                    states = newest_entry(location_of(spark, name))["states"].values()
                    worked[name].append(any(state["run"] == row.run for state in states))
        if number not in SHOWN_CYCLES:
            return
        for name, what in names.items():
            states = newest_entry(location_of(spark, name))["states"].values()
            pieces = [state["pieces"] for state in states]
            files = [file for each in pieces for piece in each for file in piece["files"]]
            shown.append(
                {
                    "view": what,
                    "cycle": number,
                    "worked": sum(worked[name]),
                    "states": len(pieces),
                    "pieces": max(map(len, pieces), default=0),
                    "files": len(files),
                    "kib": sum(file["bytes"] for file in files) / 1024,
                    "early_ms": statistics.median(spent[name, 1]),
                    "due_ms": statistics.median(spent[name, 2]),
                }
            )
        for some in spent.values():
            some.clear()

    def cycles() -> None:
        for number in range(1, CYCLES + 1):
            cycle(number)

    benchmark.pedantic(cycles, rounds=1)
    for name in names:
        assert spark.sql(f"VERIFY INCREMENTAL VIEW {name}").collect()[0].matches
    benchmark.extra_info.update(part="cycles", rows=sorted(shown, key=lambda row: row["view"]))


def refresh_ms(spark: SparkSession, name: str, what: str = "VIEW") -> float:
    """The wall milliseconds of one refresh."""
    started = time.perf_counter()
    spark.sql(f"REFRESH INCREMENTAL {what} {name}").collect()
    return (time.perf_counter() - started) * 1000


def memory(spark: SparkSession) -> dict[str, float]:
    """Mebibytes: what the JVM keeps on its heap after a collection, and what the planner's process has."""
    jvm = spark._jvm
    assert jvm is not None
    for _ in range(2):  # what the first one finds out to be free, Spark's cleaner lets go of
        jvm.java.lang.System.gc()
        time.sleep(1)
    heap = jvm.java.lang.management.ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {"heap_mib": heap / 2**20, "python_mib": pages * os.sysconf("SC_PAGE_SIZE") / 2**20}


def many_files(folder: Path, count: int) -> None:
    """Names for files of one line; a new file for every `LINKS` names."""
    folder.mkdir(parents=True)
    for n in range(count):
        if n % LINKS == 0:
            source = folder / f"part-{n:07d}.txt"
            source.write_text("one line\n")
        else:
            os.link(source, folder / f"part-{n:07d}.txt")
