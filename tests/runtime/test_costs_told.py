"""What a statement costs is what the history says: against Spark's own scheduler."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from tests.conftest import Oracle, confs, location_of, newest_entry

QUERY = "SELECT cat, sum(price) AS s, count(cost) AS n FROM sales LEFT JOIN returns USING (o_id) GROUP BY cat"
PAGE = 20_000
"""Most rows of a page that Parquet writes by default."""


@pytest.mark.parametrize(("source", "using"), [("delta", ""), ("parquet", "USING delta")])
def test_jobs_are_those_of_spark(
    spark: SparkSession, db: str, jobs: Callable[..., int], source: str, using: str
) -> None:
    """Delta reads the log of a table that the session has not seen by jobs of its own, while a query is analysed, and
    while sources are pinned."""
    spark.sql(f"CREATE TABLE sales (o_id STRING, cat STRING, price BIGINT) USING {source}")
    spark.sql(f"CREATE TABLE returns (o_id STRING, cost BIGINT) USING {source}")
    spark.sql("INSERT INTO sales VALUES ('o1','c1',100), ('o2','c2',150)")
    spark.sql("INSERT INTO returns VALUES ('o1', 10)")
    assert spark._jvm is not None
    told: list[Row] = []
    for statement in (
        f"CREATE INCREMENTAL VIEW v {using} SCHEDULE (ON DEMAND) AS {QUERY}",
        "REFRESH INCREMENTAL VIEW v",
    ):
        spark.sql(f"INSERT INTO sales VALUES ('o{3 + len(told)}','c2',300)")
        for checksum in location_of(spark, "sales").glob("_delta_log/*.crc"):
            checksum.unlink()
        spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        counted = jobs(lambda statement=statement: spark.sql(statement).collect())
        told += spark.sql("SHOW REFRESHES IN v LIMIT 1").collect()
        # One job of Delta's own shows the first run, after the commit.
        assert told[-1].jobs == counted - (1 if using and len(told) == 1 else 0), statement
        assert told[-1].cpu_ms >= told[-1].measured_cost
    assert [row.run for row in told] == [0, 1]
    assert (told[0].jobs > 5) == (source == "delta")  # the steps alone are three jobs


@pytest.mark.parametrize("source", ["delta", "parquet"])
def test_rows_read_are_those_of_files(spark: SparkSession, db: str, refresh: Callable[..., Row], source: str) -> None:
    """Sources, changes, states and content count; the log of a Delta table, which its own jobs read, does not."""
    spark.sql(f"CREATE TABLE sales (o_id INT, cat STRING, price BIGINT) USING {source}")
    spark.sql(f"CREATE TABLE cats (cat STRING, name STRING) USING {source}")
    spark.sql("INSERT INTO sales SELECT id, 'c' || id % 10, id FROM range(1000)")
    spark.sql("INSERT INTO cats SELECT 'c' || id, 'n' || id FROM range(10)")
    if source == "delta":
        assert spark._jvm is not None
        spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    query = "SELECT o_id, price, name FROM sales JOIN cats USING (cat)"
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) REFRESH POLICY INCREMENTAL AS {query}")
    spark.sql("INSERT INTO sales VALUES (1000, 'c1', 5), (1001, 'c2', 6)")
    assert refresh("v", "DRY RUN").rows_read is None
    # Two new rows and the ten that they may meet; the change of the view is in memory when it is applied.
    assert refresh("v").rows_read == 2 + 10
    assert refresh("v").rows_read == 0
    assert refresh("v", "FULL").rows_read == 1002 + 10
    history = spark.sql("SHOW REFRESHES IN v").collect()
    assert [row.rows_read for row in history] == [1012, 12, 1010]


@pytest.mark.parametrize("source", ["delta", "parquet"])
def test_the_keys_of_a_change_pick_pages(
    spark: SparkSession, db: str, refresh: Callable[..., Row], oracle: Oracle, source: str
) -> None:
    """Of a big table that is sorted by the key of a join, files and pages without keys of the change are not read."""
    spark.sql(f"CREATE TABLE big (id BIGINT, v STRING) USING {source}")
    spark.sql(f"CREATE TABLE small (id BIGINT, w INT) USING {source}")
    spark.sql("INSERT INTO big SELECT id, concat('v', id) FROM range(0, 200000, 1, 4)")
    spark.sql("INSERT INTO small SELECT id * 100, id FROM range(2000)")
    query = "SELECT small.id, v, w FROM small JOIN big ON small.id = big.id"
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) REFRESH POLICY INCREMENTAL AS {query}")
    spark.sql("INSERT INTO small VALUES (7, 1), (8, 2), (120001, 3)")
    assert refresh("v").rows_read <= 3 + 2 * PAGE
    oracle("v", query)


@pytest.mark.parametrize("bloom", [True, False])
def test_bloom_filters_of_files_are_asked(
    spark: SparkSession, db: str, refresh: Callable[..., Row], oracle: Oracle, bloom: bool
) -> None:
    """Each of eight files spans all keys, so their bounds tell nothing; their bloom filters do."""
    options = (
        f"'parquet.bloom.filter.enabled#id' '{str(bloom).lower()}', 'parquet.bloom.filter.expected.ndv#id' '50000'"
    )
    spark.sql(f"CREATE TABLE big (id STRING, v INT) USING parquet OPTIONS ({options})")
    spark.sql("CREATE TABLE small (id STRING, w INT) USING parquet")
    spark.sql("INSERT INTO big SELECT md5(string(id)), id FROM range(0, 400000, 1, 8)")
    spark.sql("INSERT INTO small SELECT md5(string(id * 1000)), id FROM range(20)")
    query = "SELECT small.id, v, w FROM small JOIN big ON small.id = big.id"
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) REFRESH POLICY INCREMENTAL AS {query}")
    spark.sql("INSERT INTO small VALUES (md5('7'), 1), (md5('11'), 2)")
    assert (refresh("v").rows_read <= 2 + 50_000) == bloom
    oracle("v", query)


@pytest.mark.parametrize("source", ["delta", "parquet"])
def test_rows_that_a_change_meets_pick_pages_of_the_next_table(
    spark: SparkSession, db: str, refresh: Callable[..., Row], oracle: Oracle, source: str
) -> None:
    """The change knows no key of the big table; what it meets first does."""
    spark.sql(f"CREATE TABLE big (id BIGINT, v STRING) USING {source}")
    spark.sql(f"CREATE TABLE links (name STRING, id BIGINT) USING {source}")
    spark.sql(f"CREATE TABLE names (name STRING, n INT) USING {source}")
    spark.sql("INSERT INTO big SELECT id, concat('value ', hash(id)) FROM range(0, 400000, 1, 4)")
    spark.sql("INSERT INTO links SELECT concat('n', id), id * 100 FROM range(4000)")
    spark.sql("INSERT INTO names SELECT concat('n', id), id FROM range(0, 4000, 2)")
    query = "SELECT n, v FROM names JOIN links ON names.name = links.name JOIN big ON links.id = big.id"
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) REFRESH POLICY INCREMENTAL AS {query}")
    spark.sql("INSERT INTO names VALUES ('n7', 1), ('n9', 2), ('n11', 3)")
    row = refresh("v")
    assert (row.kind, row.rows_read <= 3 + 4000 + 2 * PAGE) == ("INCREMENTAL", True), row
    assert row.rows_read >= 3 + 4000, "rows that are found first are read, too"
    oracle("v", query)


@pytest.mark.parametrize("source", ["delta", "parquet"])
def test_facts_are_read_once_for_all_dimensions_that_changed(
    spark: SparkSession, db: str, refresh: Callable[..., Row], oracle: Oracle, source: str
) -> None:
    """Where keys are everywhere, all facts are read, and once. Where they are together, the changes pick pages."""
    spark.sql(f"CREATE TABLE facts (id BIGINT, shop INT, item INT, kind INT) USING {source}")
    spark.sql("INSERT INTO facts SELECT id, id DIV 1000, pmod(hash(id), 500), id DIV 500 FROM range(0, 400000, 1, 2)")
    for table, rows in (("shops", 400), ("items", 500), ("kinds", 800)):
        spark.sql(f"CREATE TABLE {table} (id INT, name STRING) USING {source}")
        spark.sql(f"INSERT INTO {table} SELECT id, concat('n', id) FROM range(0, {rows}, 1, 1)")

    def text(one: str, other: str) -> str:
        return f"""SELECT f.id, a.name AS one, b.name AS other FROM facts f
                   JOIN {one}s a ON f.{one} = a.id JOIN {other}s b ON f.{other} = b.id"""

    views = {"anywhere": text("shop", "item"), "together": text("shop", "kind")}
    for name, query in views.items():
        spark.sql(f"CREATE INCREMENTAL VIEW {name} SCHEDULE (ON DEMAND) REFRESH POLICY INCREMENTAL AS {query}")
    for table, key in (("shops", 7), ("items", 8), ("kinds", 15)):
        spark.sql(f"INSERT INTO {table} VALUES ({key}, 'again'), (-1, 'nobody')")
    names = 400 + 500 + 800
    for name, most in (("anywhere", 400_000), ("together", 2 * PAGE)):
        row = refresh(name)
        assert row.kind == "INCREMENTAL", row.reason
        assert row.rows_read <= most + names, name
        oracle(name, views[name])


@pytest.mark.parametrize("source", ["delta", "parquet"])
def test_extremes_of_new_rows_are_compared_with_those_of_the_view(
    spark: SparkSession, db: str, refresh: Callable[..., Row], oracle: Oracle, source: str
) -> None:
    """While rows only come, no other row of their groups is read. A row that leaves may have been the extreme."""
    spark.sql(f"CREATE TABLE prices (symbol STRING, day INT, close DOUBLE, volume INT) USING {source}")
    spark.sql("INSERT INTO prices SELECT 's' || id % 50, id DIV 50, id % 977, id % 31 FROM range(0, 400000, 1, 2)")
    query = """SELECT symbol, min(close) AS low, max(day) FILTER (WHERE close > 5) AS day, count(close) AS n,
                      sum(volume) AS volume, bool_or(close = 3) AS met FROM prices GROUP BY symbol"""
    newest = """SELECT p.symbol, p.day, p.close FROM prices p
                JOIN (SELECT symbol, max(day) AS day FROM prices GROUP BY symbol) m
                  ON p.symbol = m.symbol AND p.day = m.day"""
    everything = "SELECT max(close) AS high, min(symbol) AS first, count(*) AS n FROM prices"
    for name, text in (("v", query), ("w", newest), ("x", everything)):
        spark.sql(f"CREATE INCREMENTAL VIEW {name} SCHEDULE (ON DEMAND) REFRESH POLICY INCREMENTAL AS {text}")
    refresh("w", "FULL")  # it knows its rows now, and keeps the newest days
    first = """INSERT INTO prices VALUES
               ('s7', 9000, -1, 5), ('s7', 9000, 8, 5), ('new', 7990, 4, 1), ('s8', 9000, NULL, NULL)"""
    unknown = "INSERT INTO prices VALUES (NULL, 5, NULL, NULL), ('s8', NULL, DOUBLE('NaN'), 2), ('new', 7991, 3, NULL)"
    gone = "DELETE FROM prices WHERE symbol = 's7' AND close = -1 OR symbol = 'new'"
    again = "INSERT INTO prices VALUES ('s7', 9001, -1, 5), ('new', 1, NULL, NULL)"
    told = source == "delta"  # of a Parquet table nobody has counted the rows
    changes = [(first, True), (gone, False), (again, True)] if told else [(first, True), (unknown, True)]
    for statement, grows in changes:
        spark.sql(statement)
        row = refresh("v")
        assert row.kind == "INCREMENTAL", (statement, row.reason)
        assert not grows or row.rows_read <= 4 * 60, statement  # the change, the content, and where its rows lie
        oracle("v", query)
        row = refresh("w")
        assert row.kind == "INCREMENTAL", (statement, row.reason)
        # Rows of these keys are looked for in the table.
        assert not (grows and told) or row.rows_read < 3 * PAGE, statement
        oracle("w", newest)
        row = refresh("x")
        assert not (grows and told) or row.rows_read <= 10, statement
        oracle("x", everything)


@pytest.mark.parametrize("form", ["parquet", "orc", "json"])
def test_rows_of_files_are_told_by_their_footers(
    spark: SparkSession, db: str, refresh: Callable[..., Row], form: str
) -> None:
    """Those of new files, after that of all files once; of many files about, of JSON files never."""

    def rows() -> object:
        return newest_entry(location_of(spark, "v"))["sources"][0]["position"]["rows"]

    told = form != "json"
    spark.sql(f"CREATE TABLE t (k INT) USING {form}")
    spark.sql("INSERT INTO t SELECT id FROM range(0, 200, 1, 2)")
    spark.sql("CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS SELECT count(*) AS n FROM t")
    assert rows() == (200 if told else None)
    spark.sql("INSERT INTO t SELECT id FROM range(0, 30, 1, 2)")
    refresh("v")
    assert rows() == (230 if told else None)
    spark.sql("INSERT OVERWRITE t SELECT id FROM range(0, 50, 1, 2)")
    refresh("v")
    assert rows() == (50 if told else None)
    spark.sql("INSERT INTO t SELECT /*+ REPARTITION(100) */ id FROM range(0, 3000, 1, 2)")
    refresh("v")
    assert rows() == (pytest.approx(3050, rel=0.1) if told else None)


def test_rows_of_a_table_follow_from_its_changes(spark: SparkSession, db: str, refresh: Callable[..., Row]) -> None:
    """Delta's checksum lists no more than some files; later on, the runs add the changes to the rows before."""
    listed = "spark.databricks.delta.allFilesInCrc.thresholdNumFiles"

    def rows() -> object:
        return newest_entry(location_of(spark, "v"))["sources"][0]["position"]["rows"]

    spark.sql("CREATE TABLE t (k INT) USING delta")
    spark.sql("INSERT INTO t SELECT id FROM range(0, 200, 1, 2)")
    spark.sql("CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS SELECT count(*) AS n FROM t")
    assert rows() == 200
    try:
        spark.conf.set(listed, "1")
        for n in range(2):
            spark.sql("OPTIMIZE t")
            spark.sql("INSERT INTO t SELECT id FROM range(0, 30, 1, 2)")
            spark.sql(f"DELETE FROM t WHERE k = {n}")
            refresh("v")
        assert spark.sql("SELECT count(*) AS n FROM t").collect()[0].n == 255
        assert rows() == 255
    finally:
        spark.conf.unset(listed)


