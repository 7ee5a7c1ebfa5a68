"""Tempura's experiments: each method alone against all together, estimated and measured; times of planning.

`--queries` and `--rounds` bound the grid; `--only example`, `estimates`, `grid`, `planning`: one part. `estimates` has
all cells of the grid as they are planned, without running them.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks import planning, tempura, texts, tpcds
from benchmarks.data import BUILD
from benchmarks.harness import ROUNDS, SCALE, fresh_session
from tests.model import test_running_example as example
from tests.model.moments import Changes
from tidemill.errors import TidemillError
from tidemill.explain.document import document
from tidemill.search.contract.request import PlanRequest
from tidemill.search.contract.run_kinds import Policy
from tidemill.search.service.planner import plan_run
from tidemill.settings import PACKS, PlannerSettings

CHOSEN = tuple(map(int, filter(None, os.environ.get("TIDEMILL_BENCH_QUERIES", "").split(","))))
GRID = [q for q in tempura.QUERIES if not CHOSEN or int(q.removesuffix(tempura.WRITTEN)) in CHOSEN]
IN_DETAIL = (22, 20, 43, 67, 27, 99, 85, 91, 5, 33)
"""The queries that the paper shows its times of planning for."""
WITHIN = 3.0
"""Seconds that a search gets, as by default, and ten times as many."""


class TestRunningExample:
    """The papers' running example: its costs are counted tuples, the same on every machine."""

    @pytest.mark.parametrize("aggregate", ["SUM", "MAX"])
    @pytest.mark.parametrize(
        ("name", "later"),
        [
            ("as published", example.PUBLISHED),
            ("o4 returned instead of o6", example.O4_INSTEAD),
            ("o4 returned as well", example.O4_AS_WELL),
        ],
    )
    @pytest.mark.parametrize("price", [0.2, 0.5])
    def test_example(
        self, benchmark: BenchmarkFixture, aggregate: str, name: str, later: Changes, price: float
    ) -> None:
        # Which values were the largest before one went is what lineage tells; the papers' two methods do for a sum.
        text, off = (example.SUMMARY, example.OTHERS) if aggregate == "SUM" else (example.DEAREST, frozenset[str]())
        _, plan = benchmark.pedantic(example.planned, args=(later, price, off, text), rounds=1)
        early, due = plan.explanation.costs
        benchmark.extra_info.update(
            part="example",
            aggregate=aggregate,
            name=name,
            price=price,
            costs={pack: list(found) for pack, found in example.costs(plan).items()},
            chosen=[price * early + due, early, due],
            methods=document(plan, {})["methods"],
        )


def _session(name: str) -> SparkSession:
    return fresh_session(BUILD / "bench" / name, tpcds.CONFS)


class Cells:
    """What the cells of a pattern of arrival share: a session, and the tables as they are at the first run."""

    folder: ClassVar[str]
    warm: ClassVar[bool] = True

    @pytest.fixture(scope="class")
    @classmethod
    def spark(cls) -> Iterator[SparkSession]:
        session = _session(cls.folder)
        yield session
        session.stop()

    @pytest.fixture(scope="class")
    @classmethod
    def files(cls) -> Path:
        return tpcds.files(SCALE)

    @pytest.fixture(scope="class", params=tempura.ARRIVALS)
    @classmethod
    def arrival(
        cls, request: pytest.FixtureRequest, spark: SparkSession, files: Path
    ) -> Iterator[tuple[tempura.Arrival, dict[str, int]]]:
        """The tables as they are at the first run, and how many rows the facts have in all."""
        found = tempura.ARRIVALS[request.param]
        spark.sql("CREATE DATABASE cells")
        spark.sql("USE cells")
        rows = tempura.load(spark, files, found)
        if cls.warm:
            tempura.warm_up(spark)
        yield found, rows
        spark.sql("USE default")
        spark.sql("DROP DATABASE cells CASCADE")


