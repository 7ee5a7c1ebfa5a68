"""Publishing: a plain table over the location reads exactly the files that the manifest lists."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, StructField, StructType

from tidemill.runtime.storage import publish
from tidemill.runtime.storage.files import Files
from tidemill.runtime.storage.stage import Stage

SCHEMA = StructType([StructField("id", IntegerType())])


def write(spark: SparkSession, files: Files, folder: str, values: list[int]) -> list[dict[str, Any]]:
    """Writes a folder of data files as a run does; answers its listing."""
    spark.createDataFrame([(v,) for v in values], "id int").repartition(2).write.parquet(folder)
    return [
        {"path": s.path, "bytes": s.bytes, "modified": s.modified}
        for s in files.list(folder)
        if s.name.startswith("part-")
    ]


def ids(spark: SparkSession, table: str) -> list[int]:
    return sorted(r.id for r in spark.table(table).collect())


@pytest.mark.parametrize("folder", ["plain", "with space", "perc%20ent", "ümlaut+plus"])
@pytest.mark.parametrize("settled", [True, False])
def test_a_plain_table_reads_exactly_the_listed_files(
    spark: SparkSession, files: Files, tmp_path: Path, table: str, folder: str, settled: bool
) -> None:
    """Files in the location itself are found by any table; files in folders need an option."""
    place = f"file:{tmp_path}/{folder}"
    live = []
    with Stage(files, place, 0) as stage:
        for values in ([1, 2], [3, 4]):
            written = write(spark, files, stage.data(), values)
            live.append(stage.move_into_place(written) if settled else written)
        stage.keep()
    assert publish.published(files, place) is None
    assert publish.publish(files, place, 0, live[0])
    options = {} if settled else {"recursiveFileLookup": "true"}
    spark.catalog.createTable(table, path=place, source="parquet", schema=SCHEMA, **options)
    assert ids(spark, table) == [1, 2]
    assert publish.publish(files, place, 1, live[1])
    spark.sql(f"REFRESH TABLE {table}")
    assert ids(spark, table) == [3, 4]
    assert ids(spark.newSession(), table) == [3, 4]
    assert spark.read.options(**options).schema(SCHEMA).parquet(place).count() == 2


def test_an_empty_view_is_an_empty_table(spark: SparkSession, files: Files, location: str, table: str) -> None:
    publish.publish(files, location, 0, [])
    spark.sql(f"CREATE TABLE {table} (id INT) USING parquet LOCATION '{location}'")
    assert ids(spark, table) == []


def test_only_two_manifests_stay_and_older_runs_are_not_published_again(files: Files, location: str) -> None:
    for run in (0, 1, 3, 9, 10, 12):
        assert publish.publish(files, location, run, [])
    assert sorted(s.name for s in files.list(f"{location}/_spark_metadata")) == ["11.compact", "12.compact"]
    assert publish.published(files, location) == 12
    assert not publish.publish(files, location, 12, [])
    assert not publish.publish(files, location, 4, [])


def test_publishing_is_redone_after_a_crash(spark: SparkSession, files: Files, location: str, table: str) -> None:
    with Stage(files, location, 7) as stage:
        listed = stage.move_into_place(write(spark, files, stage.data(), [7]))
        stage.keep()
    publish.publish(files, location, 6, [])
    files.write(f"{location}/_spark_metadata/.7.compact.0000.tmp", "half of a manif")  # what a crash leaves
    assert publish.published(files, location) == 6
    publish.publish(files, location, 7, listed)
    spark.sql(f"CREATE TABLE {table} (id INT) USING parquet LOCATION '{location}'")
    assert ids(spark, table) == [7]
