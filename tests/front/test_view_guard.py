"""Reading the table of an incremental view, and what is refused on it; with a table published by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession


class Published:
    """A table that looks like an incremental view's, with runs published into it."""

    def __init__(self, spark: SparkSession, location: Path) -> None:
        self.spark = spark
        self.location = location
        spark.sql(
            f"CREATE TABLE v (id BIGINT) USING parquet LOCATION '{location}' TBLPROPERTIES ('tidemill.view' = 'x')"
        )

    def publish(self, run: int, rows: int) -> None:
        """Make `rows` rows the content: files, then the manifest in one step."""
        folder = self.location / f"data-{run:010d}-00000000"
        self.spark.range(rows).write.parquet(str(folder))
        files = [file.rename(self.location / file.name) for file in folder.glob("part-*")]
        lines = [
            json.dumps(
                {
                    "path": file.as_uri(),
                    "size": file.stat().st_size,
                    "isDir": False,
                    "modificationTime": int(file.stat().st_mtime * 1000),
                    "blockReplication": 1,
                    "blockSize": 1 << 25,
                    "action": "add",
                }
            )
            for file in files
        ]
        manifests = self.location / "_spark_metadata"
        manifests.mkdir(exist_ok=True)
        (manifests / ".new").write_text("\n".join(["v1", *lines]))
        (manifests / ".new").rename(manifests / f"{run}.compact")


@pytest.fixture
def view(spark: SparkSession, schema: str, tmp_path: Path) -> Published:
    return Published(spark, tmp_path / "view")


def count(frame: DataFrame) -> int:
    return frame.count()


def test_a_view_that_was_never_filled_cannot_be_read(spark: SparkSession, view: Published) -> None:
    with pytest.raises(AnalysisException) as caught:
        spark.table("v")
    assert caught.value.getCondition() == "TIDEMILL_NOT_FILLED"
    assert caught.value.getMessageParameters() == {"view": f"spark_catalog.{spark.catalog.currentDatabase()}.v"}
    assert [row.col_name for row in spark.sql("DESCRIBE v").collect()] == ["id"]


def test_each_statement_reads_the_newest_run(spark: SparkSession, view: Published) -> None:
    view.publish(0, 3)
    other = spark.newSession()
    other.sql(f"USE {spark.catalog.currentDatabase()}")
    spark.sql("CREATE VIEW plain AS SELECT id FROM v")
    frame = spark.table("v")
    assert count(frame) == count(other.table("v")) == 3
    view.publish(1, 5)
    assert [count(s.table(t)) for s in (spark, other) for t in ("v", "plain")] == [5, 5, 5, 5]
    assert count(frame) == 3  # resolved before
    row = spark.sql("SELECT count(*), (SELECT max(id) FROM v) FROM v WHERE id IN (SELECT id FROM v)").first()
    assert row is not None
    assert tuple(row) == (5, 4)


def test_cached_views(spark: SparkSession, view: Published) -> None:
    def from_cache(frame: DataFrame) -> bool:
        return "InMemoryRelation" in frame._jdf.queryExecution().withCachedData().toString()

    view.publish(0, 3)
    spark.sql("CACHE TABLE v")
    assert from_cache(spark.table("v"))
    view.publish(1, 5)
    assert not from_cache(spark.table("v"))
    assert count(spark.table("v")) == 5
    spark.sql("UNCACHE TABLE v")


@pytest.mark.parametrize(
    "sql",
    [
        "ANALYZE TABLE v COMPUTE STATISTICS FOR ALL COLUMNS",
        "REFRESH TABLE v",
        "CACHE TABLE v",
        "UNCACHE TABLE v",
        "SHOW CREATE TABLE v",
        "DESCRIBE EXTENDED v",
        "CREATE TABLE IF NOT EXISTS v (id BIGINT) USING parquet",
        "CREATE OR REPLACE TEMPORARY VIEW over_v AS SELECT * FROM v",
    ],
)
def test_allowed_statements(spark: SparkSession, view: Published, sql: str) -> None:
    view.publish(0, 3)
    spark.sql(sql)
    assert count(spark.table("v")) == 3


