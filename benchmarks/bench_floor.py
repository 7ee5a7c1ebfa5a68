"""What a refresh costs at least: changes of one row, on tables of growing size, against the same work by hand.

`--rows 100000,1000000`: sizes of the tables, times `--scale`. `--only "join and parquet"`: a part of it. By hand stands
for the statements that a person would write (benchmarks/floor.py): they read the change feed of the table, and keep a
Delta table by INSERT or MERGE. Both sides meet every change, in turn; the first ones compile their code.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.data import BUILD
from benchmarks.floor import SHAPES, Base
from benchmarks.harness import ROUNDS, SCALE, fresh_session
from tidemill.calibrate.measure import Measure

SIZES = (100_000, 1_000_000, 10_000_000)
ROWS = tuple(int(n) for n in os.environ.get("TIDEMILL_BENCH_ROWS", "").split(",") if n) or SIZES
FORMATS = ("parquet", "delta")
WARM = 8
"""Changes of each view before the first that is measured."""
IDLE = 11
"""Refreshes with nothing due, of which the last two thirds are measured."""


@pytest.fixture(scope="module", params=ROWS)
def base(request: pytest.FixtureRequest) -> Iterator[tuple[SparkSession, Base]]:
    spark = fresh_session(BUILD / "bench" / "floor", {"spark.sql.session.timeZone": "UTC"})
    made = Base(spark, max(2_000, int(request.param * SCALE)))
    made.load()
    yield spark, made
    spark.stop()


@pytest.mark.parametrize("results", FORMATS)
@pytest.mark.parametrize("name", SHAPES)
def test_floor(benchmark: BenchmarkFixture, base: tuple[SparkSession, Base], name: str, results: str) -> None:
    spark, made = base
    shape = SHAPES[name]
    view = f"{name.replace(' ', '_')}_{results}"
    spark.sql(f"CREATE INCREMENTAL VIEW {view} USING {results} REFRESH POLICY INCREMENTAL AS {shape.query}")
    made.fill_by_hand(f"{view}_by_hand", shape)
    measured: list[dict[str, Any]] = []
    for _ in range(WARM):
        one_change(spark, made, view, name)

    def rounds() -> None:
        for _ in range(ROUNDS):
            measured.append(one_change(spark, made, view, name))

    benchmark.pedantic(rounds, rounds=1)
    idle = [refreshed(spark, view) for _ in range(IDLE)][IDLE // 3 :]
    assert {(run["kind"], run["jobs"]) for run in idle} == {("NO_DATA", 0)}
    assert different(spark, view) == 0
    row = spark.sql(f"VERIFY INCREMENTAL VIEW {view}").collect()[0]
    assert row.matches, f"{view}: {row.missing} rows missing, {row.unexpected} unexpected"
    for statement in (f"DROP INCREMENTAL VIEW {view}", f"DROP TABLE {view}_by_hand"):
        spark.sql(statement)
    benchmark.extra_info.update(
        shape=name,
        results=results,
        rows=made.rows,
        refreshes=measured,
        nothing_ms=statistics.median(run["statement_ms"] for run in idle),
    )


def one_change(spark: SparkSession, made: Base, view: str, name: str) -> dict[str, Any]:
    """Changes one row, lets both sides follow, and returns what each took."""
    shape = SHAPES[name]
    made.change(shape.deletes)
    statements = made.statements(f"{view}_by_hand", shape)
    with Measure(spark) as hand:
        for statement in statements:
            spark.sql(statement).collect()
    run = refreshed(spark, view)
    assert run["kind"] == "INCREMENTAL"
    shown = json.loads(spark.sql(f"EXPLAIN INCREMENTAL JSON VIEW {view}").collect()[0].plan)["last_run"]
    parts: dict[str, int] = dict(shown["wall_ms"])
    for part, ms in (shown["after_ms"] or {}).items():
        parts[part] = parts.get(part, 0) + ms
    # Parsing, the way to the planner and back, and what follows the commit unmeasured.
    parts["other"] += round(run["statement_ms"]) - sum(parts.values())
    return {**run, "parts": parts, "hand_ms": hand.wall_ms, "hand_cpu_ms": hand.cpu_ms, "hand_jobs": hand.jobs}


def refreshed(spark: SparkSession, view: str) -> dict[str, Any]:
    """What REFRESH took: `statement_ms` for its user."""
    started = time.perf_counter()
    row = spark.sql(f"REFRESH INCREMENTAL VIEW {view}").collect()[0]
    statement_ms = (time.perf_counter() - started) * 1000
    return {"kind": row.kind, "jobs": row.jobs, "cpu_ms": row.cpu_ms, "statement_ms": statement_ms}


def different(spark: SparkSession, view: str) -> int:
    """The number of rows in which a view and the table that is kept by hand differ."""
    sides = (view, f"{view}_by_hand")
    return sum(
        spark.sql(f"SELECT * FROM {one} EXCEPT ALL SELECT * FROM {other}").count()
        for one, other in (sides, sides[::-1])
    )
