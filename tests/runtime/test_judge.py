"""The judge of VERIFY: Spark's own plan of the query, and rows that are equal exactly if all their values are."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import Column, Row, SparkSession
from pyspark.sql.functions import expr

from tidemill.bridge.jvm import Jvm

VARIANT = "to_variant_object(struct(TIMESTAMP'2024-01-01 00:00:00."

EQUAL = [
    ("0.0D", "-0.0D"),
    ("double('NaN')", "double('NaN')"),
    ("map('a', 1, 'b', 2)", "map('b', 2, 'a', 1)"),
    ("map(X'01', map(1, 2, 3, 4))", "map(X'01', map(3, 4, 1, 2))"),
    ("""parse_json('{"a": 1, "b": [2.50]}')""", """parse_json('{"b": [2.5], "a": 1}')"""),
    ("1.50BD", "1.500BD"),
]
DIFFERENT = [
    ("TIMESTAMP'2024-01-01 00:00:00.123456'", "TIMESTAMP'2024-01-01 00:00:00.123999'"),
    ("TIMESTAMP_NTZ'2024-01-01 00:00:00.000001'", "TIMESTAMP_NTZ'2024-01-01 00:00:00.000002'"),
    ("DATE'2024-01-01'", "DATE'2024-01-02'"),
    ("X'0102'", "X'0103'"),
    ("'hello' COLLATE UTF8_LCASE", "'HELLO' COLLATE UTF8_LCASE"),
    ("'a' COLLATE UTF8_BINARY_RTRIM", "'a ' COLLATE UTF8_BINARY_RTRIM"),
    ("''", "CAST(NULL AS STRING)"),
    ("'null'", "CAST(NULL AS STRING)"),
    ("1.5BD", "1.6BD"),
    ("1", "2"),
    ("true", "false"),
    ("1.0D", "1.000001D"),
    ("double('Infinity')", "double('-Infinity')"),
    ("INTERVAL '1' DAY", "INTERVAL '2' DAY"),
    ("INTERVAL '1' MONTH", "INTERVAL '2' MONTH"),
    ("make_interval(0, 1)", "make_interval(0, 0, 0, 30)"),
    ("array('a', 'bc')", "array('ab', 'c')"),
    ("array(1, NULL)", "array(1)"),
    ("struct('a' AS f, 'bc' AS g)", "struct('ab' AS f, 'c' AS g)"),
    ("map('a', 1, 'b', 2)", "map('a', 2, 'b', 1)"),
    ("map(X'01', 1)", "map(X'02', 1)"),
    (f"{VARIANT}123456' AS t))", f"{VARIANT}123999' AS t))"),
]
NESTS = [
    "{}",
    "array(NULL, {})",
    "named_struct('m', map('k', 'v'), 'f', {})",
    "map('k', {})",
    "array(named_struct('m', map(1, map('k', {}))))",
]


@pytest.fixture
def compared(spark: SparkSession) -> Any:
    """`compared([(one, other)...])`: for each pair of SQL expressions whether the judge takes them for equal."""
    jvm: Any = spark._jvm
    jvm = jvm.org.apache.spark.sql
    exprs = jvm.classic.ExpressionUtils

    def key(text: str) -> Column:
        row = exprs.expression(expr(f"struct({text})")._jc)
        return Column(exprs.column(jvm.tidemill.judge.ComparableRow(row))).getField("key")

    def of(pairs: list[tuple[str, str]]) -> list[bool]:
        columns = [(key(one) == key(other)).alias(f"c{i}") for i, (one, other) in enumerate(pairs)]
        (row,) = spark.range(1).select(*columns).collect()
        return list(row)

    return of


@pytest.mark.parametrize("nest", NESTS)
def test_rows_are_equal_if_all_their_values_are(compared: Any, nest: str) -> None:
    """Every kind of value in every kind of nest."""
    pairs = [(nest.format(one), nest.format(other)) for one, other in (*EQUAL, *DIFFERENT)]
    found = dict(zip(pairs, compared(pairs), strict=True))
    assert found == {pair: i < len(EQUAL) for i, pair in enumerate(pairs)}


def test_no_plan_of_ours_takes_part(spark: SparkSession, events: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """VERIFY runs no wire plan: what the normal form or a step gets wrong cannot be wrong on both sides."""
    spark.sql("CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS SELECT s, count(*) AS n FROM events GROUP BY s")
    called = list[str]()
    invoke = Jvm.invoke

    def noted(self: Jvm, method: str, request: Any = None) -> Any:
        called.append(method)
        return invoke(self, method, request)

    monkeypatch.setattr(Jvm, "invoke", noted)
    assert spark.sql("VERIFY INCREMENTAL VIEW v").first() == Row(matches=True, missing=0, unexpected=0)
    assert "judge" in called
    assert "run" not in called


def test_floats_may_differ_in_their_last_digits_at_any_depth(spark: SparkSession, db: str) -> None:
    """A sum of floats comes out otherwise when its rows come in another order."""
    spark.sql("CREATE TABLE t (k INT, d DOUBLE) USING delta")
    spark.sql("INSERT INTO t SELECT id % 3, 0.1D * id FROM range(0, 200, 1, 7)")
    query = "SELECT k, array(sum(d)) AS a, named_struct('s', sum(d * 1e10), 'k', k) AS s FROM t GROUP BY k"
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS {query}")
    spark.sql("INSERT INTO t SELECT id % 3, 0.7D / (id + 1) FROM range(0, 200, 1, 3)")
    spark.sql("REFRESH INCREMENTAL VIEW v").collect()
    assert spark.sql("VERIFY INCREMENTAL VIEW v").first() == Row(matches=True, missing=0, unexpected=0)
