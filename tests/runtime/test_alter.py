"""ALTER, OR REPLACE and LOCATION of a view that lies there: what changes, what stays, what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from tests.conftest import Oracle, files_under, location_of
from tidemill.bridge.jvm import Jvm

Fails = Callable[[str, str], PySparkException]
BY_KEY = "SELECT k, sum(v) AS s, count(*) AS n FROM events GROUP BY k"
OTHER_COLUMNS = "SELECT n, k, CAST(s AS STRING) AS s, s + n AS m FROM (" + BY_KEY + ")"
ANOTHER_QUERY = ("ALTER INCREMENTAL VIEW v AS", "CREATE OR REPLACE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS")


@pytest.fixture
def view(spark: SparkSession, events: str) -> str:
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) REFRESH POLICY INCREMENTAL AS {BY_KEY}")
    return "v"


def show_create(spark: SparkSession, name: str = "v") -> str:
    return str(spark.sql(f"SHOW CREATE INCREMENTAL VIEW {name}").collect()[0][0])


def refresh(spark: SparkSession, name: str = "v") -> Row:
    return spark.sql(f"REFRESH INCREMENTAL VIEW {name}").collect()[0]


def status(spark: SparkSession, name: str = "v") -> tuple[Any, ...]:
    row = next(r for r in spark.sql("SHOW INCREMENTAL VIEWS").collect() if r.viewName == name)
    return (row.status, row.policy, row.lastRun)


def test_amendments_show_and_last(spark: SparkSession, view: str, fails: Fails) -> None:
    spark.sql("ALTER INCREMENTAL VIEW v SET SCHEDULE (AT '10:00' NO OUTPUT, AT '12:00' COST 2)")
    spark.sql("ALTER INCREMENTAL VIEW v SET REFRESH POLICY STRICT")
    spark.sql("ALTER INCREMENTAL VIEW v SET COMMENT 'it''s new'")
    spark.sql("ALTER INCREMENTAL VIEW v SET TBLPROPERTIES (a = 1, 'b.c' = 'x')")
    spark.sql("ALTER INCREMENTAL VIEW v UNSET TBLPROPERTIES (a)")
    fails("ALTER INCREMENTAL VIEW v UNSET TBLPROPERTIES (a)", "UNSET_NONEXISTENT_PROPERTIES")
    spark.sql("ALTER INCREMENTAL VIEW v UNSET TBLPROPERTIES IF EXISTS (a)")
    text = show_create(spark)
    assert "SCHEDULE (AT '10:00' NO OUTPUT, AT '12:00' COST 2)" in text
    assert "REFRESH POLICY STRICT" in text
    assert "COMMENT 'it\\'s new'" in text
    assert "TBLPROPERTIES ('b.c' = 'x')" in text
    assert status(spark) == ("ACTIVE", "STRICT", 0)
    properties = {r.key: r.value for r in spark.sql("SHOW TBLPROPERTIES v").collect()}
    assert properties["b.c"] == "x"
    assert "a" not in properties
    fails("REFRESH INCREMENTAL VIEW v AT 3", "TIDEMILL_NO_SUCH_POINT")
    assert spark.sql("REFRESH INCREMENTAL VIEW v AT 2").collect()[0].kind == "NO_DATA"


def test_suspended_views_are_refreshed_by_hand(spark: SparkSession, view: str, oracle: Oracle) -> None:
    spark.sql("ALTER INCREMENTAL VIEW v SUSPEND")
    assert status(spark)[0] == "SUSPENDED"
    spark.sql("INSERT INTO events VALUES (1, 1, 'c')")
    assert refresh(spark).kind == "INCREMENTAL"
    oracle("v", BY_KEY)
    spark.sql("ALTER INCREMENTAL VIEW v RESUME")
    assert status(spark) == ("ACTIVE", "INCREMENTAL", 1)


def test_a_policy_that_the_query_cannot_have_is_refused(spark: SparkSession, events: str, fails: Fails) -> None:
    query = "WITH RECURSIVE r (n) AS (SELECT k FROM events UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT n FROM r"
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS {query}")
    fails("ALTER INCREMENTAL VIEW v SET REFRESH POLICY STRICT", "TIDEMILL_NOT_INCREMENTAL")
    assert status(spark)[1] == "AUTO"


def test_another_name(spark: SparkSession, view: str, fails: Fails, oracle: Oracle) -> None:
    location = location_of(spark, "v")
    before = files_under(location)
    fails("ALTER INCREMENTAL VIEW v RENAME TO events", "TIDEMILL_ALREADY_EXISTS")
    fails("ALTER INCREMENTAL VIEW v RENAME TO default.w", "TIDEMILL_INVALID_CLAUSE")
    spark.sql("ALTER INCREMENTAL VIEW v RENAME TO w")
    assert files_under(location) == before
    fails("REFRESH INCREMENTAL VIEW v", "TIDEMILL_NOT_FOUND")
    spark.sql("INSERT INTO events VALUES (3, 1, 'c')")
    row = refresh(spark, "w")
    assert (row.kind, row.view.split(".")[-1]) == ("INCREMENTAL", "w")
    oracle("w", BY_KEY)
    assert "INCREMENTAL VIEW spark_catalog" in show_create(spark, "w")
    spark.sql("DROP INCREMENTAL VIEW w")
    assert files_under(location) == []


def test_another_query_uses_the_states_that_fit(spark: SparkSession, view: str, oracle: Oracle) -> None:
    spark.sql("INSERT INTO events VALUES (2, 7, 'x'), (4, 1, 'y')")
    query = "SELECT s + n AS more, k FROM (" + BY_KEY + ")"
    spark.sql(f"ALTER INCREMENTAL VIEW v AS {query}")
    oracle("v", query)
    assert spark.table("v").columns == ["more", "k"]
    row = spark.sql("SHOW REFRESHES IN v LIMIT 1").collect()[0]
    assert (row.run, row.trigger, row.kind, row.reason) == (1, "CREATE", "INCREMENTAL", "FIRST")
    spark.sql("INSERT INTO events VALUES (4, 1, 'z')")
    assert refresh(spark).kind == "INCREMENTAL"
    oracle("v", query)
    assert [r.run for r in spark.sql("SHOW REFRESHES IN v").collect()] == [2, 1, 0]


def test_another_query_over_the_same_groups(spark: SparkSession, db: str, oracle: Oracle) -> None:
    """Of a state with more than is needed, what is needed is read; other names, conditions above and orders do not
    matter; what is not there is made from the sources."""
    spark.sql("CREATE TABLE events (k INT, v BIGINT, s STRING) USING parquet")
    spark.sql("INSERT INTO events SELECT id % 7, id, 'many' FROM range(2000)")
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) REFRESH POLICY INCREMENTAL AS {BY_KEY}")
    spark.sql("INSERT INTO events VALUES (2, 7, 'x'), (9, 1, 'y')")
    for query, reused in (
        ("SELECT k AS renamed, n FROM (" + BY_KEY + ") WHERE s > 3", True),
        ("SELECT k AS renamed, count(*) AS rows FROM events GROUP BY k HAVING count(*) > 1", True),
        ("SELECT count(*) AS n, k, max(s) AS t FROM (SELECT * FROM events) GROUP BY k", False),
        (BY_KEY, False),
        ("SELECT avg(v) AS a, k FROM events GROUP BY k", False),
        ("SELECT k, count(*) AS n FROM events WHERE v > 3 GROUP BY k", False),
    ):
        spark.sql(f"ALTER INCREMENTAL VIEW v AS {query}")
        oracle("v", query)
        row = spark.sql("SHOW REFRESHES IN v LIMIT 1").collect()[0]
        assert (row.kind == "INCREMENTAL") == reused, query
        spark.sql("INSERT INTO events VALUES (4, 1, 'z')")
        assert refresh(spark).kind == "INCREMENTAL", query
        oracle("v", query)


def test_a_self_join_seen_from_its_other_side(spark: SparkSession, db: str, oracle: Oracle) -> None:
    spark.sql("CREATE TABLE events (k INT, j INT, v BIGINT) USING parquet")
    spark.sql("INSERT INTO events SELECT id % 100, (id + 1) % 100, id FROM range(1000)")
    query = "SELECT a.k, sum({}.v) AS s FROM events a JOIN events b ON a.k = b.j GROUP BY a.k"
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS {query.format('a')}")
    spark.sql(f"ALTER INCREMENTAL VIEW v AS {query.format('b')}")
    oracle("v", query.format("b"))


def test_or_replace_keeps_location_and_history(spark: SparkSession, view: str, oracle: Oracle, fails: Fails) -> None:
    location = location_of(spark, "v")
    query = "SELECT s, max(v) AS top FROM events GROUP BY s"
    spark.sql(f"CREATE OR REPLACE INCREMENTAL VIEW v COMMENT 'anew' SCHEDULE (AT '10:00') AS {query}")
    oracle("v", query)
    assert location_of(spark, "v") == location
    assert status(spark) == ("ACTIVE", "AUTO", 1)
    assert spark.table("v").columns == ["s", "top"]
    row = spark.sql("SHOW REFRESHES IN v LIMIT 1").collect()[0]
    assert (row.kind, row.reason) == ("FULL", "FIRST")
    assert "OR REPLACE" not in show_create(spark)
    assert "COMMENT 'anew'" in show_create(spark)
    spark.sql("INSERT INTO events VALUES (9, 99, 'a')")
    refresh(spark)
    oracle("v", query)
    fails(f"CREATE OR REPLACE INCREMENTAL VIEW events SCHEDULE (ON DEMAND) AS {query}", "TIDEMILL_ALREADY_EXISTS")


def test_amendments_before_or_replace_are_gone_after_it(spark: SparkSession, view: str) -> None:
    spark.sql("ALTER INCREMENTAL VIEW v SET COMMENT 'old'")
    spark.sql("ALTER INCREMENTAL VIEW v SUSPEND")
    spark.sql(f"CREATE OR REPLACE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS {BY_KEY}")
    assert "COMMENT" not in show_create(spark)
    assert status(spark)[0] == "ACTIVE"
    spark.sql("ALTER INCREMENTAL VIEW v SET COMMENT 'new'")
    assert "COMMENT 'new'" in show_create(spark)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE OR REPLACE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS SELECT k, 1 / (v - 10) AS x FROM events",
        "ALTER INCREMENTAL VIEW v AS SELECT k, 1 / (v - 10) AS x FROM events",
    ],
)
def test_a_replacement_that_fails_leaves_the_old_view(
    spark: SparkSession, view: str, oracle: Oracle, statement: str
) -> None:
    location = location_of(spark, "v")
    before, text = files_under(location), show_create(spark)
    with pytest.raises(PySparkException, match="DIVIDE_BY_ZERO"):
        spark.sql(statement)
    assert files_under(location) == before
    assert show_create(spark) == text
    oracle("v", BY_KEY)
    spark.sql("INSERT INTO events VALUES (1, 1, 'a')")
    refresh(spark)
    oracle("v", BY_KEY)


def test_a_location_is_attached_again(
    spark: SparkSession, events: str, tmp_path: Path, fails: Fails, oracle: Oracle
) -> None:
    location = f"{tmp_path}/it's here"
    quoted = location.replace("'", "\\'")
    create = f"CREATE INCREMENTAL VIEW {{}} LOCATION '{quoted}' SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {{}}"
    spark.sql(create.format("v", BY_KEY))
    spark.sql("DROP INCREMENTAL VIEW v")
    before = files_under(location)
    for query in ("SELECT k, sum(v) AS s, count(*) AS n FROM events WHERE v > 0 GROUP BY k", BY_KEY + " HAVING n > 1"):
        fails(create.format("w", query), "TIDEMILL_LOCATION_MISMATCH")
    fails(create.format("w (a, b, c)", BY_KEY), "TIDEMILL_LOCATION_MISMATCH")
    assert files_under(location) == before
    spark.sql(create.format("w", BY_KEY))
    oracle("w", BY_KEY)
    spark.sql("INSERT INTO events VALUES (1, 1, 'a')")
    row = refresh(spark, "w")
    assert (row.run, row.kind) == (1, "INCREMENTAL")
    oracle("w", BY_KEY)
    spark.sql("DROP INCREMENTAL VIEW w")
    assert files_under(location) != []
    fails(
        f"CREATE INCREMENTAL VIEW w LOCATION '{tmp_path}' SCHEDULE (ON DEMAND) AS {BY_KEY}",
        "TIDEMILL_LOCATION_NOT_EMPTY",
    )


def test_a_location_is_attached_under_another_text(
    spark: SparkSession, events: str, tmp_path: Path, oracle: Oracle
) -> None:
    """The same query in other words, whose own columns have other names than those of the first text."""
    clauses = f"LOCATION '{tmp_path}/v' SCHEDULE (ON DEMAND) REFRESH POLICY STRICT"
    spark.sql(f"CREATE INCREMENTAL VIEW v (a, b) {clauses} AS SELECT k AS p, v FROM events")
    spark.sql("DROP INCREMENTAL VIEW v")
    query = "SELECT k AS q, v FROM events"
    spark.sql(f"CREATE INCREMENTAL VIEW v (a, b) COMMENT 'new' {clauses} AS {query}")
    spark.sql("INSERT INTO events VALUES (1, 1, 'a')")
    row = refresh(spark, "v")
    assert (row.run, row.kind) == (1, "INCREMENTAL")
    oracle("v", query)
    assert query in show_create(spark)
    # What the first statement did not say is as the last one that did.
    spark.sql("DROP INCREMENTAL VIEW v")
    spark.sql(f"CREATE INCREMENTAL VIEW v (a, b) {clauses} AS {query}")
    assert spark.catalog.getTable("v").description == "new"


def test_a_location_is_not_attached_under_terms_that_the_view_cannot_have(
    spark: SparkSession, db: str, tmp_path: Path, fails: Fails
) -> None:
    spark.sql("CREATE TABLE t (k INT, _change_type INT) USING delta")
    create = f"CREATE INCREMENTAL VIEW v USING delta LOCATION '{tmp_path}/v' {{}} AS SELECT k FROM t"
    spark.sql(create.format("SCHEDULE (ON DEMAND)"))
    spark.sql("DROP INCREMENTAL VIEW v")
    before = files_under(tmp_path)
    for clauses, error in (
        ("SCHEDULE (AT '08:00') REFRESH POLICY STRICT", "TIDEMILL_SOURCE_WITHOUT_CHANGES"),
        ("TBLPROPERTIES ('delta.columnMapping.mode' = 'name') SCHEDULE (AT '08:00')", "TIDEMILL_INVALID_CLAUSE"),
    ):
        fails(create.format(clauses), error)
        assert files_under(tmp_path) == before
        assert spark.sql("SHOW INCREMENTAL VIEWS").collect() == []
    spark.sql(create.format("SCHEDULE (ON DEMAND)"))
    assert "08:00" not in show_create(spark)


@contextmanager
def before(step: str, action: Callable[[], None]) -> Iterator[None]:
    """`action` comes before the content is published, or the catalog altered; if it raises, nothing follows."""
    dead: list[BaseException] = []
    original = Jvm.invoke

    def invoke(jvm: Jvm, method: str, request: Mapping[str, Any] | None = None) -> Any:
        if dead:
            raise dead[0]
        told = request or {}
        published = "/_spark_metadata/" in str(told.get("path")) and told["do"] == "write"
        if step == ("publish" if published else f"{method} {told.get('do')}"):
            try:
                action()
            except BaseException as failure:
                dead.append(failure)
                raise
        return original(jvm, method, request)

    with mock.patch.object(Jvm, "invoke", invoke):
        yield


def content(session: SparkSession, name: str) -> tuple[list[str], set[tuple[Any, ...]]]:
    frame = session.sql(f"SELECT * FROM {name}")
    return frame.columns, {tuple(row) for row in frame.collect()}


@pytest.mark.parametrize("words", ANOTHER_QUERY)
def test_readers_see_the_old_query_or_the_new_one(spark: SparkSession, view: str, events: str, words: str) -> None:
    """In every session, whatever it has read before; a plain view over it and a sub-query too."""
    name, plain = f"{events}.v", f"{events}.plain"
    sessions = [spark, spark.newSession(), spark.newSession()]
    spark.sql(f"CREATE VIEW {plain} AS SELECT n, s FROM {name} WHERE k IN (SELECT k FROM {name})")
    old, below = content(sessions[0], name), content(sessions[1], plain)
    assert content(sessions[1], name) == old
    seen: list[object] = []

    def read() -> None:
        seen.extend(content(session, name) for session in sessions)
        seen.extend(content(session, plain) for session in sessions[:2])

    with before("catalog alter_table", read):
        spark.sql(f"{words} {OTHER_COLUMNS}")
    assert seen == [old] * 3 + [below] * 2
    frame = spark.sql(OTHER_COLUMNS)
    new = frame.columns, {tuple(row) for row in frame.collect()}
    assert [content(session, name) for session in sessions] == [new] * 3


@pytest.mark.parametrize("step", ["publish", "catalog alter_table"])
def test_a_switch_that_died_before_the_catalog_was_told(
    spark: SparkSession, view: str, events: str, step: str, oracle: Oracle
) -> None:
    name = f"{events}.v"
    above = "SELECT n, sum(s) AS s FROM v GROUP BY n"
    spark.sql(f"CREATE INCREMENTAL VIEW above SCHEDULE (ON DEMAND) AS {above}")
    sessions = [spark, spark.newSession()]
    old, was = content(sessions[1], name), content(spark, "above")

    def die() -> None:
        raise RuntimeError("the process is dead")

    query = "SELECT k, n AS s2, s AS n FROM (" + BY_KEY + ")"
    with before(step, die), pytest.raises((PySparkException, Py4JJavaError)):
        spark.sql(f"ALTER INCREMENTAL VIEW v AS {query}")
    assert [content(session, name) for session in (*sessions, spark.newSession())] == [old] * 3
    assert refresh(spark, "above").kind == "NO_DATA"
    assert content(spark, "above") == was
    spark.sql("VACUUM INCREMENTAL VIEW v DRY RUN")
    spark.sql("INSERT INTO events VALUES (7, 7, 'g')")
    refresh(spark)
    oracle("v", query)
    new = content(spark, name)
    assert new[0] == ["k", "s2", "n"]
    assert [content(session, name) for session in (*sessions, spark.newSession())] == [new] * 3
    spark.sql(f"ALTER INCREMENTAL VIEW v AS {BY_KEY}")
    refresh(spark, "above")
    oracle("above", above)
