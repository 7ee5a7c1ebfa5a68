"""Views of a benchmark's queries under rounds of change: first filling against CTAS, refresh against recomputing.

Every figure is executor CPU time (`cpu_ms`) with the wall time beside it, in `extra_info` of pytest-benchmark's JSON.
A first filling stands beside CREATE TABLE AS SELECT and a plain write of each kept state. After each refresh VERIFY
must agree. All views live in one session over the same Delta tables; the views' refresh and the recomputing of their
queries alternate, so that both meet the same caches.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pytest_benchmark.fixture import BenchmarkFixture

import tidemill
from benchmarks import changes
from benchmarks.data import BUILD
from tidemill.calibrate.measure import Measure

SCALE = float(os.environ.get("TIDEMILL_BENCH_SCALE", "0.1"))
ROUNDS = int(os.environ.get("TIDEMILL_BENCH_ROUNDS", "1"))
POLICY = os.environ.get("TIDEMILL_BENCH_POLICY", "STRICT")
WARM_UP = 2 if SCALE < 10 else 1
"""Runs of each query before the first figure: the JVM compiles what both sides share; one long one is enough. What a
refresh alone does is compiled in a round of each kind of change that is not measured, and so is a first filling."""


@dataclass(frozen=True)
class Suite:
    """A benchmark: its data, its queries by number, and rounds of change by kind, each from a seed."""

    name: str
    files: Callable[[float], Path]
    load: Callable[[SparkSession, Path], None]
    queries: Mapping[int, str]
    changes: Mapping[str, Callable[[SparkSession, int], Sequence[str]]]
    confs: Mapping[str, str] = field(default_factory=dict)

    @property
    def chosen(self) -> tuple[int, ...]:
        numbers = tuple(map(int, filter(None, os.environ.get("TIDEMILL_BENCH_QUERIES", "").split(","))))
        return numbers or tuple(self.queries)

    @property
    def folder(self) -> Path:
        return BUILD / "bench" / self.name

    @property
    def rounds(self) -> tuple[str, ...]:
        """Those of each kind; the one before the first warms up and gives no figures."""
        return tuple(f"{kind}{n}" for kind in self.changes for n in range(ROUNDS + 1))


def fresh_session(folder: Path, confs: Mapping[str, str]) -> SparkSession:
    """A session with Tidemill and Delta on two task slots, whose warehouse is an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    builder = (
        SparkSession.builder.appName("tidemill bench")
        .master("local[2]")
        .config("spark.driver.memory", "4g")
        .config("spark.log.level", "ERROR")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.ui.retainedExecutions", "50")  # texts of large plans; Spark keeps 1,000
        .config("spark.ui.retainedJobs", "10000")  # what is measured at once must still be known: a pipeline has many
        .config("spark.ui.retainedStages", "20000")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.sql.shuffle.partitions", "8")
        .config("spark.databricks.delta.snapshotPartitions", "2")
    )
    session = tidemill.configure(builder, formats=["delta"]).getOrCreate()
    for name, value in confs.items():
        session.conf.set(name, value)
    return session


