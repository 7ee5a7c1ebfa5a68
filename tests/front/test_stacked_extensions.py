"""Delta's extension and Tidemill's in one session, in either order: each keeps its own statements.

The session of all tests has Delta's first; the server has Tidemill's first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.front.servers import Refused, Server
from tidemill.driver.attach import DELTA_EXTENSION, EXTENSION

pytestmark = pytest.mark.slow

Rows = list[dict[str, Any]]
Sql = Callable[[str], Rows]
DATABASE = "stacked"
MERGE = (
    "MERGE INTO {} t USING (SELECT 1 AS k, 10 AS v UNION ALL SELECT 7, 7) u ON t.k = u.k"
    " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
)


@pytest.fixture(params=["Delta's first", "Tidemill's first"])
def sql(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[Sql]:
    """Runs a statement in a session with the extensions in that order and answers its rows, values as text."""
    if request.param == "Delta's first":

        def run(text: str) -> Rows:
            return [{name: as_text(v) for name, v in row.asDict().items()} for row in spark.sql(text).collect()]

        order = [DELTA_EXTENSION, EXTENSION]
        yield from in_database(run, order)
    else:
        server: Server = request.getfixturevalue("server")
        connection = server.connection(spark)
        yield from in_database(connection.sql, [EXTENSION, DELTA_EXTENSION])
        connection.close()


def as_text(value: Any) -> str | None:
    if isinstance(value, datetime):  # PySpark gives it in the zone of this process
        return value.astimezone(UTC).isoformat()
    return None if value is None else str(value)


def in_database(run: Sql, order: list[str]) -> Iterator[Sql]:
    (setting,) = run("SET spark.sql.extensions")
    assert [name for name in setting["value"].split(",") if name in order] == order
    run(f"CREATE DATABASE {DATABASE}")
    run(f"USE {DATABASE}")
    yield run
    for view in run("SHOW INCREMENTAL VIEWS"):
        run(f"DROP INCREMENTAL VIEW {view['viewName']}")
    run("USE default")
    run(f"DROP DATABASE {DATABASE} CASCADE")


def affected(rows: Rows) -> str:
    return str(rows[0]["num_affected_rows"])


def test_deltas_statements_and_views_over_delta(sql: Sql) -> None:
    sql("CREATE TABLE d (k INT, v BIGINT) USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    sql("INSERT INTO d VALUES (1, 1), (2, 2), (3, 3)")
    sql(
        "CREATE INCREMENTAL VIEW sums SCHEDULE (ON DEMAND) REFRESH POLICY STRICT"
        " AS SELECT k % 2 AS odd, count(*) AS n, sum(v) AS s FROM d GROUP BY k % 2"
    )
    sql("CREATE INCREMENTAL VIEW copy USING delta SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS SELECT v, k FROM d")

    def refreshed(kind: str, **content: str) -> None:
        """By value of `odd`, the sum."""
        for view in ("sums", "copy"):
            assert [row["kind"] for row in sql(f"REFRESH INCREMENTAL VIEW {view}")] == [kind]
            assert [str(row["matches"]).lower() for row in sql(f"VERIFY INCREMENTAL VIEW {view}")] == ["true"]
        held = {("even", "odd")[int(row["odd"])]: row["s"] for row in sql("SELECT * FROM sums")}
        assert held == content
        (total,) = sql("SELECT sum(v) AS s FROM copy")
        assert int(total["s"]) == sum(int(s) for s in content.values())

    assert affected(sql(MERGE.format("d"))) == "2"
    refreshed("INCREMENTAL", odd="20", even="2")
    assert affected(sql("UPDATE d SET v = v + 1 WHERE k = 2")) == "1"
    refreshed("INCREMENTAL", odd="20", even="3")
    assert affected(sql("DELETE FROM d WHERE k = 7")) == "1"
    refreshed("INCREMENTAL", odd="13", even="3")
    assert [row["path"] for row in sql("OPTIMIZE d ZORDER BY (v)")] != []
    refreshed("NO_DATA", odd="13", even="3")
    sql("ALTER TABLE d ADD CONSTRAINT positive CHECK (v > 0)")
    sql("REORG TABLE d APPLY (PURGE)")
    sql("VACUUM d RETAIN 200 HOURS DRY RUN")
    sql("VACUUM d")
    refreshed("NO_DATA", odd="13", even="3")
    history = [row["operation"] for row in sql("DESCRIBE HISTORY d")]
    assert history[-1] == "CREATE TABLE"
    assert {"WRITE", "MERGE", "UPDATE", "DELETE", "OPTIMIZE", "ADD CONSTRAINT"} <= set(history)
    assert [row["format"] for row in sql("DESCRIBE DETAIL d")] == ["delta"]
    # Time travel, of the table and of a view's result.
    assert [row["n"] for row in sql("SELECT count(*) AS n FROM d VERSION AS OF 2")] == ["4"]
    (merged,) = [row["timestamp"] for row in sql("DESCRIBE HISTORY d") if row["version"] == "2"]
    assert [row["n"] for row in sql(f"SELECT count(*) AS n FROM d TIMESTAMP AS OF '{merged}'")] == ["4"]
    assert [row["n"] for row in sql("SELECT count(*) AS n FROM table_changes('d', 2, 3)")] == ["5"]
    assert [row["n"] for row in sql("SELECT count(*) AS n FROM copy VERSION AS OF 1")] == ["4"]
    assert len(sql("DESCRIBE HISTORY copy")) == 4
    sql("RESTORE TABLE d TO VERSION AS OF 1")
    refreshed("INCREMENTAL", odd="4", even="2")
    sql("CREATE TABLE c SHALLOW CLONE d")
    sql("CREATE TABLE p USING parquet AS SELECT 1 AS k")
    sql("CONVERT TO DELTA p")
    assert [row["format"] for row in sql("DESCRIBE DETAIL p")] == ["delta"]


def test_words_of_one_in_names_of_the_other(sql: Sql) -> None:
    sql("CREATE TABLE incremental (k INT, v BIGINT) USING delta")
    sql("INSERT INTO incremental VALUES (1, 1)")
    sql("CREATE INCREMENTAL VIEW history SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS SELECT k, v FROM incremental")
    assert affected(sql(MERGE.format("incremental"))) == "2"
    sql("OPTIMIZE incremental")
    sql("VACUUM incremental")
    sql("VACUUM INCREMENTAL VIEW history")
    assert [row["kind"] for row in sql("REFRESH INCREMENTAL VIEW history")] == ["INCREMENTAL"]
    assert sql("DESCRIBE HISTORY incremental")[-1]["operation"] == "CREATE TABLE"
    assert [row["col_name"] for row in sql("DESCRIBE INCREMENTAL VIEW history")] == ["k", "v"]


def test_each_refuses_in_its_own_words(sql: Sql) -> None:
    sql("CREATE TABLE d (k INT, v BIGINT) USING delta")
    sql("CREATE INCREMENTAL VIEW w USING delta SCHEDULE (ON DEMAND) AS SELECT k, v FROM d")
    expected = {
        "VACUUM d RETAIN x HOURS": "PARSE_SYNTAX_ERROR",
        "VACUUM INCREMENTAL VIEW w RETAIN x HOURS": "PARSE_SYNTAX_ERROR",
        "RESTORE TABLE d TO VERSION AS OF 70": "DELTA_CANNOT_RESTORE_TABLE_VERSION",
        "REFRESH INCREMENTAL VIEW d": "TIDEMILL_NOT_AN_INCREMENTAL_VIEW",
        MERGE.format("w"): "TIDEMILL_USE_OTHER_STATEMENT",
        "UPDATE w SET v = 1": "TIDEMILL_USE_OTHER_STATEMENT",
        "DELETE FROM w": "TIDEMILL_USE_OTHER_STATEMENT",
        "OPTIMIZE w": "TIDEMILL_USE_OTHER_STATEMENT",
        "RESTORE TABLE w TO VERSION AS OF 0": "TIDEMILL_USE_OTHER_STATEMENT",
        "REORG TABLE w APPLY (PURGE)": "TIDEMILL_USE_OTHER_STATEMENT",
        "VACUUM w": "TIDEMILL_USE_OTHER_STATEMENT",
        "TRUNCATE TABLE w": "TIDEMILL_USE_OTHER_STATEMENT",
        "INSERT INTO w VALUES (1, 1)": "TIDEMILL_USE_OTHER_STATEMENT",
        "ALTER TABLE w SET TBLPROPERTIES ('a' = 'b')": "TIDEMILL_USE_OTHER_STATEMENT",
        "ALTER TABLE w ADD COLUMN z INT": "TIDEMILL_USE_OTHER_STATEMENT",
        "DROP TABLE w": "TIDEMILL_USE_OTHER_STATEMENT",
        "DESCRIBE HISTORY w": "WRITE",
        "SHOW CREATE TABLE w": "CREATE TABLE",
    }
    wrong = {text: said for text, words in expected.items() if words not in (said := answer(sql, text))}
    assert wrong == {}, "\n".join(wrong)


def answer(sql: Sql, text: str) -> str:
    """The error of a statement, or its rows."""
    try:
        return str(sql(text))
    except (PySparkException, Py4JJavaError, Refused) as error:
        return str(error)
