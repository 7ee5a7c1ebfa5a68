"""Tidemill through Spark's Thrift server: JDBC clients, a Hive metastore, a planner process that the JVM started."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from tests.conftest import files_under
from tests.faults.checks import wait_for
from tests.front.servers import Connection, Refused, Server, about_to_work_long, await_writer
from tests.front.test_view_guard import REFUSED

pytestmark = pytest.mark.slow

# With Hive support Spark's own rules come first: it finds that the name is no view's, or that the table cannot do that.
BY_SPARK = {
    "ALTER VIEW v AS SELECT 1",
    "CREATE OR REPLACE TABLE v USING parquet AS SELECT 1 AS id",
    "CREATE OR REPLACE VIEW v AS SELECT 1",
}


@pytest.fixture
def jdbc(spark: SparkSession, server: Server, request: pytest.FixtureRequest) -> Iterator[Connection]:
    """A connection whose current database is the test's own, with a table `t`."""
    connection = server.connection(spark)
    database = f"d{abs(hash(request.node.name))}"
    connection.sql(f"CREATE DATABASE {database}")
    connection.sql(f"USE {database}")
    connection.sql("CREATE TABLE t (a INT, b INT) USING parquet")
    connection.sql("INSERT INTO t VALUES (1, 2), (1, 3)")
    yield connection
    for view in connection.sql("SHOW INCREMENTAL VIEWS"):
        connection.sql(f"DROP INCREMENTAL VIEW {view['viewName']}")
    connection.sql(f"DROP DATABASE {database} CASCADE")
    connection.close()


def refusal(jdbc: Connection, sql: str) -> Refused:
    with pytest.raises(Refused) as caught:
        jdbc.sql(sql)
    return caught.value


def test_the_life_of_a_view(jdbc: Connection) -> None:
    query = "SELECT a, sum(b) AS s FROM t GROUP BY a"
    jdbc.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS {query}")
    jdbc.sql("INSERT INTO t VALUES (1, 5), (2, 7)")
    (run,) = jdbc.sql("REFRESH INCREMENTAL VIEW v")
    assert (run["run"], run["kind"], run["rows_in"]) == ("1", "INCREMENTAL", '{"inserts":2,"deletes":0}')
    jdbc.sql("INSERT INTO t VALUES (2, 1)")
    (run,) = jdbc.sql("REFRESH INCREMENTAL VIEWS LIKE 'v'")
    assert (run["run"], run["kind"]) == ("2", "INCREMENTAL")
    assert jdbc.sql("SELECT * FROM v ORDER BY a") == [{"a": "1", "s": "10"}, {"a": "2", "s": "8"}]
    assert [row["run"] for row in jdbc.sql("SHOW REFRESHES IN v")] == ["2", "1", "0"]
    (plan,) = jdbc.sql("EXPLAIN INCREMENTAL VIEW v")
    assert "kind: " in str(plan["plan"])
    assert [row["viewName"] for row in jdbc.sql("SHOW INCREMENTAL VIEWS")] == ["v"]
    assert jdbc.sql("VERIFY INCREMENTAL VIEW v") == [{"matches": "true", "missing": "0", "unexpected": "0"}]
    jdbc.sql("DROP INCREMENTAL VIEW v")
    assert refusal(jdbc, "SELECT * FROM v").state == "42P01"


def test_errors_bring_condition_state_and_pointer(jdbc: Connection) -> None:
    missing = refusal(jdbc, "REFRESH INCREMENTAL VIEW missing")
    assert missing.state == "42P01"
    assert "[TIDEMILL_NOT_FOUND]" in missing.message
    syntax = refusal(jdbc, "CREATE INCREMENTAL VIEW w\n SCHEDULE (ON DEMAN) AS SELECT 1")
    assert syntax.state == "42601"
    assert "(line 2, pos 14)" in syntax.message
    assert "-----------^^^" in syntax.message
    assert jdbc.sql("SHOW INCREMENTAL VIEWS") == []


