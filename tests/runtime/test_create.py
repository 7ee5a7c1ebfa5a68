"""CREATE and DROP: what is made, what is left when it fails."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.conftest import Oracle, files_under, location_of
from tests.runtime.conftest import SUMMARY

Fails = Callable[[str, str], PySparkException]


def tables(spark: SparkSession) -> set[str]:
    return {r.tableName for r in spark.sql("SHOW TABLES").collect()}


def test_a_view_is_a_table_of_its_columns(spark: SparkSession, sales: str, oracle: Oracle, warned: list[str]) -> None:
    spark.sql(f"CREATE INCREMENTAL VIEW summary COMMENT 'by category' SCHEDULE (ON DEMAND) AS {SUMMARY}")
    name_ends, *_ = warned
    assert "the name ends with this process" in name_ends
    assert f"LOCATION '{location_of(spark, 'summary')}'" in name_ends.replace("file:", "")
    assert spark.table("summary").columns == ["cat", "gross", "n"]
    assert [t.typeName() for t in (f.dataType for f in spark.table("summary").schema.fields)] == [
        "string",
        "long",
        "long",
    ]
    assert "summary" in tables(spark)
    oracle("summary", SUMMARY)


def test_columns_named_and_commented(spark: SparkSession, events: str, oracle: Oracle) -> None:
    spark.sql(
        "CREATE INCREMENTAL VIEW v (`a key` COMMENT 'the key', total) SCHEDULE (ON DEMAND) AS"
        " SELECT k, sum(v) FROM events GROUP BY k"
    )
    assert spark.table("v").columns == ["a key", "total"]
    described = {r.col_name: (r.data_type, r.comment) for r in spark.sql("DESCRIBE INCREMENTAL VIEW v").collect()}
    assert described["a key"] == ("int", "the key")
    assert described["total"][0] == "bigint"
    spark.sql("INSERT INTO events VALUES (1, 1, 'z'), (7, 7, 'z')")
    spark.sql("REFRESH INCREMENTAL VIEW v")
    oracle("v", "SELECT k, sum(v) FROM events GROUP BY k")


def test_deferred_is_not_filled(spark: SparkSession, events: str, oracle: Oracle, fails: Fails) -> None:
    spark.sql("CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) INITIALIZE DEFERRED AS SELECT k FROM events")
    fails("SELECT * FROM v", "TIDEMILL_NOT_FILLED")
    assert spark.sql("SHOW REFRESHES IN v").count() == 0
    assert [r.status for r in spark.sql("SHOW INCREMENTAL VIEWS").collect()] == ["NOT_FILLED"]
    row = spark.sql("REFRESH INCREMENTAL VIEW v").first()
    assert row is not None
    assert (row.run, row.trigger, row.kind, row.reason) == (0, "MANUAL", "FULL", "FIRST")
    oracle("v", "SELECT k FROM events")


def test_if_not_exists(spark: SparkSession, events: str, fails: Fails) -> None:
    spark.sql("CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS SELECT k FROM events")
    fails("CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS SELECT k FROM events", "TIDEMILL_ALREADY_EXISTS")
    spark.sql("CREATE INCREMENTAL VIEW IF NOT EXISTS v SCHEDULE (ON DEMAND) AS SELECT s, v FROM events")
    assert spark.table("v").columns == ["k"]
    fails(
        "CREATE INCREMENTAL VIEW IF NOT EXISTS events SCHEDULE (ON DEMAND) AS SELECT k FROM events",
        "TIDEMILL_ALREADY_EXISTS",
    )


def test_a_location_of_its_own_outlives_the_view(
    spark: SparkSession, events: str, tmp_path: Path, fails: Fails
) -> None:
    there = tmp_path / "a view's place"
    spark.sql(f'CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) LOCATION "{there}" AS SELECT k FROM events')
    assert location_of(spark, "v").name == there.name
    spark.sql("DROP INCREMENTAL VIEW v")
    assert "v" not in tables(spark)
    assert any(f.startswith("_tidemill/log") for f in files_under(there))


def test_a_location_that_holds_something(spark: SparkSession, events: str, tmp_path: Path, fails: Fails) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    fails(
        f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) LOCATION '{tmp_path}' AS SELECT k FROM events",
        "TIDEMILL_LOCATION_NOT_EMPTY",
    )
    assert files_under(tmp_path) == ["mine.txt"]
    assert "v" not in tables(spark)


def test_what_a_create_left_that_was_killed_while_it_wrote_its_definition(
    spark: SparkSession, events: str, tmp_path: Path, fails: Fails
) -> None:
    """The mark of a dead writer and a half-written file are nobody's; what has another place may be somebody's."""
    home = tmp_path / "v" / "_tidemill"
    (home / "writers").mkdir(parents=True)
    (home / "writers" / "x.json").write_text('{"started": 0}')
    os.utime(home / "writers" / "x.json", (0, 0))
    (home / ".view.json.ec1a97b8.tmp").write_text('{"id": ')
    create = f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) LOCATION '{tmp_path}/v' AS SELECT k FROM events"
    (home / "else").write_text("mine")
    fails(create, "TIDEMILL_LOCATION_NOT_EMPTY")
    (home / "else").unlink()
    spark.sql(create)
    assert spark.table("v").count() == 4
    assert ".view.json.ec1a97b8.tmp" not in {p.name for p in home.iterdir()}


def test_drop_removes_files_and_entry(spark: SparkSession, events: str, fails: Fails) -> None:
    spark.sql("CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS SELECT k FROM events")
    location = location_of(spark, "v")
    assert location.exists()
    spark.sql("DROP INCREMENTAL VIEW v")
    assert not location.exists()
    assert "v" not in tables(spark)
    spark.sql("DROP INCREMENTAL VIEW IF EXISTS v")
    fails("DROP INCREMENTAL VIEW v", "TIDEMILL_NOT_FOUND")
    fails("DROP INCREMENTAL VIEW events", "TIDEMILL_NOT_AN_INCREMENTAL_VIEW")
    fails("DROP INCREMENTAL VIEW IF EXISTS events", "TIDEMILL_NOT_AN_INCREMENTAL_VIEW")
    spark.sql("CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS SELECT k FROM events")


def test_show_create_creates_it_again(spark: SparkSession, events: str) -> None:
    spark.sql(
        "CREATE INCREMENTAL VIEW `order` (`a key` COMMENT 'it''s', b) COMMENT 'c' TBLPROPERTIES ('x' = 'y')"
        " SCHEDULE (AT '14:00' COST 0.25 NO OUTPUT, AT '24:00') REFRESH POLICY STRICT"
        " AS SELECT k, count(*) FROM events GROUP BY k"
    )
    row = spark.sql("SHOW CREATE INCREMENTAL VIEW `order`").first()
    assert row is not None
    spark.sql("DROP INCREMENTAL VIEW `order`")
    spark.sql(row[0])
    again = spark.sql("SHOW CREATE INCREMENTAL VIEW `order`").first()
    assert again == row


def test_types_of_all_kinds_are_stored(spark: SparkSession, db: str, oracle: Oracle) -> None:
    query = """SELECT id, CAST(x AS DECIMAL(20, 4)) AS d, DATE '2020-01-01' AS day, TIMESTAMP '2020-01-01 00:00:00' AS
    ts,
               map('a', x) AS m, array(x, NULL) AS a, named_struct('p', x) AS st, CAST('z' AS BINARY) AS b, true AS t
               FROM t"""
    spark.sql("CREATE TABLE t (id INT, x INT) USING delta")
    spark.sql("INSERT INTO t VALUES (1, 1), (1, 1), (2, NULL)")
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {query}")
    oracle("v", query)
    spark.sql("DELETE FROM t WHERE id = 2")
    spark.sql("INSERT INTO t VALUES (1, 1), (3, 3)")
    spark.sql("REFRESH INCREMENTAL VIEW v")
    oracle("v", query)


def test_literals_that_look_like_columns_and_differ_in_white_space(
    spark: SparkSession, db: str, oracle: Oracle
) -> None:
    spark.sql("CREATE TABLE t (g INT, s STRING, x INT) USING parquet")
    spark.sql("INSERT INTO t VALUES (1, 'Brand#23', 1), (1, 'a b', 2), (1, 'a  b', 4), (1, 'it\\'s #1', 8)")
    query = """
        SELECT a.g, a.n, b.n AS m, c.n AS k
        FROM (SELECT g, sum(x) AS n FROM t WHERE s = 'a b' OR s = 'Brand#23' OR s = 'it\\'s #1' GROUP BY g) a
        JOIN (SELECT g, sum(x) AS n FROM t WHERE s = 'a  b' OR s LIKE 'Brand#99%' GROUP BY g) b ON a.g = b.g
        JOIN (SELECT g, sum(x) AS n FROM t WHERE s = 'a b' GROUP BY g) c ON a.g = c.g"""
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {query}")
    spark.sql("INSERT INTO t VALUES (1, 'a b', 16), (1, 'a  b', 32)")
    assert spark.sql("REFRESH INCREMENTAL VIEW v").collect()[0].kind == "INCREMENTAL"
    oracle("v", query)
    assert spark.table("v").collect() == [(1, 27, 36, 18)]
