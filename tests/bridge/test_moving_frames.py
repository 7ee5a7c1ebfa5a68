"""Moving frames of windows: only where a filter above keeps the row, and from trees where no function can tell."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

ROWS = """SELECT id % 7 AS k, IF(id % 11 = 3, NULL, id * 31 % 97) AS t, id, IF(id % 5 = 1, NULL, id * 17 % 53) AS x,
                 CAST(id * 13 % 41 AS DOUBLE) / 3 AS y, IF(id % 13 = 0, NULL, CAST(id % 29 AS DECIMAL(9, 2))) AS d
          FROM range(700)"""
FRAMES = (
    "ROWS BETWEEN 4 PRECEDING AND CURRENT ROW",
    "ROWS BETWEEN 9 PRECEDING AND 6 PRECEDING",
    "ROWS BETWEEN 2 FOLLOWING AND 5 FOLLOWING",
    "ROWS BETWEEN 3 PRECEDING AND UNBOUNDED FOLLOWING",
    "RANGE BETWEEN 8 PRECEDING AND 3 FOLLOWING",
)
CONDITIONS = ("t >= 60", "t IS NULL OR t > 20 AND k <> 3", "k = 2", "t < 0", "pmod(id, 3) = 1")


@pytest.fixture(scope="module")
def filtering(spark: SparkSession) -> SparkSession:
    """A session that plans as steps are planned."""
    session = spark.newSession()
    jvm: Any = session._jvm
    jvm.org.apache.spark.sql.tidemill.physical.Strategies.enable(session._jsparkSession)
    return session


@pytest.mark.parametrize("frame", FRAMES)
def test_values_of_rows_that_a_filter_keeps_are_those_of_spark(
    spark: SparkSession, filtering: SparkSession, frame: str
) -> None:
    plain = spark.newSession()  # steps of other tests may have run in `spark`
    order = "t" if frame.startswith("RANGE") else "t, id"
    query = f"""SELECT * FROM (SELECT k, t, id, min(x) OVER w AS least, count(x) OVER w AS n, sum(y) OVER w AS total,
            lag(id, 2) OVER o AS before, sum(x) OVER r AS running, max(d) OVER a AS top
        FROM ({ROWS}) WINDOW w AS (PARTITION BY k ORDER BY {order} {frame}), o AS (PARTITION BY k ORDER BY {order}),
            r AS (PARTITION BY k ORDER BY {order} ROWS UNBOUNDED PRECEDING),
            a AS (PARTITION BY k ORDER BY {order} ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING))"""
    for condition in CONDITIONS:
        text = f"{query} WHERE {condition}"
        found = filtering.sql(text)
        plan = found._jdf.queryExecution().executedPlan().toString()
        assert ("FilteredFrames" in plan) == (condition != "k = 2"), f"{condition}\n{plan}"  # Spark pushes that down
        expected = plain.sql(text)
        assert "FilteredFrames" not in expected._jdf.queryExecution().executedPlan().toString()
        assert sorted(map(str, found.collect())) == sorted(map(str, expected.collect())), condition


def test_a_filter_over_the_value_itself_is_spark_s_own(filtering: SparkSession) -> None:
    query = f"SELECT * FROM (SELECT min(x) OVER (ORDER BY id ROWS 3 PRECEDING) AS least, id FROM ({ROWS}))"
    for condition in ("least > 3", "id > 5 AND least > 3", "rand(7) < 0.5"):
        found = filtering.sql(f"{query} WHERE {condition}")
        assert "FilteredFrames" not in found._jdf.queryExecution().executedPlan().toString(), condition


@pytest.mark.parametrize(
    ("functions", "wanted"),
    [
        ("min(y), max(x), count(d)", True),
        ("sum(d), avg(d)", True),
        ("sum(CAST(x AS INT)), avg(CAST(x AS INT))", True),
        ("sum(y)", False),  # doubles are rounded in another order
        ("min(x), avg(y)", False),
        ("sum(x)", False),  # may overflow on the way
        ("avg(x)", False),
        ("sum(CAST(d AS DECIMAL(38)))", False),
        ("first(x)", False),
    ],
)
def test_trees_are_wanted_where_no_function_can_tell(spark: SparkSession, functions: str, wanted: bool) -> None:
    assert wants_tree(spark, functions, "ROWS BETWEEN 364 PRECEDING AND CURRENT ROW") == wanted
    assert wants_tree(spark, functions, "RANGE BETWEEN 30 PRECEDING AND CURRENT ROW") == (
        wanted and "avg(CAST(x AS INT))" not in functions
    )
    for frame in ("ROWS BETWEEN 5 PRECEDING AND CURRENT ROW", "ROWS UNBOUNDED PRECEDING"):
        assert not wants_tree(spark, functions, frame), frame


def test_frames_of_few_rows_want_no_tree(spark: SparkSession) -> None:
    frame = "ROWS BETWEEN 364 PRECEDING AND CURRENT ROW"
    assert not wants_tree(spark, "min(x)", frame, "t > 60")
    assert wants_tree(spark, "min(x)", frame, "v0 > 60")


def wants_tree(spark: SparkSession, functions: str, frame: str, condition: str = "true") -> bool:
    calls = [f"{f} OVER (PARTITION BY k ORDER BY t {frame}) AS v{i}" for i, f in enumerate(functions.split(", "))]
    shown = f"SELECT * FROM (SELECT t, {', '.join(calls)} FROM ({ROWS}))"
    query = shown if condition == "true" else f"{shown} WHERE {condition}"
    analysed = spark.sql(query)._jdf.queryExecution().analyzed()
    jvm: Any = spark._jvm
    return bool(jvm.org.apache.spark.sql.tidemill.physical.MovingFrames.wantTree(analysed))
