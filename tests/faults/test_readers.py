"""Readers go on while refreshes commit and VACUUM runs: each read is that of a whole run, and none fails.

Every change of the source is a pair of rows that cancel each other out, numbered by the change.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.conftest import location_of
from tests.faults.checks import check

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
    """Reads the view by name in a session of its own until it is told to stop."""

    def __init__(self, spark: SparkSession, view: str) -> None:
        super().__init__()
        self.session, self.view = spark.newSession(), view
        self.stop = threading.Event()
        self.seen: list[int] = []
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.stop.is_set():
                row = self.session.sql(f"SELECT sum(v), count(*), max(n) FROM {self.view}").collect()[0]
                assert row[0] == 0, row
                assert row[1] == 2 * (row[2] + 1), row
                self.seen.append(row[2])
        except BaseException as failure:
            self.failure = failure


def test_readers_during_commits_and_vacuum(spark: SparkSession, view: str, tmp_path: Path) -> None:
    location, stop = location_of(spark, view), tmp_path / "stop"
    command = [sys.executable, "-m", "tests.faults.plain_reader", str(location), str(stop)]
    foreign = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    reader = Reader(spark, view)
    reader.start()
    try:
        assert foreign.stdout is not None
        assert foreign.stdout.readline() == "reads\n", foreign.stderr and foreign.stderr.read()[-3000:]
        for number in range(1, COMMITS + 1):
            change(spark, number)
            spark.sql(f"REFRESH INCREMENTAL VIEW {view}")
            spark.sql(f"VACUUM INCREMENTAL VIEW {view}")
    finally:
        reader.stop.set()
        stop.touch()
        reader.join()
        out, err = foreign.communicate(timeout=60)
    assert reader.failure is None, reader.failure
    assert foreign.returncode == 0, err[-3000:]
    for seen in (reader.seen, json.loads(out.splitlines()[-1])["seen"]):
        assert seen == sorted(seen)
        assert len(set(seen)) > 2, "it saw no commit"
    check(spark, view, "after the readers")


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
