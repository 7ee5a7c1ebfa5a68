"""Groups and partitions of the keys that the other side of a join has, carried out by Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from pyspark.sql import SparkSession

GROUPS = "(SELECT k, count(*) AS n, min(x) AS low, sum(x) AS total FROM facts GROUP BY k)"
QUERIES = {
    "inner": f"SELECT a.k, a.y, g.n, g.low FROM asked a JOIN {GROUPS} g ON a.k = g.k",
    "null_safe": f"SELECT a.k, a.y, g.n, g.low FROM asked a JOIN {GROUPS} g ON a.k <=> g.k",
    "padded": f"SELECT a.k, a.y, g.total FROM asked a LEFT JOIN {GROUPS} g ON a.k = g.k AND g.n > 1",
    "correlated": "SELECT k, y FROM asked a WHERE y > (SELECT avg(x) FROM facts f WHERE f.k = a.k)",
    "without": f"SELECT k, y FROM asked a WHERE NOT EXISTS (SELECT 1 FROM {GROUPS} g WHERE g.k = a.k AND g.low > a.y)",
    "ranked": """SELECT a.y, r.k, r.x, r.place FROM asked a
                 JOIN (SELECT k, x, rank() OVER (PARTITION BY k ORDER BY x) AS place FROM facts) r ON a.k = r.k""",
    "by_doubles": """SELECT a.y, g.d, g.n FROM asked a
                     JOIN (SELECT d, count(*) AS n FROM facts GROUP BY d) g ON a.d = g.d""",
}
CHANGES = (
    "INSERT INTO asked VALUES (1, 5, -0.0), (NULL, 3, double('NaN')), (2, 30, 1.5), (9, 1, 2.5)",
    "DELETE FROM facts WHERE k = 1",
    "INSERT INTO facts VALUES (1, 7, 0.0), (NULL, 2, double('NaN')), (3, 1, NULL)",
    "DELETE FROM asked WHERE y < 100",
)


@pytest.fixture
def tables(spark: SparkSession, db: str) -> Iterator[str]:
    """Tables of keys with NULLs, doubles of which equal values are not the same; none is asked for yet."""
    for name, number in (("facts", "x"), ("asked", "y")):
        spark.sql(f"CREATE TABLE {name} (k INT, {number} BIGINT, d DOUBLE) USING delta")
    spark.sql(
        "INSERT INTO facts VALUES (1, 10, 0.0), (1, 2, -0.0), (2, 20, 1.5), (NULL, 4, double('NaN')), (4, 8, NULL)"
    )
    spark.conf.set("spark.tidemill.method.prefer", "explore")
    yield db
    spark.conf.unset("spark.tidemill.method.prefer")


def nodes(plan: Mapping[str, Any], *above: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    yield f"{plan['op']} {plan.get('kind', '')}".strip(), above
    for below in plan.get("inputs", ()):
        yield from nodes(below, plan["op"], *above)


@pytest.mark.parametrize("name", QUERIES)
def test_the_view_is_its_query(spark: SparkSession, tables: str, executed: list[dict[str, Any]], name: str) -> None:
    spark.sql(f"CREATE INCREMENTAL VIEW {name} REFRESH POLICY FULL AS {QUERIES[name]}")
    for change in CHANGES:
        spark.sql(change)
        executed.clear()
        spark.sql(f"REFRESH INCREMENTAL VIEW {name}")
        walked = [pair for plan in executed for pair in nodes(plan)]
        assert any(op == "join semi" and {"aggregate", "opaque"} & {*above} for op, above in walked), change
        row = spark.sql(f"VERIFY INCREMENTAL VIEW {name}").collect()[0]
        assert row.matches, f"{change}: {row.missing} missing, {row.unexpected} unexpected"
