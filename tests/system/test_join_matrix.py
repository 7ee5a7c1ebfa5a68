"""Every kind of join under every kind of condition, with NULLs and duplicates on both sides that change at once.

One view for each condition, its branches the kinds of joins: what differs is named by the branch. From round to round
another pack is preferred. DuckDB says what the queries give: their texts mean the same there. (Only of anti
joins it makes mistakes, so it gets them in other words.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import duckdb
import pytest
from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

BOTH, LEFT = "a, b, c, d", "a, b, NULL, NULL"
KINDS = {
    "inner": f"SELECT {BOTH} FROM t JOIN u ON {{0}}",
    "left": f"SELECT {BOTH} FROM t LEFT JOIN u ON {{0}}",
    "right": f"SELECT {BOTH} FROM t RIGHT JOIN u ON {{0}}",
    "full": f"SELECT {BOTH} FROM t FULL JOIN u ON {{0}}",
    "semi": f"SELECT {LEFT} FROM t WHERE EXISTS (SELECT 1 FROM u WHERE {{0}})",
    "anti": f"SELECT {LEFT} FROM t LEFT ANTI JOIN u ON {{0}}",
    "existence": "SELECT a, b, CASE WHEN EXISTS (SELECT 1 FROM u WHERE {0}) THEN 1 ELSE 0 END, NULL FROM t",
}
UNMET = f"SELECT {LEFT} FROM t LEFT JOIN (SELECT *, 1 AS met FROM u) u ON {{0}} WHERE met IS NULL"
"""The anti join in other words."""
CONDITIONS = {
    "equal": "t.a = u.c",
    "null-safe": "t.a IS NOT DISTINCT FROM u.c AND t.b = u.d",
    "less": "t.b < u.d",
    "equal and less": "t.a = u.c AND t.b < u.d",
    "equal, of one side": "t.a = u.c AND t.b > 10 AND u.d IS NOT NULL",
    "either": "t.a = u.c OR t.b = u.d",
}
NOT_IN = {
    "plain": f"SELECT {LEFT} FROM t WHERE a NOT IN (SELECT c FROM u)",
    "of some": f"SELECT {LEFT} FROM t WHERE a NOT IN (SELECT c FROM u WHERE d < 20)",
    "of known": f"SELECT {LEFT} FROM t WHERE a NOT IN (SELECT c FROM u WHERE c IS NOT NULL)",
    "correlated": f"SELECT {LEFT} FROM t WHERE a NOT IN (SELECT c FROM u WHERE u.d = t.b)",
    "or": f"SELECT {LEFT} FROM t WHERE b = 10 OR a NOT IN (SELECT c FROM u WHERE d > 10)",
}
NESTED = {
    "cross": f"SELECT {BOTH} FROM t CROSS JOIN u",
    "full of left": f"SELECT {BOTH} FROM (SELECT t.* FROM t LEFT JOIN u ON a = c) FULL JOIN u ON b = d",
    "anti of full": f"""SELECT {BOTH} FROM (SELECT * FROM t FULL JOIN u ON a = c) x
                        WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.b = x.d)""",
    "left of semi": f"SELECT {BOTH} FROM (SELECT * FROM t WHERE a IN (SELECT c FROM u)) x LEFT JOIN u ON x.b < u.d",
    "right of anti": f"""SELECT {BOTH} FROM (SELECT * FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE t.a = u.c)) x
                         RIGHT JOIN u ON x.b = u.d""",
    "of itself": "SELECT x.a, x.b, y.a, y.b FROM t x FULL JOIN t y ON x.a = y.b - 10",
}
FAMILIES = {
    **{name: {k: text.format(condition) for k, text in KINDS.items()} for name, condition in CONDITIONS.items()},
    "not in": NOT_IN,
    "nested": NESTED,
}
ROUNDS = {
    "both gain, pairs and duplicates": (
        "INSERT INTO t VALUES (2, 20), (2, 20), (NULL, 15), (5, NULL)",
        "INSERT INTO u VALUES (2, 25), (5, 15), (5, 15), (NULL, NULL)",
    ),
    "keys become NULL and NULL becomes a key": (
        "UPDATE t SET a = CASE WHEN a IS NULL THEN 3 WHEN a = 1 THEN NULL ELSE a END",
        "UPDATE u SET c = CASE WHEN c IS NULL THEN 4 WHEN c = 5 THEN NULL ELSE c END",
    ),
    "both lose, and what comes goes again": (
        "DELETE FROM t WHERE b = 20 OR b IS NULL",
        "INSERT INTO t VALUES (7, 70), (1, 10)",
        "DELETE FROM t WHERE a = 7",
        "DELETE FROM u WHERE c = 1 OR d IS NULL",
    ),
    "the right side is emptied": ("DELETE FROM u", "INSERT INTO t VALUES (4, 5), (NULL, NULL)"),
    "the sides change places": (
        "INSERT INTO u SELECT a, b FROM t UNION ALL SELECT a, b FROM t WHERE a IS NOT NULL",
        "DELETE FROM t",
    ),
}
PACKS = (None, "affected", "recompute")
"""Preferred in turn; by themselves joins change by the rules of `delta`."""


@pytest.fixture
def tables(spark: SparkSession, db: str) -> Iterator[str]:
    """`t` and `u`; without code made for each plan, which would take longer than these plans."""
    spark.conf.set("spark.sql.codegen.wholeStage", "false")
    spark.sql("CREATE TABLE t (a INT, b INT) USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    spark.sql("CREATE TABLE u (c INT, d INT) USING delta")
    spark.sql("INSERT INTO t VALUES (1, 10), (1, 10), (2, 20), (3, NULL), (NULL, 30), (NULL, NULL), (4, 5)")
    spark.sql("INSERT INTO u VALUES (1, 15), (1, 5), (3, 30), (4, 5), (4, 5), (NULL, 20)")
    yield db
    spark.conf.unset("spark.sql.codegen.wholeStage")


def tagged(branches: Mapping[str, str]) -> str:
    """All branches in one query, each row with its branch."""
    parts = (f"SELECT '{kind}' AS kind, p, q, r, s FROM ({text}) AS x(p, q, r, s)" for kind, text in branches.items())
    return " UNION ALL ".join(parts)


def in_other_words(family: str) -> dict[str, str]:
    """What DuckDB gets instead of the branches of that name."""
    return {"anti": UNMET.format(CONDITIONS[family])} if family in CONDITIONS else {}


def told(spark: SparkSession, queries: Mapping[str, str]) -> dict[str, Counter[tuple[object, ...]]]:
    """What each query gives over the present rows of the tables, according to DuckDB."""
    with duckdb.connect() as connection:
        for table, columns in {"t": "a INT, b INT", "u": "c INT, d INT"}.items():
            connection.execute(f"CREATE TABLE {table} ({columns})")
            for row in spark.table(table).collect():
                values = ", ".join("NULL" if value is None else str(value) for value in row)
                connection.execute(f"INSERT INTO {table} VALUES ({values})")
        return {name: Counter(connection.execute(query).fetchall()) for name, query in queries.items()}


def held(spark: SparkSession, views: Mapping[str, str]) -> dict[str, Counter[tuple[object, ...]]]:
    """What each view holds; one job for all."""
    found = {name: Counter[tuple[object, ...]]() for name in views}
    for row in spark.sql(" UNION ALL ".join(f"SELECT '{name}', * FROM {name}" for name in views)).collect():
        found[row[0]][tuple(row)[1:]] += 1
    return found


def test_each_join_under_each_condition(spark: SparkSession, tables: str) -> None:
    families = dict(zip((f"v{i}" for i in range(len(FAMILIES))), FAMILIES, strict=True))
    views = {name: tagged(FAMILIES[family]) for name, family in families.items()}
    queries = {name: tagged(FAMILIES[family] | in_other_words(family)) for name, family in families.items()}
    for name, query in views.items():
        spark.sql(f"CREATE INCREMENTAL VIEW {name} SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {query}")
    for number, (round_, statements) in enumerate({"created": (), **ROUNDS}.items()):
        for statement in statements:
            spark.sql(statement)
        how = {}
        for i, name in enumerate(views if statements else ()):
            pack = PACKS[(number + i) % len(PACKS)]
            if pack:
                spark.conf.set("spark.tidemill.method.prefer", pack)
            try:
                row = spark.sql(f"REFRESH INCREMENTAL VIEW {name}").collect()[0]
            finally:
                spark.conf.unset("spark.tidemill.method.prefer")
            how[name] = (pack, row.methods)
            assert row.kind == "INCREMENTAL", (families[name], round_, pack, row)
        wanted, found = told(spark, queries), held(spark, views)
        for name, family in families.items():
            missing, unexpected = wanted[name] - found[name], found[name] - wanted[name]
            assert (missing, unexpected) == ({}, {}), (family, round_, how.get(name))
