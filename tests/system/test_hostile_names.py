"""Names, paths and texts that someone made up to break out or to break something: they do neither."""

from __future__ import annotations

from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.conftest import files_under

HOSTILE = {
    "quote": "it's; DROP TABLE t; --",
    "glob": "a*b?c[d]{e,f}",
}


def quoted(text: str) -> str:
    """As a string literal of Spark."""
    for plain, escaped in (("\\", "\\\\"), ("'", "\\'"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"), ("$", "\\u0024")):
        text = text.replace(plain, escaped)
    return f"'{text}'"


def named(text: str) -> str:
    """As an identifier; `${` cannot be hidden from Spark's substitution there."""
    return "`" + text.replace("`", "``").replace("$", "S") + "`"


def refresh_and_verify(spark: SparkSession, view: str) -> None:
    spark.sql("INSERT INTO t VALUES (1, 5), (2, 7)")
    (run,) = spark.sql(f"REFRESH INCREMENTAL VIEW {view}").collect()
    assert run.kind == "INCREMENTAL"
    assert spark.sql(f"VERIFY INCREMENTAL VIEW {view}").collect()[0].matches


@pytest.fixture
def table(spark: SparkSession, db: str) -> str:
    spark.sql("CREATE TABLE t (a INT, b INT) USING parquet")
    spark.sql("INSERT INTO t VALUES (1, 2), (1, 3)")
    return "t"


@pytest.mark.parametrize("kind", HOSTILE)
def test_texts_and_paths(spark: SparkSession, table: str, tmp_path: Path, kind: str) -> None:
    text = HOSTILE[kind]
    location = tmp_path / ("in " + text.replace("/", "_"))
    spark.sql(
        f"CREATE INCREMENTAL VIEW v (a COMMENT {quoted(text)}, {named(text + '2')}, lit) COMMENT {quoted(text)}"
        f" LOCATION {quoted(str(location))} TBLPROPERTIES ({quoted('k ' + text)} = {quoted(text)}) SCHEDULE (ON DEMAND)"
        f" AS SELECT a, sum(b) AS {named(text)}, {quoted(text)} AS lit FROM t GROUP BY a"
    )
    spark.sql("SET tide=evil")
    refresh_and_verify(spark, "v")
    spark.sql("RESET tide")
    assert {row.lit for row in spark.table("v").collect()} == {text}
    assert [p.name for p in tmp_path.iterdir()] == [location.name]
    # What plain Spark finds there, by the manifest.
    columns = f"a INT, {named(text + '2')} BIGINT, lit STRING"
    spark.sql(f"CREATE TABLE plain ({columns}) USING parquet LOCATION {quoted(str(location))}")
    assert sorted(spark.table("plain").collect()) == sorted(spark.table("v").collect())
    spark.sql("DROP TABLE plain")
    # SHOW CREATE makes the same view again; DROP leaves what it does not own.
    (made,) = spark.sql("SHOW CREATE INCREMENTAL VIEW v").collect()
    before = files_under(location)
    spark.sql("DROP INCREMENTAL VIEW v")
    assert set(before) - set(files_under(location)) == set()
    spark.sql(made[0])
    (again,) = spark.sql("SHOW CREATE INCREMENTAL VIEW v").collect()
    assert again[0] == made[0]
    assert spark.sql("SELECT count(*) FROM t").collect()[0][0] == 4


@pytest.mark.parametrize("name", ["..", "../../escaped", "a.b", "a/b", "a b", "a`b", "a\nb", "\u05e9", "a*", "x\0y"])
def test_names_that_spark_refuses(spark: SparkSession, table: str, db: str, tmp_path: Path, name: str) -> None:
    warehouse = Path(spark.conf.get("spark.sql.warehouse.dir").removeprefix("file:"))  # type: ignore[union-attr]
    before = files_under(warehouse.parent)
    for place in ("", f"LOCATION '{tmp_path / 'v'}'"):
        with pytest.raises(PySparkException) as caught:
            spark.sql(f"CREATE INCREMENTAL VIEW {named(name)} {place} SCHEDULE (ON DEMAND) AS SELECT a FROM t")
        # The second is how Spark fails to print some names in the first.
        assert caught.value.getCondition() in ("INVALID_SCHEMA_OR_RELATION_NAME", "INVALID_ATTRIBUTE_NAME_SYNTAX")
    assert files_under(warehouse.parent) == before
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("location", ["a\0b", "y" * 300])
def test_locations_that_cannot_be(spark: SparkSession, table: str, db: str, tmp_path: Path, location: str) -> None:
    with pytest.raises((PySparkException, Py4JJavaError)):  # what Java throws, Spark passes on as it is
        spark.sql(f"CREATE INCREMENTAL VIEW v LOCATION '{tmp_path}/{location}' SCHEDULE (ON DEMAND) AS SELECT a FROM t")
    assert list(tmp_path.iterdir()) == []
    assert spark.sql("SHOW INCREMENTAL VIEWS").collect() == []


def test_a_database_and_a_source_at_a_hostile_place(spark: SparkSession, db: str, tmp_path: Path) -> None:
    place = tmp_path / "d #%20'z"  # Spark cannot write below a folder whose name has glob characters
    spark.sql(f"CREATE DATABASE hostile LOCATION {quoted(str(place))}")
    try:
        spark.sql("USE hostile")
        spark.sql("CREATE TABLE t (a INT, b INT) USING parquet")
        spark.sql("INSERT INTO t VALUES (1, 2)")
        spark.sql("CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS SELECT a, b FROM t")
        refresh_and_verify(spark, "v")
        spark.sql("DROP INCREMENTAL VIEW v")
        assert [p.name for p in place.iterdir()] == ["t"]
        assert [p.name for p in tmp_path.iterdir()] == [place.name]
    finally:
        spark.sql(f"USE {db}")
        spark.sql("DROP DATABASE hostile CASCADE")


def test_a_variable_in_a_text_is_read_once(spark: SparkSession, table: str) -> None:
    spark.conf.set("tide", "b > 2")
    spark.sql(
        "CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS SELECT a, b, '$\\u007btide}' AS x FROM t WHERE ${tide}"
    )
    spark.conf.set("tide", "false")
    spark.sql("REFRESH INCREMENTAL VIEW v FULL")
    spark.conf.unset("tide")
    assert [tuple(row) for row in spark.table("v").collect()] == [(1, 3, "${tide}")]
