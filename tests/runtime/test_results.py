"""The result as Parquet files: bags of all types, partitions, and what plain readers make of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

import tidemill
from tests.conftest import Oracle, location_of

Refresh = Callable[..., Row]


def live(spark: SparkSession, view: str) -> set[Path]:
    """The files that a reader of the view reads now."""
    return {Path(f) for f in tidemill.IncrementalView.forName(spark, view).files()}


def folders(spark: SparkSession, view: str) -> set[str]:
    """The folders of the live files, below the view's location."""
    root = location_of(spark, view)
    return {str(f.parent.relative_to(root)) for f in live(spark, view)}


@pytest.fixture
def t(spark: SparkSession, db: str) -> str:
    """A Delta table `t(id, g, d, v)` with six groups, NULL among them, over three days."""
    spark.sql("CREATE TABLE t (id INT, g STRING, d DATE, v BIGINT) USING delta")
    spark.sql(
        "INSERT INTO t SELECT id, IF(id % 6 = 0, NULL, concat('g', id % 6)),"
        " date_add(DATE'2024-01-01', CAST(id % 3 AS INT)), id FROM range(60)"
    )
    return db


def test_partitions_that_no_change_touches_stay(spark: SparkSession, t: str, refresh: Refresh, oracle: Oracle) -> None:
    query = "SELECT g, id, v FROM t"
    spark.sql(f"CREATE INCREMENTAL VIEW v PARTITIONED BY (G) SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {query}")
    first = live(spark, "v")
    assert folders(spark, "v") == {"g=__HIVE_DEFAULT_PARTITION__", *(f"g=g{i}" for i in range(1, 6))}
    assert spark.table("v").columns == ["g", "id", "v"]
    oracle("v", query)
    spark.sql("UPDATE t SET v = -1 WHERE id IN (6, 7)")  # NULL and g1
    assert refresh("v").kind == "INCREMENTAL"
    second = live(spark, "v")
    assert {f.parent.name for f in first - second} == {"g=__HIVE_DEFAULT_PARTITION__", "g=g1"}
    assert {f.parent.name for f in second - first} == {"g=__HIVE_DEFAULT_PARTITION__", "g=g1"}
    oracle("v", query)
    spark.sql("DELETE FROM t WHERE g = 'g2'")
    refresh("v")
    assert folders(spark, "v") == {"g=__HIVE_DEFAULT_PARTITION__", "g=g1", "g=g3", "g=g4", "g=g5"}
    spark.sql("INSERT INTO t VALUES (100, 'g5', NULL, 1), (101, 'new', NULL, 1)")
    third = live(spark, "v")
    refresh("v")
    assert third < live(spark, "v"), "inserts only add files"
    oracle("v", query)
    spark.sql("DELETE FROM t")
    refresh("v")
    assert live(spark, "v") == set()
    oracle("v", query)
    spark.sql("INSERT INTO t VALUES (1, 'back', NULL, 1)")
    refresh("v")
    oracle("v", query)
    assert spark.table("v").where("g = 'back'").count() == 1


