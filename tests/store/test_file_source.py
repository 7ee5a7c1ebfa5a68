"""Tables and paths of files as sources."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.store.conftest import Jobs, Store, bag, signed
from tidemill.sources import describe_position, pin

FORMATS = ["parquet", "orc", "json", "csv"]


@pytest.mark.parametrize("format_", FORMATS)
def test_new_files_of_a_table_are_insertions(spark: SparkSession, store: Store, table: str, format_: str) -> None:
    spark.sql(f"CREATE TABLE {table} (id INT, name STRING) USING {format_}")
    empty, _ = store.pin(table)
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")
    old, _ = store.pin(table)
    spark.sql(f"INSERT INTO {table} VALUES (2, 'b'), (3, NULL)")
    new, _ = store.pin(table)
    assert bag(store.snapshot(table, ["id", "name"], empty)) == Counter()
    assert bag(store.snapshot(table, ["name", "id"], old)) == Counter({("a", 1): 1, ("b", 2): 1})
    assert bag(store.snapshot(table, ["id"], new)) == Counter({(1,): 1, (2,): 2, (3,): 1})
    assert signed(store.changes(table, ["id", "name"], old, new)) == Counter({(2, "b"): 1, (3, None): 1})
    assert signed(store.changes(table, ["id"], new, new)) == Counter()
    source = store.describe(table)
    assert (source["kind"], source["format"], source["name"]) == ("files", format_, f"spark_catalog.default.{table}")
    [pinned] = pin(store, [source], [old])
    assert pinned.position == new
    assert (pinned.change.changed, pinned.change.old_readable, pinned.change.reason) == (True, True, None)
    assert pinned.change.deletes == 0
    assert "files" in describe_position(new)


def test_partitions_in_the_catalog(spark: SparkSession, store: Store, table: str, tmp_path: Path) -> None:
    spark.sql(f"CREATE TABLE {table} (id INT, day DATE, place STRING) USING parquet PARTITIONED BY (day, place)")
    spark.sql(f"INSERT INTO {table} VALUES (1, DATE'2024-01-01', 'a b/c:%'), (2, NULL, '1')")
    spark.sql(
        f"ALTER TABLE {table} ADD PARTITION (day = DATE'2024-02-02', place = '007') LOCATION '{tmp_path}/elsewhere'"
    )
    old, _ = store.pin(table)
    spark.sql(f"INSERT INTO {table} VALUES (3, DATE'2024-02-02', '007'), (4, DATE'2024-01-01', 'a b/c:%')")
    spark.sql(f"INSERT INTO {table} VALUES (5, DATE'2025-01-01', NULL)")
    new, _ = store.pin(table)
    columns = ["id", "CAST(day AS STRING)", "place"]
    want = bag(spark.sql(f"SELECT {', '.join(columns)} FROM {table}"))
    assert bag(store.snapshot(table, ["id", "day", "place"], new).selectExpr(*columns)) == want
    got = bag(store.changes(table, ["id", "day", "place"], old, new).selectExpr(*columns))
    assert got == Counter(row for row in want.elements() if row[0] >= 3)
    assert bag(store.snapshot(table, ["day", "id"], old).selectExpr("id")) == Counter({(1,): 1, (2,): 1})
    pruned = store.snapshot(table, ["id", "place"], new).where("place = '007'")
    assert bag(pruned) == Counter({(3, "007"): 1})
    spark.sql(f"ALTER TABLE {table} DROP PARTITION (day = DATE'2024-02-02', place = '007')")
    [pinned] = pin(store, [store.describe(table)], [new])
    assert (pinned.change.reason or "").startswith("SOURCE_REWRITTEN")


@pytest.mark.parametrize("format_", FORMATS)
def test_paths_with_partitions_read_from_folders(
    spark: SparkSession, store: Store, tmp_path: Path, format_: str
) -> None:
    path = f"{tmp_path}/data set"
    name = f"{format_}.`{path}`"
    spark.sql("SELECT 1 AS id, 'x' AS p, 10 AS q UNION ALL SELECT 2, 'y z', 20").write.partitionBy("p", "q").format(
        format_
    ).save(path)
    old, _ = store.pin(name)
    spark.sql("SELECT 3 AS id, 'x' AS p, 30 AS q").write.mode("append").partitionBy("p", "q").format(format_).save(path)
    new, _ = store.pin(name)
    fields = store.snapshot(name, ["p", "q"], new)
    assert [f.dataType.simpleString() for f in fields.schema] == ["string", "int"]
    assert bag(store.snapshot(name, ["p", "q"], old)) == Counter({("x", 10): 1, ("y z", 20): 1})
    assert signed(store.changes(name, ["q", "p"], old, new)) == Counter({(30, "x"): 1})


def test_hidden_files_and_folders_that_are_no_partitions_are_not_read(
    spark: SparkSession, store: Store, tmp_path: Path
) -> None:
    path = tmp_path / "d"
    spark.range(3).coalesce(1).write.parquet(str(path))
    name = f"parquet.`{path}`"
    source = store.describe(name)
    before, _ = store.pin(name)
    part = next(path.glob("part-*.parquet"))
    for hidden in (
        "_temporary/x.parquet",
        ".hidden.parquet",
        "_x.parquet",
        "nested/part-1.parquet",
        "y.parquet._COPYING_",
    ):
        target = path / hidden
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(part.read_bytes())
    (path / "empty.parquet").touch()
    [pinned] = pin(store, [source], [before])
    assert pinned.position == before
    (path / "empty.parquet").unlink()  # Spark cannot even tell the schema of a folder with such a file
    assert before["files"] == 1
    assert bag(store.snapshot(name, ["id"], before)) == bag(spark.read.parquet(str(path)))


def test_files_gone_or_written_over(spark: SparkSession, store: Store, tmp_path: Path) -> None:
    path = tmp_path / "d"
    spark.range(30).repartition(3).write.parquet(str(path))
    source = store.describe(f"parquet.`{path}`")
    [first] = pin(store, [source])
    assert first.change.changed
    victim = sorted(path.glob("part-*.parquet"))[0]
    os.utime(victim, (1, 1))
    [touched] = pin(store, [source], [first.position])
    assert (touched.change.changed, touched.change.old_readable) == (True, False)
    assert (touched.change.reason or "").startswith("SOURCE_REWRITTEN")
    victim.unlink()
    [gone] = pin(store, [source], [first.position])
    assert (gone.change.reason or "").startswith("SOURCE_REWRITTEN")
    [same] = pin(store, [source], [gone.position])
    assert not same.change.changed


def test_a_table_made_anew_is_another_source(spark: SparkSession, store: Store, table: str, tmp_path: Path) -> None:
    create = f"CREATE TABLE {table} (id INT) USING parquet LOCATION '{tmp_path}/t'"
    spark.sql(create)
    spark.sql(f"INSERT INTO {table} VALUES (1)")
    source = store.describe(table)
    [first] = pin(store, [source])
    spark.sql(f"DROP TABLE {table}")
    spark.sql(create)
    [second] = pin(store, [source], [first.position])
    assert second.position["pages"] == first.position["pages"]
    assert (second.change.reason or "").startswith("SOURCE_REPLACED")


def test_pinning_runs_no_job_and_reading_lists_nothing(spark: SparkSession, store: Store, table: str) -> None:
    spark.sql(f"CREATE TABLE {table} (id BIGINT, p BIGINT) USING parquet PARTITIONED BY (p)")
    spark.sql(f"INSERT INTO {table} SELECT id, id % 80 FROM range(160)")
    source = store.describe(table)
    old, _ = store.pin(table)
    spark.sql(f"INSERT INTO {table} VALUES (1000, 5)")
    jobs = Jobs(spark)
    [pinned] = pin(store, [source], [old])
    assert pinned.position["files"] > 80
    changed = store.changes(table, ["id", "p"], old, pinned.position)
    changed._jdf.queryExecution().executedPlan()
    assert jobs.since_start() == 0
    assert signed(changed) == Counter({(1000, 5): 1})


def test_of_a_long_listing_one_page_changes(spark: SparkSession, store: Store, tmp_path: Path) -> None:
    """And only the new file is read, with the values of its folder."""
    (tmp_path / "one").write_text("10\n")
    for p in range(30):
        folder = tmp_path / "d" / f"p={p}"
        folder.mkdir(parents=True)
        for n in range(300):
            os.link(tmp_path / "one", folder / f"part-{n:05d}.txt")
    name = f"text.`{tmp_path}/d`"
    source = store.describe(name)
    [old] = pin(store, [source])
    assert old.position["files"] == 9000
    assert len(old.position["pages"]) >= 2
    (tmp_path / "d" / "p=3" / "more.txt").write_text("20\n")
    [new] = pin(store, [source], [old.position])
    assert (new.change.changed, new.change.reason) == (True, None)
    assert new.position["bytes"] == old.position["bytes"] + 3
    assert len(set(new.position["pages"]) - set(old.position["pages"])) <= 2
    changes = store.changes(name, ["value", "p"], old.position, new.position)
    assert signed(changes) == Counter({("20", 3): 1})
    assert len(changes.inputFiles()) == 1


def test_partitions_in_one_folder_each_have_its_rows(spark: SparkSession, store: Store, table: str) -> None:
    spark.sql(f"CREATE TABLE {table} (id INT, p INT) USING parquet PARTITIONED BY (p)")
    spark.sql(f"INSERT INTO {table} VALUES (1, 1), (2, 2)")
    old, _ = store.pin(table)
    location = next(r.data_type for r in spark.sql(f"DESCRIBE EXTENDED {table}").collect() if r.col_name == "Location")
    spark.sql(f"ALTER TABLE {table} ADD PARTITION (p = 7) LOCATION '{location}/p=1'")
    [both] = pin(store, [store.describe(table)], [old])
    assert (both.change.reason or "").endswith("a partition has other values")
    assert bag(store.snapshot(table, ["id", "p"], both.position)) == Counter({(1, 1): 1, (1, 7): 1, (2, 2): 1})


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_a_source_used_twice_is_read_once(spark: SparkSession, store: Store, table: str, kind: str) -> None:
    spark.sql(f"CREATE TABLE {table} USING {kind} AS SELECT id, id % 3 AS k FROM range(100)")
    at, _ = store.pin(table)
    left = store.snapshot(table, ["k"], at).groupBy("k").count()
    right = store.snapshot(table, ["k"], at).groupBy("k").count()
    joined = left.join(right, "k")
    joined.collect()
    assert "ReusedExchange" in joined._jdf.queryExecution().executedPlan().toString()


def test_others_are_static(spark: SparkSession, store: Store) -> None:
    source = store.describe("range(3)")
    assert (source["kind"], source["constant"]) == ("static", True)
    [pinned] = pin(store, [source], [None])
    assert pinned.position is None
    assert not pinned.change.changed
    assert bag(store.snapshot("range(3)", ["id"], None)) == Counter({(0,): 1, (1,): 1, (2,): 1})
