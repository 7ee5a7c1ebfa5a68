"""Windows of bounded frames over long partitions: from the first row on that a change reaches, and no further back."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tidemill.bridge.jvm import Jvm
from tidemill.rule.registry import load_rules
from tidemill.runtime.view import views
from tidemill.runtime.view.record import RunRecord
from tidemill.search.runs import task

MOVING = """SELECT k, t, x, min(x) OVER w AS low, lag(x, 2) OVER o AS before, lead(x) OVER o AS next,
                   count(*) OVER (PARTITION BY k ORDER BY t ROWS BETWEEN 3 PRECEDING AND 1 FOLLOWING) AS n
            FROM series WINDOW w AS (PARTITION BY k ORDER BY t ROWS BETWEEN 4 PRECEDING AND CURRENT ROW),
                               o AS (PARTITION BY k ORDER BY t)"""
KEYS, LENGTH = 20, 3000
CHANGES = {
    "new rows at the end": f"INSERT INTO series SELECT id, {LENGTH}, id * 3 % 17 FROM range({KEYS})",
    "a late row": f"INSERT INTO series VALUES (3, {LENGTH - 2}.5, -1)",
    "a row that moves to the end": f"UPDATE series SET t = {LENGTH + 5} WHERE k = 4 AND t = {LENGTH - 9}",
    "rows that leave": f"DELETE FROM series WHERE t > {LENGTH - 4} AND k < 5",
    "rows that tie, all alike": f"INSERT INTO series SELECT 6, {LENGTH + 1}, 7 FROM range(2)",
    "a row behind rows that tie": f"INSERT INTO series VALUES (6, {LENGTH + 2}, 1), (7, {LENGTH + 2}, 1)",
    "a row without a value in the order": "INSERT INTO series VALUES (8, NULL, 5)",
    "a new partition, and one that is NULL": "INSERT INTO series VALUES (99, 1, 1), (NULL, 2, 2), (NULL, 3, 1)",
    "a whole partition": "DELETE FROM series WHERE k = 9",
}


@pytest.fixture
def series(spark: SparkSession, db: str) -> str:
    spark.sql("CREATE TABLE series (k BIGINT, t DECIMAL(9, 1), x BIGINT) USING delta")
    spark.sql(
        f"""INSERT INTO series SELECT k.id, t.id, pmod(xxhash64(k.id, t.id), 1000)
            FROM range({KEYS}) k CROSS JOIN range({LENGTH}) t"""
    )
    return db


def planned(spark: SparkSession) -> str:
    return str(spark.sql("EXPLAIN INCREMENTAL COST VIEW moving").collect()[0][0])


@pytest.mark.parametrize("order", ["", pytest.param(" DESC NULLS LAST", marks=pytest.mark.slow)])
def test_values_are_computed_from_the_first_changed_row_on(
    spark: SparkSession, series: str, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = tuple(r for r in load_rules() if r.name not in {"affected_partitions", "touched_keys", "difference"})
    monkeypatch.setattr(task, "load_rules", lambda _: rules)
    query = MOVING.replace("BY t", f"BY t{order}")
    spark.sql(f"CREATE INCREMENTAL VIEW moving REFRESH POLICY INCREMENTAL AS {query}")
    for name, statement in CHANGES.items():
        spark.sql(statement)
        assert "reach" in planned(spark), name
        assert spark.sql("REFRESH INCREMENTAL VIEW moving").collect()[0].kind == "INCREMENTAL", name
        row = spark.sql("VERIFY INCREMENTAL VIEW moving").collect()[0]
        assert row.matches, f"{name}: {row.missing} missing, {row.unexpected} unexpected"


def test_it_pays_where_many_partitions_are_long(spark: SparkSession, series: str) -> None:
    spark.sql(f"CREATE INCREMENTAL VIEW moving REFRESH POLICY INCREMENTAL AS {MOVING}")
    spark.sql(CHANGES["new rows at the end"])
    assert "reach" in planned(spark)


def test_a_frame_without_bound_reads_whole_partitions(spark: SparkSession, series: str) -> None:
    query = "SELECT k, t, sum(x) OVER (PARTITION BY k ORDER BY t ROWS UNBOUNDED PRECEDING) AS total FROM series"
    spark.sql(f"CREATE INCREMENTAL VIEW moving REFRESH POLICY INCREMENTAL AS {query}")
    spark.sql(CHANGES["a late row"])
    assert "reach" not in planned(spark)
    spark.sql("REFRESH INCREMENTAL VIEW moving").collect()
    assert spark.sql("VERIFY INCREMENTAL VIEW moving").collect()[0].matches


def head_of(spark: SparkSession) -> RunRecord:
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    head = views.find(Jvm(gateway._gateway_client, spark._jsparkSession), ("moving",)).head
    assert head is not None
    return head


def test_the_first_run_counts_the_values_that_bring_rows_together(spark: SparkSession, series: str) -> None:
    spark.sql(f"CREATE INCREMENTAL VIEW moving AS {MOVING}")
    (source,) = head_of(spark).sources
    assert source.values == {"k": pytest.approx(KEYS, rel=0.1)}
    spark.sql(CHANGES["new rows at the end"])
    spark.sql("REFRESH INCREMENTAL VIEW moving").collect()
    (later,) = head_of(spark).sources
    assert later.values == source.values, "few values for many rows: new rows bring no new ones"


def test_windows_over_windows_keep_nothing_twice(spark: SparkSession, series: str) -> None:
    """The content has the rows of the lower window."""
    query = """SELECT k, t, x, y, lag(y) OVER (PARTITION BY k ORDER BY t) AS before,
                      row_number() OVER (PARTITION BY k ORDER BY t DESC) AS newest
               FROM (SELECT k, t, x, concat('y', x) AS y FROM series)"""
    spark.sql(f"CREATE INCREMENTAL VIEW moving REFRESH POLICY INCREMENTAL AS {query}")
    assert not head_of(spark).states
    for change in ("new rows at the end", "a late row", "rows that leave"):
        spark.sql(CHANGES[change])
        spark.sql("REFRESH INCREMENTAL VIEW moving").collect()
        assert spark.sql("VERIFY INCREMENTAL VIEW moving").collect()[0].matches, change


def test_a_window_that_is_read_twice_shows_what_either_reader_reads(spark: SparkSession, series: str) -> None:
    query = """WITH w AS (SELECT *, lag(x) OVER (PARTITION BY k ORDER BY t) AS before FROM series WHERE k < 3)
               SELECT k, before FROM w UNION ALL SELECT t, x FROM w WHERE before > 500"""
    spark.sql(f"CREATE INCREMENTAL VIEW moving REFRESH POLICY INCREMENTAL AS {query}")
    spark.sql(CHANGES["new rows at the end"])
    spark.sql("REFRESH INCREMENTAL VIEW moving").collect()
    assert spark.sql("VERIFY INCREMENTAL VIEW moving").collect()[0].matches


def test_values_of_rows_that_an_empty_join_does_not_read_are_not_counted(spark: SparkSession, series: str) -> None:
    spark.sql("CREATE TABLE names (k BIGINT, name STRING) USING delta")
    query = "SELECT name, count(*) AS n FROM series JOIN names USING (k) GROUP BY k, name"
    spark.sql(f"CREATE INCREMENTAL VIEW moving AS {query}")
    assert all(n >= KEYS * 0.9 for source in head_of(spark).sources for n in source.values.values())