def test_partition_values_of_all_kinds(spark: SparkSession, db: str, refresh: Refresh, oracle: Oracle) -> None:
    types = {
        "s": "STRING",
        "i": "INT",
        "m": "DECIMAL(38,10)",
        "x": "DOUBLE",
        "b": "BOOLEAN",
        "d": "DATE",
        "n": "TIMESTAMP_NTZ",
        "z": "TIMESTAMP",
    }
    rows = [
        "'a/b=c%d', 1, 1.5, 0.1, true, DATE'2024-02-29', TIMESTAMP_NTZ'2024-01-01 00:00:00',"
        " TIMESTAMP'2024-03-31 01:30:00.123456Z'",
        "' é漢😀 \\'\"#?*:\\\\{[]^', -1, -0.0000000001, -0.0D, false, DATE'0001-01-01',"
        " TIMESTAMP_NTZ'1969-12-31 23:59:59.000001', TIMESTAMP'1883-11-18 12:00:00Z'",
        "'%2F', 2147483647, 9999999999999999999999999999.9999999999, double('NaN'), NULL, DATE'9999-12-31',"
        " TIMESTAMP_NTZ'9999-12-31 00:00:00', TIMESTAMP'2024-10-27 00:30:00Z'",
        "'.', 0, 0, double('-Infinity'), NULL, NULL, NULL, TIMESTAMP'2024-10-27 01:30:00Z'",
        "NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL",
        "'A', 7, 7, 1e300, true, DATE'2024-01-01', NULL, NULL",
        "'a', 7, 7, 1e-300, true, DATE'2024-01-01', NULL, NULL",
    ]
    spark.sql(f"CREATE TABLE t (id INT, {', '.join(f'{c} {t}' for c, t in types.items())}) USING delta")
    spark.sql(f"INSERT INTO t VALUES {', '.join(f'({i}, {r})' for i, r in enumerate(rows))}")
    query = f"SELECT {', '.join(types)}, id FROM t"
    parts = ", ".join(types)
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        spark.sql(
            f"CREATE INCREMENTAL VIEW v PARTITIONED BY ({parts}) SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {query}"
        )
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    oracle("v", query)
    spark.sql(f"INSERT INTO t VALUES {', '.join(f'({i + 10}, {r})' for i, r in enumerate(rows))}")
    refresh("v")
    oracle("v", query)
    spark.sql("DELETE FROM t WHERE id >= 10 AND id % 2 = 0")
    spark.sql("UPDATE t SET x = 0.0D WHERE id = 1")
    row = refresh("v")
    assert (row.kind, row.rows_out.deletes) == ("INCREMENTAL", 4)
    oracle("v", query)
    assert spark.sql("VERIFY INCREMENTAL VIEW v").collect()[0].matches
    for i in (0, 1, 2, 3, 5, 6):
        condition = f"s = (SELECT s FROM t WHERE id = {i})"
        assert spark.sql(f"SELECT id FROM v WHERE {condition} AND id < 10").collect() == [Row(id=i)]


def test_an_empty_partition_value_is_null(spark: SparkSession, db: str, refresh: Refresh, oracle: Oracle) -> None:
    spark.sql("CREATE TABLE t (id INT, g STRING) USING delta")
    spark.sql("INSERT INTO t VALUES (1, ''), (2, NULL), (3, '__HIVE_DEFAULT_PARTITION__'), (4, ' ')")
    query = "SELECT g, g AS other, count(*) AS n FROM t GROUP BY g"
    stored = f"SELECT IF(g IN ('', '__HIVE_DEFAULT_PARTITION__'), NULL, g) AS g, other, n FROM ({query})"
    spark.sql(f"CREATE INCREMENTAL VIEW v PARTITIONED BY (g) SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {query}")
    oracle("v", stored)
    for change in (
        "INSERT INTO t VALUES (5, ''), (6, NULL)",
        "DELETE FROM t WHERE g = ''",
        "INSERT INTO t VALUES (7, '')",
    ):
        spark.sql(change)
        assert refresh("v").kind == "INCREMENTAL"
        oracle("v", stored)
        assert spark.sql("VERIFY INCREMENTAL VIEW v").collect()[0].matches


@pytest.mark.parametrize("form", ["parquet", pytest.param("delta", marks=pytest.mark.slow)])
def test_bags_of_nested_types(spark: SparkSession, db: str, refresh: Refresh, form: str) -> None:
    """Duplicates and NULLs of every type that a table can hold, compared by VERIFY (variants cannot be grouped)."""
    values = {
        "st": "named_struct('a', i % 2, 'b', IF(i % 3 = 0, NULL, array(i % 2, NULL)))",
        "ar": "IF(i % 4 = 0, NULL, array(named_struct('x', i % 2), NULL))",
        "ma": "map('k', i % 2, 'n', NULL)",
        "bi": "IF(i % 2 = 0, X'00FF', X'')",
        "de": "CAST(IF(i % 2 = 0, -99999999999999999999999999999999999999, 0) AS DECIMAL(38,0))",
        "nt": "IF(i % 2 = 0, TIMESTAMP_NTZ'0001-01-01 00:00:00', NULL)",
        "va": "parse_json(IF(i % 2 = 0, '{\"b\": [1, null], \"a\": 1.50}', 'null'))",
    }
    spark.sql("CREATE TABLE t (i INT, v INT) USING delta")
    spark.sql("INSERT INTO t SELECT id % 12, id FROM range(48)")
    query = f"SELECT {', '.join(f'{e} AS {c}' for c, e in values.items())} FROM t"
    spark.sql(f"CREATE INCREMENTAL VIEW v USING {form} SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {query}")
    for change in (
        "DELETE FROM t WHERE v IN (0, 1, 2, 3)",
        "UPDATE t SET i = i + 1 WHERE v BETWEEN 10 AND 15",
        "INSERT INTO t SELECT NULL, id FROM range(5)",
        "DELETE FROM t WHERE i IS NULL AND v < 3",
        "DELETE FROM t",
    ):
        spark.sql(change)
        row = refresh("v")
        assert row.kind == "INCREMENTAL", (change, row.reason)
        assert spark.sql("VERIFY INCREMENTAL VIEW v").collect()[0].matches, change
        assert spark.table("v").count() == spark.table("t").count()


