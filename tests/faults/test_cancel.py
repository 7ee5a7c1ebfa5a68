"""Cancelling: a statement's jobs end, nothing is left of it, the view is as it was and the next refresh works."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.conftest import difference, location_of
from tests.faults.checks import (
    SLOW,
    Statement,
    check,
    everything_under,
    jobs_so_far,
    running_tasks,
    slow_job_runs,
    wait_for,
)
from tidemill.bridge.jvm import Jvm

pytestmark = pytest.mark.slow

QUERY = f"SELECT k, sum({SLOW}) AS s, count(*) AS n FROM events GROUP BY k"


@pytest.fixture
def events(spark: SparkSession, db: str) -> str:
    spark.sql("CREATE TABLE events (k INT, v BIGINT) USING parquet")
    spark.sql("INSERT INTO events VALUES (1, 10), (2, 20)")
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) REFRESH POLICY INCREMENTAL AS {QUERY}")
    return db


Cancel = Callable[[SparkSession], object]
WAYS: dict[str, tuple[Cancel, Cancel]] = {
    "job group": (
        lambda spark: spark.sparkContext.setJobGroup("mine", "my jobs"),
        lambda spark: spark.sparkContext.cancelJobGroup("mine"),
    ),
    "job group, interrupting": (
        lambda spark: spark.sparkContext.setJobGroup("mine", "my jobs", interruptOnCancel=True),
        lambda spark: spark.sparkContext.cancelJobGroup("mine"),
    ),
    "job tag": (
        lambda spark: spark.sparkContext.addJobTag("mine"),
        lambda spark: spark.sparkContext.cancelJobsWithTag("mine"),
    ),
    "session": (lambda _: None, lambda spark: spark.interruptAll()),
}


@pytest.mark.parametrize("statement", ["REFRESH INCREMENTAL VIEW v", "REFRESH INCREMENTAL VIEW v FULL"])
@pytest.mark.parametrize("way", WAYS)
def test_cancelled_from_another_thread(spark: SparkSession, events: str, way: str, statement: str) -> None:
    mark, cancel = WAYS[way]
    spark.sql("INSERT INTO events SELECT id % 3, id FROM range(8)")
    root = location_of(spark, "v")
    before = everything_under(root)
    tracker = spark.sparkContext.statusTracker()
    first = jobs_so_far(spark)

    def run() -> None:
        mark(spark)
        spark.sql(statement).collect()

    running = Statement(run)
    wait_for(lambda: slow_job_runs(spark, first), "a job")
    if way.startswith("job group"):
        assert set(tracker.getActiveJobsIds()) <= set(tracker.getJobIdsForGroup("mine"))
    cancel(spark)
    error = running.ended()
    assert "[SPARK_JOB_CANCELLED]" in str(error), error
    nothing_happened(spark, root, before)


def nothing_happened(spark: SparkSession, root: Path, before: set[str]) -> None:
    assert not spark.sparkContext.statusTracker().getActiveJobsIds()
    assert running_tasks(spark) == 0
    assert everything_under(root) == before
    check(spark, "v", "after cancelling")
    assert spark.sql("REFRESH INCREMENTAL VIEW v").collect()[0].kind == "INCREMENTAL"
    assert difference(spark, "v", QUERY) == (0, 0)


def test_ctrl_c_in_a_driver_ends_the_job(spark: SparkSession, events: str) -> None:
    """The main thread waits for the statement, and is called back by it."""
    spark.sql("INSERT INTO events SELECT id % 3, id FROM range(8)")
    root = location_of(spark, "v")
    before = everything_under(root)
    first = jobs_so_far(spark)

    def press() -> None:
        wait_for(lambda: slow_job_runs(spark, first), "a job")
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    with pytest.raises(Exception, match="SPARK_JOB_CANCELLED"):
        spark.sql("REFRESH INCREMENTAL VIEW v")
    thread.join()
    nothing_happened(spark, root, before)


@pytest.mark.parametrize("before", ["files list", "run", "files write_new"])
def test_ctrl_c_between_jobs(spark: SparkSession, events: str, before: str) -> None:
    spark.sql("INSERT INTO events VALUES (7, 7)")
    root = location_of(spark, "v")
    there = everything_under(root)
    invoke, pressed = Jvm.invoke, list[str]()

    def pressing(jvm: Jvm, method: str, request: Mapping[str, Any] | None = None) -> Any:
        if f"{method} {(request or {}).get('do', '')}".strip() == before and not pressed:
            pressed.append(method)
            os.kill(os.getpid(), signal.SIGINT)
            wait_for(jvm._interrupted, "the handler, which runs in another thread")
        return invoke(jvm, method, request)

    with mock.patch.object(Jvm, "invoke", pressing), pytest.raises(PySparkException) as caught:
        spark.sql("REFRESH INCREMENTAL VIEW v")
    assert caught.value.getCondition() == "OPERATION_CANCELED"
    assert caught.value.getSqlState() == "HY008"
    assert pressed
    nothing_happened(spark, root, there)
