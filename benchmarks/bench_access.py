"""What a refresh reads and costs as a table grows and its change does not: three views, as Parquet and as Delta.

`lookup`: facts with a dimension; the result has no key. `latest`: the newest row of each key, joined back. `window`:
facts, events and dimensions, with `lag` and `row_number` over each key's events. `--scale 1` has 400,000 facts and
800,000 events, and once more ten times as many. Changes have 100, 1,000 and 10,000 new facts, half as many again new
events, and a tenth as many updated facts. Each is compared with REFRESH ... FULL of the same view.
`--only "latest and parquet"`: a part of it.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any, TypeAlias

import pytest
from pyspark.sql import SparkSession
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.data import BUILD
from benchmarks.harness import ROUNDS, SCALE, fresh_session
from tidemill.calibrate.measure import Measure, Measured

FORMATS = ("parquet", "delta")
CHANGES = (100, 1_000, 10_000)
FULL_RUNS = 2
"""Full runs that are measured; there is one before them that compiles their code."""
QUERIES = {
    "lookup": "SELECT f_id, account, price * 2 AS twice, name FROM facts JOIN kinds USING (kind)",
    "latest": """SELECT e.f_id, e.ts, e.state, e.note
                 FROM events e JOIN (SELECT f_id, max(ts) AS ts
                 FROM events GROUP BY f_id) l ON e.f_id = l.f_id AND e.ts = l.ts""",
    "window": """SELECT f.f_id, f.account, k.name, f.price, e.e_id, e.ts, s.state_name, e.note,
                        lag(e.ts) OVER of_fact AS ts_before, row_number() OVER of_fact AS newest
                 FROM facts f JOIN events e ON f.f_id = e.f_id JOIN kinds k ON f.kind = k.kind
                      JOIN states s ON e.state = s.state
                 WINDOW of_fact AS (PARTITION BY f.f_id ORDER BY e.ts DESC)""",
}
START = "TIMESTAMP'2026-01-01'"
FEED = "TBLPROPERTIES (delta.enableChangeDataFeed = true)"


class Changes:
    """The changes of one table after the other: new rows behind the newest, updates spread over all."""

    def __init__(self, spark: SparkSession, facts: int) -> None:
        self._spark, self._facts, self._made = spark, facts, 0

    def apply(self, size: int) -> None:
        """`size` new facts, an event for each and half as many for older ones, `size` / 10 facts updated."""
        self._made += 1
        new = 10 * self._facts + 100_000 * self._made
        old = f"id * 7919 % {self._facts}"
        event = 30 * self._facts + 300_000 * self._made
        of = f"if(id < {event + size}, id - {event} + {new}, {old})"
        self._spark.sql(f"INSERT INTO facts {facts_of(new, new + size)}")
        self._spark.sql(f"INSERT INTO events {events_of(event, event + size * 3 // 2, of)}")
        step = self._facts // (size // 10)
        some = f"f_id < {self._facts} AND f_id % {step} = {self._made % step}"
        self._spark.sql(f"UPDATE facts SET price = price + 1 WHERE {some}")


Base: TypeAlias = tuple[SparkSession, int, Changes]


@pytest.fixture(scope="module", params=[1, 10], ids=["base", "tenfold"])
def base(request: pytest.FixtureRequest) -> Iterator[Base]:
    """A session with the tables, the number of facts in them, and what changes them."""
    spark = fresh_session(BUILD / "bench" / "access", {"spark.sql.session.timeZone": "UTC"})
    facts = max(20_000, int(400_000 * SCALE)) * int(request.param)
    load(spark, facts)
    yield spark, facts, Changes(spark, facts)
    spark.stop()


def load(spark: SparkSession, facts: int) -> None:
    spark.sql(f"CREATE TABLE facts USING delta {FEED} AS {facts_of(0, facts)}")
    spark.sql(f"CREATE TABLE events USING delta {FEED} AS {events_of(0, 2 * facts, f'id % {facts}')}")
    spark.sql(
        "CREATE TABLE kinds USING delta AS SELECT CAST(id AS INT) AS kind, concat('kind', id) AS name FROM range(97)"
    )
    spark.sql(
        "CREATE TABLE states USING delta AS "
        "SELECT CAST(id AS INT) AS state, concat('state', id) AS state_name FROM range(11)"
    )


def facts_of(first: int, last: int) -> str:
    return f"""SELECT id AS f_id, id % 5000 AS account, CAST(id % 97 AS INT) AS kind,
               CAST(id * 7 % 1000 AS DOUBLE) AS price,
                      {START} + make_dt_interval(0, 0, 0, id) AS ts FROM range({first}, {last})"""


def events_of(first: int, last: int, fact: str) -> str:
    return f"""SELECT id AS e_id, {fact} AS f_id, CAST(id % 11 AS INT) AS state,
                      {START} + make_dt_interval(0, 0, 0, id) AS ts,
                      CAST(id AS STRING) AS note FROM range({first}, {last})"""


@pytest.mark.parametrize("results", FORMATS)
@pytest.mark.parametrize("query", QUERIES)
def test_access(benchmark: BenchmarkFixture, base: Base, query: str, results: str) -> None:
    spark, facts, changes = base
    name = f"{query}_{results}"
    spark.sql(f"CREATE INCREMENTAL VIEW {name} USING {results} REFRESH POLICY INCREMENTAL AS {QUERIES[query]}")
    full = [run(spark, f"REFRESH INCREMENTAL VIEW {name} FULL") for _ in range(FULL_RUNS + 1)][1:]
    for size in CHANGES:  # compiles their code
        changes.apply(size)
        run(spark, f"REFRESH INCREMENTAL VIEW {name}")
    measured: list[dict[str, Any]] = []

    def refreshes() -> None:
        for size in CHANGES:
            for _ in range(ROUNDS):
                changes.apply(size)
                measured.append({"change": size, **figures(run(spark, f"REFRESH INCREMENTAL VIEW {name}"))})

    benchmark.pedantic(refreshes, rounds=1)
    row = spark.sql(f"VERIFY INCREMENTAL VIEW {name}").collect()[0]
    assert row.matches, f"{name}: {row.missing} rows missing, {row.unexpected} unexpected"
    assert {r.kind for r in spark.sql(f"SHOW REFRESHES IN {name} LIMIT {len(measured)}").collect()} == {"INCREMENTAL"}
    spark.sql(f"DROP INCREMENTAL VIEW {name}")
    of_full = {key: statistics.median(figures(one)[key] for one in full) for key in figures(full[0])}
    benchmark.extra_info.update(query=query, results=results, facts=facts, full=of_full, refreshes=measured)


def run(spark: SparkSession, statement: str) -> Measured:
    with Measure(spark) as measured:
        spark.sql(statement).collect()
    return measured


def figures(measured: Measured) -> dict[str, float]:
    return {
        "cpu_ms": measured.cpu_ms,
        "wall_ms": measured.wall_ms,
        "jobs": measured.jobs,
        "rows_read": measured.rows_read,
    }
