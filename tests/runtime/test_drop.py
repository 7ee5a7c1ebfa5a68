"""DROP INCREMENTAL VIEW of a view that is not as it should be."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession


def root(spark: SparkSession, view: str) -> Path:
    rows = spark.sql(f"DESCRIBE TABLE EXTENDED {view}").collect()
    return Path(re.sub(r"^file:/*", "/", next(r.data_type for r in rows if r.col_name == "Location")))


@pytest.mark.parametrize("damaged", ["log/*.json", "view.json"])
def test_a_damaged_view_can_be_dropped(spark: SparkSession, events: str, damaged: str) -> None:
    spark.sql("CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS SELECT k, count(*) AS n FROM events GROUP BY k")
    folder = root(spark, "v")
    for file in (folder / "_tidemill").glob(damaged):
        file.write_text('{"run": ')
    spark.sql("DROP INCREMENTAL VIEW v")
    assert not spark.catalog.tableExists("v")
    # what CREATE was told of the place stands in view.json: without it nobody may say that the files are the view's
    assert folder.exists() == (damaged == "view.json")
    shutil.rmtree(folder, ignore_errors=True)


def test_a_view_whose_files_are_gone_can_be_dropped(spark: SparkSession, events: str) -> None:
    spark.sql("CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS SELECT k FROM events")
    shutil.rmtree(root(spark, "v"))
    spark.sql("DROP INCREMENTAL VIEW v")
    assert not spark.catalog.tableExists("v")
