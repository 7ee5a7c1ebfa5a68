"""What several parts of a run's plan read is computed once, written beside the run, and gone before it commits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from unittest import mock

import pytest
from pyspark.sql import Row, SparkSession

from cost_model.default import DefaultCostModel
from tests.conftest import Oracle, files_under, location_of
from tidemill.cost.costing import CpuMs
from tidemill.search.contract.request import PlanRequest
from tidemill.search.runs import task
from tidemill.search.runs.explanation import ExplainedPlan
from tidemill.search.service import planner

pytestmark = pytest.mark.slow

Refresh = Callable[..., Row]
QUERY = """SELECT s.cat, count(*) AS n, sum(s.price) AS p, sum(r.cost) AS c
           FROM sales s LEFT JOIN returns r ON s.o_id = r.o_id LEFT JOIN returns q ON r.o_id = q.o_id AND q.cost > 5
           GROUP BY s.cat"""
ROWS = "SELECT s.o_id, s.cat, r.cost FROM sales s FULL JOIN returns r ON s.o_id = r.o_id AND s.price > r.cost"


class Eager(DefaultCostModel):
    """Writing and loading cost nothing, so all that is read twice is shared."""

    def save(self, rows: float) -> CpuMs:
        return CpuMs(0.0)

    def load(self, rows: float) -> CpuMs:
        return CpuMs(0.0)


@pytest.fixture
def shared() -> Iterator[list[str]]:
    """The names of the shared steps of the runs that are planned meanwhile."""
    names: list[str] = []
    plan_run = planner.plan_run

    def planned(request: PlanRequest) -> ExplainedPlan:
        plan = plan_run(replace(request, settings=replace(request.settings, prefer="delta")))
        names.extend(step.name for step in plan.steps if step.target == "shared")
        return plan

    with (
        mock.patch.object(task, "cost_model", return_value=Eager(noise=0.0)),
        mock.patch("tidemill.search.service.pool.plan_run", planned),
    ):
        yield names


@pytest.mark.parametrize("query", [QUERY, ROWS], ids=["groups", "rows"])
def test_shared_parts(
    spark: SparkSession, sales: str, oracle: Oracle, refresh: Refresh, shared: list[str], query: str
) -> None:
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS {query}")
    for statements in (
        (
            "INSERT INTO sales VALUES ('o5','c2',300), ('o6','c1',150)",
            "INSERT INTO returns VALUES ('o2', 20), ('o2', 3)",
        ),
        ("DELETE FROM sales WHERE o_id = 'o3'", "UPDATE returns SET cost = 11 WHERE o_id = 'o1'"),
        ("INSERT INTO returns VALUES ('o6', 15), (NULL, 1)", "UPDATE sales SET price = price + 1 WHERE cat = 'c1'"),
    ):
        for statement in statements:
            spark.sql(statement)
        row = refresh("v")
        assert row.kind == "INCREMENTAL"
        oracle("v", query)
        deltas = {path.split("/")[2] for path in files_under(location_of(spark, "v")) if "_tidemill/delta/" in path}
        assert len(deltas) == row.run, "what is shared within a run stays"
    assert len(shared) >= 3
