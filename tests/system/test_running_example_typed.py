"""The papers' running example typed in SQL, to the digit: Parquet tables without statistics, costs in tuples.

Tempura section 2.2 (sales and their returns), Beanstalk 2.3; `../shared/experiments.md` corrects what they print.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from tests.conftest import Oracle, confs, packs

Refresh = Callable[..., Row]
TUPLES = {"spark.tidemill.cost.model": "tuples"}
FIRST = "('o1', 'c1', 100), ('o2', 'c2', 150), ('o3', 'c1', 120), ('o4', 'c1', 170)"
LATER = "('o5', 'c2', 300), ('o6', 'c1', 150), ('o7', 'c2', 220)"
PUBLISHED = "('o2', 20), ('o6', 15)"
O4_INSTEAD = "('o2', 20), ('o4', 25)"
O4_AS_WELL = "('o2', 20), ('o6', 15), ('o4', 25)"
SUMMARY = """SELECT cat, {}(IF(cost IS NULL, price, -cost)) AS gross
             FROM sales LEFT OUTER JOIN returns USING (o_id) GROUP BY cat"""


@pytest.fixture
def tables(spark: SparkSession, db: str) -> Iterator[str]:
    """Both tables as they are at noon, and costs in tuples."""
    spark.sql("CREATE TABLE sales (o_id STRING, cat STRING, price INT) USING parquet")
    spark.sql("CREATE TABLE returns (o_id STRING, cost INT) USING parquet")
    spark.sql(f"INSERT INTO sales VALUES {FIRST}")
    spark.sql("INSERT INTO returns VALUES ('o1', 10)")
    with confs(spark, TUPLES):
        yield db


def created(spark: SparkSession, returns: str, price: float, total: str = "SUM") -> None:
    spark.sql(
        f"""CREATE INCREMENTAL VIEW summary
            SCHEDULE (AT '12:00' COST {price} NO OUTPUT, AT '24:00' COST 1)
            EXPECT (sales 3 ROWS, returns {returns.count("(")} ROWS)
            INITIALIZE DEFERRED
            AS {SUMMARY.format(total)}"""
    )


def explained(spark: SparkSession) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(spark.sql("EXPLAIN INCREMENTAL JSON VIEW summary").collect()[0].plan)
    return found


@dataclass(frozen=True)
class Day:
    """Both runs of a day: what they were estimated to cost, what they were counted to cost, and what they used."""

    estimated: tuple[float, float]
    counted: tuple[float, float]
    methods: frozenset[str]
    content: dict[str, int]


def day(spark: SparkSession, refresh: Refresh, returns: str, price: float, total: str = "SUM") -> Day:
    """Creates the view at noon, and carries out both points."""
    created(spark, returns, price, total)
    noon = refresh("summary", "AT 1")
    spark.sql(f"INSERT INTO sales VALUES {LATER}")
    spark.sql(f"INSERT INTO returns VALUES {returns}")
    night = refresh("summary", "AT 2")
    assert (noon.kind, night.rows_out) == ("PARTIAL", Row(inserts=2, deletes=0))
    shown = spark.sql("SHOW REFRESHES IN summary").collect()
    assert [row.measured_cost for row in shown] == [night.measured_cost, noon.measured_cost]
    return Day(
        (noon.estimated_cost, night.estimated_cost),
        (noon.measured_cost, night.measured_cost),
        frozenset({*noon.methods, *night.methods}),
        {row.cat: row.gross for row in spark.table("summary").collect()},
    )


@pytest.mark.parametrize(
    ("returns", "pack", "estimated", "counted", "after"),
    [
        (PUBLISHED, "delta", (9, 10), (9, 10), {"c1": 265, "c2": 500}),
        (PUBLISHED, "positive_negative", (6, 11), (6, 11), {"c1": 265, "c2": 500}),
        (PUBLISHED, "recompute", (0, 17), (0, 17), {"c1": 265, "c2": 500}),
        # Nobody knows before that both orders are old ones: as many rows are expected as in the published case.
        pytest.param(O4_INSTEAD, "delta", (9, 10), (9, 12), {"c1": 235, "c2": 500}, marks=pytest.mark.slow),
        pytest.param(O4_INSTEAD, "positive_negative", (6, 11), (6, 11), {"c1": 235, "c2": 500}, marks=pytest.mark.slow),
        pytest.param(O4_AS_WELL, "delta", (9, 13), (9, 13), {"c1": 70, "c2": 500}, marks=pytest.mark.slow),
        pytest.param(O4_AS_WELL, "positive_negative", (6, 12), (6, 12), {"c1": 70, "c2": 500}, marks=pytest.mark.slow),
    ],
)
def test_what_each_method_costs(
    spark: SparkSession,
    tables: str,
    refresh: Refresh,
    returns: str,
    pack: str,
    estimated: tuple[float, float],
    counted: tuple[float, float],
    after: dict[str, int],
) -> None:
    with packs(spark, prefer=pack):
        found = day(spark, refresh, returns, 0.2)
    assert (found.estimated, found.counted, found.content) == (estimated, counted, after)
    assert pack in found.methods


@pytest.mark.parametrize(
    ("returns", "price", "costs", "pack"),
    [
        (PUBLISHED, 0.2, (9, 10), "delta"),
        (PUBLISHED, 0.5, (6, 11), "positive_negative"),
        pytest.param(PUBLISHED, 0.33, (9, 10), "delta", marks=pytest.mark.slow),
        pytest.param(PUBLISHED, 0.34, (6, 11), "positive_negative", marks=pytest.mark.slow),
        pytest.param(O4_AS_WELL, 0.2, (6, 12), "positive_negative", marks=pytest.mark.slow),
    ],
)
def test_which_is_chosen(
    spark: SparkSession,
    tables: str,
    refresh: Refresh,
    returns: str,
    price: float,
    costs: tuple[float, float],
    pack: str,
) -> None:
    """The two cross at a price of 1/3; with frequent retraction the second wins."""
    found = day(spark, refresh, returns, price)
    assert (found.estimated, found.counted) == (costs, costs)
    assert ("positive_negative" in found.methods) == (pack == "positive_negative")


def test_explain_shows_what_lost_before_the_first_run(spark: SparkSession, tables: str) -> None:
    created(spark, PUBLISHED, 0.2)
    found = explained(spark)
    assert [(p["point"], p["price"], p["output"]) for p in found["points"]] == [(1, 0.2, False), (2, 1.0, True)]
    assert found["estimated"]["priced"] == pytest.approx(11.8)
    alternatives = {tuple(a["methods"]): (a["priced"], a["per_point"]) for a in found["alternatives"]}
    assert alternatives["delta",] == (pytest.approx(11.8), [9, 10])
    assert alternatives["delta", "positive_negative"] == (pytest.approx(12.2), [6, 11])
    assert alternatives["recompute",] == (pytest.approx(17), [0, 17])


@pytest.mark.parametrize("price", [0.2, pytest.param(0.5, marks=pytest.mark.slow)])
def test_a_maximum_downstream_changes_the_method_upstream(
    spark: SparkSession, tables: str, refresh: Refresh, price: float
) -> None:
    """No maximum is taken back, so the outer join gives out only what stays, and the rest when it is due."""
    found = day(spark, refresh, PUBLISHED, price, "MAX")
    assert found.content == {"c1": 170, "c2": 300}
    assert "positive_negative" in found.methods
    assert found.estimated == found.counted == (6, 11)


COUNTED = {
    "groups": ("SELECT cat, sum(price) AS s FROM sales GROUP BY cat", ["SELECT cat, price FROM sales"]),
    "rows alone": ("SELECT count(*) AS n FROM sales", ["SELECT 1 AS one FROM sales"]),
    "distinct": ("SELECT DISTINCT cat FROM sales", ["SELECT cat FROM sales"]),
    "inner join": (
        "SELECT cat, sum(cost) AS s FROM sales JOIN returns USING (o_id) GROUP BY cat",
        [
            "SELECT o_id, cat FROM sales",
            "SELECT o_id, cost FROM returns",
            "SELECT cat, cost FROM sales JOIN returns USING (o_id)",
        ],
    ),
    "left join": (
        SUMMARY.format("SUM"),
        [
            "SELECT * FROM sales",
            "SELECT * FROM returns",
            "SELECT cat, price, cost FROM sales LEFT JOIN returns USING (o_id)",
        ],
    ),
    "groups of groups": (
        "SELECT n, count(*) AS m FROM (SELECT cat, count(*) AS n FROM sales GROUP BY cat) GROUP BY n",
        ["SELECT cat FROM sales", "SELECT count(*) AS n FROM sales GROUP BY cat"],
    ),
    "semi join": (
        "SELECT cat, count(*) AS n FROM sales WHERE o_id IN (SELECT o_id FROM returns) GROUP BY cat",
        [
            "SELECT o_id, cat FROM sales",
            "SELECT o_id FROM returns",
            "SELECT cat FROM sales WHERE o_id IN (SELECT o_id FROM returns)",
        ],
    ),
}
"""Queries, and what arrives at each of their operators."""
CHANGES = (
    f"INSERT INTO sales VALUES {LATER}",
    f"INSERT INTO returns VALUES {O4_AS_WELL}",
    "DELETE FROM sales WHERE o_id IN ('o3', 'o6')",
    "UPDATE returns SET cost = 11 WHERE o_id = 'o1'",
)


@pytest.mark.slow
def test_what_is_counted_is_how_the_inputs_of_operators_differ(
    spark: SparkSession, db: str, oracle: Oracle, refresh: Refresh
) -> None:
    """Beside plain queries for these inputs: of all their rows at first, then of those that came and went."""

    def inputs() -> dict[str, list[list[Row]]]:
        return {name: [spark.sql(text).collect() for text in texts] for name, (_, texts) in COUNTED.items()}

    spark.sql("CREATE TABLE sales (o_id STRING, cat STRING, price INT) USING delta")
    spark.sql("CREATE TABLE returns (o_id STRING, cost INT) USING delta")
    spark.sql(f"INSERT INTO sales VALUES {FIRST}")
    spark.sql("INSERT INTO returns VALUES ('o1', 10)")
    with confs(spark, TUPLES), packs(spark, prefer="delta"):
        before = inputs()
        for number, (name, (query, _)) in enumerate(COUNTED.items()):
            spark.sql(f"CREATE INCREMENTAL VIEW v{number} REFRESH POLICY INCREMENTAL AS {query}")
            first = spark.sql(f"SHOW REFRESHES IN v{number}").collect()[0]
            assert first.measured_cost == sum(map(len, before[name])), name
        for statement in CHANGES:
            spark.sql(statement)
            after = inputs()
            for number, (name, (query, _)) in enumerate(COUNTED.items()):
                row = refresh(f"v{number}")
                if row.kind != "NO_DATA":
                    assert row.methods == ["delta"], (name, row)
                pairs = zip(before[name], after[name], strict=True)
                assert row.measured_cost == sum(_differing(*pair) for pair in pairs), (name, statement, row)
                oracle(f"v{number}", query)
            before = after


def _differing(old: list[Row], new: list[Row]) -> int:
    """Rows that came, and rows that went."""
    gone, come = list(old), []
    for row in new:
        if row in gone:
            gone.remove(row)
        else:
            come.append(row)
    return len(gone) + len(come)


def test_other_models_count_nothing(spark: SparkSession, tables: str, refresh: Refresh) -> None:
    """Inputs of operators are steps of their own only where they are counted."""
    query = "SELECT cat, count(*) AS n FROM sales JOIN returns USING (o_id) GROUP BY cat"
    with confs(spark, {"spark.tidemill.cost.model": "default"}):
        spark.sql(f"CREATE INCREMENTAL VIEW timed REFRESH POLICY INCREMENTAL AS {query}")
    spark.sql(f"CREATE INCREMENTAL VIEW counted REFRESH POLICY INCREMENTAL AS {query}")
    timed, counted = (
        json.loads(spark.sql(f"EXPLAIN INCREMENTAL JSON VIEW {view}").collect()[0].plan)["last_run"]["steps"]
        for view in ("timed", "counted")
    )
    assert not any("arriving" in str(step) for step in timed)
    assert sum("arriving" in str(step) for step in counted) == 3
