"""Schemas that change: columns that a view reads, and columns that it does not."""

from __future__ import annotations

import pytest
from pyspark.sql import Row

from tests.conftest import location_of
from tests.system.conftest import World
from tests.system.files import put

pytestmark = pytest.mark.slow

FEED = pytest.mark.parametrize("feed", [True, False], ids=["feed", "files"])
MAPPING = pytest.mark.parametrize("mode", ["name", "id"])


def table(world: World, feed: bool, columns: str, properties: str = "'delta.columnMapping.mode' = 'name'") -> None:
    given = f"delta.enableChangeDataFeed = {str(feed).lower()}, {properties}"
    world.change(f"CREATE TABLE t ({columns}) USING delta TBLPROPERTIES ({given})")


@FEED
@MAPPING
def test_columns_that_the_view_does_not_read_may_change(fresh: World, feed: bool, mode: str) -> None:
    world = fresh
    properties = f"'delta.columnMapping.mode' = '{mode}', delta.enableTypeWidening = true"
    table(world, feed, "k INT, v BIGINT, s STRUCT<a: INT, b: INT>, u INT", properties)
    row = "named_struct('a', 1, 'b', 1)"
    world.change(f"INSERT INTO t VALUES (1, 1, {row}, 1), (2, 2, {row}, 2)")
    world.view("auto", "SELECT k, v, s.a AS a FROM t", "AUTO")
    for n, change in enumerate(
        (
            "ALTER TABLE t ADD COLUMN z INT",
            "ALTER TABLE t RENAME COLUMN z TO zz",
            "ALTER TABLE t ALTER COLUMN zz TYPE BIGINT",
            "ALTER TABLE t ALTER COLUMN u TYPE DOUBLE",
            "ALTER TABLE t DROP COLUMN u",
            "ALTER TABLE t ALTER COLUMN v COMMENT 'text'",
            "ALTER TABLE t ALTER COLUMN v FIRST",
        )
    ):
        world.change(change, f"UPDATE t SET v = {10 + n} WHERE k = 1")
        assert world.refresh("auto").rows_out == Row(inserts=1, deletes=1), change
    # A field within a column that is read: the column is not what it was.
    world.change("ALTER TABLE t ADD COLUMN s.c INT", "UPDATE t SET v = 20 WHERE k = 1")
    world.goes_full("SCHEMA_CHANGED")
    world.change("ALTER TABLE t DROP COLUMN s.b", "UPDATE t SET v = 21 WHERE k = 1")
    world.goes_full("SCHEMA_CHANGED")
    world.change("INSERT INTO t (k, v, s) VALUES (3, 3, named_struct('a', 3, 'c', 3))")
    world.goes_on(1)


@FEED
@MAPPING
def test_a_column_that_the_view_reads_and_does_not_give_out(fresh: World, feed: bool, mode: str) -> None:
    """Its output keeps its types, so the query goes on meaning the same: of other rows."""
    world = fresh
    properties = f"'delta.columnMapping.mode' = '{mode}', delta.enableTypeWidening = true"
    table(world, feed, "k INT, v INT, w SMALLINT", properties)
    world.change("INSERT INTO t VALUES (1, 1, 1), (1, 2, 2), (2, 3, NULL)")
    world.both("SELECT k, COUNT(*) AS n, SUM(v) AS s FROM t WHERE coalesce(w, 0) < 40000 GROUP BY k")
    world.change("ALTER TABLE t ALTER COLUMN v TYPE BIGINT", "INSERT INTO t VALUES (1, 5000000000, 3)")
    world.goes_full("SCHEMA_CHANGED")
    world.change("ALTER TABLE t ALTER COLUMN w TYPE INT", "INSERT INTO t VALUES (2, 4, 39999), (2, 4, 40000)")
    world.goes_full("SCHEMA_CHANGED")
    world.change("ALTER TABLE t DROP COLUMN w", "ALTER TABLE t ADD COLUMN w INT", "INSERT INTO t VALUES (3, 3, 50000)")
    world.goes_full("SCHEMA_CHANGED")
    world.change("DELETE FROM t WHERE v = 2", "INSERT INTO t VALUES (3, 4, 4)")
    world.goes_on(1, 1)


