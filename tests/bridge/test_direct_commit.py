"""Files are written where they stay, and counted once their attempt is committed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession


def test_only_what_is_committed_counts(spark: SparkSession, tmp_path: Path) -> None:
    """Two attempts of one task write side by side; one fails, and of two that end the first to be heard of counts."""
    jvm: Any = spark._jvm
    mapreduce = jvm.org.apache.hadoop.mapreduce
    conf = spark._jsc.hadoopConfiguration()
    folder, name = tmp_path / "a folder", jvm.org.apache.spark.internal.io.FileNameSpec("", "-c000.parquet")
    partition = jvm.scala.Option.apply("k=1/l=x%20y")

    def committer() -> Any:
        return jvm.org.apache.spark.sql.tidemill.step.DirectCommit("job", str(folder))

    def writes(attempt: int, partition: Any) -> tuple[Any, Any, Path]:
        kind = mapreduce.TaskType.MAP
        task = mapreduce.task.TaskAttemptContextImpl(conf, mapreduce.TaskAttemptID("job", 0, kind, 3, attempt))
        own = committer()
        own.setupTask(task)
        file = Path(own.newTaskTempFile(task, partition, name))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("rows")
        return own, task, file

    driver = committer()
    driver.setupJob(mapreduce.task.JobContextImpl(conf, mapreduce.JobID("job", 0)))
    assert folder.is_dir()
    failed, failed_task, failed_file = writes(17, jvm.scala.Option.empty())
    late, late_task, late_file = writes(18, partition)
    kept, kept_task, kept_file = writes(19, partition)
    assert failed_file.parent == folder
    assert late_file.parent == kept_file.parent == folder / "k=1" / "l=x%20y"
    failed.abortTask(failed_task)
    assert not failed_file.exists()
    late.commitTask(late_task)
    messages = jvm.scala.collection.immutable.Nil.appended(kept.commitTask(kept_task))
    driver.commitJob(mapreduce.task.JobContextImpl(conf, mapreduce.JobID("job", 0)), messages)
    path = jvm.org.apache.hadoop.fs.Path(str(folder))
    taken = jvm.org.apache.spark.sql.tidemill.step.DirectCommit.taken
    assert taken(path).mkString(",") == f"{kept_file.name}/l=x%20y/k=1 -> None"
    assert kept_file.name != late_file.name
    with pytest.raises(Exception, match="no job was committed"):
        taken(path)
