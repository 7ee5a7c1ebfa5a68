"""Windows over long partitions: from the first row on that a change reaches, and no further back than is read."""

from __future__ import annotations

from collections.abc import Mapping

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


@pytest.fixture
def only_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    """No rule computes whole partitions."""
    rules = tuple(r for r in load_rules() if r.name not in {"affected_partitions", "touched_keys", "difference"})
    monkeypatch.setattr(task, "load_rules", lambda _: rules)


@pytest.mark.usefixtures("only_reached")
@pytest.mark.parametrize("order", ["", pytest.param(" DESC NULLS LAST", marks=pytest.mark.slow)])
def test_values_are_computed_from_the_first_changed_row_on(spark: SparkSession, series: str, order: str) -> None:
    follows_from_where_it_is_reached(spark, MOVING.replace("BY t", f"BY t{order}"), CHANGES)


def follows_from_where_it_is_reached(spark: SparkSession, query: str, changes: Mapping[str, str]) -> None:
    spark.sql(f"CREATE INCREMENTAL VIEW moving REFRESH POLICY INCREMENTAL AS {query}")
    for name, statement in changes.items():
        spark.sql(statement)
        assert "reach" in planned(spark), name
        assert spark.sql("REFRESH INCREMENTAL VIEW moving").collect()[0].kind == "INCREMENTAL", name
        row = spark.sql("VERIFY INCREMENTAL VIEW moving").collect()[0]
        assert row.matches, f"{name}: {row.missing} missing, {row.unexpected} unexpected"


def test_it_pays_where_many_partitions_are_long(spark: SparkSession, series: str) -> None:
    spark.sql(f"CREATE INCREMENTAL VIEW moving REFRESH POLICY INCREMENTAL AS {MOVING}")
    spark.sql(CHANGES["new rows at the end"])
    assert "reach" in planned(spark)


@pytest.mark.usefixtures("only_reached")
@pytest.mark.parametrize("order", ["", " DESC NULLS LAST"])
def test_rows_that_a_change_does_not_reach_are_not_read(spark: SparkSession, series: str, order: str) -> None:
    """Files of the table are in the order of `t`. No row of the view lies behind new rows at the end."""
    spark.sql("CREATE TABLE late USING delta AS SELECT k, CAST(t AS INT) AS t, x FROM series ORDER BY t")
    frame = f"PARTITION BY k ORDER BY t{order} ROWS BETWEEN 4 PRECEDING AND CURRENT ROW"
    query = f"SELECT k, t, x, min(x) OVER (w) AS low, max(x) OVER (w) AS high FROM late WINDOW w AS ({frame})"
    spark.sql(f"CREATE INCREMENTAL VIEW moving REFRESH POLICY INCREMENTAL AS {query}")
    end = -1 if order else LENGTH
    spark.sql(f"INSERT INTO late SELECT id, {end}, id FROM range({KEYS})")
    row = spark.sql("REFRESH INCREMENTAL VIEW moving").collect()[0]
    assert row.kind == "INCREMENTAL"
    # All rows are looked at once, for where the last rows of each partition lie. Only these are read again.
    assert row.rows_read < KEYS * LENGTH * 1.5
    assert spark.sql("VERIFY INCREMENTAL VIEW moving").collect()[0].matches


RUNNING = """SELECT k, t, x, sum(x) OVER w AS total, count(*) OVER w AS n, min(x) OVER w AS low,
                    sum(d) OVER w AS inexact, row_number() OVER w AS number
             FROM (SELECT *, CAST(x AS DOUBLE) / 7 AS d FROM series)
             WINDOW w AS (PARTITION BY k ORDER BY t ROWS UNBOUNDED PRECEDING)"""
PEERS = """SELECT k, t, x, sum(x) OVER w AS total, rank() OVER w AS place, dense_rank() OVER w AS level,
                  sum(x) OVER (PARTITION BY k ORDER BY t RANGE BETWEEN 7 PRECEDING AND CURRENT ROW) AS week
           FROM series WINDOW w AS (PARTITION BY k ORDER BY t)"""
