"""Values of sub-queries beside groups, sessions, and plain views that keep other settings: Spark's answers, kept so."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime

import pytest
from pyspark.sql import Row, SparkSession

from tests.conftest import Oracle, confs

VALUES = {
    "share": "SELECT k, sum(x) / (SELECT sum(x) FROM t1) AS share FROM t1 GROUP BY k",
    "counts": "SELECT count(*) AS n, (SELECT count(*) FROM t0) AS m FROM t1",
    "unique": "SELECT DISTINCT k, (SELECT count(*) FROM t0) AS m FROM t1",
    "exists": "SELECT k, EXISTS (SELECT 1 FROM t0 WHERE y > 6) AS e FROM t1 GROUP BY k",
    "inside": """SELECT k, sum(x * (SELECT max(y) FROM t0)) AS s, max(x) > (SELECT min(y) FROM t0) AS m
                 FROM t1 GROUP BY k""",
    "key": "SELECT k + (SELECT max(y) FROM t0) AS g, count(*) AS n FROM t1 GROUP BY k + (SELECT max(y) FROM t0)",
    "only": "SELECT (SELECT max(y) FROM t0) AS g, count(*) AS n FROM t1 GROUP BY (SELECT max(y) FROM t0)",
    "sets": "SELECT k, g, sum(x) AS s, (SELECT count(*) FROM t0) AS m FROM t1 GROUP BY ROLLUP (k, g)",
    "some": "SELECT k, sum(x) FILTER (WHERE x > (SELECT max(y) FROM t0)) AS s FROM t1 GROUP BY k",
    "cases": "SELECT k, CASE WHEN count(*) > 1 THEN (SELECT max(y) FROM t0) ELSE 0 END AS c FROM t1 GROUP BY k",
    "both": """SELECT k, sum(x) / (SELECT sum(x) FROM t1) AS share FROM t1 GROUP BY k
               HAVING sum(x) > (SELECT min(y) FROM t0)""",
}
SESSIONS = {
    "visits": """SELECT session_window(ts, '5 minutes') AS w, g, count(*) AS n FROM t1
                 GROUP BY session_window(ts, '5 minutes'), g""",
    "all_of_them": """SELECT session_window.start AS a, session_window.end AS z, sum(x) AS s FROM t1
                      GROUP BY session_window(ts, '5 minutes')""",
    "gaps": """SELECT session_window.start AS a, count(DISTINCT x) AS n FROM t1
               GROUP BY session_window(ts, CASE WHEN g = 'a' THEN '5 minutes' ELSE '1 minute' END), g, k % 2""",
    "spelled": """SELECT upper(c) AS c, count(*) AS n FROM (SELECT *, g COLLATE UTF8_LCASE AS c FROM t1)
                  GROUP BY session_window(ts, '5 minutes'), c""",
    "most": """SELECT g, max(n) AS m FROM (
                   SELECT g, count(*) AS n FROM t1 GROUP BY session_window(ts, '5 minutes'), g) GROUP BY g""",
}
CHANGES = [
    "INSERT INTO t1 VALUES (1, 7, TIMESTAMP'2024-01-01 00:06:00', 'a'), (3, 8, TIMESTAMP'2024-01-02 00:06:00', 'c')",
    "DELETE FROM t1 WHERE x IN (20, 30)",
    "INSERT INTO t0 VALUES (3, 9)",
]


@pytest.fixture
def tables(spark: SparkSession, db: str) -> str:
    spark.sql("CREATE TABLE t1 (k INT, x INT, ts TIMESTAMP, g STRING) USING delta")
    spark.sql("CREATE TABLE t0 (k INT, y INT) USING delta")
    rows = ["1, 10, TIMESTAMP'2024-01-01 00:00:00', 'a'", "1, 20, TIMESTAMP'2024-01-01 00:03:00', 'a'"]
    rows.append("2, 30, TIMESTAMP'2024-01-01 00:20:00', 'b'")
    spark.sql(f"INSERT INTO t1 VALUES {', '.join(f'({r})' for r in rows)}")
    spark.sql("INSERT INTO t0 VALUES (1, 5), (2, 7)")
    return db


def maintained(
    spark: SparkSession, oracle: Oracle, refresh: Callable[..., Row], views: dict[str, str], changes: list[str]
) -> None:
    """Each view holds what its query gives, when it is made and after each change, and is never made anew."""
    for view, query in views.items():
        spark.sql(f"CREATE INCREMENTAL VIEW {view} SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {query}")
        oracle(view, query)
    for change in changes:
        spark.sql(change)
        for view, query in views.items():
            assert refresh(view).kind in {"INCREMENTAL", "NO_DATA"}
            oracle(view, query)
    for view in views:
        assert spark.sql(f"VERIFY INCREMENTAL VIEW {view}").first() == Row(matches=True, missing=0, unexpected=0)


@pytest.mark.parametrize(
    "names", [list(VALUES)[:4], pytest.param(list(VALUES)[4:], marks=[pytest.mark.slow, pytest.mark.whole])]
)
def test_values_of_sub_queries_stand_beside_groups(
    spark: SparkSession, tables: str, oracle: Oracle, refresh: Callable[..., Row], names: list[str]
) -> None:
    maintained(spark, oracle, refresh, {name: VALUES[name] for name in names}, CHANGES)


def test_a_session_ends_after_its_gap(
    spark: SparkSession, tables: str, oracle: Oracle, refresh: Callable[..., Row]
) -> None:
    """Two events three minutes apart are one session. The event between two sessions makes them one."""
    maintained(spark, oracle, refresh, SESSIONS, CHANGES[:1])
    found = spark.table("visits").where("g = 'a'").first()
    assert found is not None
    assert (found.w.start, found.w.end, found.n) == (datetime(2024, 1, 1), datetime(2024, 1, 1, 0, 11), 3)


def test_what_is_computed_in_other_time_zones_is_told_apart(
    spark: SparkSession, tables: str, oracle: Oracle, refresh: Callable[..., Row]
) -> None:
    """A plain view keeps the settings that it was made under: equal texts of two views may mean different things."""
    for name, zone in (("west", "America/Los_Angeles"), ("here", "UTC")):
        with confs(spark, {"spark.sql.session.timeZone": zone}):
            spark.sql(f"CREATE VIEW {name} AS SELECT CAST(ts AS DATE) AS d, x FROM t1")
    by_day = "SELECT d, count(*) AS n FROM {} GROUP BY d"
    views = {
        "days": f"SELECT d, sum(n) AS n FROM ({by_day.format('west')} UNION ALL {by_day.format('here')}) GROUP BY d",
        "beside": f"""SELECT a.d, a.n, b.n AS m FROM ({by_day.format("west")}) AS a
                      FULL JOIN ({by_day.format("here")}) AS b ON a.d = b.d""",
    }
    maintained(spark, oracle, refresh, views, CHANGES[:1])
    assert {r.d for r in spark.table("days").collect()} == {date(2023, 12, 31), date(2024, 1, 1), date(2024, 1, 2)}
