"""Sums of decimals that are longs: exact, the same as Spark's own, and by generated code."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from tests.bridge.codec import Call, analyze, bag, unique, write

LONGS = (0, 1, -1, 2**31, -(2**31), 2**63 - 1, -(2**63), 10**18, None)
QUERIES = {
    "longs, as wide as they may get": "SELECT g, sum(CAST(x AS DECIMAL(38, 0))) AS s FROM {t} GROUP BY g",
    "longs that are never null": "SELECT g, sum(coalesce(CAST(x AS DECIMAL(38, 0)), 0)) AS s FROM {t} GROUP BY g",
    "decimals": "SELECT g, sum(d) AS s, sum(CAST(d AS DECIMAL(38, 2))) AS w FROM {t} GROUP BY g",
    "some of them": "SELECT g, sum(d) FILTER (WHERE x > 0) AS s, sum(if(x > 0, d, NULL)) AS i FROM {t} GROUP BY g",
    "small decimals, integers": "SELECT g, sum(CAST(i AS DECIMAL(20, 0))) AS s, sum(p) AS p FROM {t} GROUP BY g",
    "all": "SELECT sum(CAST(x AS DECIMAL(38, 0))) AS s, sum(d) AS d, count(*) AS n FROM {t}",
    "none": "SELECT sum(CAST(x AS DECIMAL(38, 0))) AS s, sum(d) AS d FROM {t} WHERE g > 100",
    "different ones": "SELECT g, sum(DISTINCT d) AS s, sum(d) AS t FROM {t} GROUP BY g",
    "no longs": "SELECT g, sum(CAST(x AS DECIMAL(38, 0)) * 2) AS s, sum(CAST(d AS DECIMAL(20, 1))) AS r FROM {t} "
    "GROUP BY g",
}


@pytest.fixture(scope="module")
def table(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    dice = Random(7)
    rows = []
    for i in range(5_000):
        x = dice.choice(LONGS) if dice.random() < 0.2 else dice.randrange(-(2**63), 2**63)
        d = None if dice.random() < 0.1 else Decimal(dice.randrange(-(10**18) + 1, 10**18)).scaleb(-2)
        rows.append((dice.randrange(9), x, d, dice.randrange(-(2**31), 2**31), Decimal(i).scaleb(-1)))
    path = tmp_path_factory.mktemp("longs") / "t"
    frame = spark.createDataFrame(rows, "g INT, x BIGINT, d DECIMAL(18, 2), i INT, p DECIMAL(7, 1)")
    frame.repartition(3).write.parquet(str(path))
    return f"parquet.`{path}`"


@pytest.mark.parametrize("compiled", ["true", "false"])
@pytest.mark.parametrize("name", QUERIES)
def test_the_same_as_sparks_sums(
    spark: SparkSession, call: Call, tmp_path: Path, table: str, name: str, compiled: str
) -> None:
    query = QUERIES[name].format(t=table)
    factory = "FALLBACK" if compiled == "true" else "NO_CODEGEN"
    confs = {"spark.sql.codegen.wholeStage": compiled, "spark.sql.codegen.factoryMode": factory}
    document = analyze(call, query)
    write(call, document, document["root"], tmp_path / "out", unique(document["output"]), confs=confs)
    assert bag(spark.read.parquet(str(tmp_path / "out"))) == bag(spark.sql(query))
    call("release", query=document["query"])


def test_sums_are_exact(spark: SparkSession, call: Call, tmp_path: Path, table: str) -> None:
    """Of longs whose sum is none, judged by Python."""
    query = QUERIES["longs, as wide as they may get"].format(t=table)
    document = analyze(call, query)
    write(call, document, document["root"], tmp_path / "out", unique(document["output"]))
    true: dict[int, int] = defaultdict(int)
    for g, x in spark.sql(f"SELECT g, x FROM {table} WHERE x IS NOT NULL").collect():
        true[g] += x
    found = {row[0]: int(row[1]) for row in spark.read.parquet(str(tmp_path / "out")).collect()}
    assert found == true
    assert max(map(abs, true.values())) >= 2**63
    call("release", query=document["query"])


@pytest.mark.parametrize(
    ("query", "ours"),
    [
        ("sum(d)", True),
        ("sum(CAST(x AS DECIMAL(38, 0)))", True),
        ("sum(coalesce(CAST(x AS DECIMAL(38, 0)), 0))", True),
        ("sum(CAST(i AS DECIMAL(20, 0)))", True),
        ("sum(if(x > 0, d, NULL))", True),
        ("sum(CAST(i AS DECIMAL(12, 2)))", True),
        ("sum(CAST(x AS DECIMAL(38, 0)) * 2)", False),
        ("sum(CAST(d AS DECIMAL(20, 1)))", False),
    ],
)
def test_generated_code_adds(call: Call, table: str, query: str, ours: bool) -> None:
    document = analyze(call, f"SELECT g, {query} AS s FROM {table} GROUP BY g")
    sink = {"kind": "explain", "columns": unique(document["output"])}
    request = {"query": document["query"], "plan": document["root"], "view": "v", "run": 0, "output": "result"}
    told = call("run", {"spark.sql.adaptive.enabled": "false"}, **request, sink=sink)
    plan = told["text"]
    assert ("partial_tidemill_long_sum" in plan) is ours
    assert any("*(" in line for line in plan.splitlines() if "partial_" in line), "generated code for the whole stage"
    call("release", query=document["query"])
