"""The papers' running example (Tempura, section 2): its two contents as printed, and beyond it with deletions."""

from __future__ import annotations

import io

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from examples.demo import day
from tests.system.conftest import World

STATUS = "SELECT sales.o_id, cat, price, cost FROM sales LEFT OUTER JOIN returns ON sales.o_id = returns.o_id"
SUMMARY = f"SELECT cat, SUM(IF(cost IS NULL, price, -cost)) AS gross FROM ({STATUS}) GROUP BY cat"
USING = """SELECT cat, SUM(IF(cost IS NULL, price, -cost)) AS gross
           FROM sales LEFT OUTER JOIN returns USING (o_id) GROUP BY cat"""
T1 = [("c1", 280), ("c2", 150)]
T2 = [("c1", 265), ("c2", 500)]


@pytest.mark.parametrize(
    "feed", [pytest.param(True, id="feed"), pytest.param(False, id="files", marks=pytest.mark.slow)]
)
def test_the_papers_contents(world: World, feed: bool) -> None:
    on = str(feed).lower()
    world.change(
        f"CREATE OR REPLACE TABLE sales (o_id STRING, cat STRING, price INT) USING delta "
        f"TBLPROPERTIES (delta.enableChangeDataFeed = {on})",
        f"CREATE OR REPLACE TABLE returns (o_id STRING, cost INT) USING delta "
        f"TBLPROPERTIES (delta.enableChangeDataFeed = {on})",
        "INSERT INTO sales VALUES ('o1','c1',100), ('o2','c2',150), ('o3','c1',120), ('o4','c1',170)",
        "INSERT INTO returns VALUES ('o1', 10)",
    )
    status, summary = f"status_{on}", f"summary_{on}"
    world.view(status, STATUS)
    world.view(summary, SUMMARY if feed else USING)
    # The paper prints c1 280 = 120 + 170 - 10 and c2 150.
    assert world.rows(f"SELECT cat, gross FROM {summary}") == T1
    world.change(
        "INSERT INTO sales VALUES ('o5','c2',300), ('o6','c1',150), ('o7','c2',220)",
        "INSERT INTO returns VALUES ('o2', 20), ('o6', 15)",
    )
    assert world.refresh(summary).rows_out.asDict() == {"inserts": 2, "deletes": 2}
    assert world.rows(f"SELECT cat, gross FROM {summary}") == T2
    # o2 loses its padded row and gains a joined one; o5, o6, o7 are new.
    assert world.refresh(status).rows_out.asDict() == {"inserts": 4, "deletes": 1}
    assert ("o2", "c2", 150, 20) in world.rows(f"SELECT * FROM {status}")

    # The other way round: what arrived at t2 is taken back.
    world.change("DELETE FROM returns WHERE o_id IN ('o2', 'o6')", "DELETE FROM sales WHERE o_id IN ('o5', 'o6', 'o7')")
    world.refresh(summary)
    world.refresh(status)
    assert world.rows(f"SELECT cat, gross FROM {summary}") == T1
    # The frequent retraction of the papers: o4 is returned as well; then an order is cancelled and a category goes.
    world.change("INSERT INTO returns VALUES ('o4', 30)", "DELETE FROM sales WHERE o_id = 'o2'")
    world.refresh(summary)
    assert world.rows(f"SELECT cat, gross FROM {summary}") == [("c1", 80)]
    world.refresh(status)


@pytest.mark.slow
def test_the_demos_day(spark: SparkSession, db: str) -> None:
    spark.sql("CREATE TABLE sales (o_id STRING, cat STRING, price BIGINT) USING delta")
    spark.sql("INSERT INTO sales VALUES ('o1', 'c1', 100), ('o2', 'c2', 150)")
    out = io.StringIO()
    assert day.run(spark, Console(file=out, width=118))
    lines = [line.split() for line in out.getvalue().splitlines() if line[2:3] == ":"]
    found = {
        who: [line[0] for line in lines if line[1] == who and "nothing" not in line] for who in (*day.VIEWS, "sales")
    }
    assert found == {
        "board": ["09:00", "15:00", "21:00"],
        "alerts": ["07:30", "12:40", "19:10"],
        "daily": ["14:00", "00:00"],
        "morning": ["09:00"],
        "sales": ["07:30", "12:40", "19:10"],
    }
    assert [line[0] for line in lines if line[1] == "board" and "nothing" in line] == [
        *("03:00", "06:00", "12:00", "18:00", "00:00"),
    ]