def test_writes_to_a_view_are_refused_with_a_hive_metastore(jdbc: Connection) -> None:
    (current,) = jdbc.sql("SELECT current_database() AS name")
    jdbc.sql("CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS SELECT CAST(a AS BIGINT) AS id FROM t")
    jdbc.sql("DROP TABLE t")
    jdbc.sql("CREATE TABLE t (id BIGINT) USING parquet")
    for sql in REFUSED:
        refused = refusal(jdbc, sql.replace("{db}", str(current["name"])))
        if sql not in BY_SPARK:
            assert "[TIDEMILL_USE_OTHER_STATEMENT]" in refused.message, sql
            assert refused.state == "42809", sql
    assert len(jdbc.sql("SELECT * FROM v")) == 2


COLUMNS = {
    "": (
        "SELECT b, a FROM kinds",
        "SELECT ar AS b, a, b AS c FROM kinds",
        "SELECT a AS A, st AS b, m AS `x,y` FROM kinds",
        "SELECT CAST(a AS DECIMAL(20, 2)) AS a, CAST(b AS DATE) AS b FROM kinds",
    ),
    "PARTITIONED BY (a)": ("SELECT b, a FROM kinds", "SELECT b AS a, ar FROM kinds"),
    "USING delta": ("SELECT ar AS b, a FROM kinds",),
}
"""Queries whose columns have other types, places and names, one after the other."""


@pytest.mark.parametrize("clauses", COLUMNS)
def test_a_hive_metastore_takes_columns_of_other_types(jdbc: Connection, clauses: str) -> None:
    """It refuses a type that cannot be converted from the one before at its place; views get other columns as ever."""
    jdbc.sql(
        "CREATE TABLE kinds USING parquet AS SELECT 1 AS a, '2020-01-01' AS b, array('x') AS ar, map('k', 1) AS m,"
        " named_struct('p q', 1, 'R', 'x') AS st"
    )
    jdbc.sql(f"CREATE INCREMENTAL VIEW v {clauses} SCHEDULE (ON DEMAND) AS SELECT a, b FROM kinds")
    for number, query in enumerate(COLUMNS[clauses]):
        said = f"{clauses} COMMENT 'number {number}' SCHEDULE (ON DEMAND)"
        for statement in (
            f"ALTER INCREMENTAL VIEW v AS {query}"
            if number % 2
            else f"CREATE OR REPLACE INCREMENTAL VIEW v {said} AS {query}",
            "REFRESH INCREMENTAL VIEW v",
        ):
            jdbc.sql(statement)
            assert jdbc.sql("SELECT * FROM v") == jdbc.sql(query), statement
        types = [column["data_type"] for column in jdbc.sql(f"DESCRIBE QUERY {query}")]
        assert [column["data_type"] for column in jdbc.sql("DESCRIBE v")][: len(types)] == types


@pytest.mark.parametrize("statement", ["REFRESH INCREMENTAL VIEW v", "VACUUM INCREMENTAL VIEW v"])
def test_an_entry_that_is_behind_gets_the_columns(jdbc: Connection, tmp_path: Path, statement: str) -> None:
    """As an earlier version left it, whose statement failed after its commit."""
    jdbc.sql("CREATE TABLE pairs USING parquet AS SELECT 1 AS a, 'x' AS b")
    at = f"LOCATION '{tmp_path}/v'"
    jdbc.sql(f"CREATE INCREMENTAL VIEW v {at} SCHEDULE (ON DEMAND) AS SELECT a, b FROM pairs")
    jdbc.sql("ALTER INCREMENTAL VIEW v AS SELECT b, a FROM pairs")
    jdbc.sql("DROP INCREMENTAL VIEW v")
    view = json.loads((tmp_path / "v/_tidemill/view.json").read_text())["id"]
    jdbc.sql(f"CREATE TABLE v (a INT, b STRING) USING parquet {at} TBLPROPERTIES ('tidemill.view' = '{view}')")
    assert jdbc.sql("SELECT * FROM v") == [{"a": "1", "b": "x"}]
    jdbc.sql(statement)
    assert jdbc.sql("SELECT * FROM v") == [{"b": "x", "a": "1"}]


