"""TPC-H under change F and change R: first filling against CTAS, refresh against recomputing.

Every figure is executor CPU time (`cpu_ms`) with the wall time beside it, in `extra_info` of pytest-benchmark's JSON.
After each refresh VERIFY must agree.  All views live in one session over the same Delta tables; the views' refresh and
the recomputing of their queries alternate, so that both meet the same caches.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pytest_benchmark.fixture import BenchmarkFixture

import tidemill
from benchmarks import changes
from benchmarks.data import BUILD, load_delta, tpch_files, tpch_numbers, tpch_query
from tidemill.calibrate.measure import Measure

SCALE = float(os.environ.get("TIDEMILL_BENCH_SCALE", "0.1"))
ROUNDS = int(os.environ.get("TIDEMILL_BENCH_ROUNDS", "1"))
QUERIES = tuple(map(int, filter(None, os.environ.get("TIDEMILL_BENCH_QUERIES", "").split(",")))) or tpch_numbers()
FOLDER = BUILD / "bench" / "tpch"
WARM_UP = 2  # runs of each kind before the first figure: the JVM compiles what both sides share

CHANGES: dict[str, Callable[[int], tuple[str, ...]]] = {"F": changes.change_f, "R": changes.change_r}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    shutil.rmtree(FOLDER, ignore_errors=True)
    builder = (
        SparkSession.builder.appName("tidemill bench")
        .master("local[2]")
        .config("spark.driver.memory", "4g")
        .config("spark.log.level", "ERROR")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.warehouse.dir", str(FOLDER / "warehouse"))
        .config("spark.sql.shuffle.partitions", "8")
        .config("spark.databricks.delta.snapshotPartitions", "2")
    )
    session = tidemill.configure(builder, formats=["delta"]).getOrCreate()
    load_delta(session, tpch_files(SCALE))
    for _ in range(WARM_UP):
        for number in QUERIES:
            _recompute(session, number)
    yield session
    session.stop()


@pytest.fixture(scope="session", params=[f"{kind}{n}" for kind in CHANGES for n in range(1, ROUNDS + 1)])
def change(request: pytest.FixtureRequest, spark: SparkSession) -> str:
    """One round of change, applied to all tables before the first refresh that meets it."""
    name: str = request.param
    changes.apply(spark, CHANGES[name[0]](int(name[1:]) + 100 * list(CHANGES).index(name[0])))
    return name


@pytest.fixture(params=QUERIES, ids=lambda number: f"q{number}")
def number(request: pytest.FixtureRequest) -> int:
    query: int = request.param
    return query


def test_fill(benchmark: BenchmarkFixture, spark: SparkSession, number: int) -> None:
    """CREATE INCREMENTAL VIEW, which fills the view and keeps its states, against CREATE TABLE AS SELECT."""
    query = tpch_query(number)
    with Measure(spark) as ctas:
        spark.sql(f"CREATE TABLE ctas_q{number} USING parquet AS {query}")
    create = f"CREATE INCREMENTAL VIEW q{number} SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {query}"
    benchmark.pedantic(spark.sql, args=(create,), rounds=1)
    run = spark.sql(f"SHOW REFRESHES IN q{number}").collect()[0]
    _note(benchmark, number, "fill", run, ctas.cpu_ms, ctas.wall_ms)
    _verify(spark, number)


def test_refresh(benchmark: BenchmarkFixture, spark: SparkSession, change: str, number: int) -> None:
    """REFRESH after one round of change against running the query again and writing its result."""
    cpu, wall = _recompute(spark, number)
    refresh = f"REFRESH INCREMENTAL VIEW q{number}"
    run: Row = benchmark.pedantic(lambda: spark.sql(refresh).collect()[0], rounds=1)
    _note(benchmark, number, change, run, cpu, wall)
    assert run.kind == "INCREMENTAL"
    _verify(spark, number)


def _recompute(spark: SparkSession, number: int) -> tuple[float, float]:
    """CPU and wall milliseconds of the query with its result written."""
    with Measure(spark) as measured:
        spark.sql(tpch_query(number)).write.mode("overwrite").parquet(str(FOLDER / "recomputed" / f"q{number}"))
    return measured.cpu_ms, measured.wall_ms


def _note(benchmark: BenchmarkFixture, number: int, change: str, run: Row, cpu: float, wall: float) -> None:
    """Put the figures of a run, and of what it is compared with, into the JSON."""
    figures: dict[str, Any] = {
        "query": number,
        "change": change,
        "scale": SCALE,
        "kind": run.kind,
        "methods": list(run.methods or ()),
        "jobs": run.jobs,
        "cpu_ms": run.cpu_ms,
        "wall_ms": run.duration_ms,
        "state_bytes": run.state_bytes,
        "rows_in": run.rows_in.asDict() if run.rows_in else None,
        "rows_out": run.rows_out.asDict() if run.rows_out else None,
        "full_cpu_ms": cpu,
        "full_wall_ms": wall,
        "data_bytes": _bytes(tpch_files(SCALE)),
    }
    benchmark.extra_info.update(figures)


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def _verify(spark: SparkSession, number: int) -> None:
    row = spark.sql(f"VERIFY INCREMENTAL VIEW q{number}").collect()[0]
    assert row.matches, f"q{number}: {row.missing} rows missing, {row.unexpected} unexpected"