@FEED
def test_partition_columns_that_change(fresh: World, feed: bool) -> None:
    world = fresh
    world.change(
        "CREATE TABLE t (k INT, v BIGINT, p DATE, q INT) USING delta PARTITIONED BY (p, q) TBLPROPERTIES ("
        f"delta.enableChangeDataFeed = {str(feed).lower()}, delta.columnMapping.mode = 'name',"
        " delta.enableTypeWidening = true)",
        "INSERT INTO t VALUES (1, 1, DATE'2024-02-29', 1), (2, 2, NULL, 2), (3, 3, NULL, NULL)",
    )
    world.both("SELECT p, COUNT(*) AS n, SUM(v) AS s FROM t GROUP BY p")
    world.view("by_q", "SELECT q + 1L AS q1, k FROM t", "AUTO")
    world.change("ALTER TABLE t RENAME COLUMN k TO key", "UPDATE t SET p = DATE'2024-03-01' WHERE q = 2")
    world.goes_on(1, 1)
    world.unmoved("by_q", "TIDEMILL_SCHEMA_CHANGED", "column k of")
    world.change("ALTER TABLE t RENAME COLUMN key TO k", "ALTER TABLE t ALTER COLUMN q TYPE BIGINT")
    world.change("INSERT INTO t VALUES (4, 4, DATE'2024-03-01', 5000000000)", "DELETE FROM t WHERE q IS NULL")
    world.goes_on(1, 1)
    assert world.refresh("by_q", kind="FULL").reason.startswith("SCHEMA_CHANGED")
    world.change("ALTER TABLE t RENAME COLUMN p TO day")
    world.unmoved("strict", "TIDEMILL_SCHEMA_CHANGED", "column p of", "Restore the column")


@FEED
def test_a_star_stays_what_it_was(fresh: World, feed: bool) -> None:
    world = fresh
    table(world, feed, "k INT, v INT")
    world.change("INSERT INTO t VALUES (1, 10), (2, 20)")
    world.view("auto", "SELECT * FROM t", "AUTO")
    world.queries["auto"] = "SELECT k, v FROM t"
    world.change("ALTER TABLE t ALTER COLUMN v FIRST", "INSERT INTO t (k, v) VALUES (3, 30)")
    world.goes_on(1)
    world.change("ALTER TABLE t ADD COLUMN z INT FIRST", "INSERT INTO t (k, v, z) VALUES (4, 40, 400)")
    world.goes_on(1)
    world.change("ALTER TABLE t DROP COLUMN z", "DELETE FROM t WHERE k = 1")
    world.goes_on(0, 1)
    # Two columns change their names with each other.
    world.change("ALTER TABLE t RENAME COLUMN k TO x", "ALTER TABLE t RENAME COLUMN v TO k")
    world.change("ALTER TABLE t RENAME COLUMN x TO v")
    world.goes_full("SCHEMA_CHANGED")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (["ALTER TABLE t RENAME COLUMN v TO w"], "column v of"),
        (["ALTER TABLE t DROP COLUMN v"], "column v of"),
        (["ALTER TABLE t RENAME COLUMN s.a TO c"], "column a of"),
        (["ALTER TABLE t ALTER COLUMN v TYPE BIGINT"], "is now bigint, was int"),
        (["DROP TABLE t", "CREATE TABLE t (k INT, v STRING, s STRUCT<a: INT>) USING delta"], "was int"),
    ],
)
def test_a_column_that_the_view_gives_out_must_stay(fresh: World, change: list[str], words: str) -> None:
    """Whatever the policy, naming column and remedy; and all is well once it is restored."""
    world = fresh
    table(
        world,
        True,
        "k INT, v INT, s STRUCT<a: INT>",
        "'delta.columnMapping.mode' = 'name', delta.enableTypeWidening = true",
    )
    world.change("INSERT INTO t VALUES (1, 1, named_struct('a', 1))")
    for policy in ("STRICT", "FULL"):
        world.view(policy.lower(), "SELECT k, v, s.a AS a FROM t", policy)
    world.change(*change)
    for name in ("strict", "full"):
        world.unmoved(
            name, "TIDEMILL_SCHEMA_CHANGED", words, "spark_catalog.test_schema_changes_db.t", "Restore the column"
        )
    if "RENAME COLUMN v" in change[0]:
        world.change("ALTER TABLE t RENAME COLUMN w TO v", "INSERT INTO t VALUES (2, 2, NULL)")
        assert world.refresh("strict").rows_in == Row(inserts=1, deletes=0)


