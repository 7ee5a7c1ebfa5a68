"""USING delta: the result as a Delta table, one transaction per run, healed by whoever finds it behind."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from tests.conftest import Oracle, files_under, location_of
from tidemill.bridge.jvm import Jvm

Refresh = Callable[..., Row]
Jobs = Callable[[Callable[[], Any]], int]
Fails = Callable[[str, str], PySparkException]
BY_KEY = "SELECT k, sum(v) AS s, count(*) AS n FROM events GROUP BY k"


def create(query: str, clauses: str = "", view: str = "v") -> str:
    return f"CREATE INCREMENTAL VIEW {view} USING delta {clauses} SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {query}"


def commits(spark: SparkSession, view: str) -> list[list[dict[str, Any]]]:
    """The actions of each version of the Delta table, oldest first."""
    log = sorted((location_of(spark, view) / "_delta_log").glob("*.json"))
    return [[json.loads(line) for line in file.read_text().splitlines()] for file in log]


def of(actions: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [action[kind] for action in actions if kind in action]


@pytest.fixture
def foreign(spark: SparkSession) -> Callable[[str], str]:
    """`foreign(view)`: the view's table as those name it who know nothing of Tidemill."""
    return lambda view: f"delta.`{location_of(spark, view)}`"


def test_each_run_is_one_transaction(
    spark: SparkSession, events: str, refresh: Refresh, jobs: Jobs, oracle: Oracle, foreign: Callable[[str], str]
) -> None:
    spark.sql(create(BY_KEY, "COMMENT 'sums' TBLPROPERTIES (a = 1)"))
    oracle("v", BY_KEY)
    [first] = commits(spark, "v")
    assert [m["description"] for m in of(first, "metaData")] == ["sums"]
    for run in (1, 2):
        spark.sql("INSERT INTO events VALUES (1, 1, 'x'), (9, 9, NULL)")
        assert refresh("v").kind == "INCREMENTAL"
        oracle("v", BY_KEY)
        oracle(foreign("v"), BY_KEY)
        newest = commits(spark, "v")[-1]
        [mark] = of(newest, "txn")
        assert mark["version"] == run
        assert f"run {run}" in of(newest, "commitInfo")[0]["userMetadata"]
        assert not of(newest, "metaData")
    assert len(commits(spark, "v")) == 3
    assert jobs(lambda: refresh("v")) == 0
    assert len(commits(spark, "v")) == 3
    assert spark.sql("VERIFY INCREMENTAL VIEW v").collect()[0].matches
    shown = spark.sql("SHOW CREATE INCREMENTAL VIEW v").collect()[0][0]
    assert "USING `delta`" in shown or "USING delta" in shown
    assert ("Format", "delta") in [
        (r.col_name, r.data_type) for r in spark.sql("DESCRIBE INCREMENTAL VIEW EXTENDED v").collect()
    ]
    assert spark.sql("DESCRIBE DETAIL v").collect()[0].format == "delta"


