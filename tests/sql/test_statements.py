"""Each statement and clause: the value it is read as, and the columns of its answer."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tidemill.sql.clauses import byte_string
from tidemill.sql.codec import from_json, to_json
from tidemill.sql.parse import parse, read
from tidemill.sql.statements import (
    Alter,
    AtProgress,
    AtTime,
    ColumnClause,
    Create,
    Cron,
    Describe,
    Drop,
    Every,
    Expectation,
    Explain,
    Iterate,
    OnChange,
    OnDemand,
    Point,
    Refresh,
    RefreshViews,
    RenameTo,
    Resume,
    SetComment,
    SetExpect,
    SetPolicy,
    SetProperties,
    SetQuery,
    SetSchedule,
    SetStateBudget,
    SetWork,
    ShowCreate,
    ShowRefreshes,
    ShowViews,
    Statement,
    Suspend,
    UnsetProperties,
    Vacuum,
    Verify,
    WorkBound,
)

V = ("v",)
ON_DEMAND = (Point(OnDemand()),)
PLAIN = Create(V, ON_DEMAND, "SELECT 1")

STATEMENTS: list[tuple[str, Statement]] = [
    ("CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS SELECT 1", PLAIN),
    ("CREATE INCREMENTAL VIEW v AS SELECT 1", PLAIN),
    ("create incremental view v schedule (on demand) as SELECT 1", PLAIN),
    ("CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS SELECT 1 ; ; -- done", PLAIN),
    (
        "CREATE INCREMENTAL VIEW IF NOT EXISTS `a b`.v SCHEDULE (ON DEMAND) AS SELECT 1",
        Create(("a b", "v"), ON_DEMAND, "SELECT 1", if_not_exists=True),
    ),
    (
        "CREATE OR REPLACE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS SELECT 1",
        Create(V, ON_DEMAND, "SELECT 1", or_replace=True),
    ),
    (
        "CREATE INCREMENTAL VIEW c.d.`v``w` (a, `b c` COMMENT 'it''s', d COMMENT r'\\n') SCHEDULE (ON DEMAND)"
        " AS TABLE t",
        Create(
            ("c", "d", "v`w"),
            ON_DEMAND,
            "TABLE t",
            columns=(ColumnClause("a"), ColumnClause("b c", "it's"), ColumnClause("d", "\\n")),
        ),
    ),
    (
        "CREATE INCREMENTAL VIEW v INITIALIZE DEFERRED REFRESH POLICY STRICT"
        " TBLPROPERTIES (a.b 1, 'c d' = TRUE, e == 1.50, f = 'x' \"y\")"
        " LOCATION '/a' 'b' SCHEDULE (ON DEMAND) USING Parquet COMMENT 'c' AS FROM t",
        Create(
            V,
            ON_DEMAND,
            "FROM t",
            comment="c",
            format="parquet",
            location="/ab",
            properties=(("a.b", "1"), ("c d", "true"), ("e", "1.50"), ("f", "xy")),
            policy="STRICT",
            deferred=True,
        ),
    ),
    (
        "CREATE INCREMENTAL VIEW v REFRESH POLICY INCREMENTAL STRICT SCHEDULE (ON DEMAND) AS SELECT 1",
        replace(PLAIN, policy="STRICT"),
    ),
    (
        "CREATE INCREMENTAL VIEW v REFRESH POLICY AUTO INITIALIZE IMMEDIATE SCHEDULE (ON DEMAND) AS SELECT 1",
        PLAIN,
    ),
    (
        "CREATE INCREMENTAL VIEW v USING org.x.Source PARTITIONED BY (a, `b`) FINAL WORK <= 0.05 STATE BUDGET '2GB'"
        " EXPECT (a.b 5 ROWS, c 0 ROWS PER DAY, d 7 ROWS PER CYCLE WITH 2.5 PERCENT DELETES, e COMPLETE)"
        " SCHEDULE (ON DEMAND) AS SELECT 1",
        Create(
            V,
            ON_DEMAND,
            "SELECT 1",
            format="org.x.Source",
            partitioned_by=("a", "b"),
            work=WorkBound("FINAL", 0.05),
            state_budget="2GB",
            expect=(
                Expectation(("a", "b"), 5),
                Expectation(("c",), 0, "DAY"),
                Expectation(("d",), 7, "CYCLE", 2.5),
                Expectation(("e",)),
            ),
        ),
    ),
    (
        "CREATE INCREMENTAL VIEW v TOTAL WORK <= 1 SCHEDULE (ON DEMAND) AS (SELECT 1)",
        Create(V, ON_DEMAND, "(SELECT 1)", work=WorkBound("TOTAL", 1.0)),
    ),
    (
        "CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS ITERATE r(node, rank) MAX 20 TIMES FROM ( SELECT (1), ')' )"
        " STEP (SELECT 2 /* ) */) UNTIL (old.rank = new.rank) KEY (node) APPROXIMATE",
        Create(
            V,
            ON_DEMAND,
            Iterate(
                *(
                    "r",
                    ("node", "rank"),
                    False,
                    20,
                    "SELECT (1), ')'",
                    "SELECT 2",
                    "old.rank = new.rank",
                    ("node",),
                    True,
                )
            ),
        ),
    ),
    ("REFRESH INCREMENTAL VIEW v", Refresh(V)),
    ("REFRESH INCREMENTAL VIEW a.v AT 2", Refresh(("a", "v"), 2)),
    ("REFRESH INCREMENTAL VIEW v AT -1", Refresh(V, -1)),
    ("REFRESH INCREMENTAL VIEW v AT 1 FULL DRY RUN CASCADE", Refresh(V, 1, True, True, True)),
    ("REFRESH INCREMENTAL VIEW v DRY RUN FULL", Refresh(V, None, True, True)),
    ("REFRESH INCREMENTAL VIEW full full", Refresh(("full",), None, True)),
    ("REFRESH INCREMENTAL VIEW views full", Refresh(("views",), None, True)),
    ("REFRESH INCREMENTAL VIEWS", RefreshViews()),
    ("REFRESH INCREMENTAL VIEWS FROM a.b", RefreshViews(("a", "b"))),
    ("REFRESH INCREMENTAL VIEWS IN a LIKE 'x*|y'", RefreshViews(("a",), "x*|y")),
    ("REFRESH INCREMENTAL VIEWS 'x*'", RefreshViews(None, "x*")),
    ("VERIFY INCREMENTAL VIEW v", Verify(V)),
    ("VERIFY INCREMENTAL VIEW v SAMPLE 0.5 PERCENT", Verify(V, 0.5)),
    ("EXPLAIN INCREMENTAL VIEW v", Explain(view=V)),
    ("EXPLAIN INCREMENTAL PLAN VIEW v", Explain(view=V)),
    ("EXPLAIN INCREMENTAL JSON WITH a AS (SELECT 1) TABLE a;", Explain("JSON", query="WITH a AS (SELECT 1) TABLE a")),
    ("EXPLAIN INCREMENTAL /* x */ VALUES (1) -- y", Explain(query="VALUES (1)")),
    ("EXPLAIN INCREMENTAL (SELECT 1) UNION (SELECT 2)", Explain(query="(SELECT 1) UNION (SELECT 2)")),
    ("EXPLAIN INCREMENTAL CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS SELECT 1", Explain(create=PLAIN)),
    ("EXPLAIN INCREMENTAL MEMO VIEW v", Explain("MEMO", view=V)),
    ("SHOW INCREMENTAL VIEWS", ShowViews()),
    ("SHOW INCREMENTAL VIEWS FROM a.b", ShowViews(("a", "b"))),
    ("SHOW INCREMENTAL VIEWS IN a LIKE 'x*|y'", ShowViews(("a",), "x*|y")),
    ("SHOW INCREMENTAL VIEWS 'x*'", ShowViews(None, "x*")),
    ("SHOW INCREMENTAL VIEWS IN like LIKE 'x'", ShowViews(("like",), "x")),
    ("SHOW REFRESHES", ShowRefreshes()),
    ("SHOW REFRESHES LIMIT 5", ShowRefreshes(limit=5)),
    ("SHOW REFRESHES FROM v", ShowRefreshes(V)),
    ("SHOW REFRESHES IN a.v LIMIT 5", ShowRefreshes(("a", "v"), 5)),
    ("SHOW CREATE INCREMENTAL VIEW v", ShowCreate(V)),
    ("DESCRIBE INCREMENTAL VIEW v", Describe(V)),
    ("DESC INCREMENTAL VIEW EXTENDED v", Describe(V, True)),
    ("DESC INCREMENTAL VIEW extended", Describe(("extended",))),
    ("DESC INCREMENTAL VIEW extended.v", Describe(("extended", "v"))),
    ("DESC INCREMENTAL VIEW EXTENDED extended", Describe(("extended",), True)),
    ("DROP INCREMENTAL VIEW v", Drop(V)),
    ("DROP INCREMENTAL VIEW IF EXISTS v", Drop(V, True)),
    ("DROP INCREMENTAL VIEW if", Drop(("if",))),
    ("VACUUM INCREMENTAL VIEW v", Vacuum(V)),
    ("VACUUM INCREMENTAL VIEW v RETAIN 1.5 HOURS DRY RUN", Vacuum(V, 1.5, True)),
    ("ALTER INCREMENTAL VIEW v SET SCHEDULE (AT '10:00')", Alter(V, SetSchedule((Point(AtTime(36000)),)))),
    ("ALTER INCREMENTAL VIEW v SET FINAL WORK <= 1", Alter(V, SetWork(WorkBound("FINAL", 1.0)))),
    ("ALTER INCREMENTAL VIEW v SET TOTAL WORK <= 3", Alter(V, SetWork(WorkBound("TOTAL", 3.0)))),
    ("ALTER INCREMENTAL VIEW v SET STATE BUDGET '0'", Alter(V, SetStateBudget("0"))),
    ("ALTER INCREMENTAL VIEW v SET EXPECT (t COMPLETE)", Alter(V, SetExpect((Expectation(("t",)),)))),
    ("ALTER INCREMENTAL VIEW v SET REFRESH POLICY FULL", Alter(V, SetPolicy("FULL"))),
    ("ALTER INCREMENTAL VIEW v SET REFRESH POLICY incremental Strict", Alter(V, SetPolicy("STRICT"))),
    ("ALTER INCREMENTAL VIEW v SET TBLPROPERTIES (a = 1)", Alter(V, SetProperties((("a", "1"),)))),
    (
        "ALTER INCREMENTAL VIEW v UNSET TBLPROPERTIES IF EXISTS (a.b, 'c')",
        Alter(V, UnsetProperties(("a.b", "c"), True)),
    ),
    ("ALTER INCREMENTAL VIEW v SET COMMENT ''", Alter(V, SetComment(""))),
    ("ALTER INCREMENTAL VIEW v AS SELECT 2", Alter(V, SetQuery("SELECT 2"))),
    ("ALTER INCREMENTAL VIEW v RENAME TO a.w", Alter(V, RenameTo(("a", "w")))),
    ("ALTER INCREMENTAL VIEW v SUSPEND", Alter(V, Suspend())),
    ("ALTER INCREMENTAL VIEW v RESUME", Alter(V, Resume())),
]

SCHEDULES: list[tuple[str, tuple[Point, ...]]] = [
    (
        "AT '14:00' COST 0.25 NO OUTPUT, AT '19:00:30' COST .3 OUTPUT, AT '24:00'",
        (Point(AtTime(50400), 0.25, False), Point(AtTime(68430), 0.3), Point(AtTime(86400))),
    ),
    ("AT '00:00', AT '24:00:00' COST 1e-3", (Point(AtTime(0)), Point(AtTime(86400), 0.001))),
    ("ON DEMAND COST 0 NO OUTPUT, ON DEMAND", (Point(OnDemand(), 0.0, False), Point(OnDemand()))),
    ("ON DEMAND COST -0.0", (Point(OnDemand(), 0.0),)),
    ("ON CHANGE", (Point(OnChange()),)),
    ("ON CHANGE AFTER 5 ROWS COST 2", (Point(OnChange((), 5, "ROWS"), 2.0),)),
    (
        "ON CHANGE OF a.b, at, every, cron AFTER 3 FILES, EVERY 1 HOUR",
        (Point(OnChange((("a", "b"), ("at",), ("every",), ("cron",)), 3, "FILES")), Point(Every(1, "HOURS"))),
    ),
    ("ON CHANGE OF a, AT '10:00', ON DEMAND", (Point(OnChange((("a",),))), Point(AtTime(36000)), Point(OnDemand()))),
    ("ON CHANGE OF a, AT PROGRESS 5 PERCENT", (Point(OnChange((("a",),))), Point(AtProgress(5.0)))),
    ("ON CHANGE OF a, CRON '0 0 1 1 0'", (Point(OnChange((("a",),))), Point(Cron("0 0 1 1 0")))),
    ("ON CHANGE OF a, ON CHANGE OF b", (Point(OnChange((("a",),))), Point(OnChange((("b",),))))),
    ("EVERY 30 SECONDS, EVERY 2 DAYS", (Point(Every(30, "SECONDS")), Point(Every(2, "DAYS")))),
    ("EVERY 5 minute", (Point(Every(5, "MINUTES")),)),
    (
        "CRON '*/5,7 0-6/2 * jan-MAR sun,7' AT TIME ZONE '+02:00' COST 2",
        (Point(Cron("*/5,7 0-6/2 * jan-MAR sun,7", "+02:00"), 2.0),),
    ),
    ("CRON '0 9 * * *' AT TIME ZONE 'Europe/Berlin'", (Point(Cron("0 9 * * *", "Europe/Berlin")),)),
    ("AT PROGRESS 100 PERCENT", (Point(AtProgress(100.0)),)),
]


@pytest.mark.parametrize(("sql", "statement"), STATEMENTS)
def test_statement(sql: str, statement: Statement) -> None:
    assert read(sql)[0] == statement


@pytest.mark.parametrize(("text", "points"), SCHEDULES)
def test_schedule(text: str, points: tuple[Point, ...]) -> None:
    statement = read(f"CREATE INCREMENTAL VIEW v SCHEDULE ({text}) AS SELECT 1")[0]
    assert isinstance(statement, Create)
    assert statement.schedule == points


@pytest.mark.parametrize(("sql", "statement"), STATEMENTS)
def test_json_gives_the_statement_back(sql: str, statement: Statement) -> None:
    document = json.loads(json.dumps(to_json(statement)))
    assert document["kind"] == statement.kind
    assert from_json(document) == statement


@pytest.mark.parametrize("document", [{}, {"kind": "drop_all"}, {"kind": "point", "trigger": {"kind": "on_demand"}}])
def test_json_of_something_else(document: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"kind|statement"):
        from_json(document)


@pytest.mark.parametrize(
    "name",
    ["schedule", "as", "if", "comment", "using", "location", "refresh", "select", "at", "on", "create", "`schedule`"],
)
def test_any_word_may_name_a_view(name: str) -> None:
    statement = parse(f"CREATE INCREMENTAL VIEW {name} SCHEDULE (ON DEMAND) AS SELECT 1").statement
    assert statement == Create((name.strip("`"),), ON_DEMAND, "SELECT 1")
    listed = parse(f"CREATE INCREMENTAL VIEW x.{name} ({name}) SCHEDULE (ON DEMAND) AS SELECT 1").statement
    assert listed == Create(("x", name.strip("`")), ON_DEMAND, "SELECT 1", columns=(ColumnClause(name.strip("`")),))


@pytest.mark.parametrize(
    "query",
    [
        "SELECT 1",
        "select ';' as a -- ; x\n , 'AS SELECT' /* ; */ from t",
        "WITH a AS (SELECT 1) SELECT * FROM a",
        "SELECT /*+ BROADCAST(t) */ `as`, \"it's\", r'\\' FROM t",
        "SELECT '\N{WATER WAVE}', 'unclosed",
        "SELECT 1; SELECT 2",
        "SELECT 1 /* unclosed",
        "FROM t\n|> WHERE a > 1",
        "VALUES (1)",
        "MAP a USING 'cat' AS b FROM t",
    ],
)
def test_range_of_the_query(query: str) -> None:
    header = "CREATE INCREMENTAL VIEW v -- AS SELECT 0\n COMMENT 'AS SELECT \N{WATER WAVE}' SCHEDULE (ON DEMAND) AS"
    sql = f"{header} /* c */\n{query} -- end\n ; /* more */ "
    parsed = parse(sql)
    assert parsed.query is not None
    if "unclosed" in query:
        assert sql[parsed.query[0] :].startswith(query)
    else:
        assert sql[slice(*parsed.query)] == query
        assert isinstance(parsed.statement, Create)
        assert parsed.statement.query == query
    jvm = sql.encode("utf-16-le")
    start, stop = parsed.to_json(sql)["query"]
    assert jvm[2 * start : 2 * stop].decode("utf-16-le") == sql[slice(*parsed.query)]


def test_statements_without_a_query_have_no_range() -> None:
    assert parse("EXPLAIN INCREMENTAL VIEW v").query is None
    assert parse("REFRESH INCREMENTAL VIEW v").query is None


HISTORY = [
    *("run", "view", "point", "trigger", "kind", "reason", "methods", "rows_in", "rows_out", "started_at"),
    *("duration_ms", "cpu_ms", "jobs", "estimated_cost", "measured_cost", "state_bytes", "positions"),
    *("regret", "rows_read"),
]
VIEWS = [
    *("namespace", "viewName", "status", "policy", "lastRun", "lastOutputAt", "lastKind", "lastReason", "nextPointAt"),
    "lagSeconds",
]


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS SELECT 1", []),
        ("DROP INCREMENTAL VIEW v", []),
        ("REFRESH INCREMENTAL VIEW v", HISTORY),
        ("SHOW REFRESHES IN v", HISTORY),
        ("VERIFY INCREMENTAL VIEW v", ["matches", "missing", "unexpected"]),
        ("EXPLAIN INCREMENTAL SELECT 1", ["plan"]),
        ("SHOW CREATE INCREMENTAL VIEW v", ["createtab_stmt"]),
        ("SHOW INCREMENTAL VIEWS", VIEWS),
        ("DESCRIBE INCREMENTAL VIEW v", ["col_name", "data_type", "comment"]),
    ],
)
def test_columns(sql: str, names: list[str]) -> None:
    parsed = parse(sql)
    assert [column[0] for column in parsed.columns] == names
    json.dumps(parsed.to_json(sql))


@pytest.mark.parametrize(
    ("text", "size"), [("0", 0), ("10", 10), ("1b", 1), ("2GB", 2 << 30), (" 3kb ", 3072), ("1T", 1 << 40)]
)
def test_byte_string(text: str, size: int) -> None:
    assert byte_string(text) == size


@pytest.mark.parametrize("text", ["", "GB", "1.5GB", "-1", "1 GB", "1x"])
def test_not_a_byte_string(text: str) -> None:
    with pytest.raises(ValueError, match="not a size"):
        byte_string(text)