class ViewBench:
    """What is measured; a benchmark's class inherits it and names its suite."""

    suite: ClassVar[Suite]

    @pytest.fixture(scope="class")
    @classmethod
    def spark(cls) -> Iterator[SparkSession]:
        suite = cls.suite
        session = fresh_session(suite.folder, suite.confs)
        suite.load(session, suite.files(SCALE))
        for _ in range(WARM_UP):
            for number in suite.chosen:
                cls.recompute(session, number)
        yield session
        session.stop()

    @pytest.fixture(scope="class")
    @classmethod
    def change(cls, request: pytest.FixtureRequest, spark: SparkSession) -> str:
        """One round of change, applied to all tables before the first refresh that meets it."""
        name: str = request.param
        there = {row.viewName for row in spark.sql("SHOW INCREMENTAL VIEWS").collect()}
        for number in cls.suite.chosen:
            if f"q{number}" not in there:  # the filling was not selected
                spark.sql(cls.creation(number))
        kinds = cls.suite.changes
        changes.apply(spark, kinds[name[0]](spark, int(name[1:]) + 100 * [*kinds].index(name[0])))
        settle(spark)
        return name

    def test_fill(self, benchmark: BenchmarkFixture, spark: SparkSession, number: int) -> None:
        """CREATE INCREMENTAL VIEW, against CREATE TABLE AS SELECT and a plain write of each state that is kept."""
        query, create = self.suite.queries[number], self.creation(number)
        spark.sql(create)  # what filling alone does is compiled in one that is not measured
        spark.sql(f"DROP INCREMENTAL VIEW q{number}")
        with Measure(spark) as ctas:
            result(spark, query).write.format("parquet").saveAsTable(f"ctas_q{number}")
        benchmark.pedantic(spark.sql, args=(create,), rounds=1)
        with Measure(spark) as writes:
            for state in (self.suite.folder / "warehouse" / f"q{number}" / "_tidemill" / "state").glob("*/*"):
                rows = spark.read.parquet(str(state)).write.mode("overwrite")
                rows.parquet(str(self.suite.folder / "recomputed" / "state"))
        run = spark.sql(f"SHOW REFRESHES IN q{number}").collect()[0]
        self.verify(spark, number)
        self.note(benchmark, spark, number, "fill", run, ctas.cpu_ms + writes.cpu_ms, ctas.wall_ms + writes.wall_ms)

    def test_refresh(self, benchmark: BenchmarkFixture, spark: SparkSession, change: str, number: int) -> None:
        """REFRESH after one round of change against running the query again and writing its result."""
        refresh = f"REFRESH INCREMENTAL VIEW q{number}"
        if int(change[1:]) == 0:
            benchmark.pedantic(lambda: spark.sql(refresh), rounds=1)
            self.verify(spark, number)
            return
        cpu, wall = self.recompute(spark, number)
        run: Row = benchmark.pedantic(lambda: spark.sql(refresh).collect()[0], rounds=1)
        assert run.kind in {"INCREMENTAL", "NO_DATA"} or POLICY == "AUTO"
        self.verify(spark, number)
        self.note(benchmark, spark, number, change, run, cpu, wall)

    @classmethod
    def creation(cls, number: int) -> str:
        """The statement that makes a query's view."""
        clauses = f"SCHEDULE (ON DEMAND) REFRESH POLICY {POLICY}"
        return f"CREATE INCREMENTAL VIEW q{number} {clauses} AS {cls.suite.queries[number]}"

    @classmethod
    def recompute(cls, spark: SparkSession, number: int) -> tuple[float, float]:
        """CPU and wall milliseconds of the query with its result written."""
        query = cls.suite.queries[number]
        with Measure(spark) as measured:
            written = result(spark, query).write.mode("overwrite")
            written.parquet(str(cls.suite.folder / "recomputed" / f"q{number}"))
        return measured.cpu_ms, measured.wall_ms

    def note(
        self,
        benchmark: BenchmarkFixture,
        spark: SparkSession,
        number: int,
        change: str,
        run: Row,
        cpu: float,
        wall: float,
    ) -> None:
        """Put the figures of a run that was verified, and of what it is compared with, into the JSON."""
        figures: dict[str, Any] = {
            "bench": self.suite.name,
            "query": number,
            "change": change,
            "scale": SCALE,
            "policy": POLICY,
            "kind": run.kind,
            "methods": list(run.methods or ()),
            "jobs": run.jobs,
            "cpu_ms": run.cpu_ms,
            "wall_ms": run.duration_ms,
            "parts": self.parts(spark, number),
            "state_bytes": run.state_bytes,
            "rows_in": run.rows_in.asDict() if run.rows_in else None,
            "rows_out": run.rows_out.asDict() if run.rows_out else None,
            "full_cpu_ms": cpu,
            "full_wall_ms": wall,
            "data_bytes": sum(path.stat().st_size for path in self.suite.files(SCALE).iterdir()),
        }
        benchmark.extra_info.update(figures)

    @staticmethod
    def parts(spark: SparkSession, number: int) -> dict[str, int]:
        """Wall milliseconds of the view's last run by part."""
        document = json.loads(spark.sql(f"EXPLAIN INCREMENTAL JSON VIEW q{number}").collect()[0].plan)
        return dict((document["last_run"] or {}).get("wall_ms") or {})

    def verify(self, spark: SparkSession, number: int) -> None:
        row = spark.sql(f"VERIFY INCREMENTAL VIEW q{number}").collect()[0]
        assert row.matches, f"q{number}: {row.missing} rows missing, {row.unexpected} unexpected"


def settle(spark: SparkSession) -> None:
    """Has Delta read what changed in the logs of all tables of the database, which is no part of what is measured: else
    the first query that meets a change would pay for it, and the second one, which is compared with it, would not."""
    views = {row.viewName for row in spark.sql("SHOW INCREMENTAL VIEWS").collect()}
    for table in spark.catalog.listTables():
        if not table.isTemporary and table.name not in views:
            spark.sql(f"SELECT count(*) FROM `{table.name}`").collect()


def result(spark: SparkSession, query: str) -> DataFrame:
    """A query's rows under names that can be written: a query may give one name to two columns."""
    rows = spark.sql(query)
    return rows.toDF(*(f"c{i}" for i, _ in enumerate(rows.columns)))


def parametrized(metafunc: pytest.Metafunc) -> None:
    """What `pytest_generate_tests` of a benchmark's module is: one test per round and query."""
    if metafunc.cls is not None and issubclass(metafunc.cls, ViewBench):
        suite = metafunc.cls.suite
        if "change" in metafunc.fixturenames:
            metafunc.parametrize("change", suite.rounds, indirect=True, scope="class")
        metafunc.parametrize("number", suite.chosen, ids=[f"q{n}" for n in suite.chosen])
