"""Exact sums of doubles: any order, any retraction, the same correctly rounded value."""

from __future__ import annotations

import base64
import math
import random
from decimal import Context, Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.bridge.codec import Call, Document, analyze, rows
from tests.bridge.test_nodes import col, fn, lit

Rows = list[tuple[int, float, int]]


def exact(spark: SparkSession, call: Call, path: Path, data: Rows) -> dict[int, tuple[Any, ...]]:
    """Per group: the value, the state, population variance; merged from two halves, and at once."""
    step = str(path)  # what did not fit into narrow buffers is remembered by step
    spark.createDataFrame(data, "g INT, x DOUBLE, n BIGINT").repartition(3).write.mode("overwrite").parquet(str(path))
    document = analyze(call, f"SELECT g, x, n FROM parquet.`{path}`")
    g, x, n = (c for c, _ in document["output"])
    states = [[10, fn("tidemill_exact_sum", col(x), col(n))], [11, fn("tidemill_exact_square_sum", col(x), col(n))]]
    states.append([12, fn("sum", col(n))])

    def aggregated(keys: list[list[Any]]) -> Document:
        return {"op": "aggregate", "keys": keys, "aggregates": states, "inputs": [document["root"]]}

    halves = aggregated([[g, col(g)], [13, fn("%", fn("abs", fn("hash", col(x))), lit(2, "integer"))]])
    merged: Document = {
        "op": "aggregate", "keys": [[g, col(g)]],
        "aggregates": [[20, fn("tidemill_exact_merge", col(10))], [21, fn("tidemill_exact_merge", col(11))],
                       [22, fn("sum", col(12))]],
        "inputs": [halves],
    }  # fmt: skip
    results = [
        [30, fn("tidemill_exact_value", col(20))],
        [31, col(20)],
        [32, fn("tidemill_exact_moment", col(22), col(20), col(21), lit("var_pop", "string"))],
    ]
    plan = {"op": "project", "columns": [[g, col(g)], *results], "inputs": [merged]}
    direct = {
        "op": "project", "columns": [[g, col(g)], [40, fn("tidemill_exact_value", col(10))], [41, col(10)]],
        "inputs": [aggregated([[g, col(g)]])],
    }  # fmt: skip
    found = {
        k: (value, state, variance) for k, value, state, variance in rows(call, document, plan, [g, 30, 31, 32], step)
    }
    for k, value, state in rows(call, document, direct, [g, 40, 41], step):
        assert found[k][:2] == (value, state), "merging two halves gave another state"
    return found


def test_random_sums(spark: SparkSession, call: Call, tmp_path: Path) -> None:
    dice = random.Random(1)
    data: Rows = []
    for group in range(60):
        span = dice.choice([1, 30, 300, 1020])
        for _ in range(dice.randint(1, 20)):
            x = math.ldexp(dice.uniform(-1, 1), dice.randint(-span, span))
            data.append((group, x, dice.choice([1, 1, -1, 3, -7, 2**60 + 1])))
        if dice.random() < 0.3:
            data += [(g, x, -n) for g, x, n in data if g == group]
    found = exact(spark, call, tmp_path / "t", data)
    for group in range(60):
        true = sum((Fraction(x) * n for g, x, n in data if g == group), Fraction(0))
        try:
            expected = true.numerator / true.denominator
        except OverflowError:
            expected = math.inf if true > 0 else -math.inf
        value = found[group][0]
        assert (float(value) if isinstance(value, str) else value) == expected
        if true == 0:
            assert found[group][1] == [[], 0, 0, 0]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ([(1e16, 1), (1.0, 1), (-1e16, 1)], 1.0),
        ([(1e308, 1), (1e308, 1), (-1e308, 1)], 1e308),
        ([(1e308, 1), (1e308, 1)], "Infinity"),
        ([(math.nan, 1), (1.0, 1)], "NaN"),
        ([(math.nan, 1), (1.0, 1), (math.nan, -1)], 1.0),
        ([(math.inf, 1), (-math.inf, 1)], "NaN"),
        ([(math.inf, 2), (-math.inf, 1), (-math.inf, -1)], "Infinity"),
        ([(-0.0, 1), (-0.0, 1)], 0.0),
        ([(5e-324, 3)], 1.5e-323),
    ],
)
def test_special_sums(
    spark: SparkSession, call: Call, tmp_path: Path, data: list[tuple[float, int]], expected: object
) -> None:
    found = exact(spark, call, tmp_path / "t", [(1, x, n) for x, n in data])
    assert found[1][0] == expected


def test_moments(spark: SparkSession, call: Call, tmp_path: Path) -> None:
    dice = random.Random(2)
    data: Rows = [(g, 1e9 + dice.random() if g else 1e9, 1) for g in range(3) for _ in range(50)]
    found = exact(spark, call, tmp_path / "t", data)
    assert found[0][2] == 0.0
    for group in (1, 2):
        values = [Fraction(x) for g, x, _ in data if g == group]
        mean = sum(values) / len(values)
        assert found[group][2] == pytest.approx(float(sum((v - mean) ** 2 for v in values) / len(values)), rel=1e-15)