def test_two_connections_with_settings_of_their_own(spark: SparkSession, server: Server, jdbc: Connection) -> None:
    jdbc.sql("CREATE TABLE raw (x STRING, at TIMESTAMP) USING parquet")
    jdbc.sql(
        "INSERT INTO raw VALUES ('1', TIMESTAMP '2026-01-01 23:00:00 UTC'), ('x', TIMESTAMP '2026-01-02 12:00:00 UTC')"
    )
    (current,) = jdbc.sql("SELECT current_database() AS name")
    zones = {"Asia/Tokyo": "2026-01-02", "America/New_York": "2026-01-01"}

    def work(number: int, zone: str) -> list[dict[str, str | None]]:
        tail = f"{current['name']};?spark.sql.session.timeZone={zone};spark.sql.ansi.enabled={str(number == 1).lower()}"
        connection = server.connection(spark, tail)
        try:
            cast = "try_cast(x AS INT)" if number == 1 else "CAST(x AS INT)"  # under ANSI it would fail
            connection.sql(
                f"CREATE INCREMENTAL VIEW v{number} SCHEDULE (ON DEMAND) AS"
                f" SELECT {cast} AS n, CAST(at AS DATE) AS day FROM raw"
            )
            for _ in range(3):
                connection.sql(f"REFRESH INCREMENTAL VIEW v{number} FULL")
                (setting,) = connection.sql("SET spark.sql.session.timeZone")
                assert setting["value"] == zone
            return connection.sql(f"SELECT * FROM v{number} ORDER BY n NULLS LAST")
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(work, range(2), zones))
    for rows, day in zip(found, zones.values(), strict=True):
        assert rows == [{"n": "1", "day": day}, {"n": None, "day": "2026-01-02"}]
    # Refreshed from a third session, they keep the settings that they were made with.
    jdbc.sql("INSERT INTO raw VALUES ('3', TIMESTAMP '2026-02-01 23:00:00 UTC')")
    for number, day in enumerate(("2026-02-02", "2026-02-01")):
        jdbc.sql(f"REFRESH INCREMENTAL VIEW v{number}")
        assert jdbc.sql(f"SELECT day FROM v{number} WHERE n = 3") == [{"day": day}]


def test_cancelled_by_the_client(server: Server, jdbc: Connection) -> None:
    (current,) = jdbc.sql("SELECT current_database() AS name")
    location = server.location(str(current["name"]), "v")
    kept = about_to_work_long(jdbc.sql, location)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(jdbc.sql, "REFRESH INCREMENTAL VIEW v")
        await_writer(location, running)
        jdbc.cancel()
        with pytest.raises(Refused):
            running.result(timeout=60)

    def as_it_was() -> bool:
        """The client is told at once, and the statement ends when its tasks have."""
        jdbc.sql("VACUUM INCREMENTAL VIEW v RETAIN 0 HOURS")
        return files_under(location) == kept

    wait_for(as_it_was, "the end of the statement")
    wait_for(lambda: len(jdbc.sql("SHOW REFRESHES IN v")) > 1, "the row of the refresh that was cancelled")
    rows = jdbc.sql("SHOW REFRESHES IN v")
    assert [(row["run"], row["kind"]) for row in rows] == [(None, "FAILED"), ("0", "FULL")]
    jdbc.sql("TRUNCATE TABLE t")
    jdbc.sql("REFRESH INCREMENTAL VIEW v FULL")


def test_rule_paths_are_not_a_clients_to_set(
    spark: SparkSession, server: Server, jdbc: Connection, tmp_path: Path
) -> None:
    """A rule pack is code that runs in the driver."""
    pack = tmp_path / "evil"
    pack.mkdir()
    (pack / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    assert "[CANNOT_MODIFY_STATIC_CONFIG]" in refusal(jdbc, f"SET spark.tidemill.rules.paths={pack}").message
    jdbc.sql("CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS SELECT a FROM t")
    (current,) = jdbc.sql("SELECT current_database() AS name")
    with pytest.raises(Py4JJavaError, match="CANNOT_MODIFY_STATIC_CONFIG"):
        server.connection(spark, f"{current['name']};?spark.tidemill.rules.paths={pack}")
    jdbc.sql("REFRESH INCREMENTAL VIEW v FULL")
    assert not (tmp_path / "ran").exists()
