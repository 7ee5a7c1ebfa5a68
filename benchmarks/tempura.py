"""Tempura's experiments on two runs (section 8.2): its queries, patterns of arrival, objectives and methods."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

from pyspark.sql import SparkSession

from benchmarks import texts, tpcds
from tidemill.search.runs.task import PlanningTask
from tidemill.settings import PACKS, PlannerSettings

WRITTEN = " written"
QUERIES = ("10", "35", "40", "80", "93", f"10{WRITTEN}", f"35{WRITTEN}")
"""The paper's four that it names, and one more of joins with aggregates. Spark makes existence joins of two of them,
which were outer joins in the paper; so they come once more with outer joins that are written out."""
EXISTS = re.compile(
    r"EXISTS\s*\(\s*SELECT \*\s+FROM (\w+),\s+date_dim\s+WHERE c\.c_customer_sk = (\w+)\s+AND ([^()]*)\)"
)
FROM = re.compile(r"FROM customer c,\s+customer_address ca,\s+customer_demographics\s")
SALES = ("store_sales", "catalog_sales", "web_sales")
RETURNS = ("store_returns", "catalog_returns", "web_returns")
FACTS = SALES + RETURNS
UNREAD = ("inventory",)
Figures = Mapping[str, Any]
"""What was measured of a view in one round."""
ENOUGH = 3
"""Times that a plan is measured, as far as there are rounds for it."""
SAME = 1e-3
"""Estimates of one plan differ by less, found in one way or in another."""
LONG = 15.0
"""Seconds of a search whose estimates are compared: one that ends too early says nothing of the methods."""
BUCKETS = 60
"""Facts are dealt into so many by a hash of their key; a pattern takes some for each run."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """Which share of the facts is there at the first run, and of which facts how many are taken back by the second.

    `first`: buckets of the first run; the rest comes before the second. `retracted`: buckets of the first that go then.
    """

    name: str
    first: int
    retracted: Mapping[str, int]

    def later(self, table: str, rows: int) -> tuple[int, int]:
        """Inserts and deletes of a table of so many rows before the second run, as the planner is told them."""
        return rows * (BUCKETS - self.first) // BUCKETS, rows * self.retracted.get(table, 0) // BUCKETS


ARRIVALS = {
    a.name: a
    for a in (
        Arrival("1:1", 30, {}),
        Arrival("4:1", 48, {}),
        Arrival("2:1, sales retracted", 40, dict.fromkeys(SALES, 4)),
        Arrival("2:1, both retracted", 40, dict.fromkeys(FACTS, 4)),
    )
}


def text(query: str) -> str:
    """A query's text, as it is or with written outer joins."""
    number = int(query.removesuffix(WRITTEN))
    found = texts.tpcds()[f"q{number:02}"]
    return with_outer_joins(found) if query.endswith(WRITTEN) else found


