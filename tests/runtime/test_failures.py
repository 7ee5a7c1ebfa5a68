"""Failed refreshes in SHOW REFRESHES, and the history of all views."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from tests.conftest import files_under, location_of
from tidemill.runtime.content.jobs import SparkJobs
from tidemill.runtime.run import perform
from tidemill.runtime.storage.log import Log
from tidemill.runtime.view import failures

Fails = Callable[[str, str], PySparkException]
REFRESH = "REFRESH INCREMENTAL VIEW v"


@pytest.fixture
def quotients(spark: SparkSession, db: str) -> str:
    """A view `v` over a Delta table `t`, whose next refresh divides by zero."""
    spark.sql("CREATE TABLE t (id INT, d INT) USING delta")
    spark.sql("INSERT INTO t VALUES (1, 1)")
    spark.sql("CREATE INCREMENTAL VIEW v AS SELECT id, 10 / d AS q FROM t")
    spark.sql("INSERT INTO t VALUES (2, 0)")
    return db


def history(spark: SparkSession, rest: str = "IN v") -> list[Row]:
    return spark.sql(f"SHOW REFRESHES {rest}").collect()


def told(rows: list[Row]) -> list[tuple[int | None, str, str | None]]:
    return [(r.run, r.kind, r.reason) for r in rows]


def test_a_failed_refresh_has_a_row(spark: SparkSession, quotients: str, fails: Fails) -> None:
    before = files_under(location_of(spark, "v"))
    fails(REFRESH, "DIVIDE_BY_ZERO")
    assert files_under(location_of(spark, "v")) == before
    failed, first = history(spark)
    assert told([failed, first]) == [(None, "FAILED", "DIVIDE_BY_ZERO"), (0, "FULL", "FIRST")]
    assert (failed.view, failed.point, failed.trigger) == (f"spark_catalog.{quotients}.v", 1, "MANUAL")
    assert first.started_at < failed.started_at < datetime.now()
    assert failed.duration_ms > 0
    assert failed.jobs >= 1
    unknown = {"run", "rows_in", "rows_out", "estimated_cost", "measured_cost", "state_bytes", "regret", "rows_read"}
    assert {name for name, cell in failed.asDict().items() if cell is None} == unknown
    spark.sql("DELETE FROM t WHERE d = 0")
    spark.sql("INSERT INTO t VALUES (3, 5)")
    spark.sql(REFRESH)
    assert [(r.run, r.kind) for r in history(spark)] == [(1, "INCREMENTAL"), (None, "FAILED"), (0, "FULL")]
    assert history(spark, "IN v LIMIT 2") == history(spark)[:2]
    assert spark.sql("VERIFY INCREMENTAL VIEW v").collect()[0].matches


def test_what_is_refused_leaves_no_row(spark: SparkSession, quotients: str, fails: Fails) -> None:
    fails("REFRESH INCREMENTAL VIEW v AT 2", "TIDEMILL_NO_SUCH_POINT")
    fails("REFRESH INCREMENTAL VIEW v NONSENSE", "PARSE_SYNTAX_ERROR")
    fails("CREATE INCREMENTAL VIEW v AS SELECT 1 AS x", "TIDEMILL_ALREADY_EXISTS")
    fails("CREATE OR REPLACE INCREMENTAL VIEW v AS SELECT id, 10 / d AS q FROM t", "DIVIDE_BY_ZERO")
    spark.sql("DROP TABLE t")
    fails("REFRESH INCREMENTAL VIEW v DRY RUN", "TABLE_OR_VIEW_NOT_FOUND")
    assert told(history(spark)) == [(0, "FULL", "FIRST")]


def test_failures_of_many_kinds(spark: SparkSession, db: str, fails: Fails) -> None:
    spark.sql("CREATE TABLE f (k INT, v BIGINT) USING parquet")
    spark.sql("INSERT INTO f VALUES (1, 10)")
    spark.sql("CREATE INCREMENTAL VIEW v REFRESH POLICY STRICT AS SELECT k, v FROM f")
    spark.sql("INSERT OVERWRITE f VALUES (2, 20)")
    fails(REFRESH, "TIDEMILL_NOT_INCREMENTAL")
    spark.sql("ALTER INCREMENTAL VIEW v SET REFRESH POLICY AUTO")
    spark.sql("DROP TABLE f")
    fails(REFRESH, "TABLE_OR_VIEW_NOT_FOUND")
    spark.sql("CREATE TABLE f (k INT, w BIGINT) USING parquet")
    fails(REFRESH, "TIDEMILL_SCHEMA_CHANGED")
    found = ["TIDEMILL_SCHEMA_CHANGED", "TABLE_OR_VIEW_NOT_FOUND", "TIDEMILL_NOT_INCREMENTAL", "FIRST"]
    assert [r.reason for r in history(spark)] == found


def test_the_loser_of_a_race(
    spark: SparkSession, quotients: str, fails: Fails, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark.sql("DELETE FROM t WHERE d = 0")
    spark.sql("INSERT INTO t VALUES (3, 5)")
    commit, late = Log.commit, [True]

    def after_another(log: Log[Any], record: Any) -> None:
        if late.pop() if late else False:
            spark.sql(REFRESH)
        commit(log, record)

    monkeypatch.setattr(Log, "commit", after_another)
    fails(REFRESH, "TIDEMILL_CONCURRENT_REFRESH")
    assert told(history(spark))[:2] == [(None, "FAILED", "TIDEMILL_CONCURRENT_REFRESH"), (1, "INCREMENTAL", None)]


def test_a_cancelled_refresh(spark: SparkSession, quotients: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its thread is interrupted, as servers do it: Java writes no file then."""

    def slowly(x: int) -> int:
        time.sleep(60)
        return x

    spark.udf.register("slowly", slowly, "int")
    spark.sql("CREATE TABLE u (id INT) USING delta")
    spark.sql("CREATE INCREMENTAL VIEW w AS SELECT slowly(id) AS id FROM u")
    spark.sql("INSERT INTO u VALUES (1)")
    beginning, caught = threading.Event(), []
    write = SparkJobs.write

    def noted(*args: Any, **more: Any) -> Any:
        beginning.set()
        return write(*args, **more)

    monkeypatch.setattr(SparkJobs, "write", noted)
    java: list[Any] = []

    def refreshed() -> None:
        java.append(spark._jvm.java.lang.Thread.currentThread())  # type: ignore[union-attr]  # it is classic
        try:
            spark.sql("REFRESH INCREMENTAL VIEW w")
        except Exception as error:
            caught.append(error)

    thread = threading.Thread(target=refreshed)
    thread.start()
    assert beginning.wait(60)
    time.sleep(2)
    java[0].interrupt()
    thread.join(60)
    assert len(caught) == 1
    newest = history(spark, "IN w")[0]
    assert (newest.run, newest.kind) == (None, "FAILED")
    condition = caught[0].getCondition() if isinstance(caught[0], PySparkException) else None
    assert newest.reason == (condition or "OPERATION_CANCELED")


