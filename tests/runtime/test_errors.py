"""Every condition of CREATE, REFRESH, VERIFY, SHOW and DROP; none leaves a catalog entry or a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.conftest import files_under, location_of

Fails = Callable[[str, str], PySparkException]

RECURSIVE = "WITH RECURSIVE r (n) AS (SELECT k FROM events UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT n FROM r"
DEMAND = "SCHEDULE (ON DEMAND)"


@pytest.fixture
def warehouse(spark: SparkSession) -> Path:
    return Path(str(spark.conf.get("spark.sql.warehouse.dir")).removeprefix("file:"))


CREATES = [
    ("TIDEMILL_ALREADY_EXISTS", f"CREATE INCREMENTAL VIEW events {DEMAND} AS SELECT 1 AS x"),
    ("TIDEMILL_CATALOG_UNSUPPORTED", f"CREATE INCREMENTAL VIEW a.b.c.v {DEMAND} AS SELECT 1 AS x"),
    ("TIDEMILL_COLUMN_MISMATCH", f"CREATE INCREMENTAL VIEW v (a, b) {DEMAND} AS SELECT k FROM events"),
    ("COLUMN_ALREADY_EXISTS", f"CREATE INCREMENTAL VIEW v {DEMAND} AS SELECT k, v AS K FROM events"),
    ("COLUMN_ALREADY_EXISTS", f"CREATE INCREMENTAL VIEW v (a, A) {DEMAND} AS SELECT k, v FROM events"),
    ("TIDEMILL_NON_DETERMINISTIC", f"CREATE INCREMENTAL VIEW v {DEMAND} AS SELECT k, rand() AS r FROM events"),
    ("TIDEMILL_NON_DETERMINISTIC", f"CREATE INCREMENTAL VIEW v {DEMAND} AS SELECT uuid() AS u FROM events"),
    ("TIDEMILL_TEMPORARY_OBJECT", f"CREATE INCREMENTAL VIEW v {DEMAND} AS SELECT * FROM a_temporary_view"),
    (
        "TIDEMILL_NOT_INCREMENTAL",
        f"CREATE INCREMENTAL VIEW v {DEMAND} REFRESH POLICY STRICT AS {RECURSIVE}",
    ),
    (
        "TIDEMILL_NOT_INCREMENTAL",
        f"CREATE INCREMENTAL VIEW v {DEMAND} REFRESH POLICY INCREMENTAL AS"
        f" SELECT n, count(*) AS m FROM ({RECURSIVE}) GROUP BY n",
    ),
    (
        "TIDEMILL_NOT_INCREMENTAL",
        f"CREATE INCREMENTAL VIEW v {DEMAND} REFRESH POLICY STRICT AS SELECT k, current_date() AS d FROM events",
    ),
    (
        "COLUMN_NOT_DEFINED_IN_TABLE",
        f"CREATE INCREMENTAL VIEW v PARTITIONED BY (zz) {DEMAND} AS SELECT k, v FROM events",
    ),
    (
        "ALL_PARTITION_COLUMNS_NOT_ALLOWED",
        f"CREATE INCREMENTAL VIEW v PARTITIONED BY (v, k) {DEMAND} AS SELECT k, v FROM events",
    ),
    ("COLUMN_ALREADY_EXISTS", f"CREATE INCREMENTAL VIEW v PARTITIONED BY (k, K) {DEMAND} AS SELECT k, v FROM events"),
    (
        "INVALID_PARTITION_COLUMN_DATA_TYPE",
        f"CREATE INCREMENTAL VIEW v PARTITIONED BY (a) {DEMAND} AS SELECT k, array(v) AS a FROM events",
    ),
    (
        "INVALID_PARTITION_COLUMN_DATA_TYPE",
        f"CREATE INCREMENTAL VIEW v PARTITIONED BY (b) {DEMAND} AS SELECT v, binary(s) AS b FROM events",
    ),
    ("TABLE_OR_VIEW_NOT_FOUND", f"CREATE INCREMENTAL VIEW v {DEMAND} AS SELECT * FROM no_such_table"),
    ("UNRESOLVED_COLUMN.WITH_SUGGESTION", f"CREATE INCREMENTAL VIEW v {DEMAND} AS SELECT nope FROM events"),
    ("DIVIDE_BY_ZERO", f"CREATE INCREMENTAL VIEW v {DEMAND} AS SELECT v / (k - k) AS x FROM events"),
]


@pytest.mark.parametrize(("condition", "sql"), CREATES, ids=[f"{i}-{c[0]}" for i, c in enumerate(CREATES)])
def test_a_failed_create_leaves_nothing(
    spark: SparkSession, events: str, warehouse: Path, fails: Fails, condition: str, sql: str
) -> None:
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW a_temporary_view AS SELECT 1 AS x")
    tables = spark.sql("SHOW TABLES").collect()
    files = files_under(warehouse)
    folders = {str(p) for p in warehouse.rglob("*") if p.is_dir()}
    fails(sql, condition)
    assert spark.sql("SHOW TABLES").collect() == tables
    assert files_under(warehouse) == files
    assert {str(p) for p in warehouse.rglob("*") if p.is_dir()} == folders
    spark.sql("DROP VIEW a_temporary_view")


def test_a_failed_create_leaves_no_folder_of_its_location(
    spark: SparkSession, events: str, tmp_path: Path, fails: Fails
) -> None:
    there = tmp_path / "a" / "b" / "c"
    sql = f"CREATE INCREMENTAL VIEW v {DEMAND} LOCATION '{there}' AS SELECT v / (k - k) AS x FROM events"
    fails(sql, "DIVIDE_BY_ZERO")
    assert list(tmp_path.iterdir()) == []
    there.mkdir(parents=True)
    fails(sql, "DIVIDE_BY_ZERO")
    assert there.exists()
    assert list(there.iterdir()) == []


def test_rand_is_allowed_under_full(spark: SparkSession, events: str) -> None:
    spark.sql(f"CREATE INCREMENTAL VIEW v {DEMAND} REFRESH POLICY FULL AS SELECT k, rand() >= 0 AS r FROM events")
    assert spark.table("v").count() == 4


def test_not_incremental_names_operator_and_reason(events: str, fails: Fails) -> None:
    error = fails(
        f"CREATE INCREMENTAL VIEW v {DEMAND} REFRESH POLICY STRICT AS {RECURSIVE}",
        "TIDEMILL_NOT_INCREMENTAL",
    )
    parameters = error.getMessageParameters() or {}
    assert "WITH RECURSIVE" in parameters["operator"]
    assert parameters["reason"]
    assert error.getSqlState() == "0A000"


@pytest.mark.parametrize(
    "statement",
    [
        "REFRESH INCREMENTAL VIEW {}",
        "VERIFY INCREMENTAL VIEW {}",
        "EXPLAIN INCREMENTAL VIEW {}",
        "SHOW REFRESHES IN {}",
        "SHOW CREATE INCREMENTAL VIEW {}",
        "DESCRIBE INCREMENTAL VIEW {}",
        "DROP INCREMENTAL VIEW {}",
    ],
)
def test_names_that_are_no_incremental_view(events: str, fails: Fails, statement: str) -> None:
    missing = fails(statement.format("nope"), "TIDEMILL_NOT_FOUND")
    assert missing.getSqlState() == "42P01"
    assert "cannot be found in the in-memory catalog of this process" in str(missing)
    fails(statement.format("no_such_database.v"), "TIDEMILL_NOT_FOUND")
    assert fails(statement.format("events"), "TIDEMILL_NOT_AN_INCREMENTAL_VIEW").getSqlState() == "42809"


@pytest.mark.parametrize("point", [0, 3, -1])
def test_no_such_point(spark: SparkSession, events: str, fails: Fails, point: int) -> None:
    spark.sql("CREATE INCREMENTAL VIEW v SCHEDULE (AT '14:00' NO OUTPUT, AT '24:00') AS SELECT k FROM events")
    before = files_under(location_of(spark, "v"))
    fails(f"REFRESH INCREMENTAL VIEW v AT {point}", "TIDEMILL_NO_SUCH_POINT")
    assert files_under(location_of(spark, "v")) == before


def test_verify_before_the_first_filling(spark: SparkSession, events: str, fails: Fails) -> None:
    spark.sql(f"CREATE INCREMENTAL VIEW v {DEMAND} INITIALIZE DEFERRED AS SELECT k FROM events")
    fails("VERIFY INCREMENTAL VIEW v", "TIDEMILL_NOT_FILLED")


def test_verify_when_a_source_forgot(spark: SparkSession, events: str, fails: Fails) -> None:
    spark.sql(f"CREATE INCREMENTAL VIEW v {DEMAND} AS SELECT k FROM events")
    spark.sql("INSERT OVERWRITE events VALUES (1, 1, 'z')")
    fails("VERIFY INCREMENTAL VIEW v", "TIDEMILL_HISTORY_GONE")


def test_verify_finds_what_is_wrong(spark: SparkSession, events: str) -> None:
    spark.sql(f"CREATE INCREMENTAL VIEW v {DEMAND} AS SELECT k, v FROM events")
    location = location_of(spark, "v")
    data = next(f for f in files_under(location) if f.startswith("part-") and f.endswith(".parquet"))
    broken = location / data
    spark.createDataFrame([(1, 10), (7, 7)], "k INT, v BIGINT").coalesce(1).write.parquet(str(location) + "_other")
    other = next(Path(str(location) + "_other").glob("*.parquet"))
    broken.with_name(f".{broken.name}.crc").unlink(missing_ok=True)
    broken.write_bytes(other.read_bytes())
    row = spark.sql("VERIFY INCREMENTAL VIEW v").first()
    assert row is not None
    assert not row.matches
    assert row.unexpected >= 1
    assert row.missing >= 1


def test_a_session_function_that_is_missing(spark: SparkSession, events: str, fails: Fails) -> None:
    spark.udf.register("twice", lambda x: None if x is None else 2 * x, "bigint")
    spark.sql(f"CREATE INCREMENTAL VIEW v {DEMAND} AS SELECT k, twice(v) AS w FROM events")
    spark.sql("INSERT INTO events VALUES (9, 9, 'n')")
    spark.sql("DROP TEMPORARY FUNCTION twice")
    fails("REFRESH INCREMENTAL VIEW v", "TIDEMILL_FUNCTION_MISSING")
    spark.udf.register("twice", lambda x: None if x is None else 3 * x, "bigint")
    row = spark.sql("REFRESH INCREMENTAL VIEW v").first()
    assert row is not None
    assert row.kind == "FULL"
    assert row.reason.split(":")[0] == "FUNCTION_CHANGED"
    assert 27 in {r.w for r in spark.table("v").collect()}


def test_a_failed_refresh_leaves_nothing(spark: SparkSession, db: str, fails: Fails) -> None:
    spark.sql("CREATE TABLE t (id INT, d INT) USING delta")
    spark.sql("INSERT INTO t VALUES (1, 1)")
    spark.sql(f"CREATE INCREMENTAL VIEW v {DEMAND} REFRESH POLICY STRICT AS SELECT id, 10 / d AS q FROM t")
    location = location_of(spark, "v")
    spark.sql("INSERT INTO t VALUES (2, 0)")
    before = files_under(location)
    fails("REFRESH INCREMENTAL VIEW v", "DIVIDE_BY_ZERO")
    assert files_under(location) == before
    assert spark.table("v").count() == 1
    spark.sql("DELETE FROM t WHERE d = 0")
    row = spark.sql("REFRESH INCREMENTAL VIEW v").first()
    assert row is not None
    assert row.kind in ("NO_DATA", "INCREMENTAL")


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE INCREMENTAL VIEW w\n  REFRESH POLICY FULL AS\n    SELECT k, nope FROM events",
        "CREATE OR REPLACE INCREMENTAL VIEW v -- \N{CRAB}\nAS\n    SELECT k, nope FROM events",
        "ALTER INCREMENTAL VIEW v\n AS\n    SELECT k, nope FROM events;",
        "EXPLAIN INCREMENTAL\n\n    SELECT k, nope FROM events",
    ],
)
def test_errors_of_the_query_point_into_the_statement(
    spark: SparkSession, events: str, fails: Fails, statement: str
) -> None:
    if " v" in statement:
        spark.sql("CREATE INCREMENTAL VIEW v INITIALIZE DEFERRED AS SELECT k FROM events")
    assert "line 3 pos 14" in str(fails(statement, "UNRESOLVED_COLUMN.WITH_SUGGESTION"))


def test_answers_as_text(spark: SparkSession, events: str) -> None:
    """As `tidemill sql` asks for them."""
    spark.conf.set("spark.tidemill.answers", "text")
    try:
        create = "CREATE INCREMENTAL VIEW IF NOT EXISTS v REFRESH POLICY INCREMENTAL AS SELECT k, v FROM events"
        (made,) = spark.sql(create).collect()
        assert made.created.startswith(f"spark_catalog.{events}.v is created and holds 4 rows: run 0, ")
        (again,) = spark.sql(create).collect()
        assert again.created == f"spark_catalog.{events}.v was there already, with its run 0; nothing was loaded"
        spark.sql("INSERT INTO events VALUES (5, 5, 'x')")
        run = {r.run.split()[0]: r.run.split(maxsplit=1)[1] for r in spark.sql("REFRESH INCREMENTAL VIEW v").collect()}
        assert (run["run"], run["kind"], run["rows_in"], run["rows_out"]) == ("1", "INCREMENTAL", "+1 -0", "+1 -0")
        head, *runs = [r.refreshes for r in spark.sql("SHOW REFRESHES IN v").collect()]
        assert head.startswith("run  kind         reason  rows_in")
        assert [line.split()[:3] for line in runs] == [["1", "INCREMENTAL", "-"], ["0", "FULL", "FIRST"]]
    finally:
        spark.conf.unset("spark.tidemill.answers")
    assert spark.sql("REFRESH INCREMENTAL VIEW v").first()["kind"] == "NO_DATA"  # type: ignore[index]  # one row
