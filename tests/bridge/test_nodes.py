"""Wire nodes that the planner makes: each decodes to what the contract says of it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.bridge.codec import Call, Document, analyze, bag, operators, round_trip, rows, write

PAIRS = "SELECT k, v FROM VALUES (1, 10), (1, 11), (2, 20), (CAST(NULL AS INT), 30) AS t(k, v)"


@pytest.fixture(scope="module")
def pairs(call: Call) -> Document:
    """A query over constant rows: #0 = k, #1 = v."""
    return analyze(call, PAIRS)


def lit(value: Any, kind: str = "long") -> Document:
    return {"lit": value, "type": kind}


def fn(name: str, *args: Any) -> Document:
    return {"fn": name, "args": list(args)}


def col(column: int) -> Document:
    return {"col": column}


def renamed(document: Document) -> Document:
    """The query's tree once more, as columns #100 and #101."""
    return {"op": "project", "columns": [[100, col(0)], [101, col(1)]], "inputs": [document["root"]]}


def test_self_join(call: Call, pairs: Document) -> None:
    plan = {
        "op": "join", "kind": "inner", "condition": [fn("=", col(0), col(100))], "broadcast": "right",
        "inputs": [pairs["root"], renamed(pairs)],
    }  # fmt: skip
    found = rows(call, pairs, plan, [0, 1, 101])
    assert found == [[1, 10, 10], [1, 10, 11], [1, 11, 10], [1, 11, 11], [2, 20, 20]]


def test_columns_on_both_sides_are_refused(call: Call, pairs: Document) -> None:
    plan = {"op": "join", "kind": "inner", "condition": [], "broadcast": None, "inputs": [pairs["root"]] * 2}
    with pytest.raises(RuntimeError, match="both sides of a join have column #0"):
        rows(call, pairs, plan, [0])


def test_outer_join_is_nullable(call: Call) -> None:
    document = analyze(call, "SELECT a, a + 1 AS b FROM VALUES (1), (2) AS t(a)")
    columns = [c for c, _ in document["output"]]
    right = {"op": "project", "columns": [[100 + c, col(c)] for c in columns], "inputs": [document["root"]]}
    few = {"op": "filter", "condition": [fn("=", col(100), lit(2, "integer"))], "inputs": [right]}
    joined = {
        "op": "join", "kind": "left", "condition": [fn("=", col(columns[0]), col(100))], "broadcast": None,
        "inputs": [document["root"], few],
    }  # fmt: skip
    plan = {
        "op": "project",
        "columns": [[7, fn("coalesce", col(101), lit(-1, "integer"))], [8, col(101)]],
        "inputs": [joined],
    }
    assert sorted(rows(call, document, plan, [7, 8]), key=str) == [[-1, None], [3, 3]]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("semi", [[1, 10], [1, 11], [2, 20]]), ("anti", [[None, 30]]), ("full", None), ("right", None)],
)
def test_join_kinds(call: Call, pairs: Document, kind: str, expected: list[list[Any]] | None) -> None:
    plan = {
        "op": "join", "kind": kind, "condition": [fn("=", col(0), col(100))], "broadcast": None,
        "inputs": [pairs["root"], renamed(pairs)],
    }  # fmt: skip
    found = rows(call, pairs, plan, [0, 1])
    assert found == expected if expected else len(found) == {"full": 7, "right": 6}[kind]


def test_existence_join(call: Call, pairs: Document) -> None:
    few = {"op": "filter", "condition": [fn("=", col(100), lit(2, "integer"))], "inputs": [renamed(pairs)]}
    plan = {
        "op": "join", "kind": "existence", "exists": 7, "condition": [fn("=", col(0), col(100))], "broadcast": None,
        "inputs": [pairs["root"], few],
    }  # fmt: skip
    assert rows(call, pairs, plan, [1, 7]) == [[10, False], [11, False], [20, True], [30, False]]


def test_union_widens(call: Call, pairs: Document) -> None:
    wide = {"op": "project", "columns": [[9, {"cast": col(1), "to": "long"}]], "inputs": [pairs["root"]]}
    union = {"op": "union", "columns": [20], "from": [[1], [9]], "inputs": [pairs["root"], wide]}
    plan = {"op": "aggregate", "keys": [[20, col(20)]], "aggregates": [[21, fn("count", lit(1))]], "inputs": [union]}
    assert rows(call, pairs, plan, [20, 21]) == [[10, 2], [11, 2], [20, 2], [30, 2]]


def test_replicate(call: Call, pairs: Document) -> None:
    plan = {"op": "replicate", "count": fn("-", col(1), lit(10, "integer")), "inputs": [pairs["root"]]}
    assert Counter(v for (v,) in rows(call, pairs, plan, [1])) == {11: 1, 20: 10, 30: 20}


