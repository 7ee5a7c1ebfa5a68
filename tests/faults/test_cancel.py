"""Cancelling: a statement's jobs end, nothing is left of it, the view is as it was and the next refresh works."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
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
    slow_rows,
    wait_for,
)
from tidemill.bridge.jvm import Jvm

pytestmark = pytest.mark.slow

QUERY = f"SELECT k, sum({SLOW}) AS s, count(*) AS n FROM events GROUP BY k"
LASTING = 0.1
"""Seconds that tell the slow job from those before it: cancelling ends what runs, not what comes."""


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


def insert_slow_rows(spark: SparkSession) -> Iterator[None]:
    """As many as it takes for who cancels not to come too late; and twice as many each time that he does."""
    rows = slow_rows(spark, seconds=0.8)
    for _ in range(6):
        spark.sql(f"INSERT INTO events SELECT id % 3, id FROM range({rows})")
        yield
        rows *= 2
    pytest.fail("the statement was never cancelled")


def runs_or_ended(spark: SparkSession, first: int, statement: Statement) -> bool:
    return slow_job_runs(spark, first, LASTING) or not statement.thread.is_alive()


@pytest.mark.parametrize("statement", ["REFRESH INCREMENTAL VIEW v", "REFRESH INCREMENTAL VIEW v FULL"])
@pytest.mark.parametrize("way", WAYS)
def test_cancelled_from_another_thread(spark: SparkSession, events: str, way: str, statement: str) -> None:
    mark, cancel = WAYS[way]
    root = location_of(spark, "v")
    tracker = spark.sparkContext.statusTracker()

    def run() -> None:
        mark(spark)
        spark.sql(statement).collect()

    for _ in insert_slow_rows(spark):
        before, first = everything_under(root), jobs_so_far(spark)
        running = Statement(run)
        wait_for(partial(runs_or_ended, spark, first, running), "a job")
        if way.startswith("job group"):
            assert set(tracker.getActiveJobsIds()) <= set(tracker.getJobIdsForGroup("mine"))
        cancel(spark)
        error = running.ended()
        if error is not None:
            assert "[SPARK_JOB_CANCELLED]" in str(error), error
            nothing_happened(spark, root, before)
            return


NEW = f"{QUERY} HAVING n > 0"


@pytest.mark.parametrize(
    "statement",
    [
        f"CREATE INCREMENTAL VIEW w SCHEDULE (ON DEMAND) AS {QUERY}",
        f"ALTER INCREMENTAL VIEW v AS {NEW}",
        f"CREATE OR REPLACE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS {NEW}",
    ],
)
def test_a_new_query_is_cancelled(spark: SparkSession, events: str, statement: str) -> None:
    root = location_of(spark, "v")
    for _ in insert_slow_rows(spark):
        before, first = everything_under(root), jobs_so_far(spark)
        running = Statement(lambda: spark.sql(statement))
        wait_for(partial(runs_or_ended, spark, first, running), "a job")
        spark.interruptAll()
        error = running.ended()
        if error is None:
            spark.sql("DROP INCREMENTAL VIEW w" if " w " in statement else f"ALTER INCREMENTAL VIEW v AS {QUERY}")
            continue
        assert "[SPARK_JOB_CANCELLED]" in str(error), error
        assert [path.name for path in root.parent.iterdir() if path.name != "events"] == ["v"]
        nothing_happened(spark, root, before)
        spark.sql(statement)
        assert difference(spark, "w" if " w " in statement else "v", QUERY) == (0, 0)
        return


def test_a_cascade_is_cancelled(spark: SparkSession, events: str) -> None:
    """In its first view or in its second: what has been committed stays, and the next one goes on from there."""
    above = "SELECT n, sum(s) AS s FROM v GROUP BY n"
    spark.sql(f"CREATE INCREMENTAL VIEW w SCHEDULE (ON DEMAND) REFRESH POLICY INCREMENTAL AS {above}")
    for _ in insert_slow_rows(spark):
        first = jobs_so_far(spark)
        running = Statement(lambda: spark.sql("REFRESH INCREMENTAL VIEW w CASCADE").collect())
        wait_for(partial(runs_or_ended, spark, first, running), "a job")
        spark.interruptAll()
        error = running.ended()
        for view in ("v", "w"):
            check(spark, view, "after cancelling")
        if error is not None:
            assert "[SPARK_JOB_CANCELLED]" in str(error), error
            rows = spark.sql("REFRESH INCREMENTAL VIEW w CASCADE").collect()
            assert {row.kind for row in rows} <= {"INCREMENTAL", "NO_DATA"}
            assert difference(spark, "v", QUERY) == (0, 0)
            assert difference(spark, "w", above) == (0, 0)
            return


def test_views_side_by_side_are_cancelled(spark: SparkSession, events: str) -> None:
    """Whoever cancels the caller's jobs ends the runs of all views. No other begins, and no view counts as failed."""
    spark.sql(f"CREATE INCREMENTAL VIEW w REFRESH POLICY INCREMENTAL AS {QUERY} HAVING n > 0")
    spark.sql("CREATE INCREMENTAL VIEW z REFRESH POLICY INCREMENTAL AS SELECT n, sum(s) AS s FROM v GROUP BY n")
    for _ in insert_slow_rows(spark):
        first = jobs_so_far(spark)
        running = Statement(lambda: spark.sql("REFRESH INCREMENTAL VIEWS").collect())
        wait_for(partial(runs_or_ended, spark, first, running), "a job")
        spark.interruptAll()
        error = running.ended()
        for view in ("v", "w", "z"):
            check(spark, view, "after cancelling")
        if error is not None:
            assert "[SPARK_JOB_CANCELLED]" in str(error) or "[OPERATION_CANCELED]" in str(error), error
            assert running_tasks(spark) == 0
            rows = spark.sql("REFRESH INCREMENTAL VIEWS").collect()
            assert {row.kind for row in rows} <= {"INCREMENTAL", "NO_DATA"}
            return