FILLED = """SELECT k, t, x, last_value(if(x % 5 = 0, x, NULL)) IGNORE NULLS OVER w AS fifth,
                   last_value(if(x % 7 = 0, x, NULL), true) OVER (PARTITION BY k ORDER BY t) AS seventh,
                   lag(if(x % 3 = 0, x, NULL)) IGNORE NULLS OVER (PARTITION BY k ORDER BY t) AS third,
                   lead(t) OVER (PARTITION BY k ORDER BY t) AS until
            FROM series WINDOW w AS (PARTITION BY k ORDER BY t ROWS UNBOUNDED PRECEDING)"""
CARRIERS = {
    "the row that carries a value leaves": "DELETE FROM series WHERE k < 4 AND t > 2900 AND x % 5 = 0",
    "its value is gone": "UPDATE series SET x = 11 WHERE k = 7 AND t > 2980 AND x % 7 = 0",
    "all of them": "UPDATE series SET x = 1 WHERE k = 8",
    "a row where nothing was": f"INSERT INTO series VALUES (8, {LENGTH + 9}, 1)",
}


@pytest.mark.usefixtures("only_reached")
@pytest.mark.parametrize("order", ["", pytest.param(" DESC NULLS LAST", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "query",
    [
        pytest.param(RUNNING, marks=pytest.mark.slow, id="running"),
        pytest.param(PEERS, marks=pytest.mark.slow, id="peers"),
        pytest.param(FILLED, marks=pytest.mark.slow, id="filled"),
    ],
)
def test_functions_of_all_rows_before_are_computed_from_the_first_changed_row_on(
    spark: SparkSession, series: str, order: str, query: str
) -> None:
    follows_from_where_it_is_reached(spark, query.replace("BY t", f"BY t{order}"), CHANGES | CARRIERS)


def test_a_frame_without_bound_behind_reads_whole_partitions(spark: SparkSession, series: str) -> None:
    frame = "PARTITION BY k ORDER BY t ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING"
    query = f"SELECT k, t, sum(x) OVER ({frame}) AS rest FROM series"
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


@pytest.mark.usefixtures("only_reached")
def test_values_that_tie_are_carried_on_as_they_were(spark: SparkSession, db: str) -> None:
    """Which of them is the last is free, but the same one for all rows behind."""
    spark.sql("CREATE TABLE series (k BIGINT, t BIGINT, x BIGINT) USING delta")
    spark.sql("INSERT INTO series SELECT k.id, 1, x.id FROM range(50) k CROSS JOIN range(9) x")
    spark.sql("INSERT INTO series SELECT id, 2, NULL FROM range(50)")
    query = (
        "SELECT k, t, x, last_value(x, true) OVER (PARTITION BY k ORDER BY t ROWS UNBOUNDED PRECEDING) AS y FROM series"
    )
    spark.sql(f"CREATE INCREMENTAL VIEW moving REFRESH POLICY INCREMENTAL AS {query}")
    spark.sql("INSERT INTO series SELECT id, 3, NULL FROM range(50)")
    spark.sql("REFRESH INCREMENTAL VIEW moving").collect()
    carried = spark.sql("SELECT k, count(*) AS n, count(DISTINCT y) AS y FROM moving WHERE t > 1 GROUP BY k").collect()
    assert {(row.n, row.y) for row in carried} == {(2, 1)}


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


@pytest.mark.parametrize("kept", ["y = 1", "y <= 3"])
def test_of_the_first_rows_of_each_partition_no_others_are_kept(spark: SparkSession, series: str, kept: str) -> None:
    ranked = "SELECT k, t, x, row_number() OVER (PARTITION BY k ORDER BY t DESC NULLS LAST, x) AS y FROM series"
    query = f"SELECT k, t, x FROM ({ranked}) WHERE {kept}"
    spark.sql(f"CREATE INCREMENTAL VIEW moving REFRESH POLICY INCREMENTAL AS {query}")
    for name, statement in CHANGES.items():
        spark.sql(statement)
        row = spark.sql("REFRESH INCREMENTAL VIEW moving").collect()[0]
        assert row.kind == "INCREMENTAL", name
        assert spark.sql("VERIFY INCREMENTAL VIEW moving").collect()[0].matches, name
    assert all(state.rows < 5 * KEYS for state in head_of(spark).states.values())
