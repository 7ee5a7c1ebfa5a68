"""Tidemill through Spark Connect: a remote session without a JVM, a server whose JVM started the planner."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, cast

import pytest
from pyspark.errors import AnalysisException, ParseException
from pyspark.errors.exceptions.connect import SparkConnectException
from pyspark.sql import Row, SparkSession

import tidemill
from tests.conftest import files_under
from tests.front.servers import Server, about_to_work_long, await_writer

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.slow


@pytest.fixture
def connect(server: Server) -> Iterator[Callable[[], SparkSession]]:
    """Makes remote sessions; each has the database `remote` as its current one."""
    # The public builder refuses a remote session beside the tests' own.
    from pyspark.sql.connect.session import SparkSession as RemoteSession

    sessions = []

    def make() -> SparkSession:
        session = cast(SparkSession, RemoteSession.builder.remote(server.remote).create())
        sessions.append(session)
        session.sql("CREATE DATABASE IF NOT EXISTS remote")
        session.sql("USE remote")
        return session

    yield make
    last = make()
    for view in [row.viewName for row in last.sql("SHOW INCREMENTAL VIEWS").collect()]:
        last.sql(f"DROP INCREMENTAL VIEW {view}")
    last.sql("DROP DATABASE remote CASCADE")
    for session in sessions:
        session.stop()


@pytest.fixture
def remote(connect: Callable[[], SparkSession]) -> SparkSession:
    session = connect()
    session.sql("CREATE TABLE t (a INT, b INT) USING parquet")
    session.sql("INSERT INTO t VALUES (1, 2), (1, 3)")
    return session


def test_the_life_of_a_view(remote: SparkSession) -> None:
    remote.sql("CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS SELECT a, sum(b) AS s FROM t GROUP BY a")
    remote.sql("INSERT INTO t VALUES (1, 5), (2, 7)")
    frame = remote.sql("REFRESH INCREMENTAL VIEW v")
    row = frame.first()
    assert row is not None
    assert (row.run, row.kind, row.rows_in) == (1, "INCREMENTAL", Row(inserts=2, deletes=0))
    frame.collect()  # the statement ran once
    assert [r.run for r in remote.sql("SHOW REFRESHES IN v").collect()] == [1, 0]
    remote.sql("INSERT INTO t VALUES (2, 1)")
    (row,) = remote.sql("REFRESH INCREMENTAL VIEWS").collect()
    assert (row.run, row.kind) == (2, "INCREMENTAL")
    assert {tuple(r) for r in remote.table("v").collect()} == {(1, 10), (2, 8)}
    plan = remote.sql("EXPLAIN INCREMENTAL VIEW v").first()
    assert plan is not None
    assert "kind: " in plan.plan
    remote.sql("DROP INCREMENTAL VIEW v")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        remote.table("v").collect()


def test_errors_arrive_whole(remote: SparkSession) -> None:
    with pytest.raises(AnalysisException) as caught:
        remote.sql("REFRESH INCREMENTAL VIEW missing").collect()
    assert caught.value.getCondition() == "TIDEMILL_NOT_FOUND"
    assert caught.value.getSqlState() == "42P01"
    parameters = caught.value.getMessageParameters() or {}
    assert parameters["view"] == "spark_catalog.remote.missing"
    assert parameters["catalog"] == "the catalog of the Hive metastore"
    sql = "CREATE INCREMENTAL VIEW w\n SCHEDULE (ON DEMAN) AS SELECT 1"
    with pytest.raises(ParseException, match=r"\(line 2, pos 14\)") as parse:
        remote.sql(sql).collect()
    assert parse.value.getCondition() == "PARSE_SYNTAX_ERROR"
    remote.sql("CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS SELECT a FROM t")
    with pytest.raises(AnalysisException) as write:
        remote.sql("INSERT INTO v VALUES (1)").collect()
    assert write.value.getCondition() == "TIDEMILL_USE_OTHER_STATEMENT"
    assert write.value.getSqlState() == "42809"


def test_views_as_objects(remote: SparkSession) -> None:
    view = tidemill.create_incremental_view(remote, "v", "SELECT a, b FROM t WHERE b > 2")
    remote.sql("INSERT INTO t VALUES (3, 4)")
    assert view.refresh().kind == "INCREMENTAL"
    again = tidemill.IncrementalView.forName(remote, "remote.v")
    assert {tuple(r) for r in again.toDF().collect()} == {(1, 3), (3, 4)}
    assert again.verify().matches
    assert [r.run for r in again.history(1).collect()] == [1]
    assert "kind: " in again.explain()
    again.drop()
    with pytest.raises(AnalysisException, match="TIDEMILL_NOT_FOUND"):
        tidemill.IncrementalView.forName(remote, "v")


def test_parameters_are_refused_in_our_statements(remote: SparkSession) -> None:
    # In this server Delta's parser stands before ours, and drops them.
    with pytest.raises(AnalysisException) as caught:
        remote.sql("CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS SELECT :x AS a FROM t", args={"x": 1}).collect()
    assert caught.value.getCondition() == "UNBOUND_SQL_PARAMETER"
    assert remote.sql("SHOW INCREMENTAL VIEWS").collect() == []


def test_cancelled_by_the_client(remote: SparkSession, server: Server) -> None:
    location = server.location("remote", "v")
    kept = about_to_work_long(remote.sql, location)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(remote.sql, "REFRESH INCREMENTAL VIEW v")
        await_writer(location, running)
        assert len(remote.interruptAll()) == 1
        with pytest.raises(SparkConnectException, match=r"OPERATION_CANCELED|SPARK_JOB_CANCELLED"):
            running.result(timeout=60)
    rows = remote.sql("SHOW REFRESHES IN v").collect()
    assert [(r.run, r.kind) for r in rows] == [(None, "FAILED"), (0, "FULL")]
    assert rows[0].reason in ("OPERATION_CANCELED", "SPARK_JOB_CANCELLED")
    remote.sql("VACUUM INCREMENTAL VIEW v RETAIN 0 HOURS")
    assert files_under(location) == kept
    remote.sql("TRUNCATE TABLE t")
    remote.sql("REFRESH INCREMENTAL VIEW v FULL")


def test_sessions_keep_their_settings(connect: Callable[[], SparkSession], remote: SparkSession) -> None:
    days = []
    for number, zone in enumerate(("Asia/Tokyo", "America/New_York")):
        session = connect()
        session.conf.set("spark.sql.session.timeZone", zone)
        session.sql(
            f"CREATE INCREMENTAL VIEW v{number} SCHEDULE (ON DEMAND) AS"
            " SELECT CAST(TIMESTAMP '2026-01-01 23:00:00 UTC' AS DATE) AS day FROM t LIMIT 1"
        )
        assert session.conf.get("spark.sql.session.timeZone") == zone
        days += [str(r.day) for r in remote.table(f"v{number}").collect()]
    assert days == ["2026-01-02", "2026-01-01"]


def test_rule_paths_are_not_a_clients_to_set(remote: SparkSession) -> None:
    with pytest.raises(AnalysisException, match="CANNOT_MODIFY_STATIC_CONFIG"):
        remote.conf.set("spark.tidemill.rules.paths", "/tmp/evil")
