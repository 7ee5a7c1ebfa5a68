"""Readers go on while refreshes commit and VACUUM runs: each read is that of a whole run, and none fails.

Every change of the source is a pair of rows that cancel each other out, numbered by the change.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tidemill
from tests.conftest import location_of
from tests.faults.checks import check
from tests.faults.contents import digest, read_by_duckdb, read_by_spark
from tidemill.runtime import apply

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
COMMITS = int(os.environ.get("TIDEMILL_COMMITS", "15"))


def change(spark: SparkSession, number: int) -> None:
    spark.sql(f"INSERT INTO events VALUES ({number}, {number + 7}), ({number}, {-number - 7})")


@pytest.fixture
def view(spark: SparkSession, db: str) -> str:
    spark.sql("CREATE TABLE events (n INT, v BIGINT) USING parquet")
    change(spark, 0)
    spark.sql("CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS SELECT n, v FROM events")
    return f"{db}.v"


class Reader(threading.Thread):
    """Reads a view over and over until it is told to stop, and then once more."""

    def __init__(self, read: Callable[[], str]) -> None:
        super().__init__()
        self.read = read
        self.first, self.stop = threading.Event(), threading.Event()
        self.seen: list[str] = []
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            last = False
            while not last:
                last = self.stop.is_set()
                self.seen.append(self.read())
                self.first.set()
        except BaseException as failure:
            self.failure = failure
            self.first.set()


@contextmanager
def reading(location: Path, columns: Sequence[str], stop: Path, *others: Reader) -> Iterator[list[list[str]]]:
    """While readers read: `others` in this process, and a foreign one; afterwards, what each has seen.

    All have read once before the body begins, and read once more when it has ended.
    """
    command = [sys.executable, "-m", "tests.faults.plain_reader", str(location), str(stop), *columns]
    foreign = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    found: list[list[str]] = []
    for reader in others:
        reader.start()
    try:
        assert foreign.stdout is not None
        assert foreign.stdout.readline() == "reads\n", foreign.stderr and foreign.stderr.read()[-3000:]
        for reader in others:
            reader.first.wait()
        yield found
    finally:
        stop.touch()
        for reader in others:
            reader.stop.set()
            reader.join()
        out, err = foreign.communicate(timeout=300)
    for reader in others:
        assert reader.failure is None, reader.failure
        found.append(reader.seen)
    assert foreign.returncode == 0, err[-3000:]
    found.append(json.loads(out.splitlines()[-1]))


def whole_and_in_order(seen: Sequence[str], committed: Sequence[str]) -> None:
    """Each content was committed; none was older than the one before, from the first one to the last."""
    assert set(seen) <= set(committed), "a content that no run had"
    runs = [committed.index(content) for content in seen]
    assert runs == sorted(runs)
    assert (runs[0], runs[-1]) == (0, len(committed) - 1)


def test_readers_during_commits_and_vacuum(spark: SparkSession, view: str, tmp_path: Path) -> None:
    columns = ["n", "v"]
    rows = [(n, v) for n in range(COMMITS + 1) for v in (n + 7, -n - 7)]
    session = spark.newSession()
    reader = Reader(lambda: read_by_spark(session.table(view), columns))
    with reading(location_of(spark, view), columns, tmp_path / "stop", reader) as found:
        for number in range(1, COMMITS + 1):
            change(spark, number)
            spark.sql(f"REFRESH INCREMENTAL VIEW {view}")
            spark.sql(f"VACUUM INCREMENTAL VIEW {view}")
    for seen in found:
        whole_and_in_order(seen, [digest(rows[: 2 * run + 2]) for run in range(COMMITS + 1)])
    check(spark, view, "after the readers")


@pytest.mark.parametrize("clause", ["", "PARTITIONED BY (p)"])
def test_readers_of_bags_of_nested_types(
    spark: SparkSession, db: str, tmp_path: Path, clause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Duplicates, NULLs at every depth, rows that come, change and go: by plain Spark and by DuckDB, from its files."""
    monkeypatch.setattr(apply, "SMALL_RESULT_BYTES", 0)  # or each run would write all files anew
    columns = {
        "n": "INT",
        "p": "STRING",
        "tags": "ARRAY<STRING>",
        "m": "MAP<STRING, ARRAY<INT>>",
        "st": "STRUCT<a: INT, b: STRUCT<x: DOUBLE, y: ARRAY<STRUCT<z: STRING>>>>",
        "price": "DECIMAL(10, 2)",
        "day": "DATE",
    }
    spark.sql(f"CREATE TABLE events ({', '.join(f'{c} {t}' for c, t in columns.items())}) USING delta")

    def insert(n: int) -> None:
        struct = "named_struct('a', {}, 'b', named_struct('x', {}, 'y', array(named_struct('z', '{}'), {})))"
        full = f"{n}, 'p=/{n % 3}', array('a', NULL, 'é {n}'), map('k', array({n}, NULL), 'none', NULL)"
        full += f", {struct.format(n, 0.5 + n, n, 'NULL')}, {n}.25, DATE'2024-02-29'"
        hollow = f"{n}, NULL, array(), map(), {struct.format('NULL', 'NULL', '', 'NULL')}, NULL, NULL"
        nothing = f"{n}, 'p', NULL, NULL, NULL, NULL, NULL"
        spark.sql(f"INSERT INTO events VALUES ({full}), ({full}), ({hollow}), ({nothing}), ({nothing})")

    def content() -> str:
        return read_by_spark(spark.table("events"), [*columns])

    insert(0)
    committed = [content()]
    names = ", ".join(columns)
    query = f"SELECT {names} FROM events"
    spark.sql(f"CREATE INCREMENTAL VIEW v {clause} SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {query}")
    session = spark.newSession()
    view = tidemill.IncrementalView.forName(session, f"{db}.v")
    duck = Reader(lambda: read_by_duckdb(view.files(), [*columns]))
    with reading(location_of(spark, "v"), [*columns], tmp_path / "stop", duck) as found:
        for number in range(1, max(COMMITS // 3, 3) + 1):
            insert(number)
            if number % 2:
                spark.sql(f"UPDATE events SET price = price + 1, tags = array('new') WHERE n % 2 = {number % 4 // 2}")
            else:
                spark.sql(f"DELETE FROM events WHERE n = {number - 2}")
            committed.append(content())
            assert spark.sql("REFRESH INCREMENTAL VIEW v").collect()[0].kind == "INCREMENTAL"
            spark.sql("VACUUM INCREMENTAL VIEW v")
    for seen in found:
        whole_and_in_order(seen, committed)
    check(spark, "v", "after the readers")


def test_a_reader_of_the_run_before_goes_on_after_vacuum(spark: SparkSession, view: str) -> None:
    """What is planned over the last run but one stays readable, however little VACUUM is told to retain."""
    change(spark, 1)
    spark.sql(f"REFRESH INCREMENTAL VIEW {view}")
    planned = spark.read.parquet(str(location_of(spark, view)))
    assert planned.count() == 4
    change(spark, 2)
    spark.sql(f"REFRESH INCREMENTAL VIEW {view}")
    spark.sql(f"VACUUM INCREMENTAL VIEW {view} RETAIN 0 HOURS")
    assert sorted(r.v for r in planned.collect()) == [-8, -7, 7, 8]
    assert spark.table(view).count() == 6
