"""Delta tables that misbehave: what each does to the run, and that no row is ever wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from pyspark.sql import Row

from tests.conftest import location_of
from tests.system.conftest import Jobs, World
from tidemill.runtime.content.jobs import SparkJobs

pytestmark = pytest.mark.slow

GROUPED = "SELECT k, COUNT(*) AS n, SUM(v) AS s FROM t GROUP BY k"
FEED = pytest.mark.parametrize("feed", [True, False], ids=["feed", "files"])
# The ways in which Delta keeps a table: what it writes for a change, and where the columns stand.
FLAVOURS: Mapping[str, tuple[bool, str, str]] = {
    "feed, by id": (True, "delta.enableDeletionVectors = false, delta.columnMapping.mode = 'id'", ""),
    "vectors, by name, in partitions": (
        False,
        "delta.enableDeletionVectors = true, delta.columnMapping.mode = 'name'",
        "PARTITIONED BY (p)",
    ),
}
MERGE = """MERGE INTO t USING (SELECT * FROM VALUES (2, 20), (9, 9), (3, NULL) AS u(k, v)) u ON t.k = u.k
    WHEN MATCHED AND u.v IS NULL THEN DELETE WHEN MATCHED THEN UPDATE SET v = u.v
    WHEN NOT MATCHED THEN INSERT (k, v, p) VALUES (u.k, u.v, 'new')"""


def table(world: World, feed: bool, properties: str = "", rest: str = "", columns: str = "k INT, v BIGINT") -> None:
    """Four rows in three commits."""
    given = f"delta.enableChangeDataFeed = {str(feed).lower()}" + (f", {properties}" if properties else "")
    world.change(
        f"CREATE TABLE t ({columns}) USING delta {rest} TBLPROPERTIES ({given})",
        "INSERT INTO t VALUES (1, 1), (2, 2)",
        "INSERT INTO t VALUES (3, 3)",
        "INSERT INTO t VALUES (4, 4)",
    )


def vacuum(world: World, name: str = "t") -> None:
    """Removes all files that the newest version does not need."""
    world.change("SET spark.databricks.delta.retentionDurationCheck.enabled = false")
    world.change(f"VACUUM {name} RETAIN 0 HOURS", "RESET spark.databricks.delta.retentionDurationCheck.enabled")


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_every_write_is_read_as_what_it_changed(fresh: World, flavour: str, tmp_path: Path) -> None:
    """From an empty table on; one view takes in each statement, one several, one all of them at once."""
    world, spark = fresh, fresh.spark
    feed, properties, rest = FLAVOURS[flavour]
    # The text in the partition column is a folder's name, where the table has folders.
    given = f"delta.enableChangeDataFeed = {str(feed).lower()}, {properties}"
    world.change(f"CREATE TABLE t (k INT, v BIGINT, p STRING) USING delta {rest} TBLPROPERTIES ({given})")
    world.change("CREATE TABLE arriving (k INT, v BIGINT, p STRING) USING delta")
    world.change("INSERT INTO arriving VALUES (2, 2, 'a'), (20, 20, NULL)")
    world.view("copy", "SELECT v, p, k FROM t")
    world.view("sums", "SELECT p, COUNT(*) AS n, SUM(v) AS s FROM t GROUP BY p")
    world.view("late", "SELECT k, COUNT(v) AS n FROM t GROUP BY k")
    world.refresh("copy", kind="NO_DATA")

    def stream() -> None:
        writer = spark.readStream.table("arriving").writeStream.option("checkpointLocation", str(tmp_path / "at"))
        writer.trigger(availableNow=True).format("delta").toTable("t").awaitTermination()

    def overwrite(option: str, value: str) -> None:
        row = spark.createDataFrame([(5, 50, "a"), (5, 50, "a")], "k INT, v BIGINT, p STRING")
        row.write.mode("overwrite").option(option, value).format("delta").saveAsTable("t")

    steps: tuple[str | Callable[[], None], ...] = (
        "INSERT INTO t VALUES (1, 1, 'a'), (1, 1, 'a'), (2, 2, 'b=/%'), (3, 3, NULL), (NULL, NULL, 'a')",
        "UPDATE t SET v = v + 1 WHERE k = 1",
        "UPDATE t SET p = 'c' WHERE k = 2",
        "DELETE FROM t WHERE k IS NULL",
        MERGE,
        stream,
        lambda: overwrite("replaceWhere", "p = 'a'"),
        lambda: overwrite("partitionOverwriteMode", "dynamic" if rest else "static"),
        "RESTORE TABLE t TO VERSION AS OF 2",
        "INSERT OVERWRITE t SELECT * FROM VALUES (1, 1, 'a'), (7, 7, 'c')",
        "TRUNCATE TABLE t",
        "RESTORE TABLE t TO VERSION AS OF 5",
        "DELETE FROM t WHERE p = 'a'",
    )
    for number, step in enumerate(steps, 1):
        if isinstance(step, str):
            world.change(step)
        else:
            step()
        world.refresh("copy")
        if number % 4 == 0:
            world.refresh("sums")
    for name in ("sums", "late"):
        world.refresh(name)


@FEED
def test_what_changes_no_row_is_nothing_to_do(fresh: World, feed: bool, jobs: Jobs) -> None:
    world = fresh
    table(world, feed, "delta.enableDeletionVectors = true, delta.checkpointInterval = 2")
    world.change("DELETE FROM t WHERE k = 3", "INSERT INTO t VALUES (5, 5)")
    world.view("strict", GROUPED)
    rows: list[Row] = []
    for statement in (
        "OPTIMIZE t",
        "OPTIMIZE t ZORDER BY (v)",
        "REORG TABLE t APPLY (PURGE)",
        "ALTER TABLE t CLUSTER BY (k)",
        "OPTIMIZE t FULL",
        "ALTER TABLE t SET TBLPROPERTIES ('a' = 'b')",
        "COMMENT ON TABLE t IS 'text'",
        "ALTER TABLE t ALTER COLUMN v COMMENT 'text'",
        "ALTER TABLE t ADD CONSTRAINT positive CHECK (v > 0)",
        "UPDATE t SET v = 0 WHERE k = 70",
        "DELETE FROM t WHERE k = 70",
        "MERGE INTO t USING (SELECT 70 AS k) u ON t.k = u.k WHEN MATCHED THEN DELETE",
        "INSERT INTO t SELECT * FROM t WHERE false",
    ):
        world.change(statement)
        assert jobs(lambda: rows.extend(world.spark.sql("REFRESH INCREMENTAL VIEW strict").collect())) == 0, statement
        assert rows[-1].kind == "NO_DATA", statement
    vacuum(world)
    world.nothing()
    world.change("DELETE FROM t WHERE k = 5", "OPTIMIZE t", "INSERT INTO t VALUES (6, 6)")
    world.goes_on(1, 1)


def test_the_feed_is_switched_on_and_off_between_runs(fresh: World) -> None:
    world = fresh
    table(world, feed=False)
    world.both(GROUPED)
    world.view("late", "SELECT k, v FROM t")
    for feed in (True, False, True):
        world.change(
            "UPDATE t SET v = v + 1 WHERE k = 1",
            f"ALTER TABLE t SET TBLPROPERTIES (delta.enableChangeDataFeed = {str(feed).lower()})",
            "UPDATE t SET v = v + 1 WHERE k < 3",
            "DELETE FROM t WHERE k = 4",
            "INSERT INTO t VALUES (4, 4)",
        )
        world.goes_on(4, 4)
        world.change(f"ALTER TABLE t SET TBLPROPERTIES (delta.enableChangeDataFeed = {str(not feed).lower()})")
        world.nothing()
    assert world.refresh("late").rows_out.inserts == 2


@pytest.mark.parametrize("how", ["CREATE OR REPLACE", "dropped", "a path, removed"], ids=str.lower)
def test_another_table_in_its_place(fresh: World, how: str, tmp_path: Path) -> None:
    world, spark = fresh, fresh.spark
    columns = "v BIGINT, k INT, other STRING"
    if how == "a path, removed":
        named = f"delta.`{tmp_path / 'd'}`"
        spark.sql("SELECT 1 AS k, 1L AS v").write.format("delta").save(str(tmp_path / "d"))
    else:
        named = "t"
        table(world, feed=True)
    world.both(GROUPED.replace("FROM t", f"FROM {named}"))
    world.change(f"CREATE TABLE other ({columns}) USING delta", "INSERT INTO other (k, v) VALUES (1, 10), (2, 2)")
    match how:
        case "CREATE OR REPLACE":
            world.change("CREATE OR REPLACE TABLE t USING delta AS SELECT * FROM other")
        case "dropped":
            world.change("DROP TABLE t", f"CREATE TABLE t ({columns}) USING delta")
            world.change(*["INSERT INTO t (k, v) VALUES (1, 10)"] * 3)
        case _:
            for file in sorted((tmp_path / "d").rglob("*"), reverse=True):
                file.rmdir() if file.is_dir() else file.unlink()
            spark.table("other").write.format("delta").save(str(tmp_path / "d"))
    world.fails("VERIFY INCREMENTAL VIEW strict", "TIDEMILL_HISTORY_GONE")
    world.goes_full("SOURCE_REPLACED")
    world.change(f"INSERT INTO {named} (k, v) VALUES (2, 20)")
    world.goes_on(1)


@FEED
def test_overwritten_with_other_columns(fresh: World, feed: bool) -> None:
    """It stays the same table, and the columns that are used are what they were."""
    world, spark = fresh, fresh.spark
    table(world, feed)
    world.both(GROUPED)
    frame = spark.sql("SELECT * FROM VALUES (10L, 1, 'x'), (2L, 2, 'y') AS other(v, k, other)").write.format("delta")
    frame.mode("overwrite").option("overwriteSchema", "true").saveAsTable("t")
    # A row that a commit took out and put back is seen in a feed only.
    world.goes_on(*((2, 4) if feed else (1, 3)))
    world.change(
        "CREATE TABLE more (k INT, more INT, v BIGINT) USING delta", "INSERT INTO more VALUES (1, 1, 1), (7, 7, 7)"
    )
    world.change("TRUNCATE TABLE t", "CREATE OR REPLACE TABLE t SHALLOW CLONE more")
    world.goes_on(2, 2)
    world.change("ALTER TABLE t ADD COLUMN z INT", "INSERT INTO t (k, v) VALUES (2, 20)")
    world.goes_on(1)


def test_a_shallow_clone_as_a_source(fresh: World) -> None:
    """It has files of its own and those of the table that it was cloned from."""
    world = fresh
    table(world, feed=False)
    world.change("CREATE TABLE c SHALLOW CLONE t")
    world.both(GROUPED.replace("FROM t", "FROM c"))
    world.change("INSERT INTO t VALUES (8, 8)", "DELETE FROM t WHERE k = 1")
    world.nothing()
    world.change("UPDATE c SET v = 20 WHERE k = 2", "INSERT INTO c VALUES (9, 9)", "DELETE FROM c WHERE k = 4")
    world.goes_on(2, 2)
    world.change("OPTIMIZE c")
    world.nothing()
    world.change("DELETE FROM c WHERE k = 3")
    world.goes_on(0, 1)


@FEED
@pytest.mark.parametrize("what", ["files", "log"])
def test_history_that_is_gone(fresh: World, feed: bool, what: str) -> None:
    world = fresh
    kept = [f"delta.{what}RetentionDuration = 'interval 1 hours'" for what in ("log", "deletedFile")]
    table(world, feed, ", ".join([*kept, "delta.checkpointInterval = 3"]))
    world.both(GROUPED)
    world.change("UPDATE t SET v = 10 WHERE k = 1", "DELETE FROM t WHERE k = 2", "INSERT INTO t VALUES (5, 5)")
    if what == "files":
        vacuum(world)
    else:
        # As Delta's clean-up does when a checkpoint is written, which takes days to have something to remove.
        log = location_of(world.spark, "t") / "_delta_log"
        assert (log / f"{6:020}.checkpoint.parquet").exists()
        for version in range(6):
            for file in log.glob(f"*{version:020}.*"):
                file.unlink()
    world.fails("VERIFY INCREMENTAL VIEW strict", "TIDEMILL_HISTORY_GONE")
    world.goes_full("HISTORY_GONE")
    world.change("UPDATE t SET v = 11 WHERE k = 1")
    world.goes_on(1, 1)


@FEED
def test_an_old_snapshot_that_is_gone_while_the_changes_are_there(fresh: World, feed: bool) -> None:
    """After OPTIMIZE and VACUUM the change of a join must not be computed from the old content of a table."""
    world = fresh
    table(world, feed)
    world.change("CREATE TABLE u (k INT, w INT) USING delta", "INSERT INTO u VALUES (1, 1), (2, 2), (2, 2), (6, 6)")
    query = "SELECT t.k, v, w FROM t {} JOIN u ON t.k = u.k"
    groups = "SELECT w, MAX(v) AS m, COUNT(*) AS n FROM t JOIN u ON t.k = u.k GROUP BY w"
    for name, text in {"inner_rows": query.format(""), "outer_rows": query.format("LEFT"), "groups": groups}.items():
        world.view(name, text, "INCREMENTAL")

    def refreshed(*allowed: str) -> dict[str, str]:
        kinds: dict[str, str] = {}
        for name in world.queries:
            row = world.spark.sql(f"REFRESH INCREMENTAL VIEW {name}").collect()[0]
            assert row.kind == "INCREMENTAL" or (row.reason or "").split(":")[0] in allowed, row
            world.equal(name)
            kinds[name] = row.kind
        return kinds

    for name in ("t", "u"):
        world.change(f"OPTIMIZE {name}")
        vacuum(world, name)
    # One that did not change is what it was, though its old files are gone.
    world.change("INSERT INTO u VALUES (1, 10), (6, 61)")
    assert refreshed("HISTORY_GONE")["inner_rows"] == "INCREMENTAL"
    for name in ("t", "u"):
        world.change(f"OPTIMIZE {name}")
        vacuum(world, name)
    world.change("INSERT INTO t VALUES (6, 60), (2, 200)", "INSERT INTO u VALUES (1, 11), (6, 62)")
    refreshed("HISTORY_GONE")
    world.change("DELETE FROM t WHERE k = 2", "UPDATE u SET w = 0 WHERE k = 1")
    refreshed()


def test_a_parquet_table_becomes_delta(fresh: World) -> None:
    world = fresh
    world.change("CREATE TABLE t (k INT, v BIGINT) USING parquet", "INSERT INTO t VALUES (1, 1)")
    world.view("auto", GROUPED, "AUTO")
    world.change("CONVERT TO DELTA t")
    world.fails("VERIFY INCREMENTAL VIEW auto", "TIDEMILL_HISTORY_GONE")
    world.goes_full("SOURCE_REPLACED")
    world.change("INSERT INTO t VALUES (2, 2)", "DELETE FROM t WHERE k = 1")
    world.goes_on(1, 1)
    (shown,) = (r for r in world.spark.sql("SHOW INCREMENTAL VIEWS").collect() if r.viewName == "auto")
    assert (shown.status, shown.lagSeconds) == ("ACTIVE", 0)


@pytest.mark.parametrize("what", ["restored", "replaced", "made anew"])
def test_changes_between_pin_and_read(fresh: World, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    world, spark = fresh, fresh.spark
    table(world, feed=False)
    world.view("auto", "SELECT k, v FROM t", "AUTO")
    world.change("UPDATE t SET v = 30 WHERE k = 3")
    wanted = world.rows("SELECT k, v FROM t")
    original = SparkJobs.write
    disturbed: list[bool] = []

    def write(*args: object, **named: object) -> object:
        if not disturbed:
            disturbed.append(True)
            match what:
                case "restored":
                    world.change("RESTORE TABLE t TO VERSION AS OF 1")
                case "replaced":
                    world.change("CREATE OR REPLACE TABLE t (k INT, v BIGINT) USING delta")
                case _:
                    world.change("DROP TABLE t")
                    table(world, feed=False)
                    world.change("UPDATE t SET v = 31 WHERE k = 3")
        return original(*args, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(SparkJobs, "write", write)
    if what == "restored":
        spark.sql("REFRESH INCREMENTAL VIEW auto").collect()
        assert world.rows("SELECT * FROM auto") == wanted
    else:
        held = world.rows("SELECT * FROM auto")
        with pytest.raises(Exception, match=r"DISTURBED|FAILED_READ_FILE|DELTA_|NOT_FOUND"):
            spark.sql("REFRESH INCREMENTAL VIEW auto").collect()
        assert world.rows("SELECT * FROM auto") == held
    assert disturbed
    spark.sql("REFRESH INCREMENTAL VIEW auto").collect()
    world.equal("auto")


def test_what_create_warns_of(fresh: World, warned: list[str]) -> None:
    world = fresh
    table(world, feed=False, properties="delta.deletedFileRetentionDuration = 'interval 6 hours'")
    world.change("CREATE TABLE u (k INT) USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)")

    def create(name: str, schedule: str, rest: str, query: str) -> list[str]:
        warned.clear()
        world.change(f"CREATE INCREMENTAL VIEW {name} SCHEDULE ({schedule}) {rest} INITIALIZE DEFERRED AS {query}")
        return [w for w in warned if "not in effect" not in w and "is in memory" not in w]

    feed, kept = create("a", "AT '06:00', AT '20:00'", "", "SELECT k, v FROM t")
    assert "spark_catalog.test_delta_sources_db.t has no change data feed" in feed
    assert "for 6 hours, but 14 hours may lie between two runs" in kept
    assert "HISTORY_GONE" in kept
    assert len(create("b", "ON DEMAND", "", "SELECT k, v FROM t")) == 1
    assert create("c", "AT '06:00'", "", "SELECT k FROM u") == []
    assert create("d", "AT '06:00'", "REFRESH POLICY FULL", "SELECT k FROM t") == []
    [fixed] = create("e", "ON DEMAND", "", "SELECT k FROM u VERSION AS OF 0")
    assert "cannot tell its changes (a fixed version of a Delta table)" in fixed
    world.fails(
        "CREATE INCREMENTAL VIEW f SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS SELECT k FROM u VERSION AS OF 0",
        "TIDEMILL_SOURCE_WITHOUT_CHANGES",
    )
    for action, wanted in (
        ("SCHEDULE (AT '06:00')", ["for 6 hours, but 24 hours may lie between two runs"]),
        ("SCHEDULE (AT '04:00', AT '10:00', AT '16:00', AT '22:00')", []),
        ("REFRESH POLICY FULL", []),
        ("SCHEDULE (AT '02:00', AT '16:00')", []),
        ("REFRESH POLICY AUTO", ["has no change data feed", "but 14 hours may lie"]),
        ("COMMENT 'slow'", []),
    ):
        warned.clear()
        world.change(f"ALTER INCREMENTAL VIEW b SET {action}")
        assert len(warned) == len(wanted), (action, warned)
        assert all(text in warning for text, warning in zip(wanted, warned, strict=True)), (action, warned)