def test_narrow_buffers_give_what_objects_give(spark: SparkSession, call: Call, tmp_path: Path) -> None:
    """Spark's own hash aggregation keeps sums that fit into four doubles; one that does not turns the whole step."""
    dice = random.Random(3)
    data: Rows = []
    for group in range(50):
        span = dice.choice([0, 3, 12])
        values = [math.ldexp(dice.uniform(-1, 1), dice.randint(-span, span)) for _ in range(dice.randint(1, 30))]
        data += [(group, x, dice.choice([1, 1, -1, 5])) for x in values]
    narrow = exact(spark, call, tmp_path / "narrow", data)
    objects = exact(spark, call, tmp_path / "objects", [*data, (99, math.nan, 1)])
    assert {g: found for g, found in objects.items() if g != 99} == narrow
    document = analyze(call, f"SELECT x, n FROM parquet.`{tmp_path / 'narrow'}`")
    x, n = (c for c, _ in document["output"])
    total = [[10, fn("tidemill_exact_sum", col(x), col(n))]]
    plan = {"op": "aggregate", "keys": [], "aggregates": total, "inputs": [document["root"]]}
    for name in ("narrow", "objects"):
        sink = {"kind": "explain", "columns": [[10, "total"]]}
        step = str(tmp_path / name)
        text = call("run", query=document["query"], plan=plan, view="v", run=0, output=step, sink=sink)["text"]
        assert ("ObjectHashAggregate" in text) == (name == "objects")


def test_a_void_attempt_leaves_no_file(spark: SparkSession, call: Call, tmp_path: Path) -> None:
    """NaN does not fit: the step is written again, and only the second attempt's files are there."""
    document = analyze(
        call, "SELECT CAST(id AS INT) AS g, IF(id = 7, DOUBLE('NaN'), 0.5D) AS x FROM range(0, 40, 1, 2)"
    )
    g, x = (c for c, _ in document["output"])
    total = [[10, fn("tidemill_exact_sum", col(x), lit(1))]]
    sums = {"op": "aggregate", "keys": [[g, col(g)]], "aggregates": total, "inputs": [document["root"]]}
    plan = {"op": "project", "columns": [[g, col(g)], [11, fn("tidemill_exact_value", col(10))]], "inputs": [sums]}
    path = tmp_path / "sums"
    sink = {"kind": "parquet", "path": str(path), "columns": [[g, "g"], [11, "s"]], "few": 0}
    step = str(tmp_path)
    answer = call("run", query=document["query"], plan=plan, view="v", run=0, output=step, sink=sink)
    assert {f["path"].rsplit("/", 1)[-1] for f in answer["files"]} == {f.name for f in path.glob("*.parquet")}
    assert answer["rows"] == spark.read.parquet(str(path)).count() == 40
    assert [row.g for row in spark.read.parquet(str(path)).where("isnan(s)").collect()] == [7]
    call("release", query=document["query"])


def test_wide_sums(spark: SparkSession, call: Call, tmp_path: Path) -> None:
    """Decimals of 38 digits times 2^62, in any order, are as Python adds them."""
    dice = random.Random(4)
    data = []
    for group in range(40):
        digits = dice.choice([1, 18, 19, 30, 38])
        for _ in range(dice.randint(1, 20)):
            x = dice.randint(-(10**digits) + 1, 10**digits - 1)
            data.append((group, Decimal(x).scaleb(-2, Context(prec=50)), dice.choice([1, -1, 3, 2**62, -(2**62)])))
    schema = "g INT, x DECIMAL(38, 2), n BIGINT"
    spark.createDataFrame(data, schema).repartition(3).write.parquet(str(tmp_path / "t"))
    document = analyze(call, f"SELECT g, x, n FROM parquet.`{tmp_path / 't'}`")
    g, x, n = (c for c, _ in document["output"])
    halves = {
        "op": "aggregate", "keys": [[g, col(g)], [13, fn("%", fn("abs", fn("hash", col(x))), lit(2, "integer"))]],
        "aggregates": [[10, fn("tidemill_wide_sum", col(x), col(n))]], "inputs": [document["root"]],
    }  # fmt: skip
    plan: Document = {
        "op": "aggregate", "keys": [[g, col(g)]], "aggregates": [[20, fn("tidemill_wide_merge", col(10))]],
        "inputs": [halves],
    }  # fmt: skip
    found = {k: int.from_bytes(base64.b64decode(sum_), signed=True) for k, sum_ in rows(call, document, plan, [g, 20])}
    for group in range(40):
        assert found[group] == sum(int(x.scaleb(2, Context(prec=50))) * n for g, x, n in data if g == group)
