"""The grounds that cells stand on: tables of one suite and size, the views over them, and what changes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from pyspark.sql import SparkSession

from benchmarks import changes, texts, tpcds
from benchmarks.data import load_delta, tpch_files
from benchmarks.decisions import small
from benchmarks.decisions.small import MIXED, ONE_ROW, SHARES, Small, share_of
from benchmarks.pipeline import FIRST_DATABASES, Data
from benchmarks.pipeline import views as pipeline_views

SUITES = ("small", "tpch", "tpcds", "pipeline")
TPCH = range(1, 23)
FEW_TPCH = (1, 3, 13, 18)
TPCDS_SAMPLE = (3, 7, 19, 27, 43, 52, 65, 68, 73, 79, 96, 98)
"""Of each kind of query one or two; `--queries` names others."""
FEW_VIEWS = ("customers", "trade_times", "market_days", "fact_cash_balances")
DATABASE = "grounds"


@dataclass(frozen=True)
class Ground:
    """The tables of a suite.

    `load`: makes them in the session's current database. `change`: statements of the change with a name and a number
    for a view. `before`: brings up to date what the view reads. `tables`: those that are put back after each view.
    """

    suite: str
    size: str
    views: Mapping[str, str]
    changes: Sequence[str]
    load: Callable[[SparkSession], None]
    change: Callable[[SparkSession, str, str, int], None]
    tables: Sequence[str] = ()
    confs: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.suite}-{self.size}"


def run(statements: Callable[..., Sequence[str]], spark: SparkSession, *told: object) -> None:
    changes.apply(spark, statements(*told))


def of_small(rows: int, *, few: bool) -> Ground:
    made = Small(rows)
    return Ground(
        "small",
        f"{rows:,} rows".replace(",", " "),
        small.VIEWS,
        small.FEW_CHANGES if few else small.CHANGES,
        made.load,
        partial(run, made.statements),
        ("facts", "events"),
    )


def tpch_change(_: str, change: str, number: int) -> Sequence[str]:
    """Orders with their line items: one of them, or a share."""
    share, kind = share_of(change)
    if not share:
        return changes.one_order(number, updated=kind == MIXED)
    return changes.merges(number, share) if kind == MIXED else changes.inserts(number, share)


def of_tpch(scale: float, queries: Sequence[int], *, few: bool) -> Ground:
    found = texts.by_number(texts.standard("tpch"))
    numbers = queries or (FEW_TPCH if few else tuple(found))
    return Ground(
        "tpch",
        f"scale {scale:g}",
        {f"q{n}": found[n] for n in numbers},
        small.FEW_CHANGES[:2] if few else small.CHANGES,
        lambda spark: load_delta(spark, tpch_files(scale)),
        partial(run, tpch_change),
        ("lineitem", "orders"),
    )


def tpcds_change(_: str, change: str, number: int) -> Sequence[str]:
    """A share of the rows of each table of facts."""
    share, kind = share_of(change)
    if kind == MIXED:
        return tpcds.facts(number, share)
    return [changes.insert(table, number, share) for table in tpcds.FACTS]


def of_tpcds(scale: float, queries: Sequence[int], *, few: bool) -> Ground:
    found = texts.by_number(texts.tpcds())
    shares = ("1 %",) if few else tuple(share for share in SHARES if share != ONE_ROW)
    return Ground(
        "tpcds",
        f"scale {scale:g}",
        {f"q{n}": found[n] for n in queries or (TPCDS_SAMPLE[:3] if few else TPCDS_SAMPLE)},
        [f"{share}, {kind}" for share in shares for kind in (small.NEW, MIXED)],
        lambda spark: tpcds.load_delta(spark, tpcds.files(scale)),
        partial(run, tpcds_change),
        tuple(table.name for table in tpcds.FACTS),
        tpcds.CONFS,
    )


class Pipeline:
    """All views of the pipeline under AUTO, over which each view is made once more in each way.

    A change of 10 % is ten batches at once.
    """

    BATCHES: Mapping[str, int] = {"1 %, batches": 1, "10 %, batches": 10, "30 %, batches": 30}

    def __init__(self, scale: float) -> None:
        self.data = Data(scale)
        self.batch = 1

    def load(self, spark: SparkSession) -> None:
        for database in FIRST_DATABASES:
            spark.sql(f"DROP DATABASE IF EXISTS {database} CASCADE")
            spark.sql(f"CREATE DATABASE {database}")
        self.data.load(spark)
        spark.sql("USE views")
        for view in pipeline_views():
            spark.sql(f"CREATE INCREMENTAL VIEW {view.name} USING delta REFRESH POLICY AUTO AS {view.query}")

    def change(self, spark: SparkSession, _: str, change: str, __: int) -> None:
        for _batch in range(self.BATCHES[change]):
            self.batch += 1
            self.data.apply(spark, self.batch)
        for view in pipeline_views():
            spark.sql(f"REFRESH INCREMENTAL VIEW {view.name}")


def of_pipeline(scale: float, *, few: bool) -> Ground:
    made = Pipeline(scale)
    found = {view.name: view.query for view in pipeline_views() if not few or view.name in FEW_VIEWS}
    confs = {"spark.sql.session.timeZone": "UTC"}
    names = tuple(made.BATCHES)[: 1 if few else None]
    return Ground("pipeline", f"scale {scale:g}", found, names, made.load, made.change, confs=confs)


def grounds(scale: float, rows: Sequence[int], queries: Sequence[int], *, few: bool) -> Iterator[Ground]:
    """All grounds; few: fewer views and changes of each. `queries` are those of TPC-H and of TPC-DS."""
    for count in rows:
        yield of_small(count, few=few)
    yield of_tpch(scale, [n for n in queries if n in TPCH], few=few)
    yield of_tpcds(scale, queries, few=few)
    yield of_pipeline(scale, few=few)


class Placed:
    """A ground in a session: its tables are made when its first view comes, and put back after each view."""

    def __init__(self, spark: SparkSession, ground: Ground) -> None:
        self.spark, self.ground = spark, ground
        spark.sql("USE default")
        spark.sql(f"DROP DATABASE IF EXISTS {DATABASE} CASCADE")
        spark.sql(f"CREATE DATABASE {DATABASE}")
        spark.sql(f"USE {DATABASE}")
        ground.load(spark)
        self._versions = {table: self._version(table) for table in ground.tables}

    def _version(self, table: str) -> int:
        return int(self.spark.sql(f"DESCRIBE HISTORY {table} LIMIT 1").collect()[0].version)

    def put_back(self) -> None:
        for table, version in self._versions.items():
            if self._version(table) != version:
                self.spark.sql(f"RESTORE TABLE {table} TO VERSION AS OF {version}")
