"""Runs that make a view anew, and what the views above read of them."""

from __future__ import annotations

import pytest
from pyspark.sql import Row, SparkSession

from tests.conftest import Oracle, confs
from tests.runtime.conftest import SUMMARY
from tests.runtime.test_views_over_views import ABOVE, Refresh

UNTOLD = {"spark.tidemill.fullRuns.tellChanges": "false"}


@pytest.mark.parametrize("using", ["", "USING delta"])
def test_a_full_upstream_run_tells_what_it_changes(
    spark: SparkSession, sales: str, oracle: Oracle, refresh: Refresh, using: str
) -> None:
    """Also through a chain, and with other runs between those of the view above."""
    middle = "SELECT n, sum(gross) AS gross FROM summary GROUP BY n"
    top = "SELECT count(*) AS m, max(gross) AS gross FROM middle"
    spark.sql(f"CREATE INCREMENTAL VIEW summary {using} SCHEDULE (ON DEMAND) AS {SUMMARY}")
    assert refresh("summary", "FULL").rows_out is None, "nobody asks"
    spark.sql(f"CREATE INCREMENTAL VIEW middle SCHEDULE (ON DEMAND) REFRESH POLICY FULL AS {middle}")
    spark.sql(f"CREATE INCREMENTAL VIEW top SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {top}")
    spark.sql("INSERT INTO sales VALUES ('o5','c3',300)")
    row = refresh("summary", "FULL")
    assert (row.kind, row.rows_out, row.rows_in) == ("FULL", Row(inserts=1, deletes=0), None)
    assert (refresh("middle").kind, refresh("top").kind) == ("FULL", "INCREMENTAL")
    spark.sql("UPDATE sales SET price = price + 1 WHERE cat = 'c1'")
    refresh("summary")
    spark.sql("DELETE FROM sales WHERE cat = 'c2'")
    refresh("summary", "FULL")
    assert refresh("top", "CASCADE").kind == "INCREMENTAL"
    spark.sql("INSERT INTO returns VALUES ('o3', 5)")
    assert refresh("top", "DRY RUN CASCADE").kind == "INCREMENTAL"
    assert refresh("top", "CASCADE").kind == "INCREMENTAL"
    oracle("middle", middle)
    oracle("top", top)
    assert refresh("top", "CASCADE").kind == "NO_DATA"


def test_a_full_upstream_run_that_is_not_to_tell(
    spark: SparkSession, sales: str, oracle: Oracle, refresh: Refresh
) -> None:
    spark.sql(f"CREATE INCREMENTAL VIEW summary SCHEDULE (ON DEMAND) AS {SUMMARY}")
    spark.sql(f"CREATE INCREMENTAL VIEW above SCHEDULE (ON DEMAND) AS {ABOVE}")
    spark.sql("INSERT INTO sales VALUES ('o5','c3',300)")
    with confs(spark, UNTOLD):
        refresh("summary", "FULL")
    row = refresh("above")
    assert row.kind == "FULL"
    assert row.reason.split(":")[0] == "SOURCE_REWRITTEN"
    oracle("above", ABOVE)
