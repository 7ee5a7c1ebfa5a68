"""The parser hook: our statements go to the planner, all others to Spark as they are; errors arrive in Spark's form."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Row, SparkSession

from tests.front.planner_double import Double
from tidemill.driver.endpoint import Endpoint


@pytest.fixture
def front(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> SparkSession:
    """The session, with the planner's double answering."""
    monkeypatch.setattr(Endpoint, "_parse", Double._parse)
    monkeypatch.setattr(Endpoint, "_execute", Double._execute)
    return spark


def refusal(spark: SparkSession, sql: str) -> AnalysisException:
    with pytest.raises(AnalysisException) as caught:
        spark.sql(sql)
    return caught.value


OWNED = [
    "CREATE INCREMENTAL VIEW v",
    "create or replace incremental view v",
    "REFRESH INCREMENTAL VIEW v",
    "VERIFY INCREMENTAL VIEW v;",
    "CREATE MATERIALIZED INCREMENTAL VIEW v",
    "CREATE OR REPLACE MATERIALIZED INCREMENTAL VIEW v",
    "CREATE INCREMENTAL TABLE v",
    "REFRESH INCREMENTAL v",
    "DROP INCREMENTAL v",
    "ALTER INCREMENTAL VIEW v SUSPEND ; ;",
    "VACUUM INCREMENTAL VIEW v DRY RUN",
    "DROP INCREMENTAL VIEW IF EXISTS v",
    "EXPLAIN INCREMENTAL SELECT 1",
    "SHOW INCREMENTAL VIEWS",
    "SHOW REFRESHES IN v",
    "SHOW CREATE INCREMENTAL VIEW v",
    "DESCRIBE INCREMENTAL VIEW EXTENDED v",
    "DESC INCREMENTAL VIEW v",
    "/* a /* nested */ one */ -- and\n\t refresh /**/ incremental\n-- x \\\n goes on\n view v",
]


@pytest.mark.parametrize("sql", OWNED)
def test_our_statements_reach_the_planner(front: SparkSession, sql: str) -> None:
    assert front.sql(sql).columns[:2] == ["where", "process"]


def test_cells_of_every_type(front: SparkSession) -> None:
    row = front.sql("REFRESH INCREMENTAL VIEW v").selectExpr("*", "cast(at AS string) AS text").drop("at").first()
    assert row is not None
    assert row["text"] == "2023-11-14 22:13:20.123456"
    assert tuple(row)[2:8] == (None, True, 0.5, ["a", None], {"k": "v"}, Row(inserts=1, deletes=None))


