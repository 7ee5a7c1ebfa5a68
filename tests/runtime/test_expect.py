"""EXPECT and the history of arrivals: where they are said, shown and kept, and what they change in plans."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

import tidemill
from tests.conftest import Oracle

pytestmark = pytest.mark.slow

Refresh = Callable[..., Row]
Fails = Callable[[str, str], PySparkException]
SCHEDULE = "SCHEDULE (AT '08:00' COST 0.9 NO OUTPUT, AT '16:00' COST 0.9 NO OUTPUT, AT '24:00')"
QUERY = "SELECT cat, max(price) AS m, count(cost) AS n FROM sales s LEFT JOIN returns r ON s.o_id = r.o_id GROUP BY cat"
CLAUSE = "EXPECT (sales 300 ROWS WITH 10 PERCENT DELETES, returns COMPLETE)"


def shown(spark: SparkSession, view: str = "v") -> str:
    return str(spark.sql(f"SHOW CREATE INCREMENTAL VIEW {view}").collect()[0][0])


def described(spark: SparkSession, view: str = "v") -> tuple[str, str | None] | None:
    """What DESCRIBE EXTENDED says of EXPECT, and its comment."""
    rows = spark.sql(f"DESCRIBE INCREMENTAL VIEW EXTENDED {view}").collect()
    return next(((r.data_type, r.comment) for r in rows if r.col_name == "Expect"), None)


def expected(spark: SparkSession, target: str = "VIEW v") -> list[dict[str, tuple[float, float]]]:
    """Inserts and deletes until each point to come that is planned, by table."""
    points = json.loads(spark.sql(f"EXPLAIN INCREMENTAL JSON {target}").collect()[0].plan)["points"]
    assert points[0]["expected"] == {}

    def rows(point: dict[str, Any]) -> dict[str, tuple[float, float]]:
        found = point["expected"].items()
        return {name.rpartition(".")[2]: (known["inserts"], known["deletes"]) for name, known in found}

    return [rows(point) for point in points[1:]]


def sold(spark: SparkSession, rows: int) -> None:
    spark.sql(f"INSERT INTO sales SELECT concat('n', id), 'c1', id FROM range({rows})")


def test_where_it_is_said_and_shown(spark: SparkSession, sales: str) -> None:
    create = f"CREATE INCREMENTAL VIEW v {SCHEDULE} {CLAUSE} AS {QUERY}"
    assert expected(spark, create) == [{"sales": (135.0, 15.0)}] * 2
    spark.sql(create)
    assert CLAUSE in shown(spark)
    assert described(spark) == (CLAUSE[8:-1], None)
    view = tidemill.IncrementalView.forName(spark, "v")
    view.expect(tidemill.expected(f"{sales}.sales", 2400, per="day"), tidemill.complete("returns"))
    assert f"EXPECT ({sales}.sales 2400 ROWS PER DAY, returns COMPLETE)" in shown(spark)
    assert expected(spark) == [{"sales": (800.0, 0.0)}] * 2
    assert "  expects spark_catalog." in view.explain()
    view.expect()
    assert "EXPECT" not in shown(spark)
    assert described(spark) is None


def test_the_python_surface_creates_with_it(spark: SparkSession, sales: str) -> None:
    schedule = [tidemill.on_demand(output=False), tidemill.on_demand()]
    said = [tidemill.expected("sales", 300, deletes=10), tidemill.complete("returns")]
    view = tidemill.create_incremental_view(spark, "v", QUERY, schedule, expect=said)
    assert CLAUSE in view.showCreate()
    for wrong in ({"rows": -1}, {"rows": 1, "per": "WEEK"}, {"rows": 1, "deletes": 101}):
        with pytest.raises(ValueError, match=r"rows|per|deletes"):
            tidemill.expected("sales", **wrong)


def test_no_state_is_kept_of_what_does_not_change(spark: SparkSession, sales: str) -> None:
    query = "SELECT cat, sum(price) AS s FROM sales GROUP BY cat"
    said = {"": True, "(sales 20 ROWS)": True, "(sales 0 ROWS)": False, "(sales COMPLETE)": False}
    for expect, kept in ((f"EXPECT {text}" if text else "", kept) for text, kept in said.items()):
        spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) {expect} AS {query}")
        states = spark.sql("DESCRIBE INCREMENTAL VIEW EXTENDED v").where("col_name LIKE 'State %'").collect()
        assert bool(states) == kept, expect
        spark.sql("DROP INCREMENTAL VIEW v")


def test_what_is_refused(spark: SparkSession, sales: str, fails: Fails, tmp_path: Path) -> None:
    create = f"CREATE INCREMENTAL VIEW v {SCHEDULE} EXPECT ({{}}) AS {QUERY}"
    for table in ("nothing", "default.sales", "v"):
        error = fails(create.format(f"{table} 5 ROWS"), "TIDEMILL_INVALID_CLAUSE")
        assert f"the view does not read {table}; it reads spark_catalog.{sales}." in str(error)
    fails(create.format(f"sales 5 ROWS, {sales}.sales COMPLETE"), "TIDEMILL_INVALID_CLAUSE")
    fails("EXPLAIN INCREMENTAL " + create.format("nothing COMPLETE"), "TIDEMILL_INVALID_CLAUSE")
    assert spark.sql("SHOW INCREMENTAL VIEWS").collect() == []
    spark.sql(f"CREATE INCREMENTAL VIEW v {SCHEDULE} {CLAUSE} AS {QUERY}")
    fails("ALTER INCREMENTAL VIEW v SET EXPECT (nothing COMPLETE)", "TIDEMILL_INVALID_CLAUSE")
    fails("ALTER INCREMENTAL VIEW v SET EXPECT (sales -1 ROWS)", "PARSE_SYNTAX_ERROR")
    fails("ALTER INCREMENTAL VIEW v AS SELECT cat FROM sales", "TIDEMILL_INVALID_CLAUSE")
    assert CLAUSE in shown(spark)


def test_what_keeps_it(spark: SparkSession, sales: str, tmp_path: Path) -> None:
    create = f"CREATE {{}} INCREMENTAL VIEW v LOCATION '{tmp_path}/v' {SCHEDULE} {{}} AS {QUERY}"
    spark.sql(create.format("", CLAUSE))
    spark.sql(f"ALTER INCREMENTAL VIEW v AS {QUERY} HAVING cat IS NOT NULL")
    assert CLAUSE in shown(spark)
    spark.sql("ALTER INCREMENTAL VIEW v SET EXPECT (sales 0 ROWS)")
    spark.sql("ALTER INCREMENTAL VIEW v SET REFRESH POLICY INCREMENTAL")
    spark.sql("ALTER INCREMENTAL VIEW v RENAME TO w")
    assert described(spark, "w") == ("sales 0 ROWS", None)
    spark.sql("ALTER INCREMENTAL VIEW w RENAME TO v")
    spark.sql("DROP INCREMENTAL VIEW v")
    spark.sql(
        create.format("", "EXPECT (returns 7 ROWS)").replace("GROUP BY cat", "GROUP BY cat HAVING cat IS NOT NULL")
    )
    assert described(spark) == ("returns 7 ROWS", None)
    spark.sql(create.format("OR REPLACE", ""))
    assert described(spark) is None


def test_tables_stay_the_same_wherever_it_is_said(spark: SparkSession, sales: str, tmp_path: Path) -> None:
    """In another database, the table's name is that of another table, or of none."""
    create = (
        f"CREATE INCREMENTAL VIEW {sales}.v LOCATION '{tmp_path}/v' {SCHEDULE} {{}} AS SELECT cat FROM {sales}.sales"
    )
    spark.sql(create.format("EXPECT (sales 240 ROWS)"))
    spark.sql("USE default")
    spark.sql(f"ALTER INCREMENTAL VIEW {sales}.v AS SELECT DISTINCT cat FROM {sales}.sales")
    assert f"EXPECT ({sales}.sales 240 ROWS)" in shown(spark, f"{sales}.v")
    assert expected(spark, f"VIEW {sales}.v") == [{"sales": (120.0, 0.0)}] * 2
    spark.sql(f"DROP INCREMENTAL VIEW {sales}.v")
    spark.sql(f"USE {sales}")
    spark.sql(create.format("EXPECT (sales 60 ROWS)").replace("SELECT cat", "SELECT DISTINCT cat"))
    assert expected(spark) == [{"sales": (30.0, 0.0)}] * 2


