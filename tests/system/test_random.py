"""Random views over random changes, each method preferred in turn and switched off at random: results never change.

TIDEMILL_EXAMPLES: how many examples; TIDEMILL_SEED: another seed gives other examples, the same one the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, note, seed, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from tests.conftest import COSTS, free, ordered, packs
from tests.system.bags import Values, compare, contents, net_change
from tests.system.changes import SQL_TYPES, Scenario, insert, scenarios, values
from tests.system.queries import COLUMNS, PLAIN_VIEWS, Query, queries
from tidemill.cost import costing
from tidemill.runtime.content import apply, jobs, mark
from tidemill.search.keep import wanted as wanted_states
from tidemill.search.space import orders
from tidemill.settings import PACKS
from tidemill.sources.clock_source import ClockSource

SEED = int(os.environ.get("TIDEMILL_SEED", "20260"))
EXAMPLES = int(os.environ.get("TIDEMILL_EXAMPLES", "0"))
FEW, MANY = EXAMPLES or 1, EXAMPLES or 4
PAIRS = 25
PARTS = 8
DATABASE = "random_views"
ZONE = "spark.sql.session.timeZone"


@dataclass(frozen=True, slots=True)
class Mode:
    """Under which policy a view lives, and per round the pack preferred and the packs switched off."""

    policy: str
    prefer: tuple[str | None, ...]
    disabled: tuple[frozenset[str], ...]

    @property
    def changing(self) -> bool:
        """Some round has another choice of packs than the filling, which has them all."""
        return any(self.prefer) or any(self.disabled)


@st.composite
def modes(draw: st.DrawFn, rounds: int) -> Mode:
    policy = draw(st.sampled_from(["STRICT", "STRICT", "AUTO"]))
    prefer = tuple(draw(st.sampled_from([None, *PACKS])) for _ in range(rounds))
    optional = [p for p in PACKS if p != "recompute"]
    off = st.sets(st.sampled_from(optional), max_size=3) if policy == "AUTO" else st.just(set())
    disabled = tuple(frozenset(draw(off)) - {p} for p in prefer)
    return Mode(policy, prefer, disabled)


ROUNDS = 3
CASES = st.tuples(scenarios(ROUNDS), st.lists(st.tuples(queries(), modes(ROUNDS)), min_size=3, max_size=5))


@dataclass
class Kept:
    """A view under test and its content after the last run."""

    name: str
    query: Query
    mode: Mode
    content: list[Values] = field(default_factory=list)


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> Iterator[str]:
    """`f` (Delta with change feed), `g` (Delta without), `p` (Parquet) in a database of their own."""
    spark.sql(f"DROP DATABASE IF EXISTS {DATABASE} CASCADE")
    spark.sql(f"CREATE DATABASE {DATABASE}")
    spark.sql(f"USE {DATABASE}")
    columns = ", ".join(f"{c} {SQL_TYPES[t]}" for c, t in COLUMNS.items())
    feed = "TBLPROPERTIES (delta.enableChangeDataFeed = true)"
    spark.sql(f"CREATE TABLE f ({columns}) USING delta {feed}")
    spark.sql(f"CREATE TABLE g ({columns}) USING delta")
    spark.sql(f"CREATE TABLE p ({columns}) USING parquet")
    hours = "timestamp_seconds(unix_date(t) * 86400 + pmod(coalesce(x, 0), 24) * 3600)"
    for name, zone in zip(PLAIN_VIEWS, ("UTC", "America/Los_Angeles"), strict=True):
        spark.conf.set(ZONE, zone)
        spark.sql(f"CREATE VIEW {name} AS SELECT k, x, s, m, d, CAST({hours} AS DATE) AS t, c, n, w FROM f")
    spark.conf.set(ZONE, "UTC")
    yield DATABASE
    spark.sql("USE default")
    spark.sql(f"DROP DATABASE {DATABASE} CASCADE")


MIDNIGHTS = ("2024-02-28", "2024-03-01", "2024-03-01", "2024-02-29", "2026-01-01")
"""What the clock shows when views are made, and in each round; it may be put back."""


def now(number: int) -> int:
    """The clock in a round (0: when views are made), as sources ask for it."""
    day = datetime.fromisoformat(MIDNIGHTS[number % len(MIDNIGHTS)]).replace(tzinfo=UTC)
    return round(day.timestamp()) * 1_000_000 + number


def run(spark: SparkSession, scenario: Scenario, wanted: list[tuple[Query, Mode]]) -> None:
    """One example: tables filled, views made, rounds of changes, each followed by a refresh and a comparison."""
    for table, rows in scenario.rows.items():
        spark.sql(f"INSERT OVERWRITE {table} {values(list(rows))}")
        note(insert(table, rows))
    views: list[Kept] = []
    # States and results are small here: every other example treats them as if they were big.
    thresholds = ExitStack()
    clock = thresholds.enter_context(mock.patch.object(ClockSource, "now", return_value=now(0)))
    if len(wanted[0][0].text) % 2:
        thresholds.enter_context(mock.patch.object(costing, "TOUCHED_FROM_ROWS", 0))
        thresholds.enter_context(mock.patch.object(orders, "LOOK_UP_FROM_ROWS", 0))
        thresholds.enter_context(mock.patch.object(wanted_states, "worth_ordering", ordered))
        thresholds.enter_context(mock.patch.object(apply, "SMALL_RESULT_BYTES", 0))
        thresholds.enter_context(mock.patch.object(mark, "FEW_MARKED", 1))
        # Some tasks have as many rows as this in what a step writes, some more, some fewer.
        thresholds.enter_context(mock.patch.object(jobs, "FEW_ROWS", len(scenario.rounds[0]) * 4))
        spark.conf.set(COSTS, free("exchange"))
        thresholds.callback(spark.conf.unset, COSTS)
    try:
        for i, (query, mode) in enumerate(wanted):
            view = Kept(f"v{i}", query, mode)
            kind = "delta" if i % 3 == 1 and storable(spark, query) else "parquet"
            statement = (
                f"CREATE INCREMENTAL VIEW v{i} USING {kind} SCHEDULE (ON DEMAND) REFRESH POLICY {mode.policy} AS "
                f"{query.text}"
            )
            note(f"{statement}\n    {mode}")
            spark.sql(statement)
            views.append(view)
            check(spark, view, None, 0)
        for number, statements in enumerate(scenario.rounds):
            clock.return_value = now(number + 1)
            for statement in statements:
                note(statement)
                spark.sql(statement)
            for view in views:
                with packs(spark, view.mode.prefer[number], view.mode.disabled[number]):
                    row = spark.sql(f"REFRESH INCREMENTAL VIEW {view.name}").first()
                note(f"{view.name}: {row}")
                check(spark, view, row, number + 1)
    finally:
        thresholds.close()
        for i in range(len(wanted)):
            spark.sql(f"DROP INCREMENTAL VIEW IF EXISTS v{i}")


def storable(spark: SparkSession, query: Query) -> bool:
    """True if Delta stores the columns of a query: no strings with a collation, and no intervals."""
    schema = spark.sql(query.text).schema.json().lower()
    return "collat" not in schema and "interval" not in schema


def check(spark: SparkSession, view: Kept, row: Row | None, number: int) -> None:
    """The view equals its query, and the run's row says what happened. `row`: None for the first run."""
    query = view.query.checked.replace("current_date()", f"DATE'{MIDNIGHTS[number % len(MIDNIGHTS)]}'")
    held, wanted = contents(spark, view.name, query, len(view.query.inexact))
    difference = compare(held, wanted, view.query.inexact)
    assert not difference, f"{view.name}: {difference}"
    before, view.content, mode = view.content, held, view.mode
    if row is None:
        return
    inserts, deletes = net_change(before, held)
    if row.kind == "NO_DATA":
        assert (inserts, deletes, row.jobs) == (0, 0, 0)
        return
    assert row.jobs > 0
    # Made anew: a state that a round without its packs gave up.
    lost = mode.changing and row.reason is not None and row.reason.startswith("STATE_LOST: ")
    if row.kind == "INCREMENTAL":
        assert row.reason is None or lost
        assert (row.rows_out.inserts, row.rows_out.deletes) == (inserts, deletes)
        allowed = {*PACKS} - (mode.disabled[0] if len(set(mode.disabled)) == 1 else frozenset())
        assert set(row.methods) <= allowed
    else:
        assert (row.kind, mode.policy) == ("FULL", "AUTO")
        assert lost or row.reason.split(":")[0] in {"COST", "NOT_INCREMENTAL"}


