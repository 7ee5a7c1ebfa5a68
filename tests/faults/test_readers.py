"""Readers go on while refreshes commit and VACUUM runs: each read is that of a whole run, and none fails.

Every change of the source is a pair of rows that cancel each other out, numbered by the change.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tidemill
from tests.conftest import location_of
from tests.faults.checks import check, wait_for
from tests.faults.contents import digest, read_by_duckdb, read_by_spark
from tests.faults.processes import Process, started
from tidemill.runtime.content import apply

pytestmark = pytest.mark.slow

COMMITS = int(os.environ.get("TIDEMILL_COMMITS", "5"))
OR_REPLACE, DEMAND = "CREATE OR REPLACE INCREMENTAL VIEW v", "SCHEDULE (ON DEMAND)"


def change(spark: SparkSession, number: int) -> None:
    spark.sql(f"INSERT INTO events VALUES ({number}, {number + 7}), ({number}, {-number - 7})")


@pytest.fixture
def events(spark: SparkSession, db: str) -> str:
    spark.sql("CREATE TABLE events (n INT, v BIGINT) USING parquet")
    change(spark, 0)
    return db


@pytest.fixture
def view(spark: SparkSession, events: str) -> str:
    spark.sql("CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS SELECT n, v FROM events")
    return f"{events}.v"


class Reader(threading.Thread):
    """Reads a view over and over until it is told to stop, and then once more."""

    def __init__(self, read: Callable[[], str]) -> None:
        super().__init__()
        self.read = read
        self.stop = threading.Event()
        self.seen: list[str] = []
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            last = False
            while not last:
                last = self.stop.is_set()
                self.seen.append(self.read())
        except BaseException as failure:
            self.failure = failure

    @property
    def ended(self) -> int:
        """How many reads."""
        assert self.failure is None, self.failure
        return len(self.seen)


class Readers:
    """Some in this process, and a foreign one; `seen`, when all have ended: what each of them has seen."""

    def __init__(self, others: Sequence[Reader], foreign: Process) -> None:
        self.seen: list[list[str]] = []
        self._others, self._foreign = others, foreign

    def _ended(self) -> list[int]:
        assert self._foreign.status is None, self._foreign.errors
        return [self._foreign.lines.count("read"), *(reader.ended for reader in self._others)]

    def catch_up(self) -> None:
        """Waits until each has ended a read from now on: the next one then began after this call."""
        before = self._ended()
        wait_for(lambda: all(now > then for now, then in zip(self._ended(), before, strict=True)), "a read", 300)


@contextmanager
def reading(
    location: Path, columns: Sequence[str], folder: Path, *others: Reader, format_: str = "parquet"
) -> Iterator[Readers]:
    """While readers read: `others` in this process, and a foreign one.

    All have read once before the body begins, and read once more when it has ended.
    """
    stop = folder / "stop"
    arguments = [format_, str(location), str(stop), *columns]
    with started(folder, "reader", "tests.faults.plain_reader", *arguments) as foreign:
        readers = Readers(others, foreign)
        for reader in others:
            reader.start()
        try:
            readers.catch_up()
            yield readers
        finally:
            stop.touch()
            for reader in others:
                reader.stop.set()
            for reader in others:
                reader.join()
        foreign.ended_well(300)
        assert [reader.failure for reader in others] == [None] * len(others)
        readers.seen += [reader.seen for reader in others]
        readers.seen.append(json.loads(foreign.lines[-1]))


@contextmanager
def vacuuming(session: SparkSession, view: str) -> Iterator[list[str]]:
    """While another session removes all that it can, over and over; the paths."""
    stop = threading.Event()
    removed: list[str] = []
    failures: list[BaseException] = []

    def vacuum() -> None:
        try:
            while not stop.is_set():
                rows = session.sql(f"VACUUM INCREMENTAL VIEW {view} RETAIN 0 HOURS").collect()
                removed.extend(row[0] for row in rows)
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=vacuum)
    thread.start()
    try:
        yield removed
    finally:
        stop.set()
        thread.join()
    assert failures == []


def whole_and_in_order(seen: Sequence[str], committed: Sequence[str]) -> None:
    """Each content was committed; none was older than the one before, from the first one to the last."""
    assert set(seen) <= set(committed), "a content that no run had"
    runs = [committed.index(content) for content in seen]
    assert runs == sorted(runs)
    assert (runs[0], runs[-1]) == (0, len(committed) - 1)


@pytest.mark.parametrize("format_", ["parquet", "delta"])
def test_readers_during_commits_and_vacuum(
    spark: SparkSession, events: str, tmp_path: Path, format_: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """VACUUM removes all that it may, at the same time, and nobody is more than a run behind: none of them fails."""
    monkeypatch.setattr(apply, "SMALL_RESULT_BYTES", 0)  # or each run would write all files anew
    view = f"{events}.v"
    spark.sql(f"CREATE INCREMENTAL VIEW v USING {format_} SCHEDULE (ON DEMAND) AS SELECT n, v FROM events")
    columns = ["n", "v"]
    rows = [(n, v) for n in range(COMMITS + 1) for v in (n + 7, -n - 7)]
    session = spark.newSession()
    reader = Reader(lambda: read_by_spark(session.table(view), columns))
    with (
        vacuuming(spark.newSession(), view) as removed,
        reading(location_of(spark, view), columns, tmp_path, reader, format_=format_) as readers,
    ):
        for number in range(1, COMMITS + 1):
            change(spark, number)
            spark.sql(f"REFRESH INCREMENTAL VIEW {view} {'FULL' if number % 3 == 0 else ''}")
            readers.catch_up()
    for seen in readers.seen:
        whole_and_in_order(seen, [digest(rows[: 2 * run + 2]) for run in range(COMMITS + 1)])
    check(spark, view, "after the readers")
    assert sum("/part-" in path for path in removed) > COMMITS // 3, "what was live once is gone"


@pytest.mark.parametrize("format_", ["parquet", "delta"])
def test_readers_while_the_query_changes(spark: SparkSession, events: str, format_: str) -> None:
    """Each answer is that of one query: never rows of the one under the columns of the other."""
    name = f"{events}.v"
    queries = ["SELECT n, v FROM events", "SELECT v AS n, CAST(n AS STRING) AS a, v + n AS w FROM events"]
    spark.sql(f"CREATE INCREMENTAL VIEW v USING {format_} SCHEDULE (ON DEMAND) AS {queries[0]}")

    def answer(session: SparkSession, statement: str) -> str:
        frame = session.sql(statement)
        return json.dumps([frame.columns, digest(frame.collect())])

    whole = [answer(spark, query) for query in queries]
    sessions = [spark.newSession(), spark.newSession()]
    readers = [Reader(lambda s=session: answer(s, f"SELECT * FROM {name}")) for session in sessions]  # type: ignore[misc]
    for reader in readers:
        reader.start()
    try:
        for number in range(1, max(COMMITS // 2, 4) + 1):
            words = "ALTER INCREMENTAL VIEW v AS" if number % 4 < 2 else f"{OR_REPLACE} USING {format_} {DEMAND} AS"
            spark.sql(f"{words} {queries[number % 2]}")
            assert answer(spark, f"SELECT * FROM {name}") == whole[number % 2]
    finally:
        for reader in readers:
            reader.stop.set()
        for reader in readers:
            reader.join()
    for reader in readers:
        assert reader.ended > 1
        assert set(reader.seen) <= set(whole)
        assert reader.seen[-1] == whole[max(COMMITS // 2, 4) % 2]
    check(spark, name, "after the readers")


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
    with reading(location_of(spark, "v"), [*columns], tmp_path, duck) as readers:
        for number in range(1, max(COMMITS // 3, 3) + 1):
            insert(number)
            if number % 2:
                spark.sql(f"UPDATE events SET price = price + 1, tags = array('new') WHERE n % 2 = {number % 4 // 2}")
            else:
                spark.sql(f"DELETE FROM events WHERE n = {number - 2}")
            committed.append(content())
            assert spark.sql("REFRESH INCREMENTAL VIEW v").collect()[0].kind == "INCREMENTAL"
            spark.sql("VACUUM INCREMENTAL VIEW v")
    for seen in readers.seen:
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
