"""What the analysis finds that keeps a query from being stored."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.bridge.codec import Call, analyze


def finding(call: Call, sql: str) -> dict[str, Any]:
    found: dict[str, Any] = analyze(call, sql)["findings"]
    return {name: values for name, values in found.items() if values}


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT id + 1 FROM range(3)", {}),
        ("SELECT rand(1) FROM range(3)", {"nondeterministic": ["rand(1)"]}),
        ("SELECT id FROM range(3) WHERE uuid() = 'x'", {"nondeterministic": ["uuid()"]}),
        ("SELECT first(id), collect_list(id) FROM range(3)", {}),
        ("SELECT id FROM range(3) WHERE current_date() > DATE'2000-01-01'", {}),
        ("SELECT id, now() > TIMESTAMP'2000-01-01' AS late FROM range(3)", {}),
        ("SELECT count_if(id > day(current_date())), max(id) < day(now()) FROM range(3)", {}),
        ("SELECT sum(day(now())) FROM range(3)", {"time_dependent": ["now()"]}),
        ("SELECT * FROM range(3) a LEFT JOIN range(3) b ON a.id = b.id AND a.id + day(now()) > 3", {}),
        (
            "SELECT * FROM range(3) a LEFT JOIN range(3) b ON a.id = b.id AND a.id + b.id > day(now())",
            {"time_dependent": ["now()"]},
        ),
        ("SELECT * FROM (SELECT now() AS t)", {"time_dependent": ["now()"]}),
        ("SELECT CAST('today' AS DATE) AS d", {"time_dependent": ["CAST('today' AS DATE)"]}),
        ("SELECT 1 WHERE EXISTS (SELECT * FROM range(2) WHERE id < rand(2))", {"nondeterministic": ["rand(2)"]}),
    ],
)
def test_findings(call: Call, sql: str, expected: dict[str, Any]) -> None:
    assert finding(call, sql) == expected


def test_session_objects(spark: SparkSession, call: Call) -> None:
    spark.range(3).createOrReplaceTempView("passing")
    spark.udf.register("twice", lambda x: 2 * x, "long")
    try:
        sql = "WITH c AS (SELECT twice(id) AS x FROM passing) SELECT * FROM c WHERE x < 2"
        found = finding(call, sql)
        assert found["temporary"] == ["passing"]
        assert found["session_functions"] == ["twice"]
        functions = [f for e in analyze(call, sql)["expressions"] for f in e["functions"]]
        assert any(f.startswith("python:twice:") for f in functions)
        assert functions == [f for e in analyze(call, sql)["expressions"] for f in e["functions"]]
    finally:
        spark.catalog.dropTempView("passing")
        spark.sql("DROP TEMPORARY FUNCTION twice")


def test_time_stays_open(call: Call) -> None:
    document = analyze(call, "SELECT id FROM range(3) WHERE current_date() > DATE'2000-01-01'")
    assert any(e["time_dependent"] and "current_date" in e["text"] for e in document["expressions"])


def test_excluded_rules_change_nothing(call: Call) -> None:
    sql = "SELECT id FROM (SELECT id, id + 1 AS x FROM range(3)) WHERE id IN (SELECT id FROM range(2))"
    rules = "org.apache.spark.sql.catalyst.optimizer."
    confs = {"spark.sql.optimizer.excludedRules": f"{rules}ColumnPruning,{rules}PushDownPredicates"}
    plain, excluded = analyze(call, sql), analyze(call, sql, confs=confs)
    assert plain["root"] == excluded["root"]


def test_settings(call: Call) -> None:
    settings = call("settings", {"spark.sql.session.timeZone": "Asia/Tokyo"})
    assert settings["confs"]["spark.sql.session.timeZone"] == "Asia/Tokyo"
    assert settings["catalog"] == "spark_catalog"
    assert settings["namespace"]
