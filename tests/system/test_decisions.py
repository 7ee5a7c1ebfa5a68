"""The benchmark of decisions, small: every alternative follows a change, and AUTO has learned before it is measured."""

from __future__ import annotations

from functools import partial

import pytest
from pyspark.sql import SparkSession

from benchmarks.changes import apply
from benchmarks.decisions.judged import AUTO, TWINS, Cell
from benchmarks.decisions.measuring import COLD, WARM, Measuring
from benchmarks.decisions.small import VIEWS, Small
from tidemill.search.contract.past import SURE

VIEW = "extrema"


@pytest.mark.slow
def test_each_alternative_is_run_through_a_change(spark: SparkSession, db: str) -> None:
    tables = Small(500)
    tables.load(spark)

    def change(name: str, number: int) -> None:
        apply(spark, tables.statements(VIEW, name, number))

    about = {"suite": "small", "size": "500 rows", "view": VIEW}
    measuring = Measuring(spark, VIEWS[VIEW], change, about, rounds=1, packs={"affected"})
    ran = partial(spark.sql, f"SHOW REFRESHES IN v_{AUTO.lower()}")
    kinds: list[str] = []
    for figures in measuring.cells(["1 %, mixed"]):
        kinds = [row.kind for row in ran().collect()][::-1]
        cell = Cell(figures)
        assert {run["alternative"] for run in cell.runs} == {AUTO, "full", *TWINS, "affected"}
        assert {AUTO, *TWINS} <= cell.costs.keys()
        assert cell.plans.keys() == {run["plan"] for run in cell.measured}
        assert all(run["steps"] and run["estimated_cost"] for run in cell.runs)
        full = {run["plan"] for run in cell.runs if run["alternative"] == "full"}
        twins = [{run["plan"] for run in cell.runs if run["alternative"] == twin} for twin in TWINS]
        assert twins[0] & twins[1]
        assert not full & (twins[0] | twins[1])
    # The filling, one run of either kind per round that warms up, and the measured one.
    learned = kinds[1 : 1 + 2 * (WARM + COLD)]
    assert learned == ["INCREMENTAL", "FULL"] * (WARM + COLD)
    assert len(learned) >= 2 * SURE
    assert not spark.sql("SHOW INCREMENTAL VIEWS").collect()
