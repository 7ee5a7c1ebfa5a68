"""TPC-DS with the standard's parameters, under changes of the tables of facts and of all tables."""

from collections.abc import Sequence

from pyspark.sql import SparkSession

from benchmarks import texts, tpcds
from benchmarks.harness import Suite, ViewBench, parametrized

pytest_generate_tests = parametrized
SHARE = 0.01
"""Of the rows of a table that a round changes."""


def change_r(spark: SparkSession, seed: int) -> Sequence[str]:
    return *tpcds.facts(seed, SHARE), *tpcds.dimensions(spark, seed, SHARE)


class TestTpcds(ViewBench):
    suite = Suite(
        name="tpcds",
        files=tpcds.files,
        load=tpcds.load_delta,
        queries=texts.by_number(texts.tpcds()),
        changes={"F": lambda _, seed: tpcds.facts(seed, SHARE), "R": change_r},
        confs=tpcds.CONFS,
    )
