"""An incremental view that feeds another one."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Row, SparkSession

from tests.conftest import Oracle
from tests.runtime.conftest import SUMMARY

Refresh = Callable[..., Row]

ABOVE = "SELECT count(*) AS categories, sum(gross) AS total FROM summary"


def test_the_upstream_delta_is_read(spark: SparkSession, sales: str, oracle: Oracle, refresh: Refresh) -> None:
    spark.sql(f"CREATE INCREMENTAL VIEW summary SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {SUMMARY}")
    spark.sql(f"CREATE INCREMENTAL VIEW above SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {ABOVE}")
    oracle("above", ABOVE)
    for change in (
        "INSERT INTO sales VALUES ('o5','c3',300), ('o6','c1',1)",
        "DELETE FROM sales WHERE cat = 'c2'",
        "INSERT INTO returns VALUES ('o3', 5)",
    ):
        spark.sql(change)
        assert refresh("above").kind == "NO_DATA", "an upstream that was not refreshed is as it was"
        refresh("summary")
        row = refresh("above")
        assert row.kind == "INCREMENTAL"
        assert row.rows_in is not None
        assert row.rows_in.inserts + row.rows_in.deletes > 0
        oracle("above", ABOVE)


def test_several_upstream_runs_at_once(spark: SparkSession, sales: str, oracle: Oracle, refresh: Refresh) -> None:
    query = "SELECT cat, price FROM sales"
    spark.sql(f"CREATE INCREMENTAL VIEW lines SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {query}")
    above = "SELECT cat, count(*) AS n, sum(price) AS price FROM lines GROUP BY cat"
    spark.sql(f"CREATE INCREMENTAL VIEW above SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {above}")
    spark.sql("INSERT INTO sales VALUES ('o5','c3',300), ('o6','c3',300)")
    refresh("lines")
    spark.sql("DELETE FROM sales WHERE o_id = 'o6'")
    refresh("lines")
    row = refresh("above")
    assert (row.rows_in, row.kind) == (Row(inserts=2, deletes=1), "INCREMENTAL")
    oracle("above", above)


def test_a_full_upstream_run(spark: SparkSession, sales: str, oracle: Oracle, refresh: Refresh) -> None:
    spark.sql(f"CREATE INCREMENTAL VIEW summary SCHEDULE (ON DEMAND) AS {SUMMARY}")
    spark.sql(f"CREATE INCREMENTAL VIEW above SCHEDULE (ON DEMAND) AS {ABOVE}")
    spark.sql("INSERT INTO sales VALUES ('o5','c3',300)")
    refresh("summary", "FULL")
    row = refresh("above")
    assert row.kind == "FULL"
    assert row.reason.split(":")[0] == "SOURCE_REWRITTEN"
    oracle("above", ABOVE)


def test_an_upstream_run_without_output_is_not_seen(spark: SparkSession, sales: str, refresh: Refresh) -> None:
    spark.sql("CREATE INCREMENTAL VIEW summary SCHEDULE (AT '14:00' NO OUTPUT, AT '24:00') AS " + SUMMARY)
    spark.sql(f"CREATE INCREMENTAL VIEW above SCHEDULE (ON DEMAND) AS {ABOVE}")
    spark.sql("INSERT INTO sales VALUES ('o5','c3',300)")
    assert refresh("summary", "AT 1").kind == "PARTIAL"
    assert refresh("above").kind == "NO_DATA"
