"""Promises that are small: names, words and formats."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from tests.conftest import Oracle, files_under, location_of, packs

Fails = Callable[[str, str], PySparkException]


def test_or_replace_keeps_the_format(spark: SparkSession, events: str, oracle: Oracle, fails: Fails) -> None:
    spark.sql("CREATE INCREMENTAL VIEW v USING delta SCHEDULE (ON DEMAND) AS SELECT k FROM events")
    spark.sql("CREATE OR REPLACE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS SELECT v FROM events")
    oracle("v", "SELECT v FROM events")
    assert "USING delta" in spark.sql("SHOW CREATE INCREMENTAL VIEW v").collect()[0][0]
    assert (location_of(spark, "v") / "_delta_log").exists()
    fails(
        "CREATE OR REPLACE INCREMENTAL VIEW v USING parquet SCHEDULE (ON DEMAND) AS SELECT k FROM events",
        "TIDEMILL_LOCATION_MISMATCH",
    )


def test_reasons_name_the_switch_and_speak_sql(spark: SparkSession, events: str, refresh: Callable[..., Row]) -> None:
    spark.sql("CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS SELECT k, v FROM events")
    spark.sql("INSERT INTO events VALUES (1, 1, 'a')")
    with packs(spark, disabled=["delta"]):
        assert "spark.tidemill.method.delta.enabled is false" in refresh("v").reason
    steps = "SELECT 1 AS n UNION ALL SELECT n + 1 FROM r JOIN events ON k = n WHERE n < 3"
    with pytest.raises(PySparkException, match="WITH RECURSIVE: it has no incremental form") as caught:
        spark.sql(
            "CREATE INCREMENTAL VIEW w SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS"
            f" WITH RECURSIVE r(n) AS ({steps}) SELECT * FROM r"
        )
    assert "UnionLoop" not in str(caught.value)


@pytest.mark.parametrize("temporary", ["", "TEMPORARY"])
def test_a_replaced_sql_function(
    spark: SparkSession, events: str, refresh: Callable[..., Row], warned: list[str], temporary: str
) -> None:
    def function(body: str) -> str:
        return f"CREATE OR REPLACE {temporary} FUNCTION doubled(x BIGINT) RETURNS BIGINT RETURN {body}"

    spark.sql(function("x * 2"))
    spark.sql("CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS SELECT k, doubled(v) AS w FROM events")
    assert any("uses the function doubled" in text for text in warned) == bool(temporary)
    spark.sql(function("x * 2"))
    assert refresh("v").kind == "NO_DATA"
    spark.sql(function("x + x + 1"))
    row = refresh("v")
    assert (row.kind, row.reason.partition(":")[0]) == ("FULL", "FUNCTION_CHANGED")
    assert "doubled" in row.reason
    assert sorted(r.w for r in spark.table("v").collect()) == [11, 21, 21, 41]
    spark.sql(f"DROP {temporary} FUNCTION doubled")


def test_a_name_that_is_too_long(spark: SparkSession, events: str, fails: Fails) -> None:
    before = files_under(location_of(spark, "events").parent)
    for name in ("a" * 300, "ä" * 130):
        fails(
            f"CREATE INCREMENTAL VIEW `{name}` SCHEDULE (ON DEMAND) AS SELECT k FROM events", "TIDEMILL_NAME_TOO_LONG"
        )
    assert files_under(location_of(spark, "events").parent) == before
    name = "a" * 255
    spark.sql(f"CREATE INCREMENTAL VIEW {name} SCHEDULE (ON DEMAND) AS SELECT k FROM events")
    fails(f"ALTER INCREMENTAL VIEW {name} RENAME TO {name}b", "TIDEMILL_NAME_TOO_LONG")
    assert spark.table(name).count() == 4


def test_columns_that_differ_by_case(
    spark: SparkSession, events: str, oracle: Oracle, refresh: Callable[..., Row]
) -> None:
    query = "SELECT k AS a, v AS A FROM events"
    with pytest.raises((PySparkException, Py4JJavaError), match="COLUMN_ALREADY_EXISTS"):
        spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS {query}")
    spark.sql("SET spark.sql.caseSensitive = true")
    try:
        for columns, clauses in (("", ""), ("(b, B)", "PARTITIONED BY (B)")):
            spark.sql(f"CREATE OR REPLACE INCREMENTAL VIEW v {columns} {clauses} SCHEDULE (ON DEMAND) AS {query}")
            spark.sql("INSERT INTO events VALUES (7, 70, 'x')")
            assert refresh("v").kind in {"INCREMENTAL", "FULL"}
            oracle("v", query)
            assert spark.sql("VERIFY INCREMENTAL VIEW v").collect()[0].matches
            spark.sql("DROP INCREMENTAL VIEW v")
    finally:
        spark.sql("RESET spark.sql.caseSensitive")
