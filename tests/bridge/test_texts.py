"""Texts of expressions: states go by them, so expressions that compute different things have different ones."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from tests.bridge.codec import Call, analyze
from tests.conftest import confs

PAIRS = [
    ("from_json(j, 'a INT')", "from_json(j, 'b INT')"),
    ("from_json(j, 'a INT')", "from_json(j, 'a INT', map('mode', 'FAILFAST'))"),
    ("from_csv(j, 'a INT')", "from_csv(j, 'a INT', map('sep', ';'))"),
    ("max(variant_get(v, '$.a', 'int'))", "max(variant_get(v, '$.a', 'string'))"),
    ("to_csv(s)", "to_csv(s, map('sep', ';'))"),
    ("first(x)", "first(x, true)"),
    ("any_value(x)", "any_value(x) IGNORE NULLS"),
    ("approx_count_distinct(x)", "approx_count_distinct(x, 0.1)"),
    ("percentile_cont(0.5) WITHIN GROUP (ORDER BY d)", "percentile_cont(0.5) WITHIN GROUP (ORDER BY d DESC)"),
    ("lag(x) OVER (ORDER BY d)", "lag(x) IGNORE NULLS OVER (ORDER BY d)"),
    ("try_add(x, 1)", "x + 1"),
    ("try_divide(x, x)", "x / x"),
    ("element_at(a, 1)", "try_element_at(a, 1)"),
    ("a[x]", "get(a, x)"),
    ("sum(x)", "try_sum(x)"),
    ("CAST(d AS INT)", "TRY_CAST(d AS INT)"),
]
PLAIN = ["first(x)", "collect_list(x)", "approx_count_distinct(x)", "corr(d, x)", "CAST(j AS DATE)", "j LIKE 'a%'"]


@pytest.fixture
def text(spark: SparkSession, db: str, call: Call) -> Callable[[str], str]:
    """`text(expression)`: what the query document says of it over columns of all sorts."""
    spark.sql("CREATE TABLE t (j STRING, v VARIANT, a ARRAY<INT>, d DOUBLE, x INT, s STRUCT<f: INT>) USING parquet")

    def of(expression: str) -> str:
        document = analyze(call, f"SELECT {expression} AS c FROM t", db)
        return json.dumps([document["expressions"], document["root"]])

    return of


def test_different_expressions_have_different_texts(text: Callable[[str], str]) -> None:
    same = [(one, other) for one, other in PAIRS if text(one) == text(other)]
    assert not same


def test_nothing_is_added_where_a_function_is_as_it_is_by_default(text: Callable[[str], str]) -> None:
    """Names of states that were made before stay as they are."""
    assert not [e for e in PLAIN if re.search(r" \{\d+: ", text(e))]


def test_plain_views_keep_their_time_zone_and_their_errors(spark: SparkSession, db: str, call: Call) -> None:
    spark.sql("CREATE TABLE t (ts TIMESTAMP, j STRING) USING parquet")
    texts = set()
    for zone, ansi in (("UTC", "true"), ("America/Los_Angeles", "true"), ("UTC", "false")):
        with confs(spark, {"spark.sql.session.timeZone": zone, "spark.sql.ansi.enabled": ansi}):
            spark.sql("CREATE OR REPLACE VIEW p AS SELECT hour(ts) AS h, CAST(j AS INT) AS i FROM t")
        document = analyze(call, "SELECT h, i FROM p", db)
        texts.add(tuple(e["text"] for e in document["expressions"]))
    assert len(texts) == 3


def test_a_query_has_one_document(spark: SparkSession, db: str, call: Call) -> None:
    """Whatever hash tables of the analyser hold: refreshes compare the document with that of CREATE."""
    spark.sql("CREATE TABLE t (m MAP<INT, INT>, n MAP<INT, INT>, o ARRAY<MAP<INT, INT>>, p INT) USING parquet")
    query = "SELECT m, n, o, count(*) AS c FROM t GROUP BY m, n, o, p"
    assert len({json.dumps(analyze(call, query, db)["root"]) for _ in range(12)}) == 1
