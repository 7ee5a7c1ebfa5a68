"""The plan codec: analyse, send the same tree back, and get the same rows."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.bridge.codec import Call, Document, analyze, bag, operators, round_trip

HERE = Path(__file__).parent
GOLDEN = ["q01", "q03", "q04", "q13", "q15", "q21"]
TPCDS: Sequence[int] = range(1, 100)
"""All where TIDEMILL_QUERIES is "all", else twelve of them, by TIDEMILL_SEED."""
if os.environ.get("TIDEMILL_QUERIES") != "all":
    TPCDS = sorted(random.Random(os.environ.get("TIDEMILL_SEED", "1")).sample(TPCDS, 12))
# Quoted names in some TPC-DS texts.
TPCDS_CONFS = {"spark.sql.ansi.doubleQuotedIdentifiers": "true", "spark.sql.ansi.enabled": "true"}


@pytest.mark.parametrize("name", [f"q{n:02}" for n in range(1, 23)])
def test_tpch_round_trip(spark: SparkSession, call: Call, tpch: dict[str, str], tmp_path: Path, name: str) -> None:
    document, mine = round_trip(spark, call, tpch[name], tmp_path / "out", "tpch")
    spark.sql("USE tpch")
    try:
        assert mine == bag(spark.sql(tpch[name]))
    finally:
        spark.sql("USE default")
    assert document["order_dropped"] == ("order by" in tpch[name].lower() and "limit" not in tpch[name].lower())
    assert not any(document["findings"].values())


@pytest.mark.slow
@pytest.mark.parametrize("name", [f"q{n:02}" for n in TPCDS])
def test_tpcds_round_trip(spark: SparkSession, call: Call, tpcds: dict[str, str], tmp_path: Path, name: str) -> None:
    _, mine = round_trip(spark, call, tpcds[name], tmp_path / "out", "tpcds", TPCDS_CONFS)
    spark.sql("USE tpcds")
    before = {key: spark.conf.get(key, None) for key in TPCDS_CONFS}
    for key, value in TPCDS_CONFS.items():
        spark.conf.set(key, value)
    try:
        assert mine == bag(spark.sql(tpcds[name]))
    finally:
        for key, old in before.items():
            spark.conf.unset(key) if old is None else spark.conf.set(key, old)
        spark.sql("USE default")


@pytest.mark.parametrize("name", GOLDEN)
def test_golden(call: Call, tpch: dict[str, str], name: str) -> None:
    """The wire format itself; TIDEMILL_REWRITE=1 writes the files anew."""
    document = lasting(analyze(call, tpch[name], "tpch"))
    assert document == lasting(analyze(call, tpch[name], "tpch")), "the same text gave two documents"
    text = json.dumps(document, indent=1) + "\n"
    file = HERE / "golden" / f"{name}.json"
    if os.environ.get("TIDEMILL_REWRITE"):
        file.write_text(text)
    assert text == file.read_text()


def lasting(document: Document) -> Document:
    """A document without what differs from run to run: numbers of queries, places and sizes of tables."""
    kept = ("source", "kind", "format", "name", "fields", "partitions", "reason", "constant")
    sources = [{key: source.get(key) for key in kept} for source in document["sources"]]
    return {**document, "query": 0, "sources": sources}


def test_scans_list_only_what_is_read(call: Call, tpch: dict[str, str]) -> None:
    document = analyze(call, tpch["q06"], "tpch")
    assert operators(document["root"])["scan"] == 1
    scan = document["root"]
    while scan["inputs"]:
        scan = scan["inputs"][0]
        if scan["op"] == "scan":
            break
    fields = sorted(field for _, field in scan["columns"])
    assert fields == ["l_discount", "l_extendedprice", "l_quantity", "l_shipdate"]