def examples(count: int) -> settings:
    """The settings of a run of `count` examples: always the same ones for one seed, shrunk when one fails."""
    return settings(
        max_examples=count,
        deadline=None,
        database=None,
        print_blob=True,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )


@seed(SEED)
@examples(FEW)
@given(CASES)
def test_random_views(spark: SparkSession, tables: str, case: tuple[Scenario, list[tuple[Query, Mode]]]) -> None:
    note(f"TIDEMILL_SEED={SEED}")
    run(spark, *case)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_many_random_views(spark: SparkSession, tables: str, part: int) -> None:
    """As many examples as TIDEMILL_EXAMPLES says, else enough for `PAIRS` refreshes of views; others in each part."""
    refreshes = 0

    @seed(SEED + 1 + part)
    @examples(MANY)
    @given(CASES)
    def held(case: tuple[Scenario, list[tuple[Query, Mode]]]) -> None:
        nonlocal refreshes
        note(f"TIDEMILL_SEED={SEED}")
        run(spark, *case)
        refreshes += len(case[0].rounds) * len(case[1])

    held()
    assert EXAMPLES or refreshes >= PAIRS


@pytest.mark.slow
@seed(SEED)
@examples(1000)
@given(queries())
def test_the_scales_of_inexact_columns_are_asked_for(query: Query) -> None:
    assert (query.checked != query.text) == bool(query.inexact)


def test_generated_queries_are_well_typed(spark: SparkSession, tables: str) -> None:
    """The generator itself: Spark analyses and runs what it makes, so no example is lost to a wrong query."""

    @seed(SEED)
    @examples(40)
    @given(queries())
    def analysed(query: Query) -> None:
        note(query.checked)
        try:
            columns = spark.sql(query.text).columns
            assert len(spark.sql(query.checked).columns) == len(columns) + len(query.inexact)
        except PySparkException as e:
            raise AssertionError(f"{query.checked}: {e}") from e

    analysed()