def with_outer_joins(text: str) -> str:
    """The text of query 10 or 35 with an outer join in place of each EXISTS. ValueError if it has none."""
    joined: list[str] = []

    def known(found: re.Match[str]) -> str:
        table, key, condition = found.groups()
        rows = f"SELECT DISTINCT {key} FROM {table}, date_dim WHERE {condition}"
        joined.append(f"LEFT JOIN ({rows}) of_{table} ON c.c_customer_sk = of_{table}.{key}")
        return f"of_{table}.{key} IS NOT NULL"

    made = EXISTS.sub(known, text)
    if not joined:
        raise ValueError("no EXISTS")
    tables = "FROM customer c CROSS JOIN customer_address ca CROSS JOIN customer_demographics "
    return FROM.sub(tables + " ".join(joined) + " ", made)


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is minimised: the price of the first run, which has no output; or, without one, the second run's cost, both
    having output.

    `last`: the cost vector from the last run backwards instead of the price (the paper's c_v), the first run without
    output: so the states are chosen for the second run alone.
    """

    name: str
    price: float | None
    last: bool = False

    @property
    def clauses(self) -> str:
        if self.price is None:
            return "SCHEDULE (ON DEMAND)"
        return f"SCHEDULE (ON DEMAND COST {self.price} NO OUTPUT, ON DEMAND) INITIALIZE DEFERRED"

    @property
    def to_its_end(self) -> AbstractContextManager[object]:
        """The paper's problem ends with the last run, which keeps nothing for others; a view goes on."""
        if self.price is None:
            return nullcontext()
        return mock.patch.object(PlanningTask, "worth_keeping", return_value=frozenset())

    @property
    def confs(self) -> dict[str, str]:
        objective = "last" if self.last or self.price is None else "priced"
        # What `to_its_end` changes holds in the session's own process.
        return {"spark.tidemill.cost.objective": objective, "spark.tidemill.search.processes": "0"}

    def priced(self, first: float, last: float) -> float:
        """What the scenario counts of the costs of both runs; of the vector its most significant entry."""
        return last if self.last or self.price is None else self.price * first + last


SCENARIOS = {
    s.name: s
    for s in (Scenario("second", None), Scenario("c_v", 1.0, last=True), Scenario("0.3", 0.3), Scenario("0.7", 0.7))
}
ALL = "all"
RECOMPUTE = "recompute"
METHODS = {
    "IM-1": "delta",
    "IM-2": "positive_negative",
    "OJV": "outer_join_view",
    "HOV": "higher_order",
    RECOMPUTE: RECOMPUTE,
    ALL: None,
}
"""The paper's names of the packs, and to compute all anew at the last run. Each may use delta queries too, and
recompute a part: which of these, cost decides. So no method alone is worse than IM-1 for want of the others."""
POLICIES = {RECOMPUTE: "FULL", ALL: "AUTO"}
"""Of a method's views, if not INCREMENTAL."""


def packs(method: str) -> frozenset[str]:
    """The packs that a method's plans may use."""
    alone = METHODS[method]
    if alone is None:
        return frozenset(PACKS)
    return frozenset({RECOMPUTE} if alone == RECOMPUTE else {"delta", alone, RECOMPUTE})


def confs(scenario: Scenario, method: str) -> dict[str, str]:
    """The settings of a cell."""
    allowed = packs(method)
    return scenario.confs | {f"spark.tidemill.method.{pack}.enabled": str(pack in allowed).lower() for pack in PACKS}


def settings(known: PlannerSettings, method: str) -> PlannerSettings:
    """The planner's settings of a cell, from those of its scenario."""
    return replace(known, packs=packs(method), time_limit=LONG)


def alike(one: Figures, other: Figures) -> bool:
    """Whether two methods have the same plan for both runs, by what is known of them: estimates and numbers of jobs."""
    pairs = [(one[run], other[run]) for run in ("first", "last")]
    return all(mine is theirs if mine is None or theirs is None else _same(mine, theirs) for mine, theirs in pairs)


def _same(one: Figures, other: Figures) -> bool:
    estimates = [run["estimated_cost"] or 0.0 for run in (one, other)]
    return one["jobs"] == other["jobs"] and math.isclose(*estimates, rel_tol=SAME)


def expected(arrival: Arrival, rows: Mapping[str, int], text: str) -> str:
    """The clause that says what comes until the second run, of the tables that a query's text names."""
    told = []
    for table in (t.name for t in tpcds.TABLES):
        if not re.search(rf"\b{table}\b", text):
            continue
        inserts, deletes = arrival.later(table, rows[table]) if table in FACTS else (0, 0)
        share = f" WITH {round(100 * deletes / (inserts + deletes))} PERCENT DELETES" if deletes else ""
        told.append(f"{table} {inserts + deletes} ROWS{share}")
    return f"EXPECT ({', '.join(told)})"


def load(spark: SparkSession, folder: Path, arrival: Arrival) -> dict[str, int]:
    """Creates the tables of a pattern in the current database as they are at the first run; rows of the facts in all.

    Sales and returns are dealt apart: returns come before their sales and after them.
    """
    counts = {}
    for table in tpcds.TABLES:
        if table.name in UNREAD:
            continue
        rows = f"SELECT * FROM parquet.`{folder / table.name}.parquet`"
        if table.name in FACTS:
            counts[table.name] = spark.sql(rows).count()
            rows += f" WHERE {_bucket(table.key)} < {arrival.first}"
        feed = "TBLPROPERTIES (delta.enableChangeDataFeed = true)"
        spark.sql(f"CREATE TABLE {table.name} USING delta {feed} AS {rows}")
    return counts


def warm_up(spark: SparkSession) -> None:
    """Runs the queries, so that no method is the first to read the tables."""
    for query in QUERIES:
        for _ in range(2):
            spark.sql(text(query)).collect()


def second(spark: SparkSession, folder: Path, arrival: Arrival) -> None:
    """What happens to the tables before the second run."""
    for table in tpcds.TABLES:
        if table.name in FACTS:
            bucket = _bucket(table.key)
            if gone := arrival.retracted.get(table.name, 0):
                spark.sql(f"DELETE FROM {table.name} WHERE {bucket} < {gone}")
            rows = f"SELECT * FROM parquet.`{folder / table.name}.parquet` WHERE {bucket} >= {arrival.first}"
            spark.sql(f"INSERT INTO {table.name} {rows}")


def _bucket(key: tuple[str, ...]) -> str:
    return f"pmod(xxhash64({', '.join(key)}), {BUCKETS})"