def test_a_run_remembers_what_runs_of_its_query_took(spark: SparkSession, db: str, refresh: Callable[..., Row]) -> None:
    """The filling does not count, the first run of each kind is cold, and another query begins anew."""
    spark.sql("CREATE TABLE t (k INT, v INT) USING delta")
    spark.sql("INSERT INTO t SELECT id % 7, id FROM range(100)")
    spark.sql("CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS SELECT k, sum(v) AS s FROM t GROUP BY k")

    def remembered() -> list[tuple[str, bool]]:
        return [(run["kind"], run["cold"]) for run in newest_entry(location_of(spark, "v"))["past"]]

    assert remembered() == []
    took = []
    for how in ("", "FULL", "FULL", ""):
        spark.sql("INSERT INTO t VALUES (1, 1)")
        took.append(refresh("v", how))
    assert remembered() == [("INCREMENTAL", False), ("FULL", False), ("FULL", True), ("INCREMENTAL", True)]
    newest = newest_entry(location_of(spark, "v"))["past"][0]
    assert newest["measured"] == took[-1].measured_cost
    assert took[0].estimated_cost == newest_entry(location_of(spark, "v"))["past"][-1]["estimated"]
    spark.sql("ALTER INCREMENTAL VIEW v AS SELECT k, max(v) AS s FROM t GROUP BY k")
    assert remembered() == []
    assert newest_entry(location_of(spark, "v"))["learned"] == {"costs": {}, "sizes": {}}