def test_a_column_that_was_another_one_in_between(fresh: World) -> None:
    """It is what it was, but the changes in between were written in other columns."""
    world = fresh
    table(world, False, "k INT, v INT", "'delta.columnMapping.mode' = 'name', delta.enableTypeWidening = true")
    world.change("INSERT INTO t VALUES (1, 1), (2, 2)")
    world.view("auto", "SELECT k, v FROM t", "AUTO")
    for there, version in (
        (("ALTER TABLE t ALTER COLUMN v TYPE BIGINT", "INSERT INTO t VALUES (3, 5000000000)"), 1),
        (("ALTER TABLE t DROP COLUMN v", "UPDATE t SET k = 9 WHERE k = 2"), 4),
        (("CREATE OR REPLACE TABLE t USING delta AS SELECT 'x' AS k, 1.5D AS v",), 7),
    ):
        world.change(*there, f"RESTORE TABLE t TO VERSION AS OF {version}")
        world.goes_full("SCHEMA_CHANGED")
    world.change("DELETE FROM t WHERE k = 1")
    world.goes_on(0, 1)


def test_nulls_may_come_and_mapping_may_begin(fresh: World) -> None:
    world = fresh
    table(world, True, "k INT NOT NULL, v BIGINT NOT NULL", "'a' = 'b'")
    world.change("INSERT INTO t VALUES (1, 1)")
    world.view("strict", "SELECT k, COUNT(v) AS n, SUM(v) AS s FROM t GROUP BY k")
    world.change("ALTER TABLE t ALTER COLUMN v DROP NOT NULL", "INSERT INTO t VALUES (1, NULL), (2, NULL)")
    world.goes_on(2)
    world.change(
        "ALTER TABLE t SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name',"
        " 'delta.minReaderVersion' = '2', 'delta.minWriterVersion' = '5')",
        "INSERT INTO t VALUES (3, 3)",
    )
    world.goes_on(1)


def test_tables_of_files(fresh: World) -> None:
    world, spark = fresh, fresh.spark
    world.change("CREATE TABLE t (k INT, v BIGINT) USING parquet", "INSERT INTO t VALUES (1, 1)")
    world.view("auto", "SELECT * FROM t", "AUTO")
    world.queries["auto"] = "SELECT k, v FROM t"
    world.change("ALTER TABLE t ADD COLUMNS (z INT)", "INSERT INTO t VALUES (2, 2, 2)")
    world.goes_on(1)
    # Files that lack a column, or have others.
    put(spark, [(3, "x")], "k INT, other STRING", location_of(spark, "t") / "file")
    world.change("REFRESH TABLE t")
    world.goes_on(1)
    world.change("DROP TABLE t", "CREATE TABLE t (k INT, v DOUBLE) USING parquet", "INSERT INTO t VALUES (5, 1.5)")
    world.unmoved("auto", "TIDEMILL_SCHEMA_CHANGED", "column v of", "is now double, was bigint")
    world.change("DROP TABLE t", "CREATE TABLE t (k INT) USING parquet")
    world.unmoved("auto", "TIDEMILL_SCHEMA_CHANGED", "column v of")


def test_columns_whose_names_differ_by_case(fresh: World) -> None:
    world = fresh
    world.change("SET spark.sql.caseSensitive = true")
    try:
        world.change("CREATE TABLE t (k INT, K INT) USING parquet", "INSERT INTO t VALUES (1, 10)")
        world.view("auto", "SELECT k, K + 1 AS other FROM t WHERE K > 0", "AUTO")
        world.change("INSERT INTO t VALUES (2, 20), (3, 0)")
        world.goes_on(2)
        world.change("RESET spark.sql.caseSensitive")
        # The view keeps the setting that it was created under.
        row = world.spark.sql("REFRESH INCREMENTAL VIEW auto FULL").collect()[0]
        assert row.kind == "FULL"
        assert world.rows("SELECT * FROM auto") == [(1, 11), (2, 21)]
    finally:
        world.change("RESET spark.sql.caseSensitive", "DROP TABLE t")