def test_replicate_any_number_of_times(call: Call, pairs: Document) -> None:
    """Never for NULL and below zero; so many times that one array does not hold them."""
    number = fn("*", fn("-", col(1), lit(20, "integer")), lit(100_001, "integer"))
    times = fn("if", fn("=", col(1), lit(10, "integer")), lit(None, "integer"), number)
    plan = {"op": "replicate", "count": times, "inputs": [pairs["root"]]}
    counted = {"op": "aggregate", "keys": [[1, col(1)]], "aggregates": [[50, fn("count", lit(1))]], "inputs": [plan]}
    assert rows(call, pairs, counted, [1, 50]) == [[30, 1_000_010]]


def test_empty(call: Call, pairs: Document) -> None:
    plan = {
        "op": "empty",
        "columns": [[0, "integer"], [50, {"type": "array", "elementType": "long", "containsNull": True}]],
    }
    assert rows(call, pairs, plan, [0, 50]) == []


def test_constant_keys_are_no_ordinals(call: Call, pairs: Document) -> None:
    counted = [[30, fn("count", lit(1))]]
    plan = {"op": "aggregate", "keys": [[31, lit(2, "integer")]], "aggregates": counted, "inputs": [pairs["root"]]}
    assert rows(call, pairs, plan, [31, 30]) == [[2, 4]]
    nothing = {"op": "filter", "condition": [lit(False, "boolean")], "inputs": [pairs["root"]]}
    assert rows(call, pairs, {**plan, "inputs": [nothing]}, [31, 30]) == []
    assert rows(call, pairs, {**plan, "keys": [], "inputs": [nothing]}, [30]) == [[0]]


def test_limit_with_order_and_offset(call: Call) -> None:
    text = "SELECT v * 2 AS w FROM VALUES (3), (1), (4), (5) AS t(v) ORDER BY v DESC LIMIT 2 OFFSET 1"
    document = analyze(call, text)
    assert not document["order_dropped"]
    assert operators(document["root"])["limit"] == 1
    assert not operators(document["root"])["sort"]
    assert rows(call, document, document["root"], [document["output"][0][0]]) == [[6], [8]]


def test_files_by_list(spark: SparkSession, call: Call, tmp_path: Path) -> None:
    """Only the listed files are read, no job is needed to know them, and paths come back as they were listed."""
    pairs = analyze(call, "SELECT CAST(id AS INT) AS k, CAST(id * 3 AS INT) AS v FROM range(0, 8, 1, 2)")
    folder = tmp_path / "a b%20c"
    columns = [[c, name] for (c, *_), name in zip(pairs["output"], "kv", strict=True)]
    answer = write(call, pairs, pairs["root"], folder, columns, files=2)
    assert answer["rows"] == 8
    assert len(answer["files"]) == 2
    assert not (folder / "_SUCCESS").exists()
    one = answer["files"][:1]
    node = {"op": "files", "paths": one, "columns": [[60, "k", "integer"], [61, "v", "integer"]], "path_column": 62}
    found = rows(call, pairs, node, [60, 61, 62])
    assert len(found) == 4
    assert {path for _, _, path in found} == {one[0]["path"]}
    sink = {"kind": "explain", "columns": [[60, "k"]]}
    explained = call("run", query=pairs["query"], plan=node, view="v", run=3, output="result", sink=sink)
    assert explained["jobs"] == 0
    assert "IncrementalOutput v, run 3, result" in explained["text"]


def test_one_file(call: Call, pairs: Document, tmp_path: Path) -> None:
    assert len(write(call, pairs, pairs["root"], tmp_path / "one", [[0, "k"]], files=1)["files"]) == 1


TWO_TASKS = "SELECT 1 AS k, v FROM VALUES (7), (14) AS t(v) UNION ALL SELECT 2, v FROM VALUES (21), (28) AS u(v)"
APART = {"spark.sql.unionOutputPartitioning": "false"}
"""Spark leaves the tasks of a union as they are."""


