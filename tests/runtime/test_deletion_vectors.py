"""USING delta: rows that leave are marked in deletion vectors, and every reader of the content sees live rows only."""

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

from tests.conftest import Oracle, files_under, location_of, newest_entry
from tests.runtime.test_delta_results import commits, create, of
from tidemill.bridge.jvm import Jvm
from tidemill.runtime.content import apply, mark
from tidemill.search.contract.stored import CROWD

Refresh = Callable[..., Row]
Jobs = Callable[[Callable[[], Any]], int]
BAG = "SELECT v % 50 AS v, IF(v = 3, DOUBLE('NaN'), v / 2) AS half, map('v', v % 50) AS m FROM t"


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are marked in results of any size, or else cut out of files."""
    monkeypatch.setattr(apply, "SMALL_RESULT_BYTES", 0)
    monkeypatch.setattr(mark, "FEW_MARKED", 1)


@pytest.fixture
def t(spark: SparkSession, db: str) -> str:
    """A table `t(id, v)` of 300 rows in which each `v` is there three times."""
    spark.sql("CREATE TABLE t (id INT, v INT) USING delta")
    spark.sql("INSERT INTO t SELECT /*+ COALESCE(1) */ id, id % 100 FROM range(300)")
    return db


def vectors(spark: SparkSession, view: str) -> list[str]:
    return [f for f in files_under(location_of(spark, view)) if f.endswith(".bin")]


def shown(spark: SparkSession, view: str) -> str:
    return f"delta.`{location_of(spark, view)}`"


def marked(actions: list[dict[str, Any]]) -> list[int]:
    """The number of marked rows of each file that a transaction adds."""
    return [a["deletionVector"]["cardinality"] for a in of(actions, "add") if "deletionVector" in a]


@pytest.mark.usefixtures("always")
def test_of_equal_rows_as_many_are_marked_as_leave(
    spark: SparkSession, t: str, refresh: Refresh, oracle: Oracle, jobs: Jobs
) -> None:
    spark.sql(create(BAG))
    spark.sql(create("SELECT v, count(*) AS n FROM v GROUP BY v", view="above"))
    spark.sql("DELETE FROM t WHERE id IN (3, 7, 107)")
    assert refresh("v").kind == "INCREMENTAL"
    for reader in ("v", shown(spark, "v")):
        oracle(reader, BAG)
    newest = commits(spark, "v")[-1]
    assert marked(newest) == [3]
    assert [r["path"] for r in of(newest, "remove")] == [a["path"] for a in of(newest, "add")]
    assert spark.sql("VERIFY INCREMENTAL VIEW v").collect()[0].matches
    spark.sql("INSERT INTO t VALUES (1000, 7), (1001, NULL)")
    spark.sql("DELETE FROM t WHERE id = 53")
    assert refresh("v").kind == "INCREMENTAL"
    oracle("v", BAG)
    newest = commits(spark, "v")[-1]
    assert marked(newest) == [4]
    described = spark.sql("DESCRIBE INCREMENTAL VIEW EXTENDED v").collect()
    assert ("Marked Rows", "4 in 1 of 2 files") in [(r.col_name, r.data_type) for r in described]
    written = [json.loads(a["stats"])["numRecords"] for a in of(newest, "add") if "deletionVector" not in a]
    assert written == [2], "what came, and nothing else"
    for version, rows in ((0, 300), (1, 297), (2, 298)):
        assert spark.sql(f"SELECT count(*) FROM {shown(spark, 'v')} VERSION AS OF {version}").first()[0] == rows  # type: ignore[index]
    assert refresh("above").kind == "INCREMENTAL"
    oracle("above", "SELECT v, count(*) AS n FROM v GROUP BY v")
    refresh("above", "FULL")
    oracle("above", "SELECT v, count(*) AS n FROM v GROUP BY v")
    spark.sql("VACUUM INCREMENTAL VIEW v RETAIN 0 HOURS")
    assert len(vectors(spark, "v")) == 2, "those of the last two runs"
    oracle("v", BAG)
    assert jobs(lambda: refresh("v")) == 0


@pytest.mark.usefixtures("always")
def test_rows_go_by_the_key_where_there_is_one(spark: SparkSession, t: str, refresh: Refresh, oracle: Oracle) -> None:
    query = "SELECT v, max(id) % 3 AS m, avg(id) AS a FROM t GROUP BY v"
    spark.sql(create(query, "PARTITIONED BY (m)"))
    spark.sql("INSERT INTO t VALUES (1000, 5), (1002, 5), (1003, 200)")
    spark.sql("DELETE FROM t WHERE v = 6")
    assert refresh("v").kind == "INCREMENTAL"
    oracle("v", query)
    oracle(shown(spark, "v"), query)
    assert sum(marked(commits(spark, "v")[-1])) == 2
    spark.sql(f"CREATE OR REPLACE INCREMENTAL VIEW v USING delta SCHEDULE (ON DEMAND) AS {BAG}")
    spark.sql("DELETE FROM t WHERE v = 8")
    assert refresh("v").kind == "INCREMENTAL"
    oracle("v", BAG)
    oracle(shown(spark, "v"), BAG)
    root = location_of(spark, "v")
    spark.sql("DROP INCREMENTAL VIEW v")
    assert files_under(root) == []


@pytest.mark.usefixtures("always")
def test_worn_files_are_rewritten_and_small_ones_merged(
    spark: SparkSession, t: str, refresh: Refresh, oracle: Oracle
) -> None:
    spark.sql(create(BAG))
    spark.sql("DELETE FROM t WHERE id < 30")
    refresh("v")
    assert len(marked(commits(spark, "v")[-1])) == 1
    spark.sql("DELETE FROM t WHERE id < 60")
    refresh("v")
    assert (marked(commits(spark, "v")[-1]), vectors(spark, "v") != []) == ([], True)
    oracle(shown(spark, "v"), BAG)
    for i in range(CROWD):
        spark.sql(f"INSERT INTO t VALUES ({2000 + i}, 1)")
        refresh("v")
    assert len(spark.sql(f"SELECT DISTINCT _metadata.file_path FROM {shown(spark, 'v')}").collect()) < CROWD
    spark.sql("DELETE FROM t")
    refresh("v")
    oracle("v", BAG)
    assert spark.table("v").count() == 0


@pytest.mark.usefixtures("always")
def test_a_run_with_vectors_is_shown_by_the_next_statement_and_survives_damage(
    spark: SparkSession, t: str, refresh: Refresh, oracle: Oracle
) -> None:
    spark.sql(create(BAG).replace("STRICT", "INCREMENTAL"))
    spark.sql("DELETE FROM t WHERE id = 3")
    invoke = Jvm.invoke

    def failing(jvm: Jvm, method: str, request: Mapping[str, Any] | None = None) -> Any:
        if method == "delta" and (request or {}).get("do") == "publish":
            raise OSError("no")
        return invoke(jvm, method, request)

    with mock.patch.object(Jvm, "invoke", failing), pytest.raises((PySparkException, Py4JJavaError)):
        refresh("v")
    assert spark.table("v").count() == 300
    assert refresh("v").kind == "NO_DATA"
    oracle(shown(spark, "v"), BAG)
    assert marked(commits(spark, "v")[-1]) == [1]
    spark.sql(f"DELETE FROM {shown(spark, 'v')} WHERE v = 4")
    assert refresh("v").kind == "NO_DATA"
    oracle(shown(spark, "v"), BAG)
    [file] = [f for f in newest_entry(location_of(spark, "v"))["files"] if "dv" in f]
    vector = Path(file["dv"]["path"].removeprefix("file:"))
    vector.write_bytes(b"\1" * vector.stat().st_size)
    vector.with_name(f".{vector.name}.crc").unlink(missing_ok=True)
    spark.sql("DELETE FROM t WHERE id = 5")
    row = refresh("v")
    assert (row.kind, str(row.reason).split(":")[0]) == ("FULL", "STATE_LOST")
    oracle(shown(spark, "v"), BAG)


@pytest.mark.usefixtures("always")
def test_a_user_may_do_without(spark: SparkSession, t: str, refresh: Refresh, oracle: Oracle) -> None:
    spark.sql(create(BAG, "TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')"))
    spark.sql("DELETE FROM t WHERE id = 3")
    refresh("v")
    oracle(shown(spark, "v"), BAG)
    assert vectors(spark, "v") == []
    assert of(commits(spark, "v")[0], "protocol")[0]["minReaderVersion"] == 1
    spark.sql("ALTER INCREMENTAL VIEW v SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    spark.sql("DELETE FROM t WHERE id = 4")
    refresh("v")
    oracle(shown(spark, "v"), BAG)
    assert marked(commits(spark, "v")[-1]) == [1]
    spark.sql("ALTER INCREMENTAL VIEW v SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')")
    spark.sql("DELETE FROM t WHERE id = 5")
    refresh("v")
    oracle("v", BAG)
    oracle(shown(spark, "v"), BAG)
    assert marked(commits(spark, "v")[-1]) == [], "what was marked does not come back in a copy"


def test_a_big_view_writes_what_changed(spark: SparkSession, db: str, refresh: Refresh, oracle: Oracle) -> None:
    query = "SELECT id, xxhash64(id) AS h FROM t"
    spark.sql("CREATE TABLE t USING delta AS SELECT id FROM range(200000)")
    spark.sql(create(query))
    spark.sql("DELETE FROM t WHERE id IN (5, 77777, 199999)")
    spark.sql("INSERT INTO t VALUES (-1), (-2)")
    assert refresh("v").kind == "INCREMENTAL"
    newest = commits(spark, "v")[-1]
    written = [json.loads(a["stats"])["numRecords"] for a in of(newest, "add") if "deletionVector" not in a]
    assert (sum(marked(newest)), written) == (3, [2])
    oracle(shown(spark, "v"), query)
