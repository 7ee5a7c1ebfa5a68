"""Hadoop's settings as the bridge keeps them for a statement, and as it sends them to tasks."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

NAME = "tidemill.test.setting"


@pytest.fixture
def settings(spark: SparkSession) -> Iterator[Any]:
    """The object that keeps them; what a test sets is unset."""
    assert spark._jvm is not None
    yield spark._jvm.org.apache.spark.sql.tidemill.base.HadoopSettings
    spark.conf.unset(NAME)
    of_application(spark).unset(NAME)
    spark.sql("SHOW INCREMENTAL VIEWS")


def of_application(spark: SparkSession) -> Any:
    return spark.sparkContext._jsc.hadoopConfiguration()


def of(settings: Any, spark: SparkSession) -> Any:
    return settings.of(spark._jsparkSession)


def test_they_are_copied_once_in_a_statement(spark: SparkSession, settings: Any) -> None:
    assert of(settings, spark).equals(of(settings, spark))
    before = of(settings, spark)
    spark.sql("SHOW INCREMENTAL VIEWS")
    assert not of(settings, spark).equals(before)


def test_what_a_session_sets_counts_at_once(spark: SparkSession, settings: Any) -> None:
    assert of(settings, spark).get(NAME) is None
    spark.conf.set(NAME, "one")
    assert of(settings, spark).get(NAME) == "one"
    spark.conf.set(NAME, "two")
    assert of(settings, spark).get(NAME) == "two"


def test_what_the_application_sets_counts_from_the_next_statement_on(spark: SparkSession, settings: Any) -> None:
    of(settings, spark)
    of_application(spark).set(NAME, "three")
    spark.sql("SHOW INCREMENTAL VIEWS")
    assert of(settings, spark).get(NAME) == "three"


def test_tasks_get_the_same(spark: SparkSession, settings: Any) -> None:
    """Also what was set or unset since the application's were sent."""
    assert spark._jvm is not None
    copy = spark._jvm.org.apache.hadoop.conf.Configuration
    own = copy(of(settings, spark))
    context = spark._jsparkSession.sparkContext()
    present = "io.file.buffer.size"
    assert own.get(present) is not None
    own.set(NAME, "four")
    own.unset(present)
    sent = settings.forTasks(context, own)
    made = sent.settings()
    assert (made.get(NAME), made.get(present)) == ("four", None)
    assert made.size() == own.size()
    assert sent.shared().equals(settings.forTasks(context, of(settings, spark)).shared())


@pytest.mark.parametrize("mode", ["rw-r-----", "rwxrwxrwx", "r--------"])
def test_local_files_get_their_permissions_without_a_program(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    assert spark._jvm is not None
    base, fs = spark._jvm.org.apache.spark.sql.tidemill.base, spark._jvm.org.apache.hadoop.fs
    own = spark._jvm.org.apache.hadoop.conf.Configuration(False)
    base.LocalFiles.use(own)
    files = fs.Path(f"file:{tmp_path}").getFileSystem(own)
    assert files.getClass().getName().endswith("tidemill.base.LocalFiles")
    (tmp_path / "one").touch()
    permission = fs.permission.FsPermission.valueOf(f"-{mode}")
    files.setPermission(fs.Path(f"file:{tmp_path}/one"), permission)
    assert stat.filemode((tmp_path / "one").stat().st_mode) == f"-{mode}"


def test_a_file_system_that_users_name_stays(spark: SparkSession) -> None:
    assert spark._jvm is not None
    own = spark._jvm.org.apache.hadoop.conf.Configuration(False)
    own.set("fs.file.impl", "org.example.Files")
    spark._jvm.org.apache.spark.sql.tidemill.base.LocalFiles.use(own)
    assert own.get("fs.file.impl") == "org.example.Files"