class TestEstimates(Cells):
    """All cells of the grid as they are planned from the first run on; nothing is run."""

    folder = "tempura-estimates"
    warm = False

    @pytest.mark.parametrize("scenario", [name for name, kind in tempura.SCENARIOS.items() if kind.price is not None])
    @pytest.mark.parametrize("query", GRID)
    def test_estimates(
        self,
        benchmark: BenchmarkFixture,
        spark: SparkSession,
        arrival: tuple[tempura.Arrival, dict[str, int]],
        query: str,
        scenario: str,
    ) -> None:
        kind, (there, rows), text = tempura.SCENARIOS[scenario], arrival, tempura.text(query)
        for key, value in kind.confs.items():
            spark.conf.set(key, value)
        expected = tempura.expected(there, rows, text)
        spark.sql(f"CREATE INCREMENTAL VIEW planned {kind.clauses} {expected} REFRESH POLICY AUTO AS {text}")
        request = planning.requested(spark, "REFRESH INCREMENTAL VIEW planned AT 1")
        spark.sql("DROP INCREMENTAL VIEW planned")
        for key in kind.confs:
            spark.conf.unset(key)

        def plans() -> dict[str, list[float]]:
            with kind.to_its_end:
                return {method: self.costs(request, method) for method in tempura.METHODS}

        costs = benchmark.pedantic(plans, rounds=1)
        benchmark.extra_info.update(
            part="estimates",
            scale=SCALE,
            arrival=there.name,
            scenario=scenario,
            query=query,
            costs=costs,
            priced={method: kind.priced(*found) for method, found in costs.items()},
        )

    @staticmethod
    def costs(request: PlanRequest, method: str) -> list[float]:
        """At both runs. Where no early work is planned, the last one is planned for itself, when all has come."""
        policy: Policy = "AUTO" if method in tempura.POLICIES else "INCREMENTAL"
        asked = replace(request, settings=tempura.settings(request.settings, method), policy=policy)
        try:
            plan = plan_run(asked)
        except TidemillError as refused:
            if refused.condition != "TIDEMILL_NOT_INCREMENTAL":
                raise
            plan = plan_run(replace(asked, policy="AUTO"))
        first = plan.explanation.costs[0] if plan.explanation.schedule else 0.0
        if first:
            return [*plan.explanation.costs]
        return [0.0, plan_run(planning.at_the_end(asked)).estimated]