@pytest.mark.parametrize("way", WAYS)
def test_steps_side_by_side_are_cancelled(spark: SparkSession, events: str, way: str) -> None:
    """The groups of two tables are brought up to date in two threads; who cancels the caller's jobs ends both."""
    mark, cancel = WAYS[way]
    spark.sql("CREATE TABLE others (k INT, v BIGINT) USING parquet")
    query = f"{QUERY} UNION ALL {QUERY.replace('events', 'others')}"
    spark.sql(f"CREATE INCREMENTAL VIEW w REFRESH POLICY INCREMENTAL AS {query}")
    root, beside = location_of(spark, "w"), list[str | None]()
    in_thread = Jvm.in_thread

    def noted(jvm: Jvm, properties: Any, tag: str | None = None) -> AbstractContextManager[None]:
        beside.append(tag)
        return in_thread(jvm, properties, tag)

    def run() -> None:
        mark(spark)
        with mock.patch.object(Jvm, "in_thread", noted):
            spark.sql("REFRESH INCREMENTAL VIEW w").collect()

    for _ in insert_slow_rows(spark):
        spark.sql("INSERT INTO others SELECT k, v FROM events")
        before, first = everything_under(root), jobs_so_far(spark)
        beside.clear()
        running = Statement(run)
        wait_for(partial(runs_or_ended, spark, first, running), "a job")
        cancel(spark)
        error = running.ended()
        if error is not None:
            assert "[SPARK_JOB_CANCELLED]" in str(error) or "[OPERATION_CANCELED]" in str(error), error
            assert len(beside) == 2, "steps in threads of their own"
            nothing_happened(spark, root, before, "w", query)
            return


def nothing_happened(spark: SparkSession, root: Path, before: set[str], view: str = "v", query: str = QUERY) -> None:
    assert not spark.sparkContext.statusTracker().getActiveJobsIds()
    assert running_tasks(spark) == 0
    assert everything_under(root) == before
    check(spark, view, "after cancelling")
    assert spark.sql(f"REFRESH INCREMENTAL VIEW {view}").collect()[0].kind == "INCREMENTAL"
    assert difference(spark, view, query) == (0, 0)


@pytest.mark.parametrize("statement", ["REFRESH INCREMENTAL VIEW v", "REFRESH INCREMENTAL VIEWS"])
def test_ctrl_c_in_a_driver_ends_the_job(spark: SparkSession, events: str, statement: str) -> None:
    """The main thread waits for the statement, and is called back by it."""
    root = location_of(spark, "v")
    for _ in insert_slow_rows(spark):
        before, first, ended = everything_under(root), jobs_so_far(spark), threading.Event()
        error: Exception | None = None

        def press(first: int = first, ended: threading.Event = ended) -> None:
            wait_for(lambda: slow_job_runs(spark, first, LASTING) or ended.is_set(), "a job")
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=press)
        thread.start()
        try:
            spark.sql(statement)
            ended.set()
            thread.join()
            time.sleep(1)  # for the signal that has been sent
        except KeyboardInterrupt:
            continue  # it came too late
        except Exception as caught:
            error = caught
        if error is not None:
            assert "SPARK_JOB_CANCELLED" in str(error), error
            thread.join()
            nothing_happened(spark, root, before)
            return


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
