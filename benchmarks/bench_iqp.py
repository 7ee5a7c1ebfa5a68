"""What a budget of kept states buys, after IQP's experiments: TPC-H under budgets, tables that are cleaned one after
another, and shares of deletes.

`budgets`: a view per query and budget, from none to all that the view would keep, over the same changes. `cleaning`:
one table changes at a time; of two views one is told by SET EXPECT which table is next. `deletes`: changes of one size,
of which more and more are deletes. Each view is verified after each refresh. `chosen` and `kinds` run nothing: they
compare, by estimate, the states that others would choose, and states of one kind alone (`benchmarks/states.py`).
"""

import json
import os
from collections.abc import Iterable, Iterator
from statistics import median
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks import changes, states, texts
from benchmarks.data import BUILD, load_delta, tpch_files
from benchmarks.harness import ROUNDS, SCALE, WARM_UP, fresh_session, result, settle
from benchmarks.planning import requested
from tidemill.calibrate.measure import Measure

FOLDER = BUILD / "bench" / "iqp"
TEXTS = texts.by_number(texts.standard("tpch"))
ASKED = tuple(map(int, filter(None, os.environ.get("TIDEMILL_BENCH_QUERIES", "").split(","))))
CHOSEN = ASKED or (3, 7, 8, 9)
PLANNED = ASKED or states.QUERIES
BUDGETS = {"0": 0, "1MB": 1 << 20, "8MB": 8 << 20}
SHARES = (1 / 16, 1 / 4)
"""More budgets, as shares of what a view without budget keeps."""
LAST = 4
"""Last rounds of which medians are told apart: by then AUTO has tried what it was not sure of."""
CLEANED = ("lineitem", "orders", "customer", "supplier", "part")
CLEANED_QUERY = 8
CHANGE = 0.01


@pytest.fixture(scope="module")
def tables() -> Iterator[SparkSession]:
    session = fresh_session(FOLDER, {})
    load_delta(session, tpch_files(SCALE))
    yield session
    session.stop()


@pytest.fixture(scope="module")
def spark(tables: SparkSession) -> SparkSession:
    for _ in range(WARM_UP):
        for number in CHOSEN:
            recomputed(tables, number)
    return tables


@pytest.fixture(scope="module")
def cases(tables: SparkSession) -> dict[int, states.Case]:
    """The choice of states of each query's view, as CREATE asks for it."""
    statement = "CREATE INCREMENTAL VIEW planned SCHEDULE (ON DEMAND) AS"
    return {number: states.Case(requested(tables, f"{statement} {TEXTS[number]}")) for number in PLANNED}


def changed(spark: SparkSession, statements: Iterable[str]) -> None:
    changes.apply(spark, statements)
    settle(spark)


def recomputed(spark: SparkSession, number: int) -> float:
    """CPU milliseconds of the query with its result written."""
    with Measure(spark) as measured:
        result(spark, TEXTS[number]).write.mode("overwrite").parquet(str(FOLDER / "recomputed" / f"q{number}"))
    return measured.cpu_ms


def create(spark: SparkSession, name: str, number: int, clauses: str = "") -> Row:
    """A view; its first row."""
    spark.sql(f"CREATE INCREMENTAL VIEW {name} SCHEDULE (ON DEMAND) {clauses} AS {TEXTS[number]}")
    return spark.sql(f"SHOW REFRESHES IN {name}").collect()[0]


def refreshed(spark: SparkSession, name: str) -> Row:
    row: Row = spark.sql(f"REFRESH INCREMENTAL VIEW {name}").collect()[0]
    assert spark.sql(f"VERIFY INCREMENTAL VIEW {name}").collect()[0].matches, name
    return row


def estimated(spark: SparkSession, name: str, budget: int) -> float | None:
    """The cost of a likely run with the best states of so many bytes, as the choice of the states found it."""
    document = json.loads(spark.sql(f"EXPLAIN INCREMENTAL JSON VIEW {name}").collect()[0].plan)
    costs = [point["cost"] for point in document["budgets"] if point["bytes"] <= budget]
    return min(costs, default=None)


@pytest.mark.parametrize("number", PLANNED, ids=[f"q{n}" for n in PLANNED])
@pytest.mark.parametrize("part", ["chosen", "kinds"])
def test_states(benchmark: BenchmarkFixture, cases: dict[int, states.Case], part: str, number: int) -> None:
    case = cases[number]
    rows = benchmark.pedantic(case.budgets if part == "chosen" else case.kinds, rounds=1)
    benchmark.extra_info.update(part=part, query=number, rows=[{"query": number, **row} for row in rows])