class TestGrid(Cells):
    """Cells of (arrival, scenario, query) with each method: a view lives through two runs.

    Methods that turn out to have the same plan share what is measured, for whichever price: once it was `ENOUGH` times,
    a plan is not run in further rounds.
    """

    folder = "tempura-grid"
    runs: ClassVar[dict[object, list[tempura.Figures]]] = defaultdict(list)
    """What was measured, by cells that may share it."""

    def _measured(self, cell: object, scenario: str, method: str) -> int:
        """How often the plan of a method was measured, whichever method had it."""
        runs = self.runs[cell]
        mine = next((run for run in runs if (run["scenario"], run["method"]) == (scenario, method)), None)
        return 0 if mine is None else sum(tempura.alike(mine, run) for run in runs)

    @pytest.fixture(scope="class")
    @classmethod
    def changed(cls, spark: SparkSession, arrival: tuple[tempura.Arrival, dict[str, int]], files: Path) -> None:
        """What happens before the second run, to all views at once."""
        tempura.second(spark, files, arrival[0])
        tempura.warm_up(spark)

    @pytest.fixture
    def view(
        self, spark: SparkSession, query: str, scenario: str, method: str, round_: int
    ) -> Iterator[Callable[[str], Row]]:
        """Runs a statement about the cell's view, `{}` standing for its name, under the settings of the cell."""
        name = _name(query, scenario, method, round_)
        confs = tempura.confs(tempura.SCENARIOS[scenario], METHODS[method][0])
        for key, value in confs.items():
            spark.conf.set(key, value)

        def run(statement: str) -> Row:
            with tempura.SCENARIOS[scenario].to_its_end:
                (row,) = spark.sql(statement.replace("{}", name)).collect() or [Row()]
            return row

        yield run
        for key in confs:
            spark.conf.unset(key)

    def test_first(
        self,
        view: Callable[[str], Row],
        arrival: tuple[tempura.Arrival, dict[str, int]],
        query: str,
        scenario: str,
        method: str,
    ) -> None:
        """CREATE, and the first run: the filling, or early work."""
        text, kind = tempura.text(query), tempura.SCENARIOS[scenario]
        there, rows = arrival
        alone, told = METHODS[method]
        clause = tempura.expected(tempura.ARRIVALS.get(told, there), rows, text)

        def create(policy: str) -> None:
            view(f"CREATE INCREMENTAL VIEW {{}} {kind.clauses} {clause} REFRESH POLICY {policy} AS {text}")

        try:
            create(tempura.POLICIES.get(alone, "INCREMENTAL"))
        except PySparkException as refused:  # for a maximum (query 35) most have no rule but to recompute
            if refused.getCondition() != "TIDEMILL_NOT_INCREMENTAL":
                raise
            create("AUTO")
        if kind.price is not None:
            view("REFRESH INCREMENTAL VIEW {} AT 1")

    def test_last(
        self,
        benchmark: BenchmarkFixture,
        spark: SparkSession,
        view: Callable[[str], Row],
        arrival: tuple[tempura.Arrival, dict[str, int]],
        changed: None,
        query: str,
        scenario: str,
        method: str,
        round_: int,
    ) -> None:
        """The second run, after which the view must equal its query."""
        kind, name = tempura.SCENARIOS[scenario], _name(query, scenario, method, round_)
        cell = arrival[0].name, kind.price is None, query
        if self._measured(cell, scenario, method) >= tempura.ENOUGH:
            view("DROP INCREMENTAL VIEW {}")
            pytest.skip("its plan was measured often enough")
        last: Row = benchmark.pedantic(view, args=("REFRESH INCREMENTAL VIEW {}",), rounds=1)
        runs = spark.sql(f"SHOW REFRESHES IN {name}").collect()
        first = runs[1] if len(runs) > 1 else None
        benchmark.extra_info.update(
            part="grid",
            scale=SCALE,
            arrival=arrival[0].name,
            scenario=scenario,
            query=query,
            method=method,
            round=round_,
            first=_figures(first),
            last=_figures(last),
            estimated=kind.priced(first.estimated_cost or 0.0 if first else 0.0, last.estimated_cost or 0.0),
            measured=kind.priced(first.cpu_ms if first else 0.0, last.cpu_ms),
        )
        self.runs[cell].append(benchmark.extra_info)
        if round_ == 1:
            row = view("VERIFY INCREMENTAL VIEW {}")
            assert row.matches, f"{name}: {row.missing} rows missing, {row.unexpected} unexpected"
        view("DROP INCREMENTAL VIEW {}")


def _name(query: str, scenario: str, method: str, round_: int) -> str:
    """Of a cell's view."""
    return f"q{query.replace(' ', '_')}_{[*tempura.SCENARIOS].index(scenario)}_{[*METHODS].index(method)}_{round_}"


def _figures(row: Row | None) -> dict[str, Any] | None:
    """What is kept of a run."""
    if row is None:
        return None
    names = ("kind", "reason", "cpu_ms", "duration_ms", "jobs", "estimated_cost", "state_bytes")
    return {**{name: row[name] for name in names}, "methods": list(row.methods or ())}


METHODS: Mapping[str, tuple[str, str]] = {
    **{name: (name, "") for name in tempura.METHODS},
    **{f"{tempura.ALL}, told {told}": (tempura.ALL, told) for told in ("1:1", "4:1")},
}
"""By name of a column: the packs (see `tempura.METHODS`), and the pattern that the planner is told instead of the one
that comes (the paper's wrong estimates, of its query 10)."""
MISLED = "10"