def test_a_statement_runs_once_and_at_once(front: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    execute = Double._execute

    def counted(self: Double, session: JavaObject, statement: dict[str, Any], sql: str) -> dict[str, Any]:
        calls.append(sql)
        return execute(self, session, statement, sql)

    monkeypatch.setattr(Endpoint, "_execute", counted)
    frame = front.sql("REFRESH INCREMENTAL VIEW v")
    frame.collect()
    frame.count()
    assert calls == ["REFRESH INCREMENTAL VIEW v"]


def test_other_statements_pass(front: SparkSession) -> None:
    assert front.sql("SELECT 'REFRESH INCREMENTAL VIEW v' AS x;").first() == Row(x="REFRESH INCREMENTAL VIEW v")
    assert front.sql("BEGIN DECLARE x INT DEFAULT 5; SELECT x; END").first() == Row(x=5)
    assert front.range(3).selectExpr("id + 1 AS x").first() == Row(x=1)


def test_parameters_of_other_statements_reach_the_delegate(front: SparkSession) -> None:
    # Spark's own parser below ours: Delta's, which the session has between, drops parameters.
    jvm = front._jvm
    assert jvm is not None
    sql = jvm.org.apache.spark.sql
    parser = jvm.tidemill.spark.ParserProxy.apply(front._jsparkSession, sql.execution.SparkSqlParser())
    values = jvm.PythonUtils.toSeq([parser.parseExpression("5")])
    plan = parser.parsePlanWithParameters("SELECT ? AS x", sql.catalyst.parser.PositionalParameterContext(values))
    assert "5 AS x" in plan.toString()


def test_tables_named_like_our_words(front: SparkSession, schema: str) -> None:
    front.sql("CREATE TABLE incremental (view INT) USING parquet")
    assert [r.col_name for r in front.sql("DESC INCREMENTAL").collect()] == ["view"]
    assert front.sql("DESCRIBE INCREMENTAL VIEW;").first() == Row(info_name="col_name", info_value="VIEW")


def test_spark_errors_of_other_statements_are_untouched(front: SparkSession) -> None:
    syntax = refusal(front, "SELECT 1 +\n  (")
    assert isinstance(syntax, ParseException)
    assert syntax.getCondition() == "PARSE_SYNTAX_ERROR"
    # Spark's parser throws this one undeclared: a java.lang.reflect.Proxy would have wrapped it
    with pytest.raises(Py4JJavaError, match=r"SqlScriptingException: .*\[INVALID_VARIABLE_DECLARATION"):
        front.sql("BEGIN SELECT 1; DECLARE y INT; END")


def test_execute_immediate(front: SparkSession) -> None:
    assert front.sql("EXECUTE IMMEDIATE 'REFRESH INCREMENTAL VIEW v'").columns[:2] == ["where", "process"]


def test_parameters_are_refused(front: SparkSession) -> None:
    for args in ({"a": 1}, [1]):
        with pytest.raises(ParseException, match="PARAMETER_MARKER_IN_UNEXPECTED_STATEMENT"):
            front.sql("REFRESH INCREMENTAL VIEW v", args=args)
    assert front.sql("REFRESH INCREMENTAL VIEW v", args={}).columns


def test_planner_errors_point_into_the_statement(front: SparkSession) -> None:
    error = refusal(front, "REFRESH INCREMENTAL\n VIEW \N{CRAB} refused\nand more")
    assert isinstance(error, ParseException)
    assert error.getCondition() == "TIDEMILL_INVALID_CLAUSE"
    assert error.getSqlState() == "42616"
    assert error.getMessageParameters() == {"clause": "x", "reason": "refused"}
    expected = (
        "[TIDEMILL_INVALID_CLAUSE] The clause x is not valid: refused. SQLSTATE: 42616 (line 2, pos 8)\n\n"
        "== SQL ==\nREFRESH INCREMENTAL\n VIEW \N{CRAB} refused\n--------^^^\nand more\n"
    )
    assert expected in str(error)


def test_query_errors_point_into_the_statement(front: SparkSession) -> None:
    sql = "CREATE INCREMENTAL VIEW v -- \N{CRAB}\n  AS SELECT 1 +\n    WHERE (x"
    error = refusal(front, sql)
    assert error.getCondition() == "PARSE_SYNTAX_ERROR"
    assert f"(line 3, pos 12)\n\n== SQL ==\n{sql}\n------------^^^\n" in str(error)


def test_the_query_must_be_a_query(front: SparkSession) -> None:
    error = refusal(front, "CREATE INCREMENTAL VIEW v AS INSERT INTO t VALUES (1)")
    assert (error.getMessageParameters() or {})["error"] == "'INSERT'"
    assert "(line 1, pos 29)" in str(error)
    assert refusal(front, "CREATE INCREMENTAL VIEW v AS ").getCondition() == "PARSE_EMPTY_STATEMENT"


def test_substituted_variables(front: SparkSession) -> None:
    front.conf.set("test.word", "refused")
    assert refusal(front, "REFRESH INCREMENTAL VIEW ${test.word}").getCondition() == "TIDEMILL_INVALID_CLAUSE"
    front.conf.unset("test.word")


def test_errors_of_a_run(front: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    error = refusal(front, "REFRESH INCREMENTAL VIEW missing")
    assert not isinstance(error, ParseException)
    assert (error.getCondition(), error.getSqlState()) == ("TIDEMILL_NOT_FOUND", "42P01")
    assert error.getMessageParameters() == {"view": "missing", "catalog": "the catalog"}
    spark_error = refusal(front, "REFRESH INCREMENTAL VIEW v /* spark error */")
    assert spark_error.getCondition() == "UNRESOLVED_COLUMN.WITH_SUGGESTION"
    assert (spark_error.getMessageParameters() or {})["objectName"] == "`no_such_column`"
    failed = refusal(front, "REFRESH INCREMENTAL VIEW v /* python error */")
    assert failed.getCondition() == "TIDEMILL_PLANNER_FAILED"
    assert (failed.getMessageParameters() or {})["reason"] == "ZeroDivisionError: by zero"
    assert "ZeroDivisionError" in caplog.text


def test_threads_keep_their_job_groups(front: SparkSession) -> None:
    seen: dict[int, str] = {}

    def refresh(number: int) -> None:
        front.sparkContext.setJobGroup(f"group {number}", "a test")
        row = front.sql("REFRESH INCREMENTAL VIEW v").first()
        assert row is not None
        seen[number] = row["where"]

    threads = [threading.Thread(target=refresh, args=(n,), name=f"caller {n}") for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == {n: f"caller {n}/group {n}" for n in range(4)}


def test_attaching_twice_changes_nothing(front: SparkSession) -> None:
    from tidemill.driver.attach import attach

    gateway = SparkContext._gateway
    assert gateway is not None
    before = gateway.__dict__["_tidemill_endpoint"]
    attach(front)
    assert gateway.__dict__["_tidemill_endpoint"] is before
