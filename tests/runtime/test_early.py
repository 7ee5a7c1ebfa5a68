"""Runs without output: they do early work, the content stays, the next run with output builds upon what they did."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import Row, SparkSession

from tests.conftest import Oracle, early_work, files_under, location_of, newest_entry
from tidemill.cost.costing import CpuMs
from tidemill.search.keep import compaction
from tidemill.search.keep.compaction import Compaction

Refresh = Callable[..., Row]
SCHEDULE = "SCHEDULE (AT '08:00' COST 0.1 NO OUTPUT, AT '16:00' COST 0.2 NO OUTPUT, AT '24:00')"
QUERIES = {
    "groups": "SELECT cat, sum(price) AS s, count(*) AS n, avg(price) AS a FROM sales GROUP BY cat",
    "outer": """SELECT cat, sum(if(cost IS NULL, price, -cost)) AS gross
                FROM sales LEFT JOIN returns ON sales.o_id = returns.o_id GROUP BY cat""",
    "rows": "SELECT s.o_id, cat, price, cost FROM sales s FULL JOIN returns r ON s.o_id = r.o_id",
    "extremes": "SELECT cat, max(price) AS m, count(DISTINCT price) AS n FROM sales GROUP BY cat",
    "first rows": "SELECT o_id, price FROM sales ORDER BY price DESC, o_id LIMIT 3",
    "global": "SELECT count(*) AS n, sum(price) AS s FROM sales WHERE o_id NOT IN (SELECT o_id FROM returns)",
}
STEPS = (
    ("INSERT INTO sales VALUES ('o5','c2',300), ('o6','c1',150)", "INSERT INTO returns VALUES ('o2', 20)"),
    ("DELETE FROM sales WHERE o_id = 'o3'", "UPDATE returns SET cost = 11 WHERE o_id = 'o1'"),
    ("INSERT INTO returns VALUES ('o6', 15), ('o9', 1)", "INSERT INTO sales VALUES ('o7','c3',220), (NULL, NULL, 5)"),
    ("DELETE FROM returns WHERE o_id = 'o1'", "UPDATE sales SET price = price + 1 WHERE cat = 'c1'"),
    ("INSERT INTO sales VALUES ('o5','c2',301)",),
    ("DELETE FROM sales WHERE cat = 'c3' OR cat IS NULL",),
)


@pytest.fixture
def eager() -> Iterator[list[int]]:
    """How much each run without output does: all it can."""
    with early_work() as done:
        yield done


def changed(spark: SparkSession, number: int) -> None:
    for statement in STEPS[number % len(STEPS)]:
        spark.sql(statement)


def verified(spark: SparkSession, view: str) -> bool:
    return spark.sql(f"VERIFY INCREMENTAL VIEW {view}").first() == Row(matches=True, missing=0, unexpected=0)


@pytest.mark.parametrize(
    ("deferred", "queries"),
    [
        pytest.param(False, ["groups", "outer", "first rows"], id="filled", marks=pytest.mark.slow),
        pytest.param(False, ["rows", "extremes", "global"], id="filled too", marks=pytest.mark.slow),
        pytest.param(True, list(QUERIES), id="deferred", marks=pytest.mark.slow),
    ],
)
def test_early_work_is_built_upon(
    spark: SparkSession,
    sales: str,
    oracle: Oracle,
    refresh: Refresh,
    eager: list[int],
    deferred: bool,
    queries: list[str],
) -> None:
    """Two early runs and one with output, twice; the content stands still in between."""
    views = {f"v{i}": QUERIES[name] for i, name in enumerate(queries)}
    for view, query in views.items():
        initialize = "INITIALIZE DEFERRED" if deferred else ""
        spark.sql(f"CREATE INCREMENTAL VIEW {view} {SCHEDULE} {initialize} AS {query}")
    number, worked = 0, 0
    for cycle in range(2):
        for point in (1, 2, 3):
            changed(spark, number)
            number += 1
            for view, query in views.items():
                filled = not deferred or cycle > 0
                before = sorted(spark.table(view).collect(), key=str) if filled else None
                row = refresh(view, f"AT {point}")
                if point < 3:
                    assert (row.kind, row.rows_out) == ("PARTIAL", Row(inserts=0, deletes=0)), (view, row)
                    worked += row.jobs
                    assert row.jobs > 0 or row.cpu_ms == 0
                    if filled:
                        assert sorted(spark.table(view).collect(), key=str) == before
                        assert point == 1 or verified(spark, view)
                else:
                    assert row.kind in {"INCREMENTAL", "FULL"}, (view, row)
                    oracle(view, query)
                    assert verified(spark, view)
    assert worked > 0
    assert max(eager) > 1
    runs = [r.run for r in spark.sql("SHOW REFRESHES IN v0").collect()]
    assert runs == list(range(len(runs)))[::-1]


@pytest.mark.parametrize("first", [0, 1])
def test_states_of_early_work_are_compacted_once_it_is_built_upon(
    spark: SparkSession,
    sales: str,
    oracle: Oracle,
    refresh: Refresh,
    eager: list[int],
    monkeypatch: pytest.MonkeyPatch,
    first: int,
) -> None:
    """By the last step of the run with output: until then pieces before and after the content are read apart."""
    monkeypatch.setattr(
        compaction, "due", lambda pieces, *_: Compaction(first, 1, CpuMs(0.0)) if len(pieces) > 2 else None
    )
    spark.sql(f"CREATE INCREMENTAL VIEW v {SCHEDULE} REFRESH POLICY STRICT AS {QUERIES['outer']}")
    most = 0
    for number in range(5):
        for point in (1, 3):
            changed(spark, 2 * number + point)
            refresh("v", f"AT {point}")
            pieces = [len(state["pieces"]) for state in newest_entry(location_of(spark, "v"))["states"].values()]
            most = max([most, *pieces])
        oracle("v", QUERIES["outer"])
        assert verified(spark, "v")
    assert eager
    assert 3 <= most <= 4


def test_what_was_held_back_is_not_computed_again(
    spark: SparkSession, sales: str, oracle: Oracle, refresh: Refresh, eager: list[int]
) -> None:
    query = QUERIES["rows"]
    spark.sql(f"CREATE INCREMENTAL VIEW v {SCHEDULE} REFRESH POLICY STRICT AS {query}")
    changed(spark, 0)
    row = refresh("v", "AT 1")
    assert row.kind == "PARTIAL"
    assert "recompute" not in row.methods
    assert row.rows_in == Row(inserts=3, deletes=0)
    assert row.state_bytes > 0
    held = [f for f in files_under(location_of(spark, "v")) if f.startswith("_tidemill/delta/")]
    assert held
    changed(spark, 2)
    row = refresh("v")
    assert row.kind == "INCREMENTAL"
    assert newest_entry(location_of(spark, "v"))["held"] == []
    oracle("v", query)
    spark.sql("VACUUM INCREMENTAL VIEW v RETAIN 0 HOURS")
    changed(spark, 3)
    refresh("v")
    spark.sql("VACUUM INCREMENTAL VIEW v RETAIN 0 HOURS")
    assert not set(held) & set(files_under(location_of(spark, "v")))
    oracle("v", query)


def test_explain_shows_the_points_to_come(spark: SparkSession, sales: str, refresh: Refresh) -> None:
    def points(target: str) -> list[tuple[int, float, bool]]:
        shown = json.loads(spark.sql(f"EXPLAIN INCREMENTAL JSON {target}").collect()[0].plan)
        assert all(len(a["per_point"]) == len(shown["points"]) for a in shown["alternatives"])
        assert shown["points"][-1]["steps"]
        return [(p["point"], p["price"], p["output"]) for p in shown["points"]]

    create = f"CREATE INCREMENTAL VIEW v {SCHEDULE} AS {QUERIES['groups']}"
    assert points(create) == [(1, 0.1, False), (2, 0.2, False), (3, 1.0, True)]
    spark.sql(create)
    assert points("VIEW v") == [(1, 0.1, False), (2, 0.2, False), (3, 1.0, True)]
    for number, left in ((1, [(2, 0.2, False), (3, 1.0, True)]), (2, [(3, 1.0, True)])):
        changed(spark, number)
        assert refresh("v", f"AT {number}").kind == "PARTIAL"
        assert points("VIEW v") == left
    refresh("v")
    assert len(points("VIEW v")) == 3


@pytest.mark.slow
def test_a_vacuum_keeps_what_is_held_back(
    spark: SparkSession, sales: str, oracle: Oracle, refresh: Refresh, eager: list[int]
) -> None:
    for view in ("outer", "rows"):
        spark.sql(f"CREATE INCREMENTAL VIEW {view}_ {SCHEDULE} AS {QUERIES[view]}")
    for number in range(3):
        changed(spark, number)
        for view in ("outer_", "rows_"):
            refresh(view, "AT 1")
            spark.sql(f"VACUUM INCREMENTAL VIEW {view} RETAIN 0 HOURS")
    changed(spark, 3)
    for view in ("outer", "rows"):
        refresh(f"{view}_")
        oracle(f"{view}_", QUERIES[view])


@pytest.mark.parametrize("what", ["_tidemill/delta", pytest.param("_tidemill/state", marks=pytest.mark.slow)])
def test_early_work_that_is_lost_costs_only_itself(
    spark: SparkSession,
    sales: str,
    oracle: Oracle,
    refresh: Refresh,
    eager: list[int],
    what: str,
) -> None:
    query = QUERIES["outer"]
    spark.sql(f"CREATE INCREMENTAL VIEW v {SCHEDULE} AS {query}")
    changed(spark, 0)
    refresh("v", "AT 1")
    root = location_of(spark, "v")
    for name in files_under(root):
        if name.startswith(what):
            (root / name).unlink()
    changed(spark, 1)
    assert refresh("v", "AT 2").kind == "PARTIAL"
    changed(spark, 2)
    refresh("v")
    oracle("v", query)
    changed(spark, 3)
    assert refresh("v").kind == "INCREMENTAL"
    oracle("v", query)


@pytest.mark.parametrize(
    "statement",
    [
        "REFRESH INCREMENTAL VIEW v FULL",
        "REFRESH INCREMENTAL VIEW v AT 1 FULL",
        "ALTER INCREMENTAL VIEW v AS SELECT cat, sum(price) AS s, avg(price) AS a FROM sales GROUP BY cat",
        "CREATE OR REPLACE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS SELECT sum(price) AS s FROM sales GROUP BY cat",
    ],
)
def test_statements_between_an_early_run_and_the_due_one(
    spark: SparkSession, sales: str, oracle: Oracle, eager: list[int], refresh: Refresh, statement: str
) -> None:
    query = QUERIES["groups"]
    spark.sql(f"CREATE INCREMENTAL VIEW v {SCHEDULE} AS {query}")
    changed(spark, 0)
    refresh("v", "AT 1")
    changed(spark, 1)
    spark.sql(statement)
    query = statement.partition(" AS ")[2] or query
    query = query[query.index("SELECT") :]
    oracle("v", query)
    changed(spark, 2)
    refresh("v")
    oracle("v", query)


def test_early_work_that_pays_is_done(
    spark: SparkSession, db: str, oracle: Oracle, refresh: Refresh, jobs: Callable[..., int]
) -> None:
    """A view that is not filled yet: most of its first filling is done while work is cheap. At a price above that of
    the due run nothing is."""
    spark.sql("CREATE TABLE t (k BIGINT, v BIGINT) USING delta")
    spark.sql("INSERT INTO t SELECT id % 100, id FROM range(2000000)")
    query = "SELECT k, sum(v) AS s, avg(v) AS a FROM t GROUP BY k"
    for name, price in {"cheap": 0.01, "dear": 10}.items():
        schedule = f"SCHEDULE (AT '08:00' COST {price} NO OUTPUT, AT '24:00')"
        spark.sql(f"CREATE INCREMENTAL VIEW {name} {schedule} INITIALIZE DEFERRED AS {query}")
    early = {name: refresh(name, "AT 1") for name in ("cheap", "dear")}
    assert early["dear"].jobs == early["dear"].cpu_ms == 0
    assert early["cheap"].jobs > 0
    assert early["cheap"].rows_in == Row(inserts=2000000, deletes=0)
    spark.sql("INSERT INTO t SELECT id % 100, id FROM range(1000)")
    due = {name: refresh(name) for name in ("cheap", "dear")}
    for name in due:
        oracle(name, query)
    assert (due["cheap"].kind, due["cheap"].reason, due["dear"].kind) == ("INCREMENTAL", "FIRST", "FULL")
    assert due["cheap"].rows_in == Row(inserts=1000, deletes=0)
