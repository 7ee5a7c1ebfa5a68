"""DROP INCREMENTAL VIEW of a view that is not as it should be."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.conftest import location_of

BY_KEY = "SELECT k, count(*) AS n FROM events GROUP BY k"


@pytest.mark.parametrize("gone", [False, True], ids=["damaged", "gone"])
@pytest.mark.parametrize("what", ["log/*.json", "view.json", "definition/*.json", "amendments/*.json"])
def test_a_damaged_view_can_be_dropped(
    spark: SparkSession, events: str, warned: list[str], what: str, gone: bool
) -> None:
    spark.sql("CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS SELECT k FROM events")
    spark.sql(f"ALTER INCREMENTAL VIEW v AS {BY_KEY}")
    spark.sql("ALTER INCREMENTAL VIEW v SUSPEND")
    folder = location_of(spark, "v")
    files = [*(folder / "_tidemill").glob(what)]
    assert files
    for file in files:
        file.unlink() if gone else file.write_text('{"run": ')
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    warned.clear()
    spark.sql("DROP INCREMENTAL VIEW v")
    assert not spark.catalog.tableExists("v")
    # what CREATE was told of the place stands in view.json: without it nobody may say that the files are the view's
    left = what == "view.json"
    assert folder.exists() == left
    assert [str(folder) in text for text in warned] == [True] * left
    shutil.rmtree(folder, ignore_errors=True)
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS {BY_KEY}")


@pytest.mark.parametrize("what", ["", "_tidemill/definition"])
def test_where_create_was_told_the_place_the_files_stay(
    spark: SparkSession, events: str, tmp_path: Path, warned: list[str], what: str
) -> None:
    spark.sql(f"CREATE INCREMENTAL VIEW v LOCATION '{tmp_path / 'v'}' SCHEDULE (ON DEMAND) AS SELECT k FROM events")
    spark.sql(f"ALTER INCREMENTAL VIEW v AS {BY_KEY}")
    if what:
        shutil.rmtree(tmp_path / "v" / what)
    warned.clear()
    spark.sql("DROP INCREMENTAL VIEW v")
    assert not spark.catalog.tableExists("v")
    assert (tmp_path / "v" / "_tidemill" / "view.json").exists()
    assert warned == []


def test_a_damaged_view_holds_back_nothing_of_those_below_it(spark: SparkSession, events: str, tmp_path: Path) -> None:
    spark.sql("CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS SELECT k FROM events")
    spark.sql(f"CREATE INCREMENTAL VIEW w LOCATION '{tmp_path / 'w'}' SCHEDULE (ON DEMAND) AS SELECT k FROM v")
    leases = location_of(spark, "v") / "_tidemill" / "leases"
    assert [*leases.glob("*.json")]
    for entry in (tmp_path / "w" / "_tidemill" / "log").glob("*.json"):
        entry.write_text("{")
        entry.with_name(f".{entry.name}.crc").unlink(missing_ok=True)
    spark.sql("DROP INCREMENTAL VIEW w")
    assert [*leases.glob("*.json")] == []


def test_a_view_whose_files_are_gone_can_be_dropped(spark: SparkSession, events: str, warned: list[str]) -> None:
    spark.sql("CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS SELECT k FROM events")
    shutil.rmtree(location_of(spark, "v"))
    warned.clear()
    spark.sql("DROP INCREMENTAL VIEW v")
    assert not spark.catalog.tableExists("v")
    assert warned == []