def test_a_reader_reads_only_the_partitions_it_asks_for(spark: SparkSession, t: str) -> None:
    spark.sql("CREATE INCREMENTAL VIEW v PARTITIONED BY (d, g) SCHEDULE (ON DEMAND) AS SELECT g, d, id FROM t")
    read = spark.table("v").where("d = DATE'2024-01-02' AND g IN ('g1', 'g4')")
    plan = str(read._jdf.queryExecution().executedPlan())
    assert "PartitionFilters: [isnotnull(d" in plan
    read.collect()
    scan = read._jdf.queryExecution().executedPlan().collectLeaves().head()
    assert scan.metrics().apply("numPartitions").value() == 2
    assert scan.metrics().apply("numFiles").value() == 2


def test_another_partitioning(spark: SparkSession, t: str, oracle: Oracle, refresh: Refresh) -> None:
    query = "SELECT g, d, id FROM t"
    words = "INCREMENTAL VIEW v PARTITIONED BY (g) SCHEDULE (ON DEMAND)"
    spark.sql(f"CREATE {words} AS {query}")
    assert [tuple(r)[:2] for r in spark.sql("DESCRIBE INCREMENTAL VIEW v").collect()][-2:] == [
        ("# col_name", "data_type"),
        ("g", "string"),
    ]
    spark.sql(f"CREATE OR REPLACE {words.replace('(g)', '(d)')} AS {query}")
    assert folders(spark, "v") == {f"d=2024-01-0{i}" for i in (1, 2, 3)}
    oracle("v", query)
    spark.sql(f"CREATE OR REPLACE {words.replace(' PARTITIONED BY (g)', '')} AS {query}")
    assert folders(spark, "v") == {"."}
    spark.sql("DELETE FROM t WHERE id < 30")
    refresh("v")
    oracle("v", query)
    spark.sql("VACUUM INCREMENTAL VIEW v RETAIN 0 HOURS")
    spark.sql("INSERT INTO t VALUES (1, 'x', NULL, 1)")
    refresh("v")
    spark.sql("VACUUM INCREMENTAL VIEW v RETAIN 0 HOURS")
    assert [p for p in location_of(spark, "v").iterdir() if "=" in p.name] == []


def test_a_view_above_reads_a_partitioned_one(spark: SparkSession, t: str, refresh: Refresh, oracle: Oracle) -> None:
    spark.sql("CREATE INCREMENTAL VIEW v PARTITIONED BY (g) SCHEDULE (ON DEMAND) AS SELECT g, d, id FROM t")
    query = "SELECT d, count(g) AS n, sum(id) AS s FROM v GROUP BY d"
    spark.sql(f"CREATE INCREMENTAL VIEW above SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {query}")
    spark.sql("UPDATE t SET g = NULL WHERE id = 7")
    refresh("v")
    row = refresh("above")
    assert (row.kind, row.rows_in.inserts, row.rows_in.deletes) == ("INCREMENTAL", 1, 1)
    oracle("above", query)
    spark.sql("DELETE FROM t WHERE id < 30")
    refresh("v")
    assert spark.sql("VERIFY INCREMENTAL VIEW above").collect()[0].matches, "what it has read, not what there is now"
