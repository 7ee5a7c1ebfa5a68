"""The views of the benchmark `floor`, small: refreshes and the statements by hand follow changes of a row alike."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from benchmarks.bench_floor import different, one_change, refreshed
from benchmarks.floor import SHAPES, Base

CHANGES = 2


@pytest.fixture
def base(spark: SparkSession, db: str) -> Base:
    made = Base(spark, 3_000)
    made.load()
    return made


@pytest.mark.slow
@pytest.mark.parametrize("name", SHAPES)
def test_both_sides_follow(spark: SparkSession, base: Base, name: str) -> None:
    spark.sql(f"CREATE INCREMENTAL VIEW v REFRESH POLICY INCREMENTAL AS {SHAPES[name].query}")
    base.fill_by_hand("v_by_hand", SHAPES[name])
    for _ in range(CHANGES):
        took = one_change(spark, base, "v", name)
        assert sum(took["parts"].values()) == round(took["statement_ms"])
        assert took["hand_jobs"] > 0
        assert took["jobs"] > 0
    assert different(spark, "v") == 0
    assert spark.sql("VERIFY INCREMENTAL VIEW v").collect()[0].matches
    idle = refreshed(spark, "v")
    assert (idle["kind"], idle["jobs"], idle["cpu_ms"]) == ("NO_DATA", 0, 0)
