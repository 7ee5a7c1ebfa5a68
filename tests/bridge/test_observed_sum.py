"""Sums of observations count each task once, however often Spark did it (a whole run of it: tests/faults)."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession


def sums(spark: SparkSession, *reports: tuple[int, int, int, int]) -> Any:
    """What tasks have summed up: stage, partition, attempt, value."""
    jvm = spark._jvm
    assert jvm is not None
    made = jvm.org.apache.spark.sql.tidemill.sum.TaskSums()
    for report in reports:
        made.add(*report)
    return made


def test_rows_of_one_attempt_add_up(spark: SparkSession) -> None:
    assert sums(spark, (1, 0, 10, 5), (1, 0, 10, 2), (1, 1, 11, 3), (2, 0, 12, 1)).total() == 11


def test_a_task_that_is_done_again_counts_once(spark: SparkSession) -> None:
    first = sums(spark, (1, 0, 10, 7), (1, 1, 11, 3))
    again = sums(spark, (1, 0, 12, 7))
    assert first.merge(again).total() == 10


def test_sums_cross_from_task_to_driver(spark: SparkSession) -> None:
    jvm = spark._jvm
    assert jvm is not None
    sent = sums(spark, (1, 0, 10, 7), (2, 1, 11, -3)).toBytes()
    received = jvm.org.apache.spark.sql.tidemill.sum.TaskSums.fromBytes(sent)
    assert received.total() == 4
    assert received.merge(sums(spark, (1, 0, 10, 1))).total() == 5


def test_a_sum_that_is_looked_at_goes_on(spark: SparkSession) -> None:
    """A task's sum is told while the task goes on; another one's rows may come in between."""
    made = sums(spark, (1, 0, 10, 5))
    assert (made.total(), len(made.toBytes())) == (5, 24)
    for report in ((1, 0, 10, 2), (1, 1, 11, 1), (1, 0, 10, 3)):
        made.add(*report)
    assert (made.total(), made.total()) == (11, 11)
    made.add(1, 0, 12, 4)  # a new attempt stands for the one before
    assert made.total() == 5
