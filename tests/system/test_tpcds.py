"""TPC-DS as Delta tables: all 99 queries under STRICT while all tables change.

TIDEMILL_QUERIES: numbers of queries, separated by commas, "all", or "any 12" by TIDEMILL_SEED; nothing is done
without it.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import duckdb
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from benchmarks import changes, tpcds
from tests.conftest import difference
from tests.system.tpcds import texts

SCALE = 0.01
CHOSEN = os.environ.get("TIDEMILL_QUERIES", "")
SEED = int(os.environ.get("TIDEMILL_SEED", "1"))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHOSEN, reason="takes as long as all else together: ./build.sh soak"),
]


@pytest.fixture
def session(spark: SparkSession, db: str) -> Iterator[SparkSession]:
    """The 24 tables in a database of the test, and the settings that the texts need."""
    tpcds.load_delta(spark, tpcds.files(SCALE))
    for name, value in tpcds.CONFS.items():
        spark.conf.set(name, value)
    yield spark
    for name in tpcds.CONFS:
        spark.conf.unset(name)


def wanted() -> dict[str, str]:
    with duckdb.connect() as connection:
        found = texts(connection)
    if CHOSEN == "all":
        return found
    if CHOSEN.startswith("any "):
        names = random.Random(SEED).sample(sorted(found), int(CHOSEN.removeprefix("any ")))
    else:
        names = [f"q{int(n):02}" for n in CHOSEN.split(",")]
    return {name: found[name] for name in names}


def test_all_queries_hold_under_strict(session: SparkSession) -> None:
    """Each equals its query after each round, has rows, and changes in at least two rounds of four."""
    queries, failures = wanted(), dict[str, str]()
    changed = Counter(dict.fromkeys(queries, 0))
    held: dict[str, Counter[Row]] = {}

    def step(round_: str, name: str) -> None:
        if round_ == "created":
            clauses = "SCHEDULE (ON DEMAND) REFRESH POLICY STRICT"
            session.sql(f"CREATE INCREMENTAL VIEW {name} {clauses} AS {queries[name]}")
        else:
            row = session.sql(f"REFRESH INCREMENTAL VIEW {name}").collect()[0]
            assert (row.kind, row.reason) in {("INCREMENTAL", None), ("NO_DATA", None)}, row
        missing, unexpected = difference(session, name, queries[name])
        assert (missing, unexpected) == (0, 0), f"{missing} rows missing, {unexpected} unexpected"
        now = Counter(session.table(name).collect())
        assert now, "it is empty"
        changed[name] += name in held and now != held[name]
        held[name] = now

    rounds: dict[str, Callable[[], Iterable[str]]] = {
        "created": tuple,
        "facts": lambda: tpcds.facts(1, 0.05),
        "all tables": lambda: (*tpcds.dimensions(session, 2, 0.02), *tpcds.facts(3, 0.03)),
        "facts gone and updated": lambda: tpcds.gone_and_other(4, 0.03),
        "all tables again": lambda: (*tpcds.facts(6, 0.03), *tpcds.dimensions(session, 7, 0.02)),
    }
    for round_, statements in rounds.items():
        changes.apply(session, statements())
        for name in queries.keys() - failures.keys():
            try:
                step(round_, name)
            except (AssertionError, PySparkException) as e:
                failures[name] = f"{round_}: {e}"
    lines = [f"{name}: {failures[name][:1000]}" for name in sorted(failures)]
    assert not failures, f"{len(failures)} of {len(queries)}\n" + "\n".join(lines)
    assert {n: c for n, c in changed.items() if c < 2} == {}, "these prove nothing: choose other parameters"