def test_only_the_newest_are_kept(
    spark: SparkSession, quotients: str, fails: Fails, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failures, "MOST", 3)
    for _ in range(4):
        fails(REFRESH, "DIVIDE_BY_ZERO")
    rows = history(spark)
    assert [r.kind for r in rows] == ["FAILED"] * 3 + ["FULL"]
    assert sorted(rows, key=lambda r: r.started_at, reverse=True) == rows


def test_refreshes_that_fail_at_once_are_all_noted(spark: SparkSession, quotients: str) -> None:
    def failing() -> None:
        with pytest.raises(PySparkException):
            spark.sql(REFRESH)

    threads = [threading.Thread(target=failing) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [r.kind for r in history(spark)] == ["FAILED"] * 6 + ["FULL"]


def test_the_first_error_stays_though_it_cannot_be_noted(
    spark: SparkSession, quotients: str, fails: Fails, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> str:
        raise OSError("no room")

    with monkeypatch.context() as patched:
        patched.setattr(failures, "_text", broken)
        fails(REFRESH, "DIVIDE_BY_ZERO")
    assert told(history(spark)) == [(0, "FULL", "FIRST")]


@pytest.mark.parametrize("text", [None, "", "{ nonsense", '{"format": 99, "rows": []}', '{"format": 1, "rows": [7]}'])
def test_a_file_that_is_damaged_or_gone(spark: SparkSession, quotients: str, fails: Fails, text: str | None) -> None:
    """As of a view that an earlier version made: the next failure makes it anew."""
    fails(REFRESH, "DIVIDE_BY_ZERO")
    file = location_of(spark, "v") / failures.FILE
    file.unlink()
    if text is not None:
        file.write_text(text)
    assert told(history(spark)) == [(0, "FULL", "FIRST")]
    fails(REFRESH, "DIVIDE_BY_ZERO")
    assert told(history(spark)) == [(None, "FAILED", "DIVIDE_BY_ZERO"), (0, "FULL", "FIRST")]


def test_rows_stay_with_the_view(spark: SparkSession, quotients: str, fails: Fails, tmp_path: Path) -> None:
    """Renamed, vacuumed, replaced, attached elsewhere: and they go with its files."""
    query = "SELECT id, 10 / d AS q FROM t WHERE d > 0"
    spark.sql(f"CREATE INCREMENTAL VIEW w LOCATION '{tmp_path / 'w'}' AS SELECT id, 10 / d AS q FROM t WHERE id < 2")
    spark.sql("INSERT INTO t VALUES (0, 0)")
    fails("REFRESH INCREMENTAL VIEW w", "DIVIDE_BY_ZERO")
    spark.sql("ALTER INCREMENTAL VIEW w RENAME TO x")
    spark.sql("VACUUM INCREMENTAL VIEW x RETAIN 0 HOURS")
    assert [r.kind for r in history(spark, "IN x")] == ["FAILED", "FULL"]
    spark.sql(f"CREATE OR REPLACE INCREMENTAL VIEW x AS {query}")
    assert [r.kind for r in history(spark, "IN x")][1:] == ["FAILED", "FULL"]
    spark.sql("DROP INCREMENTAL VIEW x")
    spark.sql(f"CREATE INCREMENTAL VIEW y LOCATION '{tmp_path / 'w'}' AS {query}")
    assert [r.kind for r in history(spark, "IN y")][1:] == ["FAILED", "FULL"]
    fails(REFRESH, "DIVIDE_BY_ZERO")
    location = location_of(spark, "v")
    spark.sql("DROP INCREMENTAL VIEW v")
    assert not location.exists()
    spark.sql(f"CREATE INCREMENTAL VIEW v AS {query}")
    assert [r.kind for r in history(spark)] == ["FULL"]


def test_a_view_that_is_dropped_while_it_fails(
    spark: SparkSession, quotients: str, fails: Fails, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing stands in the way of the next CREATE, whenever the row was written; and it is not that view's."""
    location = location_of(spark, "v")
    text = failures._text

    def dropped(rows: Any) -> str:
        if rows and location.exists():
            spark.sql("DROP INCREMENTAL VIEW v")
        return text(rows)

    with monkeypatch.context() as patched:
        patched.setattr(failures, "_text", dropped)
        fails(REFRESH, "DIVIDE_BY_ZERO")
    assert not location.exists()
    query = "SELECT id, 10 / d AS q FROM t WHERE d > 0"
    (location / "_tidemill").mkdir(parents=True)  # its process died before it removed the file
    stale = {"id": "another", "view": "v", "point": 1, "trigger": "MANUAL", "run": None, "kind": "FAILED"}
    (location / failures.FILE).write_text(json.dumps({"format": 1, "rows": [stale]}))
    spark.sql(f"CREATE INCREMENTAL VIEW v AS {query}")
    (location / failures.FILE).write_text(json.dumps({"format": 1, "rows": [stale]}))
    assert [r.kind for r in history(spark)] == ["FULL"]


def test_cascade_and_refresh_views(spark: SparkSession, quotients: str, fails: Fails) -> None:
    spark.sql("CREATE INCREMENTAL VIEW above INITIALIZE DEFERRED AS SELECT id FROM v")
    spark.sql("CREATE INCREMENTAL VIEW beside INITIALIZE DEFERRED AS SELECT d FROM t")
    upstream = f"TIDEMILL_UPSTREAM_FAILED: spark_catalog.{quotients}.v"
    fails("REFRESH INCREMENTAL VIEW above CASCADE", "TIDEMILL_UPSTREAM_FAILED")
    assert told(history(spark)) == [(None, "FAILED", "DIVIDE_BY_ZERO"), (0, "FULL", "FIRST")]
    assert told(history(spark, "IN above")) == [(None, "FAILED", upstream)]
    fails("REFRESH INCREMENTAL VIEWS", "TIDEMILL_REFRESHES_FAILED")
    assert [r.reason for r in history(spark)] == ["DIVIDE_BY_ZERO", "DIVIDE_BY_ZERO", "FIRST"]
    assert [r.reason for r in history(spark, "IN above")] == [upstream, upstream]
    assert told(history(spark, "IN beside")) == [(0, "FULL", "FIRST")]
    spark.sql("DROP TABLE t")
    fails("REFRESH INCREMENTAL VIEW above CASCADE", "TIDEMILL_UPSTREAM_FAILED")
    fails("REFRESH INCREMENTAL VIEWS LIKE 'v'", "TIDEMILL_REFRESHES_FAILED")
    assert [r.reason for r in history(spark, "IN v LIMIT 2")] == ["TABLE_OR_VIEW_NOT_FOUND"] * 2
    assert {(r.point, r.trigger) for r in history(spark)} == {(1, "CREATE"), (1, "MANUAL")}


def test_an_error_after_the_commit_is_told_beside_the_run(
    spark: SparkSession, quotients: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark.sql("DELETE FROM t WHERE d = 0")
    spark.sql("INSERT INTO t VALUES (3, 5)")

    def broken(*_: Any) -> None:
        raise OSError("no room")

    with monkeypatch.context() as patched:
        patched.setattr(perform, "publish", broken)
        with pytest.raises(PySparkException):
            spark.sql(REFRESH)
    assert [(r.run, r.kind) for r in history(spark)] == [(None, "FAILED"), (1, "INCREMENTAL"), (0, "FULL")]
    spark.sql(REFRESH)
    assert spark.table("v").count() == 2


def test_the_history_of_all_views(spark: SparkSession, quotients: str, fails: Fails) -> None:
    other = f"{quotients}_other"
    spark.sql(f"CREATE DATABASE {other}")
    try:
        spark.sql(f"CREATE INCREMENTAL VIEW {other}.w AS SELECT id FROM t")
        fails(REFRESH, "DIVIDE_BY_ZERO")
        spark.sql("INSERT INTO t VALUES (3, 5)")
        spark.sql(f"REFRESH INCREMENTAL VIEW {other}.w")
        v, w = f"spark_catalog.{quotients}.v", f"spark_catalog.{other}.w"
        found = [(w, 1), (v, None), (w, 0), (v, 0)]
        assert [(r.view, r.run) for r in history(spark, "") if r.view in (v, w)] == found
        assert [(r.view, r.run) for r in history(spark, "LIMIT 2")] == found[:2]
        spark.sql(f"USE {other}")
        assert [(r.view, r.run) for r in history(spark, "LIMIT 3")] == found[:3]
        (location_of(spark, f"{other}.w") / "_tidemill" / "view.json").write_text("{ nonsense")
        assert [(r.view, r.run) for r in history(spark, "LIMIT 2")] == [(v, None), (v, 0)]
    finally:
        spark.sql(f"USE {quotients}")
        spark.sql(f"DROP INCREMENTAL VIEW {other}.w")
        spark.sql(f"DROP DATABASE {other} CASCADE")
