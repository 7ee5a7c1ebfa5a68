"""Changes of Delta tables, with and without the change data feed, with and without deletion vectors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.store.conftest import Jobs, Rows, Store, bag, signed
from tidemill.sources import describe_position, pin

FLAVOURS = [(feed, vectors) for feed in (False, True) for vectors in (False, True)]


def create(spark: SparkSession, table: str, columns: str, feed: bool, vectors: bool, rest: str = "") -> None:
    spark.sql(
        f"CREATE TABLE {table} ({columns}) USING delta {rest} TBLPROPERTIES ("
        f"delta.enableChangeDataFeed = {str(feed).lower()}, delta.enableDeletionVectors = {str(vectors).lower()})"
    )


def check(store: Store, table: str, fields: Sequence[str], old: Any, new: Any) -> Rows:
    """The changes are exactly the difference of the two snapshots; answers them."""
    before, after = bag(store.snapshot(table, fields, old)), bag(store.snapshot(table, fields, new))
    got = signed(store.changes(table, fields, old, new))
    assert got == difference(before, after)
    return got


def difference(before: Rows, after: Rows) -> Rows:
    """Net changes from one bag to another."""
    return Counter({row: n for row in before | after if (n := after[row] - before[row])})


@pytest.mark.parametrize(
    ("feed", "vectors"), [f if f == (True, False) else pytest.param(*f, marks=pytest.mark.slow) for f in FLAVOURS]
)
def test_every_kind_of_write(spark: SparkSession, store: Store, table: str, feed: bool, vectors: bool) -> None:
    create(spark, table, "id INT, v STRING, p INT", feed, vectors, "PARTITIONED BY (p)" if feed != vectors else "")
    spark.sql(f"INSERT INTO {table} SELECT id, concat('v', id % 4), id % 3 FROM range(0, 60, 1, 2)")
    fields = ["v", "p", "id"]
    contents = []
    for statement in (
        "SELECT 1",
        f"INSERT INTO {table} VALUES (100, 'new', 1), (100, 'new', 1), (101, NULL, NULL)",
        f"DELETE FROM {table} WHERE id % 7 = 0",
        f"UPDATE {table} SET v = 'changed' WHERE id % 5 = 1",
        f"UPDATE {table} SET p = 2 WHERE id = 4",
        f"DELETE FROM {table} WHERE id % 7 = 1",
        f"""MERGE INTO {table} t USING (SELECT id, id % 2 AS k FROM range(30, 70)) s ON t.id = s.id
            WHEN MATCHED AND k = 0 THEN UPDATE SET v = 'merged' WHEN MATCHED THEN DELETE
            WHEN NOT MATCHED THEN INSERT (id, v, p) VALUES (s.id, 'merged', 0)""",
        f"DELETE FROM {table} WHERE p = 1",
        f"INSERT OVERWRITE {table} SELECT * FROM {table} WHERE id > 10",
        f"DELETE FROM {table}",
        f"INSERT INTO {table} VALUES (1, 'again', 0)",
        f"RESTORE TABLE {table} TO VERSION AS OF 4",
    ):
        spark.sql(statement)
        contents.append((store.pin(table)[0], bag(spark.table(table).select(*fields))))
    pairs = [*pairwise(contents), (contents[0], contents[3]), (contents[0], contents[-1])]
    for (old, before), (new, after) in pairs:
        assert signed(store.changes(table, fields, old, new)) == difference(before, after)
    assert bag(store.snapshot(table, fields, contents[3][0])) == contents[3][1]
    check(store, table, ["p"], contents[0][0], contents[7][0])


@pytest.mark.parametrize(("feed", "vectors"), FLAVOURS)
def test_optimize_is_no_change(spark: SparkSession, store: Store, table: str, feed: bool, vectors: bool) -> None:
    create(spark, table, "id INT", feed, vectors)
    for n in range(4):
        spark.sql(f"INSERT INTO {table} VALUES ({n}), ({n + 10})")
    spark.sql(f"DELETE FROM {table} WHERE id = 12")
    old, _ = store.pin(table)
    spark.sql(f"OPTIMIZE {table}")
    new, summary = store.pin(table, old)
    assert new["version"] > old["version"]
    assert not summary["changed"]
    assert signed(store.changes(table, ["id"], old, new)) == Counter()
    spark.sql(f"DELETE FROM {table} WHERE id = 3")
    spark.sql(f"OPTIMIZE {table}")
    later, summary = store.pin(table, old)
    assert (summary["changed"], summary["deletes"]) == (True, 1)
    assert check(store, table, ["id"], old, later) == Counter({(3,): -1})


def test_a_rewritten_file_costs_only_the_changed_rows(spark: SparkSession, store: Store, table: str) -> None:
    create(spark, table, "id INT, v INT, w STRING", feed=False, vectors=False)
    spark.sql(f"INSERT INTO {table} SELECT /*+ REPARTITION(1) */ id, 0, 'w' FROM range(1000)")
    old, _ = store.pin(table)
    spark.sql(f"UPDATE {table} SET v = 1 WHERE id IN (3, 5)")
    new, summary = store.pin(table, old)
    assert store.changes(table, ["id", "v"], old, new).count() == 4
    assert store.changes(table, ["id", "w"], old, new).count() == 0
    assert (summary["inserts"], summary["deletes"]) == (2, 2)


def test_changes_are_not_netted_across_commits(spark: SparkSession, store: Store, table: str) -> None:
    create(spark, table, "id INT", feed=False, vectors=False)
    old, _ = store.pin(table)
    spark.sql(f"INSERT INTO {table} VALUES (1), (2)")
    spark.sql(f"DELETE FROM {table} WHERE id = 1")
    new, summary = store.pin(table, old)
    assert sorted(tuple(r) for r in store.changes(table, ["id"], old, new).collect()) == [(1, -1), (1, 1), (2, 1)]
    assert (summary["inserts"], summary["deletes"]) == (2, 1)


def test_types_that_do_not_group(spark: SparkSession, store: Store, table: str) -> None:
    create(spark, table, "id INT, m MAP<STRING, INT>", feed=False, vectors=False)
    spark.sql(f"INSERT INTO {table} VALUES (1, map('a', 1)), (2, map('b', 2))")
    old, _ = store.pin(table)
    spark.sql(f"UPDATE {table} SET m = map('c', 3) WHERE id = 1")
    new, _ = store.pin(table)
    changes = store.changes(table, ["m"], old, new).selectExpr("map_entries(m)[0].key AS k", "_n")
    assert signed(changes) == Counter({("c",): 1, ("a",): -1})


def test_the_feed_switched_on_and_off_in_between(spark: SparkSession, store: Store, table: str) -> None:
    create(spark, table, "id INT, v INT", feed=False, vectors=False)
    spark.sql(f"INSERT INTO {table} SELECT id, 0 FROM range(20)")
    old, _ = store.pin(table)
    for n, feed in enumerate(("false", "true", "false")):
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES (delta.enableChangeDataFeed = {feed})")
        spark.sql(f"UPDATE {table} SET v = v + 1 WHERE id % 3 = {n}")
        spark.sql(f"DELETE FROM {table} WHERE id = {n}")
        check(store, table, ["id", "v"], old, store.pin(table)[0])


def test_column_mapping_and_columns_that_change(spark: SparkSession, store: Store, table: str) -> None:
    spark.sql(
        f"CREATE TABLE {table} (id INT, a INT, b INT, c INT) USING delta PARTITIONED BY (c) TBLPROPERTIES ("
        "delta.columnMapping.mode = 'name', delta.enableChangeDataFeed = true)"
    )
    spark.sql(f"INSERT INTO {table} SELECT id, id, id, id % 2 FROM range(10)")
    old, _ = store.pin(table)
    spark.sql(f"ALTER TABLE {table} DROP COLUMN b")
    spark.sql(f"ALTER TABLE {table} ADD COLUMN d INT")
    spark.sql(f"UPDATE {table} SET a = -1, d = 7 WHERE id = 3")
    source = {
        **store.describe(table),
        "fields": [["id", "integer", True], ["a", "integer", True], ["c", "integer", True]],
    }
    [pinned] = pin(store, [source], [old])
    assert pinned.change.reason is None
    assert signed(store.changes(table, ["id", "a", "c"], old, pinned.position)) == Counter(
        {(3, 3, 1): -1, (3, -1, 1): 1}
    )
    spark.sql(f"ALTER TABLE {table} DROP COLUMN a")
    spark.sql(f"ALTER TABLE {table} ADD COLUMN a INT")
    [anew] = pin(store, [source], [old])
    assert anew.change.changed
    assert (anew.change.reason or "").startswith("SCHEMA_CHANGED: column a")


def test_snapshots_stay_as_they_were(spark: SparkSession, store: Store, table: str) -> None:
    create(spark, table, "id INT", feed=False, vectors=True)
    spark.sql(f"INSERT INTO {table} VALUES (1), (2)")
    old, _ = store.pin(table)
    frame = store.snapshot(table, ["id"], old)
    spark.sql(f"DELETE FROM {table} WHERE id = 1")
    assert bag(frame) == bag(store.snapshot(table, ["id"], old)) == Counter({(1,): 1, (2,): 1})


def test_pinning_and_summing_up_run_no_job(spark: SparkSession, store: Store, table: str) -> None:
    create(spark, table, "id INT", feed=False, vectors=False)
    spark.sql(f"INSERT INTO {table} VALUES (1), (2)")
    source = store.describe(table)
    assert (source["kind"], source["format"], source["name"]) == ("delta", "delta", f"spark_catalog.default.{table}")
    old, _ = store.pin(table)
    spark.sql(f"INSERT INTO {table} VALUES (3)")
    jobs = Jobs(spark)
    [pinned] = pin(store, [source], [old])
    assert jobs.since_start() == 0
    change = pinned.change
    assert (change.changed, change.old_readable, change.inserts, change.deletes) == (True, True, 1, 0)
    assert describe_position(pinned.position) == str(old["version"] + 1)
    [same] = pin(store, [source], [pinned.position])
    assert not same.change.changed


def test_a_snapshot_is_read_without_asking_the_log_again(spark: SparkSession, store: Store, table: str) -> None:
    create(spark, table, "id INT", feed=False, vectors=True)
    spark.sql(f"INSERT INTO {table} VALUES (1), (2)")
    old, _ = store.pin(table)
    spark.sql(f"DELETE FROM {table} WHERE id = 1")
    new, _ = store.pin(table)
    assert (old["rows"], new["rows"]) == (2, 1)
    for position, rows in ((old, [(1,), (2,)]), (new, [(2,)])):
        frame = store.snapshot(table, ["id"], position).where("id > 0")
        jobs = Jobs(spark)
        assert bag(frame) == Counter(rows)
        assert jobs.since_start() == 1


def test_a_table_of_more_files_than_its_checksum_lists(spark: SparkSession, store: Store, table: str) -> None:
    """Its rows follow from those before and the change, and its log is replayed in as many tasks as it is long."""
    tasks, listed = (
        "spark.databricks.delta.snapshotPartitions",
        "spark.databricks.delta.allFilesInCrc.thresholdNumFiles",
    )
    usual = spark.conf.get(tasks)
    try:
        spark.conf.unset(tasks)
        create(spark, table, "id INT", feed=False, vectors=False)
        spark.sql(f"INSERT INTO {table} SELECT /*+ REPARTITION(2) */ * FROM VALUES (1), (2)")
        old, _ = store.pin(table)
        spark.conf.set(listed, "1")
        for more in ("(3)", "(4)"):
            spark.sql(f"INSERT INTO {table} VALUES {more}")
        now, _ = store.pin(table)
        assert (old["rows"], now["rows"]) == (2, None)
        [pinned] = pin(store, [store.describe(table)], [old])
        assert (pinned.position["rows"], pinned.change.rows) == (4, 4.0)
        assert bag(store.snapshot(table, ["id"], now)) == Counter([(1,), (2,), (3,), (4,)])
        assert store.replay_tasks(table) == 1
    finally:
        spark.conf.set(tasks, str(usual))
        spark.conf.unset(listed)


def test_vacuumed_files_are_history_gone(spark: SparkSession, store: Store, table: str) -> None:
    create(spark, table, "id INT", feed=False, vectors=False)
    spark.sql(f"INSERT INTO {table} SELECT /*+ REPARTITION(1) */ id FROM range(10)")
    source = store.describe(table)
    [first] = pin(store, [source])
    spark.sql(f"INSERT INTO {table} VALUES (11)")
    spark.sql(f"DELETE FROM {table} WHERE id = 1")
    [before] = pin(store, [source], [first.position])
    assert (before.change.reason, before.change.old_readable) == (None, True)
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    try:
        spark.sql(f"VACUUM {table} RETAIN 0 HOURS")
    finally:
        spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")
    [gone] = pin(store, [source], [first.position])
    assert (gone.change.reason or "").startswith("HISTORY_GONE")
    assert not gone.change.old_readable


@pytest.mark.parametrize("known", [False, True], ids=["opened anew", "known to the process"])
def test_a_log_that_was_cleaned(spark: SparkSession, store: Store, table: str, known: bool) -> None:
    """Versions from the oldest checkpoint on are there, whatever the process knows of the log from before."""
    create(spark, table, "id INT", feed=False, vectors=False)
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES (delta.checkpointInterval = 3)")
    source = store.describe(table)
    positions = [store.pin(table)[0]]
    for n in range(6):
        spark.sql(f"INSERT INTO {table} VALUES ({n})")
        positions.append(store.pin(table)[0])

    versions = [p["version"] for p in positions[:-1]]

    def changes() -> list[tuple[int, bool, bool, float | None]]:
        told = [pin(store, [source], [old])[0].change for old in positions[:-1]]
        return [(v, c.reason is None, c.old_readable, c.inserts) for v, c in zip(versions, told, strict=True)]

    newest = positions[-1]["version"]
    assert changes() == [(v, True, True, newest - v) for v in versions]
    log = Path(source["path"].removeprefix("file:")) / "_delta_log"
    files = {file: int(file.name.lstrip(".")[:20]) for file in log.iterdir() if file.name.lstrip(".")[:20].isdigit()}
    checkpoint = max(version for file, version in files.items() if "checkpoint" in file.name)
    assert versions[0] < checkpoint - 1 < checkpoint < newest
    for file, version in files.items():
        if version < checkpoint:
            file.unlink()
    if not known:
        spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]
    assert [(v, told, old) for v, told, old, _ in changes()] == [
        (v, v >= checkpoint - 1, v >= checkpoint) for v in versions
    ]


def test_an_optimized_and_vacuumed_table_still_tells_later_changes(
    spark: SparkSession, store: Store, table: str
) -> None:
    create(spark, table, "id INT", feed=False, vectors=False)
    for n in range(3):
        spark.sql(f"INSERT INTO {table} VALUES ({n})")
    old, _ = store.pin(table)
    spark.sql(f"OPTIMIZE {table}")
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    try:
        spark.sql(f"VACUUM {table} RETAIN 0 HOURS")
    finally:
        spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")
    spark.sql(f"INSERT INTO {table} VALUES (9)")
    new, summary = store.pin(table, old)
    assert (summary["changes_readable"], summary["old_readable"], summary["reason"]) == (True, False, None)
    assert signed(store.changes(table, ["id"], old, new)) == Counter({(9,): 1})


def test_what_came_and_went(spark: SparkSession, store: Store, table: str) -> None:
    create(spark, table, "id INT, v INT", feed=True, vectors=False)
    spark.sql(f"INSERT INTO {table} SELECT id, 0 FROM range(0, 20, 1, 2)")
    old, _ = store.pin(table)
    found = []
    for statement in (
        f"DELETE FROM {table} WHERE id = 1",
        f"INSERT INTO {table} VALUES (30, 0)",
        f"DELETE FROM {table} WHERE id = 30",
    ):
        spark.sql(statement)
        found.append(store.pin(table, old)[1]["direct"])
    assert found == [True, True, False]
    for statement, direct in (
        (f"UPDATE {table} SET v = 1 WHERE id < 9", True),
        (f"MERGE INTO {table} t USING (SELECT id FROM range(5, 25)) s ON t.id = s.id WHEN MATCHED THEN DELETE"
         " WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, 2)", True),
        (f"INSERT OVERWRITE {table} SELECT * FROM {table} WHERE id <> 2", False),
    ):  # fmt: skip
        old, _ = store.pin(table)
        spark.sql(statement)
        assert store.pin(table, old)[1]["direct"] == direct


def test_another_table_under_the_name(spark: SparkSession, store: Store, table: str) -> None:
    create(spark, table, "id INT", feed=False, vectors=False)
    source = store.describe(table)
    [first] = pin(store, [source])
    spark.sql(f"DROP TABLE {table}")
    create(spark, table, "id INT", feed=False, vectors=False)
    [second] = pin(store, [source], [first.position])
    assert (second.change.reason or "").startswith("SOURCE_REPLACED")


def test_paths_and_fixed_versions(spark: SparkSession, store: Store, tmp_path: Path) -> None:
    spark.range(3).write.format("delta").save(f"{tmp_path}/d")
    name = f"delta.`{tmp_path}/d`"
    old, _ = store.pin(name)
    spark.range(3, 5).write.format("delta").mode("append").save(f"{tmp_path}/d")
    assert check(store, name, ["id"], old, store.pin(name)[0]) == Counter({(3,): 1, (4,): 1})
    fixed = store.describe(f"{name} VERSION AS OF 0")
    assert (fixed["kind"], fixed["constant"]) == ("static", False)
    assert "fixed version" in fixed["reason"]


def test_replacing_the_content_in_one_commit(spark: SparkSession, store: Store, table: str) -> None:
    spark.sql(f"CREATE TABLE {table} USING delta AS SELECT id FROM range(5)")
    source = store.describe(table)
    old, _ = store.pin(table)
    spark.sql(f"CREATE OR REPLACE TABLE {table} USING delta AS SELECT id FROM range(3, 7)")
    [pinned] = pin(store, [source], [old])
    assert pinned.change.changed
    if pinned.change.reason is None:
        check(store, table, ["id"], old, pinned.position)
    else:
        assert pinned.change.reason.startswith("SOURCE_REPLACED")
