"""Random graphs of views over views: whatever is refreshed in whatever order, each view equals its query."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from pyspark.sql import SparkSession

from tests.conftest import Oracle

BASES = ("t0", "t1", "t2")
"""Two Delta tables and a Parquet table, all (k INT, x BIGINT)."""
STEPS = 7
SEEDS = [int(os.environ["TIDEMILL_SEED"])] if "TIDEMILL_SEED" in os.environ else [3, 5]
SHAPES = (
    "SELECT k, x FROM {a} AS a WHERE x % 3 <> {n}",
    "SELECT k, sum(x) AS x FROM {a} AS a GROUP BY k",
    "SELECT CAST(x % 5 AS INT) AS k, count(*) AS x FROM {a} AS a GROUP BY CAST(x % 5 AS INT)",
    "SELECT DISTINCT k, x % 7 AS x FROM {a} AS a",
    "SELECT k, x FROM {a} AS a UNION ALL SELECT k, x + {n} FROM {b} AS b",
    "SELECT a.k, a.x + b.x AS x FROM {a} AS a JOIN (SELECT k, sum(x) AS x FROM {b} AS c GROUP BY k) AS b ON a.k = b.k",
    "SELECT a.k, coalesce(b.n, -1) AS x FROM {a} AS a"
    " LEFT JOIN (SELECT k, count(*) AS n FROM {b} AS c GROUP BY k) AS b ON a.k = b.k",
)


@dataclass(frozen=True)
class Node:
    """A view: its query reads `a` and `b`, tables or other views."""

    name: str
    shape: str
    a: str
    b: str
    n: int

    def query(self, text: Callable[[str], str]) -> str:
        return self.shape.format(a=text(self.a), b=text(self.b), n=self.n)


def graph(rng: random.Random) -> dict[str, Node]:
    """3 to 6 views; each reads what comes before it, later ones rather views than tables."""
    found: dict[str, Node] = {}
    for i in range(rng.randint(3, 6)):
        known = [*BASES, *found, *found]
        shape = rng.choice(SHAPES) if i else SHAPES[0]
        found[f"v{i}"] = Node(f"v{i}", shape, rng.choice(known), rng.choice(known), rng.randint(0, 2))
    return found


def expanded(views: dict[str, Node], name: str) -> str:
    """The query of a view over the base tables alone."""
    return views[name].query(lambda of: of if of in BASES else f"({expanded(views, of)})")


def rows(rng: random.Random, most: int) -> str:
    return ", ".join(
        f"({rng.choice([0, 1, 2, 3, 'NULL'])}, {rng.randint(-9, 30)})" for _ in range(rng.randint(1, most))
    )


def change(rng: random.Random) -> str:
    table = rng.choice(BASES)
    kind = "insert" if table == "t2" else rng.choice(["insert", "insert", "delete", "update", "everything"])
    match kind:
        case "insert":
            return f"INSERT INTO {table} VALUES {rows(rng, 3)}"
        case "delete":
            return f"DELETE FROM {table} WHERE x % 4 = {rng.randint(0, 3)}"
        case "update":
            return f"UPDATE {table} SET x = x + {rng.randint(1, 5)}, k = {rng.randint(0, 3)} WHERE x % 5 = 1"
        case _:
            return f"DELETE FROM {table}"


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_random_graphs(spark: SparkSession, db: str, oracle: Oracle, seed: int) -> None:
    rng = random.Random(seed)
    for table in BASES:
        spark.sql(f"CREATE TABLE {table} (k INT, x BIGINT) USING {'parquet' if table == 't2' else 'delta'}")
        spark.sql(f"INSERT INTO {table} VALUES {rows(rng, 6)}")
    views = graph(rng)
    for node in views.values():
        policy = rng.choice(["AUTO", "STRICT", "STRICT", "FULL"])
        clauses = f"SCHEDULE (ON DEMAND) REFRESH POLICY {policy}"
        spark.sql(f"CREATE INCREMENTAL VIEW {node.name} {clauses} AS {node.query(str)}")
    done: list[str] = [f"{v.name}: {v.query(str)}" for v in views.values()]

    def run(sql: str) -> None:
        done.append(sql)
        for row in spark.sql(sql).collect():
            # A full run tells the views above it what it changes: theirs need not be full for it, which STRICT forbids.
            assert "SOURCE_REWRITTEN" not in str(row.asDict().get("reason")), "\n".join([*done, str(row)])

    def check(view: str) -> None:
        row = spark.sql(f"VERIFY INCREMENTAL VIEW {view}").collect()[0]
        assert row.matches, "\n".join([*done, f"VERIFY {view}: {row}"])

    for _ in range(STEPS):
        for _ in range(rng.randint(1, 2)):
            run(change(rng))
        named = rng.choice([*views, f"v{len(views) - 1}"])
        full = "FULL" if rng.random() < 0.3 else ""
        if rng.random() < 0.4:
            run(f"REFRESH INCREMENTAL VIEW {named} {full} CASCADE")
            oracle(named, expanded(views, named))
        else:
            for view in sorted({named, *rng.sample(list(views), 2)}, key=lambda _: rng.random()):
                run(f"REFRESH INCREMENTAL VIEW {view} {full}")
                check(view)
        if rng.random() < 0.3:
            run(f"VACUUM INCREMENTAL VIEW {rng.choice(list(views))} RETAIN 0 HOURS")
        check(rng.choice(list(views)))
    last = f"v{len(views) - 1}"
    run(f"REFRESH INCREMENTAL VIEW {last} CASCADE")
    oracle(last, expanded(views, last))
    for view in views:
        check(view)
