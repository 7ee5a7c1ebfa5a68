"""How good the planner's decisions are: AUTO beside every alternative, each with a view of its own, change by change.

`--small`: fewer views and changes. `--rows 10000,1000000`: sizes of the small tables. `--scale N`: of TPC-H, TPC-DS and
the pipeline. `--queries 1,3`: of TPC-H and TPC-DS. `--only "small and aggregate"`: grounds and views by their names.
AUTO learns before it is measured: it has two runs of either kind for each change. Before that all alternatives have met
the change as often, and the measured rounds of all follow in an order that a seed shuffles.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.data import BUILD
from benchmarks.decisions.grounds import Ground, Placed, grounds
from benchmarks.decisions.measuring import Measuring
from benchmarks.harness import ROUNDS, SCALE, fresh_session
from tests.conftest import confs
from tidemill.settings import PACKS

FEW = os.environ.get("TIDEMILL_BENCH_SMALL", "") == "true"
ROWS = tuple(int(n) for n in os.environ.get("TIDEMILL_BENCH_ROWS", "").split(",") if n) or (10_000, 1_000_000)
QUERIES = tuple(int(n) for n in os.environ.get("TIDEMILL_BENCH_QUERIES", "").split(",") if n)
GROUNDS = {ground.name: ground for ground in grounds(SCALE, ROWS, QUERIES, few=FEW)}
KEPT = BUILD / "bench" / "decisions.jsonl"
"""Each cell as soon as it is measured: a run takes long."""
LEFT_OUT = {"recompute", "explore"} if FEW else set[str]()
"""Packs that are not preferred in a small run: what these two compute costs no less than a full run, or than others."""


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    session = fresh_session(BUILD / "bench" / "decisions", {})
    yield session
    session.stop()


@pytest.fixture(scope="module")
def placed(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[Placed]:
    with confs(spark, GROUNDS[request.param].confs):
        yield Placed(spark, GROUNDS[request.param])


def test_decisions(benchmark: BenchmarkFixture, spark: SparkSession, placed: Placed, view: str) -> None:
    ground: Ground = placed.ground
    about = {"suite": ground.suite, "size": ground.size, "view": view}
    packs = [pack for pack in PACKS if pack not in LEFT_OUT]
    measuring = Measuring(
        spark,
        ground.views[view],
        lambda change, number: ground.change(spark, view, change, number),
        about,
        ROUNDS,
        packs,
        alike=not FEW,
    )
    cells: list[dict[str, Any]] = []

    def measure() -> None:
        for cell in measuring.cells(ground.changes):
            cells.append(cell)
            with KEPT.open("a", encoding="utf-8") as kept:
                kept.write(json.dumps(cell) + "\n")

    try:
        benchmark.pedantic(measure, rounds=1)
    finally:
        placed.put_back()
    benchmark.extra_info.update(part="decisions", cells=cells, rounds=ROUNDS)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "view" in metafunc.fixturenames:
        cases = [(name, view) for name, ground in GROUNDS.items() for view in ground.views]
        metafunc.parametrize(
            ("placed", "view"),
            cases,
            indirect=["placed"],
            scope="module",
            ids=[f"{name}-{view}".replace(" ", "_") for name, view in cases],
        )