@pytest.mark.parametrize(
    ("text", "confs", "jobs"),
    [(PAIRS, {}, 0), (TWO_TASKS, APART, 1), ("SELECT id AS k, id * 7 + 7 AS v FROM range(4)", {}, 1)],
    ids=["one task", "two tasks", "a job"],
)
def test_observe(call: Call, text: str, confs: dict[str, str], jobs: int, tmp_path: Path) -> None:
    """In the driver, and by a job: also of few rows, where two tasks observe objects."""
    document = analyze(call, text)
    (_, v) = [column for column, _ in document["output"]]
    metrics = [
        ["total", fn("sum", col(v))],
        ["rows", fn("count", lit(1))],
        ["once", fn("tidemill_observed_sum", fn("+", col(v), lit(0)))],
        ["values", fn("tidemill_observed_values", col(v), lit(9))],
    ]
    plan = {"op": "observe", "name": "seen", "metrics": metrics, "inputs": [document["root"]]}
    answer = write(call, document, plan, tmp_path / "out", [[v, "v"]], confs=confs)
    found = sorted(value for (value,) in rows(call, document, document["root"], [v]))
    seen = answer["observed"]["seen"]
    wanted = {"total": sum(found), "rows": 4, "once": sum(found), "values": found}
    assert {**seen, "values": sorted(seen["values"])} == wanted
    assert answer["jobs"] == jobs


def test_failed_write_leaves_nothing(call: Call, pairs: Document, tmp_path: Path) -> None:
    broken = {"op": "project", "columns": [[5, fn("raise_error", lit("boom", "string"))]], "inputs": [pairs["root"]]}
    with pytest.raises(RuntimeError, match="boom"):
        write(call, pairs, broken, tmp_path / "out", [[5, "x"]])
    assert not (tmp_path / "out").exists()


def test_description_and_group_come_back(spark: SparkSession, call: Call, pairs: Document) -> None:
    context = spark.sparkContext
    context.setJobGroup("mine", "my description")
    try:
        rows(call, pairs, pairs["root"], [0])
        assert context.getLocalProperty("spark.job.description") == "my description"
        assert context.getLocalProperty("spark.jobGroup.id") == "mine"
    finally:
        for name in ("spark.job.description", "spark.jobGroup.id"):
            context._jsc.setLocalProperty(name, None)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT k, v, row_number() OVER (PARTITION BY k ORDER BY v) AS r FROM ({0})",
        "SELECT k, e FROM ({0}) LATERAL VIEW explode(array(v, v + 1)) AS e",
        "SELECT k, v, count(*) AS n FROM ({0}) GROUP BY ROLLUP (k, v)",
        "SELECT k, v FROM ({0}) WHERE v > (SELECT avg(v) FROM ({0}))",
        "SELECT k, (SELECT max(v) FROM ({0})) AS m FROM ({0})",
        "SELECT k, v FROM ({0}) WHERE k IN (SELECT k FROM ({0}) WHERE v > 10) OR v = 30",
        "SELECT a.k, (SELECT count(*) FROM ({0}) b WHERE b.k = a.k) AS n FROM ({0}) a",
        "SELECT k FROM ({0}) EXCEPT ALL SELECT k FROM ({0}) WHERE v = 11",
        "SELECT k FROM ({0}) INTERSECT SELECT k FROM ({0}) WHERE v < 20",
        "SELECT k, sum(v) FILTER (WHERE v > 10) AS s, count(DISTINCT v) AS d, avg(v) + k AS a FROM ({0}) GROUP BY k",
        "SELECT transform(collect_list(v), x -> x + 1) AS xs FROM ({0}) WHERE k = 2",
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT n FROM r",
        "WITH c AS (SELECT k, v FROM ({0})) SELECT * FROM c UNION ALL SELECT k, v + 0.5 FROM c",
        "SELECT k, k AS k2, v FROM ({0}) ORDER BY v",
        "SELECT 1 AS a, 'x' AS b",
        "SELECT k, v FROM ({0}) SORT BY v",
        "SELECT a.k, a.v, b.v AS w FROM ({0}) a LEFT JOIN ({0}) b ON a.k <=> b.k AND a.v < b.v",
        "SELECT * FROM ({0}) a JOIN LATERAL (SELECT b.v AS w FROM ({0}) b WHERE b.k = a.k)",
        "SELECT k, v FROM ({0}) WHERE k NOT IN (SELECT k FROM ({0}) WHERE k IS NOT NULL AND v = 20)",
        "SELECT k, first(v) OVER (PARTITION BY k ORDER BY v DESC) AS f FROM ({0}) WHERE k IS NOT NULL LIMIT 100",
        "SELECT DISTINCT k FROM ({0}) DISTRIBUTE BY k",
        "SELECT 5 AS c, count(*) AS n FROM ({0}) GROUP BY 1",
        "SELECT * FROM ({0}) PIVOT (sum(v) FOR k IN (1, 2))",
        "SELECT max(v) - min(v) AS d FROM ({0}) HAVING count(*) > (SELECT 3)",
    ],
)
def test_round_trip(spark: SparkSession, call: Call, tmp_path: Path, sql: str) -> None:
    text = sql.format(PAIRS)
    _, mine = round_trip(spark, call, text, tmp_path / "out")
    assert mine == bag(spark.sql(text))
