"""Applying signed deltas to Parquet files: keys, bags, which files are written anew."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from tests.conftest import Oracle, location_of
from tidemill.runtime.content import apply, jobs
from tidemill.search.contract import stored
from tidemill.search.contract.stored import CROWD

Refresh = Callable[..., Row]


def manifest(spark: SparkSession, view: str) -> set[str]:
    """Names of the files that plain readers see."""
    import json

    folder = location_of(spark, view) / "_spark_metadata"
    newest = max(folder.glob("*.compact"), key=lambda p: int(p.name.split(".")[0]))
    return {Path(json.loads(line)["path"]).name for line in newest.read_text().splitlines()[1:]}


@pytest.mark.parametrize(
    "small",
    [pytest.param(True, id="rewritten whole", marks=pytest.mark.slow), pytest.param(False, id="touched files only")],
)
def test_bags_of_all_types(
    spark: SparkSession, db: str, oracle: Oracle, refresh: Refresh, monkeypatch: pytest.MonkeyPatch, small: bool
) -> None:
    if not small:
        monkeypatch.setattr(apply, "SMALL_RESULT_BYTES", 0)
    query = """SELECT k, d, m, a, CAST(IF(k = 1, 'NaN', IF(k = 2, '-0.0', '0.5')) AS DOUBLE) AS x, n FROM t"""
    spark.sql("CREATE TABLE t (id INT, k INT, d DECIMAL(10,2), m MAP<STRING,INT>, a ARRAY<INT>, n STRING) USING delta")
    spark.sql(
        "INSERT INTO t SELECT id, id % 3, id % 2, map('a', id % 2, 'b', NULL), array(id % 2), IF(id % 2 = 0, NULL, 'n')"
        " FROM range(40)"
    )
    spark.sql(f"CREATE INCREMENTAL VIEW bag SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {query}")
    for change in (
        "DELETE FROM t WHERE id IN (0, 1, 2, 3, 4)",
        "UPDATE t SET n = 'changed' WHERE id IN (6, 7, 8)",
        "INSERT INTO t SELECT 100 + id, 1, 1, map('b', NULL, 'a', 1), array(1), 'n' FROM range(5)",
        "DELETE FROM t WHERE k = 1",
        "DELETE FROM t",
        "INSERT INTO t VALUES (1, NULL, NULL, NULL, NULL, NULL), (1, NULL, NULL, NULL, NULL, NULL)",
    ):
        spark.sql(change)
        row = refresh("bag")
        assert row.kind == "INCREMENTAL", (change, row.reason)
        oracle("bag", query)


@pytest.mark.parametrize(
    "small",
    [pytest.param(True, id="rewritten whole", marks=pytest.mark.slow), pytest.param(False, id="touched files only")],
)
def test_keyed_rows_are_replaced(
    spark: SparkSession, db: str, oracle: Oracle, refresh: Refresh, monkeypatch: pytest.MonkeyPatch, small: bool
) -> None:
    if not small:
        monkeypatch.setattr(apply, "SMALL_RESULT_BYTES", 0)
    query = "SELECT k, sum(v) AS v, count(*) AS n, max(v) AS m FROM t GROUP BY k"
    spark.sql("CREATE TABLE t (id INT, k INT, v INT) USING delta")
    spark.sql("INSERT INTO t SELECT id, IF(id % 7 = 0, NULL, id % 7), id FROM range(50)")
    spark.sql(f"CREATE INCREMENTAL VIEW g SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {query}")
    for change in (
        "INSERT INTO t VALUES (60, NULL, 1), (61, 99, 1)",
        "DELETE FROM t WHERE k IS NULL",
        "UPDATE t SET k = NULL WHERE k = 3",
        "DELETE FROM t WHERE k = 99",
        "DELETE FROM t",
        "INSERT INTO t VALUES (1, NULL, NULL)",
    ):
        spark.sql(change)
        assert refresh("g").kind == "INCREMENTAL"
        oracle("g", query)


def test_only_files_with_changed_rows_are_written_anew(
    spark: SparkSession, db: str, oracle: Oracle, refresh: Refresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apply, "SMALL_RESULT_BYTES", 0)
    spark.sql("CREATE TABLE t (id INT, v INT) USING delta")
    spark.sql("INSERT INTO t SELECT id, id FROM range(100)")
    spark.sql("CREATE INCREMENTAL VIEW bag SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS SELECT v FROM t")
    first = manifest(spark, "bag")
    spark.sql("INSERT INTO t SELECT 100 + id, 100 + id FROM range(100)")
    refresh("bag")
    second = manifest(spark, "bag")
    assert first < second, "inserts only add files"
    spark.sql("DELETE FROM t WHERE id = 150")
    refresh("bag")
    third = manifest(spark, "bag")
    assert first <= third, "the files of the first run hold no changed row"
    assert not (second - first) & third
    oracle("bag", "SELECT v FROM t")


@pytest.mark.parametrize(
    "partitioned",
    [pytest.param("", id="whole"), pytest.param(" PARTITIONED BY (p)", id="partitioned", marks=pytest.mark.slow)],
)
def test_inserts_into_a_big_result_do_not_pile_up_files(
    spark: SparkSession, db: str, oracle: Oracle, refresh: Refresh, monkeypatch: pytest.MonkeyPatch, partitioned: str
) -> None:
    monkeypatch.setattr(apply, "SMALL_RESULT_BYTES", 0)
    spark.sql("CREATE TABLE t (id INT, v STRING, p INT) USING delta")
    spark.sql("INSERT INTO t SELECT id, uuid(), 1 FROM range(0, 5000, 1, 1)")
    query = "SELECT v, p FROM t"
    spark.sql(f"CREATE INCREMENTAL VIEW bag{partitioned} SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {query}")
    first = manifest(spark, "bag")
    counts = []
    for i in range(11):
        spark.sql(f"INSERT INTO t VALUES ({i}, 'v{i}', 1)" + (f", ({i}, 'other', 2)" if i == 9 else ""))
        refresh("bag")
        counts.append(len(manifest(spark, "bag")))
        assert first < manifest(spark, "bag"), "the big file is not written again for a few rows"
    assert max(counts) <= CROWD + 1 + bool(partitioned)
    spark.sql("DELETE FROM t WHERE v = 'v3'")
    refresh("bag")
    assert first < manifest(spark, "bag")
    oracle("bag", query)


@pytest.mark.parametrize("results", [pytest.param("parquet"), pytest.param("delta", marks=pytest.mark.slow)])
def test_files_with_as_many_rows_as_a_file_may_have_stay_as_they_are(
    spark: SparkSession, db: str, oracle: Oracle, refresh: Refresh, monkeypatch: pytest.MonkeyPatch, results: str
) -> None:
    """However few bytes they have: merged, they would be cut again, and so at each run that writes rows."""
    monkeypatch.setattr(apply, "SMALL_RESULT_BYTES", 0)
    monkeypatch.setattr(jobs, "FILE_ROWS", 500)
    monkeypatch.setattr(stored, "FILE_ROWS", 500)
    spark.sql("CREATE TABLE t (id INT) USING delta")
    spark.sql("INSERT INTO t SELECT id FROM range(0, 5000, 1, 1)")
    spark.sql(f"CREATE INCREMENTAL VIEW bag USING {results} REFRESH POLICY STRICT AS SELECT id FROM t")
    read = []
    for i in range(10):
        spark.sql(f"INSERT INTO t VALUES ({i})")
        read.append(refresh("bag").rows_read)
    assert max(read) <= 2 * CROWD, "only files of single rows are merged"
    oracle("bag", "SELECT id FROM t")


def test_a_delta_that_takes_what_is_not_there_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    from tidemill.errors import TidemillError
    from tidemill.runtime.content.jobs import SparkJobs, Written
    from tidemill.runtime.content.leaving import ResultColumn

    class Lying(SparkJobs):
        def fit(self, files: Any) -> None:
            """Nothing is run."""

        def write(self, *args: Any, **named: Any) -> Written:
            observed: Mapping[str, Mapping[str, Any]] = {"apply": {"short": 2}}
            return Written((), 0, observed)

    execution = Lying(None, 1, "v", 1)  # type: ignore[arg-type]  # nothing is run
    file = {"path": "file:/a/part-0", "bytes": 10, "modified": 0}
    delta = apply.Delta((file,), 0, 2, "_n")
    with pytest.raises(TidemillError, match="removes 2 row values"):
        apply.apply_delta(execution, [ResultColumn("v", "integer")], None, [file], delta, "file:/a")
