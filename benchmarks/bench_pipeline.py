"""A pipeline of views over views (`pipeline.sql`), refreshed by one statement, against making all of its tables anew.

The first batch fills it. The second is not measured: it compiles the code of both sides. Each later one is met by plain
Spark first, which makes all tables anew, one after the other; then by REFRESH INCREMENTAL VIEWS, in turn one view at a
time and several side by side. After each refresh VERIFY must agree for every view. CPU, jobs and rows read are those of
all jobs of the statements, counted in the same way for both.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.data import BUILD
from benchmarks.harness import ROUNDS, SCALE, fresh_session
from benchmarks.pipeline import FIRST_DATABASES, Data, View, views
from tidemill.calibrate.measure import Measure, Measured

POLICY = os.environ.get("TIDEMILL_BENCH_POLICY", "AUTO").replace("STRICT", "INCREMENTAL")
FORMATS = ("delta", "parquet")
SIDE_BY_SIDE = 4
COSTS = ("estimated_cost", "measured_cost", "cpu_ms", "duration_ms", "jobs", "rows_read")
SHOWN = ("kind", "reason", "methods", *COSTS)
"""The columns of REFRESH that are noted of each view."""
CONFS = {"spark.sql.session.timeZone": "UTC"}


@pytest.fixture(scope="module", params=FORMATS)
def pipeline(request: pytest.FixtureRequest) -> Iterator[tuple[SparkSession, Data]]:
    """The first batch, and all views over it; results in the format of the parameter, sources as Delta."""
    session = fresh_session(BUILD / "bench" / "pipeline", CONFS)
    data = Data(SCALE, results=request.param)
    for database in FIRST_DATABASES:
        session.sql(f"CREATE DATABASE {database}")
    data.load(session)
    made_anew(session, data)
    yield session, data
    session.stop()


def made_anew(spark: SparkSession, data: Data) -> dict[str, Measured]:
    """Makes all tables anew with plain Spark; what each took."""
    spark.sql("USE plain")
    found: dict[str, Measured] = {}
    for view in views():
        with Measure(spark) as found[view.name]:
            if data.results == "delta":
                spark.sql(f"CREATE OR REPLACE TABLE {view.name} USING delta AS {view.query}")
            else:
                spark.sql(f"DROP TABLE IF EXISTS {view.name}")
                spark.sql(f"CREATE TABLE {view.name} USING parquet AS {view.query}")
    return found


def test_fill(benchmark: BenchmarkFixture, pipeline: tuple[SparkSession, Data]) -> None:
    spark, data = pipeline
    plain = made_anew(spark, data)
    spark.sql("USE views")

    def create() -> None:
        for view in views():
            clauses = f"USING {data.results} REFRESH POLICY {POLICY}"
            spark.sql(f"CREATE INCREMENTAL VIEW {view.name} {clauses} AS {view.query}")

    with Measure(spark) as filled:
        benchmark.pedantic(create, rounds=1)
    note(benchmark, data, 1, 1, plain, filled, [])


@pytest.mark.parametrize("batch", range(2, 3 + 2 * ROUNDS))
def test_batch(benchmark: BenchmarkFixture, pipeline: tuple[SparkSession, Data], batch: int) -> None:
    spark, data = pipeline
    data.apply(spark, batch)
    plain = made_anew(spark, data)
    spark.sql("USE views")
    most = 1 if batch % 2 else SIDE_BY_SIDE
    spark.conf.set("spark.tidemill.refresh.sideBySide", most)
    rows: list[dict[str, object]] = []

    def refresh() -> None:
        rows.extend(row.asDict(recursive=True) for row in spark.sql("REFRESH INCREMENTAL VIEWS").collect())

    with Measure(spark) as refreshed:
        benchmark.pedantic(refresh, rounds=1)
    for view in views():
        verify(spark, view)
    if batch > 2:
        note(benchmark, data, batch, most, plain, refreshed, rows)


def verify(spark: SparkSession, view: View) -> None:
    row = spark.sql(f"VERIFY INCREMENTAL VIEW {view.name}").collect()[0]
    assert row.matches, f"{view.name}: {row.missing} rows missing, {row.unexpected} unexpected"


def note(
    benchmark: BenchmarkFixture,
    data: Data,
    batch: int,
    most: int,
    plain: dict[str, Measured],
    refreshed: Measured,
    rows: list[dict[str, object]],
) -> None:
    """Puts the figures into the JSON: of both sides in all, and of each view."""
    layers = {view.name: view.layer for view in views()}
    of_views = []
    for row in rows:
        name = str(row["view"]).rsplit(".", 1)[1]
        own = {key: row.get(key) for key in SHOWN}
        full = plain[name]
        of_views.append(
            {"view": name, "layer": layers[name], **own, "full_cpu_ms": full.cpu_ms, "full_rows_read": full.rows_read}
        )
    benchmark.extra_info.update(
        bench="pipeline",
        scale=data.scale,
        results=data.results,
        policy=POLICY,
        batch=batch,
        side_by_side=most,
        cpu_ms=refreshed.cpu_ms,
        wall_ms=refreshed.wall_ms,
        jobs=refreshed.jobs,
        rows_read=refreshed.rows_read,
        full_cpu_ms=sum(one.cpu_ms for one in plain.values()),
        full_wall_ms=sum(one.wall_ms for one in plain.values()),
        full_jobs=sum(one.jobs for one in plain.values()),
        full_rows_read=sum(one.rows_read for one in plain.values()),
        views=of_views,
    )
