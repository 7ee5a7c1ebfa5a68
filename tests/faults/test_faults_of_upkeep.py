"""The points of the statements that look after what a view keeps: VACUUM, compaction, DROP, and making a view where
one was; points.py says what must hold after each."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.conftest import difference, location_of, newest_entry
from tests.faults.checks import check
from tests.faults.points import BY_KEY, HALFWAY, KINDS, endure
from tests.log_of_a_year import grow
from tidemill.cost.costing import CpuMs
from tidemill.runtime.storage.log import SPAN
from tidemill.search.keep import compaction
from tidemill.search.keep.compaction import Compaction

pytestmark = pytest.mark.slow


def test_vacuum(spark: SparkSession, view: str) -> None:
    def prepare(trial: int) -> None:
        for n in range(3):
            spark.sql(f"INSERT INTO events VALUES ({n}, {trial})")
            spark.sql("REFRESH INCREMENTAL VIEW v")

    def after(trial: int, where: str) -> None:
        check(spark, "v", where)
        assert difference(spark, "v", BY_KEY) == (0, 0), where

    endure(spark, prepare, lambda _: "VACUUM INCREMENTAL VIEW v RETAIN 0 HOURS", after, 1)


def test_vacuum_of_a_long_log(spark: SparkSession, events: str) -> None:
    """Its oldest entries go into checkpoints before they go."""
    create = f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) REFRESH POLICY INCREMENTAL AS {BY_KEY}"

    def prepare(_: int) -> None:
        spark.sql(create)
        grow(str(location_of(spark, "v")), SPAN + 3)

    def after(_: int, where: str) -> None:
        check(spark, "v", where)
        folder = location_of(spark, "v") / "_tidemill"
        assert len(list((folder / "checkpoints").glob("*[0-9].json"))) == 1, where
        assert len(list((folder / "log").glob("*[0-9].json"))) == 3, where
        spark.sql("INSERT INTO events VALUES (1, 1)")
        row = spark.sql("REFRESH INCREMENTAL VIEW v").collect()[0]
        assert (row.run, row.kind) == (SPAN + 3, "INCREMENTAL"), where
        assert difference(spark, "v", BY_KEY) == (0, 0), where
        spark.sql("DROP INCREMENTAL VIEW v")

    vacuum = "VACUUM INCREMENTAL VIEW v RETAIN 0 HOURS"
    assert "files write_new" in endure(spark, prepare, lambda _: vacuum, after, 2, (*KINDS, HALFWAY), 3)


def test_compaction(spark: SparkSession, view: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every run puts the pieces of its state together that there are."""
    monkeypatch.setattr(compaction, "due", lambda found, *_: Compaction(0, 1, CpuMs(0.0)) if len(found) > 1 else None)

    def prepare(trial: int) -> None:
        for n in range(2):
            spark.sql(f"INSERT INTO events VALUES ({trial % 3}, {trial + n})")
            spark.sql("REFRESH INCREMENTAL VIEW v")
        spark.sql(f"INSERT INTO events VALUES ({trial % 3}, {trial})")

    compacted = []

    def after(trial: int, where: str) -> None:
        compacted.append(bool(newest_entry(location_of(spark, "v"))["compacted"]))
        check(spark, "v", where)
        row = spark.sql("REFRESH INCREMENTAL VIEW v").collect()[0]
        assert row.kind in {"INCREMENTAL", "NO_DATA"}, where
        assert difference(spark, "v", BY_KEY) == (0, 0), where

    endure(spark, prepare, lambda _: "REFRESH INCREMENTAL VIEW v", after, 8, part=9)
    assert compacted[0]


def test_a_location_where_a_view_was(spark: SparkSession, events: str, tmp_path: Path) -> None:
    """Whoever finds the view in the catalog finds it as the last statement has it; its rows are as they were."""
    spark.sql(f"CREATE INCREMENTAL VIEW v LOCATION '{tmp_path}/v' SCHEDULE (ON DEMAND) AS {BY_KEY}")

    def create(trial: int) -> str:
        said = f"COMMENT 'number {trial}' LOCATION '{tmp_path}/v' TBLPROPERTIES (trial = {trial})"
        terms = "REFRESH POLICY INCREMENTAL" if trial % 2 else "REFRESH POLICY STRICT"
        query = BY_KEY if trial % 2 else BY_KEY.replace("SELECT", "select")
        return f"CREATE INCREMENTAL VIEW v {said} SCHEDULE (ON DEMAND COST {trial}) {terms} AS {query}"

    def prepare(_: int) -> None:
        spark.sql("DROP INCREMENTAL VIEW v")

    def after(trial: int, where: str) -> None:
        if not spark.catalog.tableExists("v"):
            spark.sql(create(trial))
        (made,) = spark.sql("SHOW CREATE INCREMENTAL VIEW v").collect()
        for word in (f"'number {trial}'", f"'trial' = '{trial}'", "INCREMENTAL" if trial % 2 else "STRICT"):
            assert word in made[0], (where, made[0])
        assert f"COST {trial}" in made[0] or trial == 1, (where, made[0])
        assert spark.catalog.getTable("v").description == f"number {trial}", where
        check(spark, "v", where)
        spark.sql(f"INSERT INTO events VALUES ({trial % 3}, {trial})")
        row = spark.sql("REFRESH INCREMENTAL VIEW v").collect()[0]
        assert (row.run, row.kind) == (trial + 1, "INCREMENTAL"), where
        assert difference(spark, "v", BY_KEY) == (0, 0), where

    points = endure(spark, prepare, create, after, 6, part=2)
    assert "run" not in points
    assert points[-1] == "catalog create_table"
    spark.sql("DROP INCREMENTAL VIEW v")


@pytest.mark.parametrize("using", ["", "USING delta"])
def test_drop(spark: SparkSession, events: str, using: str) -> None:
    create = f"CREATE INCREMENTAL VIEW v {using} SCHEDULE (ON DEMAND) AS {BY_KEY}"

    def after(trial: int, where: str) -> None:
        if spark.catalog.tableExists("v"):
            check(spark, "v", where)
        else:  # what a DROP that died left lying there does not keep anyone from making the view again
            spark.sql(create)
            check(spark, "v", where)
        spark.sql("DROP INCREMENTAL VIEW v")

    def prepare(_: int) -> None:
        spark.sql(create)

    part = 6 if using else 2
    endure(spark, prepare, lambda _: "DROP INCREMENTAL VIEW v", after, 7, (*KINDS, HALFWAY), part)