REFUSED = {
    "INSERT INTO v VALUES (1)": "REFRESH",
    "INSERT OVERWRITE v VALUES (1)": "REFRESH",
    "WITH x AS (SELECT 1 AS id) INSERT INTO v SELECT * FROM x": "REFRESH",
    "INSERT INTO IDENTIFIER('v') VALUES (2)": "REFRESH",
    "FROM t INSERT INTO v SELECT id INSERT INTO t SELECT id": "REFRESH",
    "DELETE FROM v AS q WHERE id = 1": "REFRESH",
    "UPDATE v SET id = 1": "REFRESH",
    "MERGE INTO v USING t ON v.id = t.id WHEN MATCHED THEN DELETE": "REFRESH",
    "TRUNCATE TABLE v": "REFRESH",
    "LOAD DATA INPATH '/nowhere' INTO TABLE v": "REFRESH",
    "DROP TABLE v": "DROP",
    "DROP TABLE IF EXISTS spark_catalog.`{db}`.`v`": "DROP",
    "DROP VIEW v": "DROP",
    "DROP TABLE IDENTIFIER('v')": "DROP",
    "EXECUTE IMMEDIATE 'DROP TABLE v'": "DROP",
    "BEGIN DROP TABLE v; END": "DROP",
    "ALTER TABLE v ADD COLUMNS (z INT)": "ALTER",
    "ALTER TABLE v RENAME TO w": "ALTER",
    "ALTER TABLE v SET TBLPROPERTIES ('a' = 'b')": "ALTER",
    "ALTER TABLE v SET LOCATION '/nowhere'": "ALTER",
    "ALTER VIEW v AS SELECT 1": "ALTER",
    "CREATE OR REPLACE TABLE v USING parquet AS SELECT 1 AS id": "CREATE OR REPLACE",
    "CREATE OR REPLACE VIEW v AS SELECT 1": "CREATE OR REPLACE",
}


@pytest.mark.parametrize("sql", REFUSED)
def test_refused_statements(spark: SparkSession, view: Published, schema: str, sql: str) -> None:
    view.publish(0, 3)
    spark.sql("CREATE TABLE t (id BIGINT) USING parquet")
    with pytest.raises(AnalysisException) as caught:
        spark.sql(sql.replace("{db}", schema))
    assert caught.value.getCondition() == "TIDEMILL_USE_OTHER_STATEMENT"
    assert caught.value.getSqlState() == "42809"
    statement = (caught.value.getMessageParameters() or {})["statement"]
    assert statement == f"{REFUSED[sql]} INCREMENTAL VIEW spark_catalog.{schema}.v"
    assert count(spark.table("v")) == 3


WRITERS: dict[str, Callable[[DataFrame], object]] = {
    "saveAsTable overwrite": lambda frame: frame.write.mode("overwrite").saveAsTable("v"),
    "saveAsTable append": lambda frame: frame.write.mode("append").saveAsTable("v"),
    "insertInto": lambda frame: frame.write.insertInto("v", overwrite=True),
    "append": lambda frame: frame.writeTo("v").append(),
    "overwritePartitions": lambda frame: frame.writeTo("v").overwritePartitions(),
    "createOrReplace": lambda frame: frame.writeTo("v").using("parquet").createOrReplace(),
    "mergeInto": lambda frame: frame.mergeInto("v", frame.id == 1).whenMatched().delete().merge(),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_refused_writers(spark: SparkSession, view: Published, writer: str) -> None:
    view.publish(0, 3)
    with pytest.raises(AnalysisException) as caught:
        WRITERS[writer](spark.range(2))
    assert caught.value.getCondition() == "TIDEMILL_USE_OTHER_STATEMENT"
    assert count(spark.table("v")) == 3


def test_other_tables_and_temporary_views_are_free(spark: SparkSession, view: Published) -> None:
    view.publish(0, 3)
    spark.range(1).createOrReplaceTempView("v")
    spark.sql("DROP VIEW v")
    assert count(spark.table("v")) == 3
    spark.range(2).write.mode("overwrite").saveAsTable("t")
    spark.range(2).write.mode("overwrite").saveAsTable("t")
    spark.sql("INSERT INTO t VALUES (1)")
    spark.sql("DROP TABLE t")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.sql("DROP TABLE no_such_database.v")
