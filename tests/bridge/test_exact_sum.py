"""Exact sums of doubles: any order, any retraction, the same correctly rounded value."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.bridge.codec import Call, Document, analyze, rows
from tests.bridge.test_nodes import col, fn, lit

Rows = list[tuple[int, float, int]]


def exact(spark: SparkSession, call: Call, path: Path, data: Rows) -> dict[int, tuple[Any, ...]]:
    """Per group: the value, the state, the value merged from two halves, population variance."""
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
    found = {k: (value, state, variance) for k, value, state, variance in rows(call, document, plan, [g, 30, 31, 32])}
    for k, value, state in rows(call, document, direct, [g, 40, 41]):
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