def test_complete_is_about_one_cycle(spark: SparkSession, sales: str, refresh: Refresh) -> None:
    spark.sql(f"CREATE INCREMENTAL VIEW v {SCHEDULE} AS {QUERY}")
    for rows in (10, 20, 30):
        sold(spark, rows)
        refresh("v", f"AT {rows // 10}")
    sold(spark, 10)
    refresh("v", "AT 1")
    spark.sql("ALTER INCREMENTAL VIEW v SET EXPECT (sales COMPLETE)")
    sold(spark, 5)
    assert expected(spark) == [{}]
    assert described(spark) == ("sales COMPLETE", None)
    refresh("v", "AT 3")
    sold(spark, 10)
    assert expected(spark) == [{"sales": (20.0, 0.0)}, {"sales": (30.0, 0.0)}]
    assert described(spark) == ("sales COMPLETE", "COMPLETE was said of an earlier cycle")


def test_the_history_foresees_the_next_cycle(spark: SparkSession, sales: str, refresh: Refresh) -> None:
    """One cycle; the rest of the second is expected to be as it was, whatever came in its first step."""
    spark.sql(f"CREATE INCREMENTAL VIEW v {SCHEDULE} AS {QUERY}")
    for point, rows in ((1, 5), (2, 40), (3, 7)):
        sold(spark, rows)
        if point == 2:
            spark.sql("DELETE FROM returns")
            spark.sql("INSERT INTO returns VALUES ('o1', 10), ('o2', 5)")
        refresh("v", f"AT {point}")
    sold(spark, 900)
    middle, evening = expected(spark)
    assert middle["sales"] == (40.0, 0.0)
    assert middle["returns"] == (2.0, 1.0)
    assert evening == {"sales": (7.0, 0.0)}
    refresh("v", "AT 1")
    sold(spark, 1)
    assert expected(spark) == [{"sales": (7.0, 0.0)}]