def test_only_files_with_changed_rows_are_exchanged(
    spark: SparkSession, db: str, refresh: Refresh, oracle: Oracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidemill.runtime.content import apply

    monkeypatch.setattr(apply, "SMALL_RESULT_BYTES", 0)
    spark.sql("CREATE TABLE t (id INT, v INT) USING delta")
    spark.sql("INSERT INTO t SELECT id, id FROM range(100)")
    spark.sql(create("SELECT v FROM t"))
    spark.sql("INSERT INTO t SELECT 100 + id, 100 + id FROM range(100)")
    refresh("v")
    spark.sql("DELETE FROM t WHERE id = 150")
    refresh("v")
    first, second, third = commits(spark, "v")
    assert (len(of(second, "add")) > 0, of(second, "remove")) == (True, [])
    assert {r["path"] for r in of(third, "remove")} <= {a["path"] for a in of(second, "add")}
    assert not {r["path"] for r in of(third, "remove")} & {a["path"] for a in of(first, "add")}
    oracle("v", "SELECT v FROM t")


def test_a_run_that_was_not_shown_is_shown_by_the_next_statement(
    spark: SparkSession, events: str, refresh: Refresh, oracle: Oracle
) -> None:
    spark.sql(create(BY_KEY))
    invoke = Jvm.invoke

    def failing(jvm: Jvm, method: str, request: Mapping[str, Any] | None = None) -> Any:
        if method == "delta" and (request or {}).get("do") == "publish":
            raise OSError("no")
        return invoke(jvm, method, request)

    spark.sql("INSERT INTO events VALUES (1, 1, 'x')")
    with mock.patch.object(Jvm, "invoke", failing), pytest.raises((PySparkException, Py4JJavaError)):
        refresh("v")
    assert len(commits(spark, "v")) == 1
    assert refresh("v").kind == "NO_DATA"
    assert len(commits(spark, "v")) == 2
    oracle("v", BY_KEY)
    assert refresh("v").kind == "NO_DATA"
    assert len(commits(spark, "v")) == 2, "shown once"


def test_what_other_writers_did_is_undone(
    spark: SparkSession, events: str, refresh: Refresh, oracle: Oracle, foreign: Callable[[str], str]
) -> None:
    spark.sql(create(BY_KEY))
    for change in (f"DELETE FROM {foreign('v')} WHERE k = 1", f"INSERT INTO {foreign('v')} VALUES (7, 7, 7)"):
        spark.sql(change)
        assert refresh("v").kind == "NO_DATA"
        oracle("v", BY_KEY)
    spark.sql(f"UPDATE {foreign('v')} SET n = 0")
    spark.sql("INSERT INTO events VALUES (1, 1, 'x')")
    assert refresh("v").kind == "INCREMENTAL"
    oracle("v", BY_KEY)


def test_other_statements_are_refused(spark: SparkSession, events: str, fails: Fails) -> None:
    spark.sql(create(BY_KEY))
    for statement in (
        "INSERT INTO v VALUES (1, 1, 1)",
        "DELETE FROM v",
        "UPDATE v SET n = 0",
        "MERGE INTO v USING events ON v.k = events.k WHEN MATCHED THEN DELETE",
        "OPTIMIZE v",
        "VACUUM v",
        "RESTORE TABLE v TO VERSION AS OF 0",
        "ALTER TABLE v ADD COLUMN z INT",
        "DROP TABLE v",
    ):
        print(statement)  # shown if it is not refused
        fails(statement, "TIDEMILL_USE_OTHER_STATEMENT")
    assert len(commits(spark, "v")) == 1


def test_a_view_that_is_not_filled(
    spark: SparkSession, events: str, refresh: Refresh, oracle: Oracle, fails: Fails
) -> None:
    spark.sql(create(BY_KEY, "INITIALIZE DEFERRED"))
    fails("SELECT * FROM v", "TIDEMILL_NOT_FILLED")
    assert spark.sql("SHOW INCREMENTAL VIEWS").collect()[0].status == "NOT_FILLED"
    refresh("v")
    oracle("v", BY_KEY)


def test_the_life_of_a_view(spark: SparkSession, events: str, refresh: Refresh, oracle: Oracle) -> None:
    spark.sql(create(BY_KEY))
    root = location_of(spark, "v")
    spark.sql("ALTER INCREMENTAL VIEW v RENAME TO w")
    oracle("w", BY_KEY)
    spark.sql("ALTER INCREMENTAL VIEW w SET TBLPROPERTIES (b = 'c')")
    assert "b=c" in str(spark.sql("DESCRIBE TABLE EXTENDED w").collect())
    other = "SELECT k, n + s AS m FROM (" + BY_KEY + ")"
    spark.sql(f"ALTER INCREMENTAL VIEW w AS {other}")
    oracle("w", other)
    spark.sql(f"CREATE OR REPLACE INCREMENTAL VIEW w SCHEDULE (ON DEMAND) AS {BY_KEY}")
    assert spark.sql("DESCRIBE DETAIL w").collect()[0].format == "delta"
    spark.sql(f"CREATE OR REPLACE INCREMENTAL VIEW w USING delta SCHEDULE (ON DEMAND) AS {BY_KEY}")
    for _ in range(3):
        spark.sql("INSERT INTO events VALUES (1, 1, 'x')")
        refresh("w")
    spark.sql("VACUUM INCREMENTAL VIEW w RETAIN 0 HOURS")
    oracle("w", BY_KEY)
    refresh("w")
    oracle("w", BY_KEY)
    spark.sql("DROP INCREMENTAL VIEW w")
    assert files_under(root) == []
    spark.sql(create(BY_KEY, view="w"))
    oracle("w", BY_KEY)


def test_a_view_is_attached_again(spark: SparkSession, events: str, tmp_path: Path, fails: Fails, jobs: Jobs) -> None:
    place = f"LOCATION '{tmp_path / 'place'}'"
    spark.sql(create(BY_KEY, place))
    spark.sql("DROP INCREMENTAL VIEW v")
    fails(create(BY_KEY, place).replace("USING delta", ""), "TIDEMILL_LOCATION_MISMATCH")
    assert jobs(lambda: spark.sql(create(BY_KEY, place))) == 0
    assert spark.table("v").count() == 3
    assert len(commits(spark, "v")) == 1


def test_a_view_above_reads_the_changes(spark: SparkSession, events: str, refresh: Refresh, oracle: Oracle) -> None:
    query = "SELECT n, count(*) AS c FROM v GROUP BY n"
    spark.sql(create(BY_KEY))
    spark.sql(create(query, view="above"))
    spark.sql("INSERT INTO events VALUES (1, 1, 'x')")
    refresh("v")
    row = refresh("above")
    assert (row.kind, row.rows_in.inserts, row.rows_in.deletes) == ("INCREMENTAL", 1, 1)
    oracle("above", query)
    spark.sql("INSERT INTO events VALUES (2, 1, 'x')")
    refresh("v")
    assert spark.sql("VERIFY INCREMENTAL VIEW above").collect()[0].matches


def test_partitions(spark: SparkSession, db: str, refresh: Refresh, oracle: Oracle) -> None:
    spark.sql("CREATE TABLE t (id INT, g STRING, z TIMESTAMP) USING delta")
    spark.sql(
        "INSERT INTO t SELECT id, IF(id % 5 = 0, NULL, concat('a/b=%', id % 5)),"
        " timestampadd(MINUTE, CAST(id % 2 AS INT), TIMESTAMP'2024-03-31 01:30:00.5Z') FROM range(40)"
    )
    query = "SELECT g, z, id FROM t"
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        spark.sql(create(query, "PARTITIONED BY (g, z)"))
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    oracle("v", query)
    spark.sql("UPDATE t SET id = -id WHERE g = 'a/b=%1' AND id < 20")
    assert refresh("v").kind == "INCREMENTAL"
    oracle("v", query)
    newest = commits(spark, "v")[-1]
    assert {r["partitionValues"]["g"] for r in of(newest, "remove")} == {"a/b=%1"}
    read = spark.table("v").where("g = 'a/b=%2'")
    assert read.count() == 8
    assert spark.sql("DESCRIBE DETAIL v").collect()[0].partitionColumns == ["g", "z"]


def test_what_cannot_be_stored_is_refused_before_anything_is_written(
    spark: SparkSession, events: str, fails: Fails, tmp_path: Path
) -> None:
    place = tmp_path / "place"
    with pytest.raises(PySparkException, match="invalid character"):
        spark.sql(create("SELECT k, v AS `a b` FROM events", f"LOCATION '{place}'"))
    fails(
        create(BY_KEY, f"LOCATION '{place}' TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"),
        "TIDEMILL_INVALID_CLAUSE",
    )
    assert not place.exists()
    fails(create(BY_KEY).replace("USING delta", "USING csv"), "TIDEMILL_FORMAT_UNSUPPORTED")


def test_files_are_shown_with_statistics(spark: SparkSession, db: str, foreign: Callable[[str], str]) -> None:
    spark.sql("CREATE TABLE t (i INT, s STRING, d DOUBLE, day DATE, n DECIMAL(9, 2), at TIMESTAMP) USING delta")
    spark.sql(
        f"INSERT INTO t VALUES (-3, '{'é' * 40}', DOUBLE('NaN'), DATE'2024-02-29', -1.5, TIMESTAMP'2024-01-01'),"
        " (7, '', -0.0, NULL, 2.25, NULL), (NULL, 'z', 1.0, DATE'1999-12-31', NULL, TIMESTAMP'1900-01-01 00:00:00')"
    )
    spark.sql(create("SELECT * FROM t"))
    [first] = commits(spark, "v")
    told = [json.loads(a["stats"]) for a in of(first, "add")]
    assert sum(s["numRecords"] for s in told) == 3
    assert (min(s["minValues"].get("i", 9) for s in told), max(s["maxValues"].get("i", 0) for s in told)) == (-3, 7)
    assert sum(s["nullCount"]["day"] for s in told) == 1
    assert not any("d" in s["minValues"] for s in told), "a footer does not tell of NaN"
    for condition in (
        "i = -3",
        f"s = '{'é' * 40}'",
        "d > 5",
        "day = '2024-02-29'",
        "n < 0",
        "at < '1950-01-01'",
        "i IS NULL",
    ):
        assert spark.sql(f"SELECT * FROM {foreign('v')} WHERE {condition}").count() == 1, condition


def test_a_checkpoint_takes_few_tasks(spark: SparkSession, events: str, refresh: Refresh) -> None:
    spark.sql(create(BY_KEY, "TBLPROPERTIES ('delta.checkpointInterval' = 1)"))
    spark.sql("INSERT INTO events VALUES (1, 1, 'x')")
    context = spark.sparkContext
    context.setJobGroup("checkpoint", "a refresh that writes a checkpoint")
    try:
        refresh("v")
    finally:
        context._jsc.clearJobGroup()
    tracker = context.statusTracker()
    stages = [s for job in tracker.getJobIdsForGroup("checkpoint") for s in tracker.getJobInfo(job).stageIds]  # type: ignore[union-attr]
    assert list((location_of(spark, "v") / "_delta_log").glob("*.checkpoint*.parquet"))
    assert max(info.numTasks for s in stages if (info := tracker.getStageInfo(s)) is not None) < 10
