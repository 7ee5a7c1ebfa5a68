"""The benchmarks that measure the constants, each at two sizes.

The recipe of a constant subtracts one benchmark from another that does one thing more. Rows are made in one task, so
that only a benchmark of exchanges has exchanges.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.calibrate.fit import Recipe
from tidemill.cost.costing import PAGE_ROWS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FRAME_ROWS = 100
TREES = "spark.sql.window.segmentTree.enabled"
RECIPES: Mapping[str, Recipe] = {
    "scan": Recipe("scan"),
    "value": Recipe("values", base="scan", times=4),
    "text": Recipe("texts", base="scan", times=2),
    "changes": Recipe("changes"),
    "row": Recipe("project", base="keys", times=2),  # a filter and a project
    # The parts of groups go through a table too: one for each five rows.
    "hash": Recipe("aggregate", base="keys", times=1.2),
    "cell": Recipe("cells", base="aggregate", times=1.2 * 3),
    "frame": Recipe("framed", base="ranked", times=FRAME_ROWS),
    "tree": Recipe("trees", base="ranked"),
    "probe": Recipe("join", base="keys"),
    "search": Recipe("search", base="named"),
    "shuffle": Recipe("exchange", base="narrow"),
    "write": Recipe("one written", base="one"),
    "encode": Recipe("numbers written", base="numbers computed", times=4),
    "encode_text": Recipe("texts written", base="texts computed", times=2),
    "order": Recipe("ordered", base="written"),
    "kept": Recipe("kept"),
    "file": Recipe("files"),
    "source": Recipe("scan", fixed=True),
    "step": Recipe("step", fixed=True),
    "job": Recipe("few written", fixed=True),
    "exchange": Recipe("exchanges", base="step", times=4, fixed=True),
}

# Seven columns, as wide as the rows of a state: numbers, a decimal, a date, texts, a sign in words.
WIDE = (
    "id AS k",
    "CAST(id % 7 AS INT) AS line",
    "CAST(id % 100000 AS DECIMAL(12, 2)) AS price",
    "id / 7.0D AS share",
    "date_add(DATE'1992-01-01', CAST(id % 2500 AS INT)) AS day",
    "concat('Supplier#', CAST(id % 10000 AS STRING)) AS name",
    "CASE WHEN id % 5 < 3 THEN 'insert' WHEN id % 5 = 3 THEN 'delete' ELSE 'update_postimage' END AS kind",
)
# Three of them, as a query reads of a table.
NARROW = ("k", "price", "name")
NUMBERS, TEXTS = ("k", "line", "price", "share", "day"), ("k", "name", "kind")
SENTENCE = "concat('the ', name, ' of ', kind, ' has ', line, ' in stock') AS sentence"
SIGN = "CASE WHEN kind = 'insert' OR kind = 'update_postimage' THEN 1L ELSE -1L END AS sign"
# Conditions that hold, for which columns are computed.
ALL_NUMBERS = "line >= 0 AND price >= 0 AND share >= 0 AND day > DATE'1990-01-01'"
ALL_TEXTS = "length(name) + length(kind) > 0"
# Keys in no order, each of them five times. The factor is small enough for a long.
KEYS = "CAST(id * 2654435761 % {groups} AS LONG) * 7919 AS key"
BROADCAST_ROWS = 50_000
ROWS_OF_A_FILE = 10


class Data:
    """The tables that benchmarks read, and the folders that they write, in one folder for one session."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self._folder = folder
        self._written = 0

    def made(self, rows: int) -> DataFrame:
        """Returns `rows` wide rows, computed as they are read."""
        return self.spark.range(0, rows, 1, 1).selectExpr(*WIDE)

    def keys(self, rows: int, groups: int) -> DataFrame:
        """Returns `rows` rows of a key and a number, computed as they are read."""
        return self.spark.range(0, rows, 1, 1).selectExpr(KEYS.format(groups=groups), "id AS v")

    def table(self, rows: int) -> DataFrame:
        """Returns `rows` rows that are read from one file."""
        return self._stored(f"rows_{rows}", self.made(rows))

    def files(self, files: int) -> DataFrame:
        """Returns the rows of `files` files, a few in each."""
        made = self.spark.range(0, files * ROWS_OF_A_FILE, 1, files).selectExpr(*WIDE)
        return self._stored(f"files_{files}", made)

    def _stored(self, name: str, made: DataFrame) -> DataFrame:
        path = self._folder / name
        if not path.exists():
            made.write.parquet(path.as_uri())
        return self.spark.read.schema(made.schema).parquet(path.as_uri())

    def write(self, rows: DataFrame, **options: int) -> None:
        """Writes rows into a new folder."""
        self._written += 1
        rows.write.options(**options).parquet((self._folder / f"written_{self._written}").as_uri())


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A function to run at two sizes. A size counts rows, or files."""

    sizes: tuple[int, int]
    run: Callable[[Data, int], None]

    def scaled(self, scale: float) -> tuple[int, int]:
        """Returns the sizes multiplied by `scale`; they always differ."""
        small = max(1, round(self.sizes[0] * scale))
        return small, max(small + 1, round(self.sizes[1] * scale))


def _read(rows: DataFrame) -> None:
    """Computes all columns of all rows."""
    rows.write.format("noop").mode("overwrite").save()


def _summed(rows: DataFrame) -> None:
    """Computes the sum of each column, so that no output rows are made."""
    _read(rows.selectExpr(*(f"sum(`{c}`)" for c in rows.columns)))


def _groups(rows: int) -> int:
    return max(1, rows // 5)


def _project(data: Data, rows: int) -> None:
    keys = data.keys(rows, _groups(rows)).where("key % 100 <> 99")
    _summed(keys.selectExpr("CASE WHEN v % 3 = 0 THEN key ELSE v END AS key", "key + v * 2 AS v"))


def _aggregate(data: Data, rows: int) -> None:
    priced = data.keys(rows, _groups(rows)).selectExpr("key", "CAST(v % 100000 AS DECIMAL(12, 2)) AS price")
    _read(priced.groupBy("key").agg({"price": "sum", "key": "count"}))


def _cells(data: Data, rows: int) -> None:
    from pyspark.sql.functions import count
    from pyspark.sql.functions import sum as total

    values = [f"CAST((v + {i}) % 100000 AS DECIMAL(12, 2)) AS price{i}" for i in range(4)]
    priced = data.keys(rows, _groups(rows)).selectExpr("key", *values)
    _read(priced.groupBy("key").agg(count("key"), *(total(f"price{i}") for i in range(4))))


def _search(data: Data, rows: int) -> None:
    _summed(data.made(rows).selectExpr("k", SENTENCE).where("sentence NOT LIKE '%Supplier%99%'").select("k"))


def _window(data: Data, rows: int, before: int) -> None:
    """Computes the largest value of each row and of those before it, in partitions of a thousand rows."""
    frame = f"PARTITION BY key ORDER BY v ROWS BETWEEN {before} PRECEDING AND CURRENT ROW"
    _summed(data.keys(rows, max(1, rows // 1000)).selectExpr("key", f"max(v) OVER ({frame}) AS v"))


def _trees(data: Data, rows: int) -> None:
    """The same with frames of a hundred rows, from trees."""
    data.spark.conf.set(TREES, "true")
    try:
        _window(data, rows, FRAME_ROWS)
    finally:
        data.spark.conf.unset(TREES)


def _join(data: Data, rows: int) -> None:
    from pyspark.sql.functions import broadcast

    small = data.keys(BROADCAST_ROWS, BROADCAST_ROWS).selectExpr("key", "v AS w")
    _summed(data.keys(rows, BROADCAST_ROWS).join(broadcast(small), "key").select("w", "v"))


def _ordered(data: Data, rows: int) -> None:
    """Writes rows as the base of a state is written."""
    data.write(data.made(rows).sortWithinPartitions("price"), **{"parquet.page.row.count.limit": PAGE_ROWS})


def _step(data: Data, rows: int) -> None:
    data.write(data.table(rows).groupBy("line").sum("k"))


def _exchanges(data: Data, rows: int) -> None:
    """Runs a step with two more shuffles and two broadcasts."""
    from pyspark.sql.functions import broadcast

    lines = data.spark.range(0, 7, 1, 1).selectExpr("CAST(id AS INT) AS line")
    found = data.table(rows).groupBy("line", "kind", "day").agg({"k": "sum"}).withColumnRenamed("sum(k)", "k")
    found = found.join(broadcast(lines), "line").groupBy("line", "kind").agg({"k": "sum"})
    data.write(found.join(broadcast(lines), "line").groupBy("kind").agg({"sum(k)": "sum"}).toDF("kind", "k"))


ROWS = (400_000, 2_000_000)
LIGHT = (2_000_000, 10_000_000)  # a few nanoseconds a row
HEAVY = (100_000, 500_000)
GROUPED = (200_000, 1_000_000)
BENCHMARKS: Mapping[str, Benchmark] = {
    "scan": Benchmark(ROWS, lambda data, n: _read(data.table(n).select("k"))),
    "values": Benchmark(ROWS, lambda data, n: _read(data.table(n).select(*NUMBERS))),
    "texts": Benchmark(ROWS, lambda data, n: _read(data.table(n).select(*TEXTS))),
    "named": Benchmark(
        HEAVY, lambda data, n: _summed(data.made(n).selectExpr("k", SENTENCE).where("length(sentence) > 9").select("k"))
    ),
    "search": Benchmark(HEAVY, _search),
    "changes": Benchmark(ROWS, lambda data, n: _read(data.table(n).selectExpr(*NARROW, SIGN))),
    "kept": Benchmark(ROWS, lambda data, n: _read(data.table(n))),
    "files": Benchmark((16, 96), lambda data, n: _read(data.files(n))),
    "keys": Benchmark(LIGHT, lambda data, n: _summed(data.keys(n, _groups(n)))),
    "project": Benchmark(LIGHT, _project),
    "join": Benchmark(LIGHT, _join),
    "aggregate": Benchmark(GROUPED, _aggregate),
    "cells": Benchmark(GROUPED, _cells),
    "ranked": Benchmark(HEAVY, lambda data, n: _window(data, n, 0)),
    "framed": Benchmark(HEAVY, lambda data, n: _window(data, n, FRAME_ROWS)),
    "trees": Benchmark(HEAVY, _trees),
    "narrow": Benchmark(ROWS, lambda data, n: _read(data.made(n).select(*NARROW))),
    "exchange": Benchmark(ROWS, lambda data, n: _read(data.made(n).select(*NARROW).repartition(2, "k"))),
    "one": Benchmark(HEAVY, lambda data, n: _read(data.made(n).select("k"))),
    "one written": Benchmark(HEAVY, lambda data, n: data.write(data.made(n).select("k"))),
    "numbers computed": Benchmark(HEAVY, lambda data, n: data.write(data.made(n).where(ALL_NUMBERS).select("k"))),
    "numbers written": Benchmark(HEAVY, lambda data, n: data.write(data.made(n).select(*NUMBERS))),
    "texts computed": Benchmark(HEAVY, lambda data, n: data.write(data.made(n).where(ALL_TEXTS).select("k"))),
    "texts written": Benchmark(HEAVY, lambda data, n: data.write(data.made(n).select(*TEXTS))),
    "written": Benchmark(HEAVY, lambda data, n: data.write(data.made(n))),
    "ordered": Benchmark(HEAVY, _ordered),
    "step": Benchmark((100, 1_000), _step),
    "few written": Benchmark((100, 1_000), lambda data, n: data.write(data.table(n))),
    "exchanges": Benchmark((100, 1_000), _exchanges),
}