def test_what_is_expected_decides_about_early_work(
    spark: SparkSession, db: str, oracle: Oracle, refresh: Refresh
) -> None:
    """The largest value of each group is computed anew where rows go: that is worth doing early only if no more go."""
    spark.sql("CREATE TABLE t (k BIGINT, v BIGINT) USING delta")
    spark.sql("INSERT INTO t SELECT id % 1000, id FROM range(300000)")
    query = "SELECT k, max(v) AS m FROM t GROUP BY k"
    schedule = "SCHEDULE (AT '08:00' COST 0.6 NO OUTPUT, AT '24:00')"
    clauses = {"unsaid": "", "complete": "EXPECT (t COMPLETE)"}
    for name, clause in clauses.items():
        spark.sql(f"CREATE INCREMENTAL VIEW {name} {schedule} {clause} AS {query}")
    spark.sql("DELETE FROM t WHERE v % 10 = 3")
    spark.sql("INSERT INTO t SELECT id % 1000, id FROM range(60000)")
    early = {name: refresh(name, "AT 1") for name in clauses}
    assert early["unsaid"].jobs == 0
    assert early["complete"].jobs > 0
    spark.sql("DELETE FROM t WHERE v = 299999")  # what was said was wrong: the plan was dear, the view is right
    for name in clauses:
        assert refresh(name).kind != "PARTIAL"
        oracle(name, query)
