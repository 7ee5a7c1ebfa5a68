"""Analyses that runs use again: only as long as a new one would come to the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidemill.bridge.jvm import Jvm, JvmFailure
from tidemill.errors import TidemillError
from tidemill.runtime.before import analysis, sessions
from tidemill.runtime.view import views

Analyse = Callable[..., dict[str, Any] | str]

QUERIES = {
    "delta": "SELECT cat, SUM(price) AS p, MAX(upper(o_id)) AS o FROM sales JOIN returns USING (o_id) GROUP BY cat",
    "parquet": "WITH e AS (SELECT * FROM events) SELECT k, v, (SELECT MAX(k) FROM events) AS m FROM e",
    "views": "SELECT cat, gross FROM below JOIN sales USING (cat)",
}
CHANGES = (
    "ANALYZE TABLE events COMPUTE STATISTICS",
    "SET spark.sql.mapKeyDedupPolicy=LAST_WIN",
    "INSERT INTO sales VALUES ('o9', 'c9', 1), ('o8', 'c8', 1)",
    "REFRESH INCREMENTAL VIEW below",
    "ALTER INCREMENTAL VIEW below AS SELECT cat, SUM(price) AS gross, COUNT(*) AS n FROM sales GROUP BY cat",
    "ALTER TABLE sales SET TBLPROPERTIES (delta.enableChangeDataFeed = true)",
    "ALTER TABLE sales ADD COLUMN cost BIGINT",
    "ALTER TABLE events ADD COLUMN w INT",
    "CREATE TEMPORARY VIEW sales AS SELECT '1' AS o_id, 'c' AS cat, 1L AS price",
    "DROP VIEW sales",
    "CREATE OR REPLACE TABLE sales USING delta AS SELECT 'o' AS o_id, 'c' AS cat, 1L AS price",
    "CREATE OR REPLACE TABLE sales (o_id STRING, cat INT, price INT) USING delta",
    "DROP TABLE events",
    "CREATE TABLE events (k INT, v BIGINT, s STRING) USING parquet",
    "DROP TABLE sales",
)
"""Statements after which analyses may come to something else, one after the other."""
SAME = (
    "INSERT INTO sales VALUES ('o9', 'c9', 1)",
    "INSERT INTO events VALUES (9, 9, NULL)",
    "OPTIMIZE sales",
    "CREATE TABLE others USING delta AS SELECT 1 AS x",
)


@pytest.fixture
def analyse(spark: SparkSession, sales: str, events: str) -> Analyse:
    """`analyse(name, anew=False)`: the document of a view, without its number and name, or how the error begins."""
    spark.sql("CREATE INCREMENTAL VIEW below AS SELECT cat, SUM(price) AS gross FROM sales GROUP BY cat")
    for name, query in QUERIES.items():
        spark.sql(f"CREATE INCREMENTAL VIEW of_{name} AS {query}")
    gateway = spark.sparkContext._gateway
    assert gateway is not None

    def of(name: str, anew: bool = False) -> dict[str, Any] | str:
        jvm = Jvm(gateway._gateway_client, spark._jsparkSession)
        view = views.find(jvm, [f"of_{name}"])
        working = sessions.working(jvm, view.definition.settings)
        try:
            with analysis.analysed_again(working, view.definition, view.head, anew=anew) as document:
                query, text = analysis.read(document)
                assert (query.number, text) == (document["query"], analysis.fingerprint(document))
                told = {**document, "sizes": [[s.rows, s.bytes] for s in query.sources.values()]}
        except (TidemillError, JvmFailure, PySparkException) as failure:
            return f"{type(failure).__name__}: {str(failure).splitlines()[0]}"
        return {key: value for key, value in told.items() if key not in ("query", "name")}

    return of


def without_bytes(told: dict[str, Any] | str) -> dict[str, Any] | str:
    """A document without the sizes of its sources: whoever pins them is told those."""
    if isinstance(told, str):
        return told
    sources = [{key: value for key, value in source.items() if key != "bytes"} for source in told["sources"]]
    return {**told, "sources": sources, "sizes": None}


def number_of(analyse: Analyse, name: str) -> int:
    """The number of the analysis that a new run of a view would use."""
    analyse(name)
    kept = [d for location, d in analysis._before._known.items() if location.endswith(f"/of_{name}")]
    return int(kept[-1]["query"]) if kept else -1


def test_an_analysis_is_used_again(spark: SparkSession, analyse: Analyse) -> None:
    first = {name: number_of(analyse, name) for name in QUERIES}
    assert min(first.values()) > 0
    for statement in SAME:
        spark.sql(statement)
        assert {name: number_of(analyse, name) for name in QUERIES} == first, statement


def test_an_analysis_that_would_come_to_something_else_is_made(spark: SparkSession, analyse: Analyse) -> None:
    try:
        for statement in ("SELECT 1", *CHANGES):
            spark.sql(statement).collect()
            for name in QUERIES:
                again, anew = analyse(name), analyse(name, anew=True)
                assert without_bytes(again) == without_bytes(anew), (statement, name)
                assert statement.startswith("INSERT") or again == anew, (statement, name)
    finally:
        spark.catalog.dropTempView("sales")
        spark.conf.unset("spark.sql.mapKeyDedupPolicy")


def test_a_function_that_took_the_name_of_one_of_sparks(spark: SparkSession, analyse: Analyse) -> None:
    first = number_of(analyse, "delta")
    spark.udf.register("upper", lambda text: text)
    try:
        assert analyse("delta") == analyse("delta", anew=True)
    finally:
        spark.sql("DROP TEMPORARY FUNCTION upper")
    assert analyse("delta") == analyse("delta", anew=True)
    assert first > 0


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM plain",
        "SELECT cat, rand(1) AS r FROM sales",
        "SELECT cat FROM sales WHERE current_date() > DATE '2020-01-01'",
        "SELECT cat FROM IDENTIFIER('sa' || 'les')",
        "SELECT cat, shout(o_id) AS o FROM sales",
    ],
)
def test_a_query_with_names_that_may_change_unseen_is_always_analysed(
    spark: SparkSession, analyse: Analyse, query: str
) -> None:
    spark.sql("CREATE VIEW plain AS SELECT cat FROM sales")
    spark.sql("CREATE FUNCTION shout(t STRING) RETURNS STRING RETURN upper(t)")
    spark.sql(f"CREATE INCREMENTAL VIEW of_another REFRESH POLICY FULL AS {query}")
    assert analyse("another") == analyse("another", anew=True)
    assert number_of(analyse, "another") == -1
