"""The planner's process dies: the statement fails, nothing is left behind, the next statement has a new planner."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.conftest import files_under
from tests.front.servers import Connection, Refused, Server

pytestmark = pytest.mark.slow

# Some seconds of work in one stage, unless `t` is empty.
LONG = (
    "SELECT b.id % 7 AS x, count(*) AS n FROM t, range(30000) b, range(20000) c"
    " WHERE hash(b.id, c.id) % 3 <> t.a GROUP BY 1"
)


@pytest.fixture
def jdbc(spark: SparkSession, server: Server) -> Iterator[Connection]:
    connection = server.connection(spark)
    connection.sql("CREATE DATABASE dying")
    connection.sql("USE dying")
    connection.sql("CREATE TABLE t (a INT) USING parquet")
    connection.sql("INSERT INTO t VALUES (1)")
    yield connection
    for view in connection.sql("SHOW INCREMENTAL VIEWS"):
        connection.sql(f"DROP INCREMENTAL VIEW {view['viewName']}")
    connection.sql("DROP DATABASE dying CASCADE")
    connection.close()


def kill(server: Server) -> int:
    (planner,) = server.planners()
    os.kill(planner, signal.SIGKILL)
    return planner


def kill_during(server: Server, jdbc: Connection, sql: str, location: Path) -> None:
    """Runs the statement, and kills the planner once a writer has left its mark in the location."""
    marks = location / "_tidemill" / "writers"
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(jdbc.sql, sql)
        while not (marks.is_dir() and any(marks.glob("*.json"))):
            assert not running.done(), running.result()
            time.sleep(0.02)
        time.sleep(0.3)
        kill(server)
        with pytest.raises(Refused) as caught:
            running.result(timeout=200)
    assert "[TIDEMILL_PLANNER_FAILED]" in caught.value.message
    assert caught.value.state == "XX000"


def test_killed_while_it_has_nothing_to_do(server: Server, jdbc: Connection) -> None:
    jdbc.sql("SHOW INCREMENTAL VIEWS")
    before = kill(server)
    assert jdbc.sql("SHOW INCREMENTAL VIEWS") == []
    assert server.planners() != [before]


def test_killed_in_the_middle_of_create(server: Server, jdbc: Connection) -> None:
    location = server.folder / "warehouse" / "dying.db" / "v"
    jdbc.sql("SHOW INCREMENTAL VIEWS")
    kill_during(server, jdbc, f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS {LONG}", location)
    assert jdbc.sql("SHOW INCREMENTAL VIEWS") == []
    jdbc.sql("CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS SELECT a FROM t")
    assert jdbc.sql("SELECT * FROM v") == [{"a": "1"}]
    jdbc.sql("DROP INCREMENTAL VIEW v")
    assert files_under(location) == []


def test_killed_in_the_middle_of_a_refresh(server: Server, jdbc: Connection) -> None:
    location = server.folder / "warehouse" / "dying.db" / "v"
    jdbc.sql("TRUNCATE TABLE t")
    jdbc.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS {LONG}")
    kept = files_under(location)
    jdbc.sql("INSERT INTO t VALUES (1)")
    kill_during(server, jdbc, "REFRESH INCREMENTAL VIEW v FULL", location)
    assert jdbc.sql("SELECT * FROM v") == []
    assert len(jdbc.sql("SHOW REFRESHES IN v")) == 1
    jdbc.sql("VACUUM INCREMENTAL VIEW v RETAIN 0 HOURS")
    assert files_under(location) == kept
    jdbc.sql("TRUNCATE TABLE t")
    (run,) = jdbc.sql("REFRESH INCREMENTAL VIEW v FULL")
    assert run["run"] == "1"