def test_estimates_follow_what_runs_took(spark: SparkSession, db: str, refresh: Callable[..., Row]) -> None:
    """All rows that come pass a filter that a hundredth of the table passes: only the first estimate is far off.

    A run's estimate is that of its steps; each of these is the model's, times what was learned of it. Under
    another cost model nothing was.
    """
    spark.sql("CREATE TABLE t (k INT, v INT) USING delta")
    spark.sql("INSERT INTO t SELECT id % 7, id % 100 FROM range(20000)")
    spark.sql(
        "CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) REFRESH POLICY INCREMENTAL AS SELECT k FROM t WHERE v = 7"
    )

    def run() -> tuple[Row, dict[str, Any], dict[str, Any]]:
        spark.sql("INSERT INTO t SELECT id, 7 FROM range(5000)")
        row = refresh("v")
        entry = newest_entry(location_of(spark, "v"))
        return row, entry, {step["step"]: step for step in entry["steps"]}

    _, first, steps = run()
    assert (steps["delta"]["rows"], steps["delta"]["estimated_rows"] < 1000) == (5000, True)
    row, then, steps = run()
    assert steps["delta"]["estimated_rows"] == pytest.approx(5000, rel=0.5)
    told = sum(step["estimated_cost"] or 0.0 for step in steps.values())
    assert row.estimated_cost == pytest.approx(told, rel=1e-3)
    ((_, (factor, _, _)),) = [c for c in first["learned"]["costs"].items() if c[0] == "INCREMENTAL delta"]
    ((_, (_, _, model)),) = [c for c in then["learned"]["costs"].items() if c[0] == "INCREMENTAL delta"]
    assert steps["delta"]["estimated_cost"] == pytest.approx(factor * model, rel=1e-2)
    shown = json.loads(spark.sql("EXPLAIN INCREMENTAL JSON VIEW v").collect()[0].plan)
    assert [s["estimated_cost"] for s in shown["last_run"]["steps"]] == [s["estimated_cost"] for s in then["steps"]]
    spark.sql("INSERT INTO t SELECT id, 7 FROM range(5000)")
    with confs(spark, {"spark.tidemill.cost.model": "tuples"}):
        assert refresh("v", "DRY RUN").estimated_cost == 0.0  # no join, no aggregate