@pytest.mark.parametrize("number", CHOSEN, ids=[f"q{n}" for n in CHOSEN])
def test_budgets(benchmark: BenchmarkFixture, spark: SparkSession, number: int) -> None:
    free = f"q{number}_free"
    most = create(spark, free, number).state_bytes
    sizes = {**BUDGETS, **{str(round(share * most)): round(share * most) for share in SHARES}}
    said = sorted(sizes, key=lambda size: sizes[size])
    budgets = {f"q{number}_{n}": sizes[size] for n, size in enumerate(said)}
    for name, size in zip(budgets, said, strict=True):
        create(spark, name, number, f"STATE BUDGET '{size}'")
    names, rows, full = [*budgets, free], dict[str, list[Row]](), []
    for n in range(ROUNDS + 1):
        changed(spark, changes.change_f(200 + n, CHANGE))
        cost = recomputed(spark, number)
        for name in names:
            rows.setdefault(name, []).append(refreshed(spark, name))
        full += [cost] if n else []
    for name, budget in budgets.items():
        assert all(row.state_bytes <= budget for row in spark.sql(f"SHOW REFRESHES IN {name}").collect())
    benchmark.pedantic(lambda: None, rounds=1)
    benchmark.extra_info.update(
        part="budgets",
        query=number,
        rows=[
            {
                "query": number,
                "share": "none" if name == free else f"{budgets[name] / max(1, most):.2f}",
                "budget": None if name == free else budgets[name],
                "state_bytes": max(row.state_bytes for row in rows[name]),
                "estimated_ms": estimated(spark, name, budgets.get(name, 1 << 62)),
                "cpu_ms": median(row.cpu_ms for row in rows[name][1:]),
                "full_ms": median(full),
                "last_ms": median(row.cpu_ms for row in rows[name][-LAST:]),
                "last_full_ms": median(full[-LAST:]),
                "kinds": " ".join(sorted({row.kind for row in rows[name][-LAST:]})),
            }
            for name in names
        ],
    )


def test_cleaning(benchmark: BenchmarkFixture, spark: SparkSession) -> None:
    create(spark, "told", CLEANED_QUERY)
    create(spark, "untold", CLEANED_QUERY)
    figures: list[dict[str, Any]] = []
    for cleaned in CLEANED:
        told = ", ".join(f"{t} {1000 if t == cleaned else 0} ROWS" for t in CLEANED)
        spark.sql(f"ALTER INCREMENTAL VIEW told SET EXPECT ({told})")
        rows: dict[str, list[Row]] = {"told": [], "untold": []}
        full = []
        for n in range(ROUNDS + 2):
            changed(spark, [changes.update(changes.TABLES[cleaned], 300 + n, CHANGE)])
            full.append(recomputed(spark, CLEANED_QUERY))
            for name, found in rows.items():
                found.append(refreshed(spark, name))
        figures.append(
            {
                "table": cleaned,
                "first_ms": rows["told"][0].cpu_ms,
                "told_ms": median(row.cpu_ms for row in rows["told"][2:]),
                "untold_ms": median(row.cpu_ms for row in rows["untold"][2:]),
                "full_ms": median(full[2:]),
                "told_bytes": rows["told"][-1].state_bytes,
                "untold_bytes": rows["untold"][-1].state_bytes,
            }
        )
    benchmark.pedantic(lambda: None, rounds=1)
    benchmark.extra_info.update(part="cleaning", rows=figures)


@pytest.mark.parametrize("number", CHOSEN, ids=[f"q{n}" for n in CHOSEN])
def test_deletes(benchmark: BenchmarkFixture, spark: SparkSession, number: int) -> None:
    name = f"d{number}"
    create(spark, name, number)
    figures = []
    for n, share in enumerate((0.0, 0.25, 0.5, 0.75, 1.0)):
        cpu, full = [], []
        for again in range(ROUNDS + 1):
            seed = 400 + 10 * n + again
            some = [*changes.inserts(seed, CHANGE * (1 - share))] if share < 1 else []
            changed(spark, [*some, *(changes.deletes(seed + 5, CHANGE * share) if share else [])])
            full.append(recomputed(spark, number))
            cpu.append(refreshed(spark, name).cpu_ms)
        figures.append(
            {"query": number, "share": f"{share:.2f}", "cpu_ms": median(cpu[1:]), "full_ms": median(full[1:])}
        )
    benchmark.pedantic(lambda: None, rounds=1)
    benchmark.extra_info.update(part="deletes", rows=figures)
