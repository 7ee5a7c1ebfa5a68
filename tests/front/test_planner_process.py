"""The planner's process dies: the statement fails, nothing is left behind, the next statement has a new planner."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.conftest import files_under
from tests.front.servers import LONG, Connection, Refused, Server, about_to_work_long, await_writer

pytestmark = pytest.mark.slow
WHERE = "SCHEDULE (ON DEMAND)"


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
    """Runs the statement, and kills the planner while its job runs."""
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(jdbc.sql, sql)
        await_writer(location, running)
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
    location = server.location("dying", "v")
    jdbc.sql("SHOW INCREMENTAL VIEWS")
    kill_during(server, jdbc, f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS {LONG}", location)
    assert jdbc.sql("SHOW INCREMENTAL VIEWS") == []
    jdbc.sql("CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS SELECT a FROM t")
    assert jdbc.sql("SELECT * FROM v") == [{"a": "1"}]
    jdbc.sql("DROP INCREMENTAL VIEW v")
    assert files_under(location) == []


@pytest.mark.parametrize(
    "statement", [f"ALTER INCREMENTAL VIEW v AS {LONG}", f"CREATE OR REPLACE INCREMENTAL VIEW v {WHERE} AS {LONG}"]
)
def test_killed_in_the_middle_of_another_query(server: Server, jdbc: Connection, statement: str) -> None:
    location = server.location("dying", "v")
    jdbc.sql(f"CREATE INCREMENTAL VIEW v {WHERE} AS SELECT a FROM t")
    kept, (made,) = files_under(location), jdbc.sql("SHOW CREATE INCREMENTAL VIEW v")
    kill_during(server, jdbc, statement, location)
    assert jdbc.sql("SHOW CREATE INCREMENTAL VIEW v") == [made]
    jdbc.sql("VACUUM INCREMENTAL VIEW v RETAIN 0 HOURS")
    assert files_under(location) == kept
    jdbc.sql("INSERT INTO t VALUES (2)")
    (run,) = jdbc.sql("REFRESH INCREMENTAL VIEW v")
    assert (run["run"], run["kind"]) == ("1", "INCREMENTAL")


def test_killed_in_the_middle_of_vacuum(server: Server, jdbc: Connection) -> None:
    """It is killed as soon as a file is gone, of as many as take some time."""
    location = server.location("dying", "v")
    jdbc.sql(f"CREATE INCREMENTAL VIEW v {WHERE} AS SELECT a, count(*) AS n FROM t GROUP BY a")
    jdbc.sql("REFRESH INCREMENTAL VIEW v FULL")
    for n in range(5000):
        (location / f"nobodys-{n}.parquet").touch()
    there = len(files_under(location))
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(jdbc.sql, "VACUUM INCREMENTAL VIEW v RETAIN 0 HOURS")
        while len(files_under(location)) == there and not running.done():
            pass
        kill(server)
        with suppress(Refused):  # it may have come to its end
            running.result(timeout=200)
    jdbc.sql("VACUUM INCREMENTAL VIEW v RETAIN 0 HOURS")
    assert not list(location.glob("nobodys-*"))
    assert jdbc.sql("VERIFY INCREMENTAL VIEW v") == [{"matches": "true", "missing": "0", "unexpected": "0"}]
    jdbc.sql("INSERT INTO t VALUES (2)")
    (run,) = jdbc.sql("REFRESH INCREMENTAL VIEW v")
    assert (run["run"], run["kind"]) == ("2", "INCREMENTAL")


def test_killed_in_the_middle_of_a_refresh(server: Server, jdbc: Connection) -> None:
    location = server.location("dying", "v")
    kept = about_to_work_long(jdbc.sql, location)
    kill_during(server, jdbc, "REFRESH INCREMENTAL VIEW v FULL", location)
    assert jdbc.sql("SELECT * FROM v") == []
    assert len(jdbc.sql("SHOW REFRESHES IN v")) == 1
    jdbc.sql("VACUUM INCREMENTAL VIEW v RETAIN 0 HOURS")
    assert files_under(location) == kept
    jdbc.sql("TRUNCATE TABLE t")
    (run,) = jdbc.sql("REFRESH INCREMENTAL VIEW v FULL")
    assert run["run"] == "1"
