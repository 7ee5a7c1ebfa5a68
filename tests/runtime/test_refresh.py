"""REFRESH: kinds, reasons, rows, positions; the view equals its query after every run."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from tests.conftest import Oracle, files_under, location_of
from tests.runtime.conftest import SUMMARY

Refresh = Callable[..., Row]


def test_the_running_example(spark: SparkSession, sales: str, oracle: Oracle, refresh: Refresh) -> None:
    spark.sql(f"CREATE INCREMENTAL VIEW summary SCHEDULE (ON DEMAND) AS {SUMMARY}")
    assert {(r.cat, r.gross) for r in spark.table("summary").collect()} == {("c1", 280), ("c2", 150)}
    spark.sql("INSERT INTO sales VALUES ('o5','c2',300), ('o6','c1',150), ('o7','c2',220)")
    spark.sql("INSERT INTO returns VALUES ('o2', 20), ('o6', 15)")
    row = refresh("summary")
    assert {(r.cat, r.gross) for r in spark.table("summary").collect()} == {("c1", 265), ("c2", 500)}
    assert row.run == 1
    assert row.trigger == "MANUAL"
    assert row.point == 1
    oracle("summary", SUMMARY)
    assert spark.sql("VERIFY INCREMENTAL VIEW summary").collect() == [Row(matches=True, missing=0, unexpected=0)]


@pytest.mark.parametrize(
    "policy", ["STRICT", *(pytest.param(p, marks=pytest.mark.slow) for p in ("AUTO", "INCREMENTAL", "FULL"))]
)
def test_inserts_deletes_updates_and_merges(
    spark: SparkSession, sales: str, oracle: Oracle, refresh: Refresh, policy: str
) -> None:
    spark.sql(f"CREATE INCREMENTAL VIEW summary SCHEDULE (ON DEMAND) REFRESH POLICY {policy} AS {SUMMARY}")
    for change in (
        "INSERT INTO sales VALUES ('o5','c3',300), ('o5','c3',300), (NULL,'c3',1), ('o9',NULL,2)",
        "DELETE FROM sales WHERE o_id = 'o2'",
        "UPDATE sales SET cat = 'c4' WHERE o_id = 'o1'",
        "MERGE INTO returns USING (SELECT 'o1' AS o_id, 77 AS cost UNION ALL SELECT 'o5', 3) u ON returns.o_id = u.o_id"
        " WHEN MATCHED THEN UPDATE SET cost = u.cost WHEN NOT MATCHED THEN INSERT *",
        "DELETE FROM returns",
        "DELETE FROM sales",
        "INSERT INTO sales VALUES ('o1','c1',NULL)",
    ):
        spark.sql(change)
        row = refresh("summary")
        assert row.kind == ("FULL" if policy == "FULL" else row.kind)
        if policy in ("INCREMENTAL", "STRICT"):
            assert row.kind == "INCREMENTAL", (change, row)
        if policy == "FULL":
            assert row.reason == "POLICY"
        oracle("summary", SUMMARY)


@pytest.mark.parametrize(("kind", "counted"), [("delta", True), ("parquet", False)])
def test_a_filling_counts_what_the_source_does_not(
    spark: SparkSession, db: str, executed: list[dict[str, Any]], kind: str, counted: bool
) -> None:
    """Rows that are counted as they are read keep Spark from selecting them where it reads them."""
    spark.sql(f"CREATE TABLE numbers USING {kind} AS SELECT id AS k FROM range(100)")
    spark.sql("CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS SELECT k FROM numbers WHERE k < 10")
    (row,) = spark.sql("SHOW REFRESHES IN v").collect()
    assert (row.rows_in, row.rows_out) == (Row(inserts=100, deletes=0), Row(inserts=10, deletes=0))
    assert ("source_" in json.dumps(executed)) != counted


def test_rows_in_and_out_are_exact(spark: SparkSession, sales: str, refresh: Refresh) -> None:
    spark.sql("CREATE INCREMENTAL VIEW bag SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS SELECT cat, price FROM sales")
    first = spark.sql("SHOW REFRESHES IN bag").first()
    assert first is not None
    assert (first.run, first.trigger, first.kind, first.reason) == (0, "CREATE", "FULL", "FIRST")
    assert (first.rows_in, first.rows_out) == (Row(inserts=4, deletes=0), Row(inserts=4, deletes=0))
    spark.sql("INSERT INTO sales VALUES ('o5','c1',100), ('o6','c9',1)")
    spark.sql("DELETE FROM sales WHERE o_id = 'o2'")
    row = refresh("bag")
    assert row.rows_in == Row(inserts=2, deletes=1)
    assert row.rows_out == Row(inserts=2, deletes=1)
    assert row.kind == "INCREMENTAL"
    assert "delta" in row.methods


def test_one_of_several_equal_rows_goes(spark: SparkSession, db: str, oracle: Oracle, refresh: Refresh) -> None:
    spark.sql("CREATE TABLE t (id INT, v INT) USING delta")
    spark.sql("INSERT INTO t VALUES (1, 7), (2, 7), (3, 7), (4, 8)")
    spark.sql("CREATE INCREMENTAL VIEW bag SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS SELECT v FROM t")
    spark.sql("DELETE FROM t WHERE id = 2")
    refresh("bag")
    assert sorted(r.v for r in spark.table("bag").collect()) == [7, 7, 8]
    oracle("bag", "SELECT v FROM t")


def test_nothing_new_costs_no_job_no_file_and_no_run(
    spark: SparkSession, sales: str, refresh: Refresh, jobs: Callable[[Callable[[], Any]], int]
) -> None:
    spark.sql(f"CREATE INCREMENTAL VIEW summary SCHEDULE (ON DEMAND) AS {SUMMARY}")
    spark.sql("INSERT INTO sales VALUES ('o5','c2',300)")
    refresh("summary")
    refresh("summary")
    before = files_under(location_of(spark, "summary"))
    rows: list[Row] = []
    assert jobs(lambda: rows.append(refresh("summary"))) == 0
    assert (rows[0].kind, rows[0].run, rows[0].jobs, rows[0].rows_in) == ("NO_DATA", 1, 0, None)
    assert files_under(location_of(spark, "summary")) == before
    assert spark.sql("SHOW REFRESHES IN summary").count() == 2


def test_a_point_without_output_leaves_the_content(
    spark: SparkSession, sales: str, oracle: Oracle, refresh: Refresh
) -> None:
    spark.sql(
        "CREATE INCREMENTAL VIEW summary SCHEDULE (AT '14:00' COST 0.25 NO OUTPUT, AT '24:00' COST 1) AS " + SUMMARY
    )
    before = spark.table("summary").collect()
    spark.sql("INSERT INTO sales VALUES ('o5','c2',300)")
    row = refresh("summary", "AT 1")
    assert (row.run, row.point, row.kind, row.rows_out) == (1, 1, "PARTIAL", Row(inserts=0, deletes=0))
    assert sorted(spark.table("summary").collect()) == sorted(before)
    assert spark.sql("VERIFY INCREMENTAL VIEW summary").first() == Row(matches=True, missing=0, unexpected=0)
    row = refresh("summary")
    assert (row.run, row.point) == (2, 2)
    oracle("summary", SUMMARY)
    assert refresh("summary", "AT 1").kind == "NO_DATA"


def test_full_gives_output_at_any_point(spark: SparkSession, sales: str, oracle: Oracle, refresh: Refresh) -> None:
    spark.sql(
        "CREATE INCREMENTAL VIEW summary SCHEDULE (AT '14:00' NO OUTPUT, AT '24:00') REFRESH POLICY STRICT AS "
        + SUMMARY
    )
    spark.sql("INSERT INTO sales VALUES ('o5','c2',300)")
    row = refresh("summary", "AT 1 FULL")
    assert (row.kind, row.reason, row.rows_out) == ("FULL", "REQUESTED", None)
    oracle("summary", SUMMARY)


def test_a_dry_run_writes_nothing(spark: SparkSession, sales: str, refresh: Refresh) -> None:
    spark.sql(f"CREATE INCREMENTAL VIEW summary SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {SUMMARY}")
    spark.sql("INSERT INTO sales VALUES ('o5','c2',300)")
    before = files_under(location_of(spark, "summary"))
    row = refresh("summary", "DRY RUN")
    assert row.kind == "INCREMENTAL"
    assert row.estimated_cost is not None
    assert (row.run, row.rows_in, row.rows_out, row.cpu_ms, row.jobs, row.measured_cost) == (None,) * 6
    assert files_under(location_of(spark, "summary")) == before
    assert refresh("summary").run == 1


def test_parquet_files_that_come(spark: SparkSession, events: str, oracle: Oracle, refresh: Refresh) -> None:
    query = "SELECT k, sum(v) AS v, count(DISTINCT s) AS d, max(v) AS m FROM events GROUP BY k"
    spark.sql(f"CREATE INCREMENTAL VIEW totals SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {query}")
    spark.sql("INSERT INTO events VALUES (1, 1, 'z'), (3, 3, 'c'), (NULL, 1, 'b')")
    row = refresh("totals")
    assert (row.kind, row.rows_in) == ("INCREMENTAL", Row(inserts=3, deletes=0))
    oracle("totals", query)


def test_parquet_files_that_go(
    spark: SparkSession, events: str, oracle: Oracle, refresh: Refresh, fails: Callable[[str, str], PySparkException]
) -> None:
    query = "SELECT k, sum(v) AS v FROM events GROUP BY k"
    spark.sql(f"CREATE INCREMENTAL VIEW auto SCHEDULE (ON DEMAND) AS {query}")
    spark.sql(f"CREATE INCREMENTAL VIEW exact SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {query}")
    spark.sql("INSERT OVERWRITE events VALUES (1, 1, 'z')")
    row = refresh("auto")
    assert row.kind == "FULL"
    assert row.reason.split(":")[0] in ("SOURCE_REWRITTEN", "SOURCE_REPLACED")
    oracle("auto", query)
    before = files_under(location_of(spark, "exact"))
    fails("REFRESH INCREMENTAL VIEW exact", "TIDEMILL_NOT_INCREMENTAL")
    assert files_under(location_of(spark, "exact")) == before
    assert refresh("exact", "FULL").reason == "REQUESTED"
    oracle("exact", query)


def test_a_table_made_anew(spark: SparkSession, sales: str, oracle: Oracle, refresh: Refresh) -> None:
    spark.sql(f"CREATE INCREMENTAL VIEW summary SCHEDULE (ON DEMAND) REFRESH POLICY INCREMENTAL AS {SUMMARY}")
    spark.sql("DROP TABLE returns")
    spark.sql("CREATE TABLE returns (o_id STRING, cost BIGINT) USING delta")
    spark.sql("INSERT INTO returns VALUES ('o3', 1)")
    row = refresh("summary")
    assert row.kind == "FULL"
    assert row.reason.split(":")[0] == "SOURCE_REPLACED"
    oracle("summary", SUMMARY)


def test_a_used_column_that_goes(
    spark: SparkSession, events: str, fails: Callable[[str, str], PySparkException]
) -> None:
    spark.sql("CREATE INCREMENTAL VIEW totals SCHEDULE (ON DEMAND) AS SELECT k, sum(v) AS v FROM events GROUP BY k")
    spark.sql("DROP TABLE events")
    spark.sql("CREATE TABLE events (k INT, w BIGINT) USING parquet")
    fails("REFRESH INCREMENTAL VIEW totals", "TIDEMILL_SCHEMA_CHANGED")


def test_of_two_writers_one_commits(spark: SparkSession, sales: str, oracle: Oracle) -> None:
    spark.sql(f"CREATE INCREMENTAL VIEW summary SCHEDULE (ON DEMAND) AS {SUMMARY}")
    spark.sql("INSERT INTO sales VALUES ('o5','c2',300)")
    outcomes: list[str] = []
    start = threading.Barrier(2)

    def work() -> None:
        start.wait()
        try:
            row = spark.sql("REFRESH INCREMENTAL VIEW summary").first()
            outcomes.append(row.kind if row else "")
        except PySparkException as e:
            outcomes.append(e.getCondition() or str(e))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert set(outcomes) <= {"INCREMENTAL", "FULL", "NO_DATA", "TIDEMILL_CONCURRENT_REFRESH"}
    assert sum(o in ("INCREMENTAL", "FULL") for o in outcomes) == 1, outcomes
    oracle("summary", SUMMARY)
    rows = spark.sql("SHOW REFRESHES IN summary").collect()
    assert [r.run for r in rows if r.kind != "FAILED"] == [1, 0]
    lost = [o for o in outcomes if o == "TIDEMILL_CONCURRENT_REFRESH"]
    assert [r.reason for r in rows if r.kind == "FAILED"] == lost
    location = location_of(spark, "summary")
    assert [f for f in files_under(location / "_tidemill" / "log") if f.endswith(".json")] == [
        f"{n:020d}.json" for n in range(2)
    ]
    manifest = (location / "_spark_metadata" / "1.compact").read_text()
    data = [f for f in files_under(location) if f.startswith("part-")]
    first = (location / "_spark_metadata" / "0.compact").read_text()
    assert all(f in manifest or f in first for f in data), "the writer that lost left files"


def test_the_session_is_left_as_it_was(spark: SparkSession, sales: str, refresh: Refresh) -> None:
    def confs() -> dict[str, str]:
        return {k: v for k, v in spark.conf.getAll.items() if k.startswith("spark.sql")}

    spark.sql(f"CREATE INCREMENTAL VIEW summary SCHEDULE (ON DEMAND) AS {SUMMARY}")
    spark.sql("INSERT INTO sales VALUES ('o5','c2',300)")
    before = confs()
    refresh("summary")
    assert confs() == before
    assert spark.catalog.currentDatabase() == sales
