"""Each operator of the surface under STRICT, with NULLs and duplicates, through changes of all tables at once."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.conftest import difference

pytestmark = pytest.mark.slow

JOINS = {
    "semi": "SELECT * FROM t WHERE a IN (SELECT c FROM u)",
    "semi on more": "SELECT * FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.c = t.a AND u.d > t.b)",
    "anti": "SELECT * FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.c = t.a)",
    "anti, no equality": "SELECT * FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.d > t.b)",
    "not in": "SELECT * FROM t WHERE a NOT IN (SELECT c FROM u WHERE d < 30)",
    "not in, correlated": "SELECT * FROM t WHERE a NOT IN (SELECT c FROM u WHERE u.d = t.b)",
    "not in, pairs": "SELECT * FROM t WHERE (a, b) NOT IN (SELECT c, d FROM u)",
    "not in, as a value": "SELECT a, b, a NOT IN (SELECT c FROM u) AS x FROM t",
    "existence": "SELECT a, b, a IN (SELECT c FROM u) AS met FROM t",
    "existence in a condition": "SELECT * FROM t WHERE b = 10 OR EXISTS (SELECT 1 FROM u WHERE u.c = t.a)",
    "full": "SELECT * FROM t FULL JOIN u ON t.a = u.c AND t.b < u.d",
    "full, no equality": "SELECT * FROM t FULL JOIN u ON t.b > u.d",
    "left, no equality": "SELECT * FROM t LEFT JOIN u ON t.b > u.d",
    "null-safe": "SELECT * FROM t FULL JOIN u ON t.a <=> u.c",
    "cross": "SELECT t.b, u.d FROM t CROSS JOIN u",
    "outer of outer": "SELECT t.a, u.d, w.b FROM t LEFT JOIN u ON t.a = u.c RIGHT JOIN t w ON u.d = w.b",
}
SUBQUERIES = {
    "scalar in where": "SELECT * FROM t WHERE b > (SELECT avg(d) FROM u)",
    "scalar in having": "SELECT a, sum(b) AS s FROM t GROUP BY a HAVING sum(b) > (SELECT sum(d) / 4 FROM u)",
    "scalar in the list": "SELECT a, b + (SELECT max(d) FROM u) AS x FROM t",
    "scalar of nothing": "SELECT a, (SELECT d FROM u WHERE d > 1000) AS x FROM t",
    "scalar within an expression": "SELECT a, CASE WHEN b > (SELECT min(d) FROM u) THEN 'over' ELSE 'under' END FROM t",
    "count of nothing": "SELECT a, (SELECT count(*) FROM u WHERE u.c = t.a) AS n FROM t",
    "correlated": "SELECT * FROM t WHERE b > (SELECT avg(d) FROM u WHERE u.c = t.a)",
    "exists without correlation": "SELECT * FROM t WHERE EXISTS (SELECT 1 FROM u WHERE d > 35)",
    "not exists without correlation": "SELECT * FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE d > 35)",
}
SETS = {
    "union": "SELECT a FROM t UNION SELECT c FROM u",
    "intersect": "SELECT a FROM t INTERSECT SELECT c FROM u",
    "intersect all": "SELECT a FROM t INTERSECT ALL SELECT c FROM u",
    "except": "SELECT a FROM t EXCEPT SELECT c FROM u",
    "except all": "SELECT a FROM t EXCEPT ALL SELECT c FROM u",
}
AGGREGATES = {
    "rollup": "SELECT a, b, count(*) AS n, sum(b) AS s, grouping(a) AS g FROM t GROUP BY ROLLUP (a, b)",
    "cube": "SELECT a, b, max(b) AS m FROM t GROUP BY CUBE (a, b)",
    "grouping sets": "SELECT a, b, count(*) AS n FROM t GROUP BY GROUPING SETS ((a), (b), ())",
    "several distinct": "SELECT a, count(DISTINCT b) AS x, sum(DISTINCT b) AS y, count(*) AS n FROM t GROUP BY a",
    "filter": "SELECT a, sum(b) FILTER (WHERE b > 10) AS s, count(*) FILTER (WHERE b IS NULL) AS n FROM t GROUP BY a",
    "moments": "SELECT a, stddev_samp(b) AS s, var_pop(b) AS v FROM t GROUP BY a",
}
REST = {
    "rank": "SELECT a, b, rank() OVER (PARTITION BY a ORDER BY b DESC) AS r FROM t",
    "top of each": """SELECT * FROM (SELECT a, b, row_number() OVER (PARTITION BY a ORDER BY b, a) AS r FROM t)
                      WHERE r < 3""",
    "share": "SELECT c, d, d * 100 / sum(d) OVER (PARTITION BY c) AS share FROM u",
    "running": "SELECT c, d, sum(d) OVER (PARTITION BY c ORDER BY d) AS s FROM u",
    "window over groups": "SELECT a, sum(b) AS s, rank() OVER (ORDER BY sum(b)) AS r FROM t GROUP BY a",
    "two windows": """SELECT a, b, rank() OVER (PARTITION BY a ORDER BY b) AS x,
                             rank() OVER (PARTITION BY b ORDER BY a) AS y FROM t""",
    "generated": "SELECT a, x FROM t LATERAL VIEW OUTER explode(array(b, b + 1)) AS x",
    "offset alone": "SELECT c, d FROM u ORDER BY d, c OFFSET 2",
    "limit of one row": "SELECT count(DISTINCT a) AS n, sum(b) AS s FROM t ORDER BY count(DISTINCT a) LIMIT 100",
    "limit below": "SELECT a, count(*) AS n FROM (SELECT a, b FROM t ORDER BY b DESC, a LIMIT 4) GROUP BY a",
}
QUERIES = {**JOINS, **SUBQUERIES, **SETS, **AGGREGATES, **REST}
ROUNDS = (
    ("INSERT INTO t VALUES (2, 20), (NULL, 40)", "DELETE FROM u WHERE c = 1"),
    (
        "UPDATE u SET d = 40 WHERE c IS NULL",
        "INSERT INTO u VALUES (1, 10), (1, 10), (5, NULL)",
        "DELETE FROM t WHERE a = 2",
    ),
    ("DELETE FROM u", "UPDATE t SET a = a + 1 WHERE b < 30"),
    (
        "INSERT INTO u VALUES (3, 30), (NULL, 5), (2, 36)",
        "DELETE FROM t WHERE a IS NULL",
        "INSERT INTO t VALUES (3, 5)",
    ),
)


@pytest.fixture
def tables(spark: SparkSession, db: str) -> str:
    spark.sql("CREATE TABLE t (a INT, b INT) USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    spark.sql("CREATE TABLE u (c INT, d INT) USING delta")
    spark.sql("INSERT INTO t VALUES (1, 10), (1, 10), (2, 20), (3, NULL), (NULL, 30), (NULL, NULL), (4, 5)")
    spark.sql("INSERT INTO u VALUES (1, 15), (1, 5), (3, 30), (4, 5), (NULL, 20)")
    return db


@pytest.mark.parametrize("group", ["JOINS", "SUBQUERIES", "SETS", "AGGREGATES", "REST"])
def test_under_strict(spark: SparkSession, tables: str, group: str) -> None:
    views = {f"v{i}": query for i, query in enumerate(globals()[group].values())}
    for name, query in views.items():
        spark.sql(f"CREATE INCREMENTAL VIEW {name} SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {query}")
        assert difference(spark, name, query) == (0, 0), query
    for number, statements in enumerate(ROUNDS):
        for statement in statements:
            spark.sql(statement)
        for name, query in views.items():
            row = spark.sql(f"REFRESH INCREMENTAL VIEW {name}").collect()[0]
            assert row.kind in {"INCREMENTAL", "NO_DATA"}, (query, row)
            assert difference(spark, name, query) == (0, 0), (query, number, row)


def test_more_than_one_row_is_still_an_error(spark: SparkSession, tables: str) -> None:
    query = "SELECT a, (SELECT d FROM u WHERE d > 20) AS x FROM t"
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {query}")
    spark.sql("INSERT INTO u VALUES (9, 99)")
    with pytest.raises(Exception, match="SCALAR_SUBQUERY_TOO_MANY_ROWS"):
        spark.sql("REFRESH INCREMENTAL VIEW v")
    spark.sql("DELETE FROM u WHERE c = 9")
    assert spark.sql("REFRESH INCREMENTAL VIEW v").collect()[0].kind in {"INCREMENTAL", "NO_DATA"}
    assert difference(spark, "v", query) == (0, 0)
