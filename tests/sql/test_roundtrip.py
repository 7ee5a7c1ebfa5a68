"""Properties: SHOW CREATE's text reads as the same statement, and the parser raises nothing but TidemillError."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.sql.test_statements import SCHEDULES, STATEMENTS
from tidemill.errors import TidemillError
from tidemill.search.contract.run_kinds import POLICIES
from tidemill.sql.codec import from_json, to_json
from tidemill.sql.parse import parse, read
from tidemill.sql.render import create_text, name_text, number_text, string_text
from tidemill.sql.statements import (
    AtProgress,
    AtTime,
    ColumnClause,
    Create,
    Cron,
    Every,
    Expectation,
    Iterate,
    OnChange,
    OnDemand,
    Point,
    Trigger,
    WorkBound,
)

part = st.text(min_size=1, max_size=6) | st.sampled_from(
    ["schedule", "if", "at", "on", "r", "1a", "a`b", "a.b", "size"]
)
name = st.lists(part, min_size=1, max_size=3).map(tuple)
text = st.text(max_size=12) | st.sampled_from(
    ["it's", 'a"b', "\\", "\\%", "/* x", "--", "\n", "\0" + "12", "`", "a\\'", "${a}"]
)
positive = st.integers(1, 10**12)
price = st.floats(0, 1e9, allow_subnormal=False)
query = st.sampled_from(
    [
        "SELECT 1",
        "SELECT ';' -- x\n, 2",
        "WITH a AS (SELECT 'AS') TABLE a",
        "FROM t /* ) */ |> WHERE x",
        "((VALUES (1)))",
    ]
)
triggers: st.SearchStrategy[Trigger] = st.one_of(
    st.just(OnDemand()),
    st.builds(OnChange, st.lists(name, max_size=3).map(tuple)),
    st.builds(OnChange, st.lists(name, max_size=3).map(tuple), positive, st.sampled_from(["ROWS", "FILES"])),
    st.builds(Every, st.integers(1, 3650), st.sampled_from(["SECONDS", "MINUTES", "HOURS", "DAYS"])),
    st.builds(Cron, st.sampled_from(["* * * * *", "*/5 0-3 1,15 JAN sun"]), st.sampled_from([None, "UTC", "+05:30"])),
    st.builds(AtProgress, st.floats(0.001, 100)),
)


@st.composite
def schedules(draw: st.DrawFn) -> tuple[Point, ...]:
    clock = [AtTime(second) for second in sorted(draw(st.sets(st.integers(0, 86400), max_size=3)))]
    chosen: list[Trigger] = [*draw(st.lists(triggers, max_size=2)), *clock, *draw(st.lists(triggers, max_size=1))]
    points = [Point(trigger, draw(price), draw(st.booleans())) for trigger in chosen]
    return (*points, Point(OnDemand(), draw(price)))


iterations = st.builds(
    Iterate,
    part,
    st.lists(part, min_size=1, max_size=3).map(tuple),
    st.booleans(),
    positive,
    query,
    query,
    *(st.none(), st.just(())),
    st.booleans(),
) | st.builds(Iterate, part, st.just(("a",)), st.booleans(), positive, query, query, query, st.just(("a", "b")))
expectations = st.builds(Expectation, name, positive, st.sampled_from(["DAY", "CYCLE"]), st.floats(0, 100)) | st.builds(
    Expectation, name
)
creates = st.builds(
    Create,
    name=name,
    schedule=schedules(),
    query=query | iterations,
    columns=st.lists(st.builds(ColumnClause, part, st.none() | text), max_size=3, unique_by=lambda c: c.name).map(
        tuple
    ),
    comment=st.none() | text,
    format=st.none() | st.sampled_from(["parquet", "delta", "org.x.Source"]),
    partitioned_by=st.lists(part, max_size=2).map(tuple),
    location=st.none() | text.filter(lambda value: bool(value.strip())),
    properties=st.lists(st.tuples(text, text), max_size=3, unique_by=lambda pair: pair[0]).map(tuple),
    work=st.none()
    | st.builds(WorkBound, st.just("FINAL"), st.floats(1e-6, 1))
    | st.builds(WorkBound, st.just("TOTAL"), st.floats(1, 100)),
    state_budget=st.none() | st.sampled_from(["0", "2GB", " 512m"]),
    expect=st.lists(expectations, max_size=3, unique_by=lambda e: e.table).map(tuple),
    policy=st.sampled_from(POLICIES),
    deferred=st.booleans(),
    or_replace=st.just(False),
    if_not_exists=st.booleans(),
)


@given(creates)
def test_rendered_statement_reads_the_same(statement: Create) -> None:
    rendered = create_text(statement)
    again, span, _ = read(rendered)
    assert again == statement
    if span is not None:
        assert rendered[slice(*span)] == statement.query
    assert from_json(json.loads(json.dumps(to_json(statement)))) == statement


@pytest.mark.parametrize("sql", [sql for sql, statement in STATEMENTS if isinstance(statement, Create)])
def test_written_statement_renders(sql: str) -> None:
    statement = read(sql)[0]
    assert isinstance(statement, Create)
    assert read(create_text(statement))[0] == statement


def test_text_of_show_create() -> None:
    sql = (
        "create incremental view if not exists db.`my view` (a comment 'it''s', b) using PARQUET tblproperties (x = 1)"
        " schedule (at '14:00' cost 0.25 no output, at '24:00:00' cost 1.0 output) initialize deferred comment 'c'"
        " refresh policy strict location '/p' as\n  select 1,\n  2 -- end\n;"
    )
    statement = parse(sql).statement
    assert isinstance(statement, Create)
    assert create_text(statement) == "\n".join(
        [
            r"CREATE INCREMENTAL VIEW IF NOT EXISTS db.`my view` (a COMMENT 'it\'s', b)",
            "COMMENT 'c'",
            "USING parquet",
            "LOCATION '/p'",
            "TBLPROPERTIES ('x' = '1')",
            "SCHEDULE (AT '14:00' COST 0.25 NO OUTPUT, AT '24:00')",
            "REFRESH POLICY STRICT",
            "INITIALIZE DEFERRED",
            "AS",
            "select 1,\n  2",
        ]
    )


@given(name, text, st.floats(0, 1e300))
def test_parts_read_the_same(names: tuple[str, ...], value: str, number: float) -> None:
    point = f"ON DEMAND COST {number_text(number)}"
    sql = f"CREATE INCREMENTAL VIEW {name_text(names)} COMMENT {string_text(value)} SCHEDULE ({point}) AS FROM t"
    statement = parse(sql).statement
    assert isinstance(statement, Create)
    assert (statement.name, statement.comment, statement.schedule[0].cost) == (names, value, number)


CORPUS = [
    *(sql for sql, _ in STATEMENTS),
    *(f"ALTER INCREMENTAL VIEW v SET SCHEDULE ({schedule})" for schedule, _ in SCHEDULES),
    *(
        line
        for line in (Path(__file__).parent / "refusals.txt").read_text(encoding="utf-8").split("\n")
        if "VIEW" in line
    ),
]
WORDS = sorted(
    {word for sql in CORPUS for word in sql.split()} | set("()'\"`;,.-/*\\\n<=") | {"/*", "*/", "--", "\u0663", "1e999"}
)


def check_total(sql: str) -> None:
    """Reading ends with a statement or a TidemillError that points into the text."""
    try:
        parsed = parse(sql)
    except TidemillError as error:
        json.dumps(error.envelope(sql))
        place = error.position
    else:
        json.dumps(parsed.to_json(sql))
        place = parsed.query or (0, 0)
    assert place is not None
    assert 0 <= place[0] <= place[1] <= len(sql)


@given(st.text(max_size=60))
@example("CREATE INCREMENTAL VIEW \N{ARABIC-INDIC DIGIT THREE} SCHEDULE (ON DEMAND) AS SELECT 1")
def test_any_text(sql: str) -> None:
    check_total(sql)


@given(st.lists(st.sampled_from(WORDS), max_size=25), st.sampled_from(["", " ", "\n"]))
def test_any_words(words: list[str], between: str) -> None:
    check_total(between.join(words))


@given(st.sampled_from(CORPUS), st.data())
def test_statements_with_a_part_replaced(sql: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(sql)))
    stop = data.draw(st.integers(start, min(len(sql), start + 12)))
    middle = data.draw(st.sampled_from(WORDS) | st.text(max_size=4))
    check_total(sql[:start] + middle + sql[stop:])


@pytest.mark.parametrize("piece", ["'", '"', "`", "/*", "(", "''", "a ", "\\", "- -", "$$", "'\\"])
def test_long_texts_are_read_in_time(piece: str) -> None:
    check_total("CREATE INCREMENTAL VIEW v COMMENT 'c' SCHEDULE (ON DEMAND) AS SELECT " + piece * 3000)
    check_total("REFRESH INCREMENTAL VIEW " + piece * 3000)