def _cells() -> Iterator[tuple[str, str, str, int]]:
    for round_ in range(1, ROUNDS + 1):
        for query in GRID:
            for scenario in tempura.SCENARIOS:
                for method, (_, told) in METHODS.items():
                    if not told or query == MISLED:
                        yield scenario, query, method, round_


class TestPlanning:
    """How long plans take, over TPC-DS with tables of the scale asked for."""

    @pytest.fixture(scope="class")
    @classmethod
    def queries(cls) -> Mapping[int, Any]:
        """All queries as the planner gets them."""
        session = _session("tempura-planning")
        tpcds.load_delta(session, tpcds.files(SCALE))
        found = {number: planning.as_planned(session, text) for number, text in texts.by_number(texts.tpcds()).items()}
        session.stop()
        return found

    @staticmethod
    def planned(benchmark: BenchmarkFixture, request: PlanRequest, **about: object) -> None:
        """Plans; notes how long that took and what it found."""
        started = time.perf_counter()
        plan = benchmark.pedantic(plan_run, args=(request,), rounds=1)
        seconds = time.perf_counter() - started
        found = plan.explanation.space
        benchmark.extra_info.update(
            part="planning",
            seconds=seconds,
            groups=sum(1 for _ in found.memo.live_groups()),
            rules_fired=found.explored.rules_fired,
            stopped=plan.explanation.search.stopped,
            cost=planning.priced(plan),
            **about,
        )

    @pytest.mark.parametrize("number", CHOSEN or range(1, 100))
    def test_three_points(self, benchmark: BenchmarkFixture, queries: Mapping[int, Any], number: int) -> None:
        """All of TPC-DS at three points, without a limit; and what a limited search finds."""
        settings = PlannerSettings(time_limit=WITHIN)
        limited = {}
        for limit in (WITHIN, 10 * WITHIN):
            started = time.perf_counter()
            plan = plan_run(planning.over(queries[number], 3, replace(settings, time_limit=limit)))
            limited[f"{limit:g}"] = {"seconds": time.perf_counter() - started, "cost": planning.priced(plan)}
        unlimited = replace(settings, time_limit=planning.NO_LIMIT)
        self.planned(
            benchmark, planning.over(queries[number], 3, unlimited), of="queries", query=number, limited=limited
        )

    @pytest.mark.parametrize("points", range(3, 10))
    @pytest.mark.parametrize("number", IN_DETAIL)
    def test_points(self, benchmark: BenchmarkFixture, queries: Mapping[int, Any], number: int, points: int) -> None:
        settings = PlannerSettings(time_limit=planning.NO_LIMIT)
        self.planned(
            benchmark, planning.over(queries[number], points, settings), of="points", query=number, points=points
        )

    @pytest.mark.parametrize("packs", range(1, len(PACKS) + 1))
    @pytest.mark.parametrize("number", IN_DETAIL)
    def test_packs(self, benchmark: BenchmarkFixture, queries: Mapping[int, Any], number: int, packs: int) -> None:
        settings = PlannerSettings(packs=planning.first_packs(packs), time_limit=planning.NO_LIMIT)
        self.planned(benchmark, planning.over(queries[number], 3, settings), of="packs", query=number, packs=packs)

    @pytest.mark.parametrize("variant", planning.VARIANTS)
    @pytest.mark.parametrize("number", IN_DETAIL)
    def test_ablation(self, benchmark: BenchmarkFixture, queries: Mapping[int, Any], number: int, variant: str) -> None:
        settings = PlannerSettings(time_limit=planning.NO_LIMIT)
        with planning.VARIANTS[variant]():
            request = planning.over(queries[number], 4, settings)
            self.planned(benchmark, request, of="ablation", query=number, variant=variant)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.cls is TestGrid:
        metafunc.parametrize(("scenario", "query", "method", "round_"), list(_cells()))
