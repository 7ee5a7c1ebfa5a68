"""Tables and paths of files that misbehave: what each does to the run, and that no row is ever wrong."""

from __future__ import annotations

import os
import shutil
from functools import partial
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from tests.conftest import files_under, location_of
from tests.system.conftest import Jobs, World
from tests.system.files import parts, put, remove
from tidemill.runtime.content.jobs import SparkJobs

pytestmark = pytest.mark.slow

COLUMNS = "k INT, v BIGINT"
GROUPED = "SELECT k, COUNT(*) AS n, SUM(v) AS s FROM {} GROUP BY k"


def table(world: World, format_: str = "parquet") -> None:
    world.change(
        f"CREATE TABLE t ({COLUMNS}) USING {format_}", "INSERT INTO t VALUES (1, 1)", "INSERT INTO t VALUES (2, 2)"
    )


def refresh_row(spark: SparkSession, view: str, clauses: str = "") -> Row:
    return spark.sql(f"REFRESH INCREMENTAL VIEW {view} {clauses}").collect()[0]


def test_each_policy_when_a_file_is_written_over(fresh: World) -> None:
    world = fresh
    table(world)
    for policy in ("AUTO", "INCREMENTAL", "STRICT", "FULL"):
        world.view(policy.lower(), GROUPED.format("t"), policy)
    put(world.spark, [(5, 50)], COLUMNS, parts(world.spark, "t")[0])
    world.goes_full("SOURCE_REWRITTEN", "t")
    assert world.refresh("incremental", kind="FULL").reason.startswith("SOURCE_REWRITTEN")
    assert world.refresh("full", kind="FULL").reason == "POLICY"
    world.change("INSERT INTO t VALUES (9, 9)")
    world.goes_on(1)
    assert world.refresh("incremental").rows_in == Row(inserts=1, deletes=0)
    assert world.refresh("full", kind="FULL").reason == "POLICY"


@pytest.mark.parametrize("format_", ["parquet", "orc", "json", "csv"])
def test_files_come_and_go(fresh: World, format_: str) -> None:
    world, spark = fresh, fresh.spark
    table(world, format_)
    world.view("auto", "SELECT k, v FROM t", "AUTO")
    folder = location_of(spark, "t")
    # New, though older than all others by its time.
    os.utime(put(spark, [(3, 3)], COLUMNS, folder / "old", format_), (1, 1))
    world.change("REFRESH TABLE t")
    world.goes_on(1)
    # Not there, for Spark as for us.
    for name in ("_x", ".x", "x._COPYING_", "below/x"):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(folder / "old", folder / name)
    (folder / "empty").touch()
    world.change("REFRESH TABLE t")
    world.nothing()
    # Renamed: gone, and another came.
    os.rename(folder / "old", folder / "older")
    world.goes_full("SOURCE_REWRITTEN", "t")
    world.change("TRUNCATE TABLE t")
    world.goes_full("SOURCE_REWRITTEN")
    assert world.rows("SELECT * FROM auto") == []
    world.change("INSERT INTO t VALUES (4, 4)")
    world.goes_on(1)


def test_a_file_of_the_same_length_or_of_the_same_time_is_another_file(fresh: World) -> None:
    world, spark = fresh, fresh.spark
    world.change(f"CREATE TABLE t ({COLUMNS}) USING csv", "INSERT INTO t VALUES (1, 1)")
    world.both("SELECT k, v FROM t")
    [file] = parts(spark, "t")
    before = file.stat()
    put(spark, [(1, 2)], COLUMNS, file, "csv")
    assert file.stat().st_size == before.st_size
    world.goes_full("SOURCE_REWRITTEN", "t")
    before = file.stat()
    put(spark, [(1, 2), (3, 4)], COLUMNS, file, "csv")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    world.goes_full("SOURCE_REWRITTEN", "t")


def test_a_table_made_anew_or_moved_is_another(fresh: World, tmp_path: Path) -> None:
    world, spark = fresh, fresh.spark
    table(world)
    world.view("auto", GROUPED.format("t"), "AUTO")
    world.change("DROP TABLE t")
    table(world)
    world.goes_full("SOURCE_REPLACED")
    world.change("DROP TABLE t", f"CREATE TABLE t (x STRING, v BIGINT, k INT) USING orc LOCATION '{tmp_path}/t'")
    world.change("INSERT INTO t VALUES ('a', 5, 5)")
    world.goes_full("SOURCE_REPLACED")
    put(spark, [("b", 6, 6)], "x STRING, v BIGINT, k INT", tmp_path / "u" / "file", "orc")
    world.change(f"ALTER TABLE t SET LOCATION '{tmp_path}/u'")
    world.goes_full("SOURCE_REPLACED", "t")
    world.change("CREATE TABLE u USING parquet AS SELECT 8 AS k, 8L AS v", "DROP TABLE t")
    world.unmoved("auto", "TABLE_OR_VIEW_NOT_FOUND", "t")
    world.change("CREATE VIEW t AS SELECT * FROM u")
    world.goes_full("SCHEMA_CHANGED")
    world.change("INSERT INTO u VALUES (8, 1)")
    world.goes_on(1)


def test_a_table_without_files_and_without_folder(fresh: World) -> None:
    world, spark = fresh, fresh.spark
    world.change(f"CREATE TABLE t ({COLUMNS}) USING parquet")
    shutil.rmtree(location_of(spark, "t"))
    world.both(GROUPED.format("t"))
    world.nothing()
    world.change("INSERT INTO t VALUES (3, 3)")
    world.goes_on(1)
    shutil.rmtree(location_of(spark, "t"))
    world.goes_full("SOURCE_REWRITTEN", "t")
    assert world.rows("SELECT * FROM auto") == []


@pytest.mark.parametrize("query", ["SELECT p, COUNT(*) AS n, SUM(v) AS s FROM t GROUP BY p", GROUPED.format("t")])
def test_partitions(fresh: World, tmp_path: Path, query: str) -> None:
    """Whether the query reads the partition column or not."""
    world, spark = fresh, fresh.spark
    world.change(f"CREATE TABLE t ({COLUMNS}, p INT) USING parquet PARTITIONED BY (p)")
    world.change("INSERT INTO t VALUES (1, 1, 1), (2, 2, 2)")
    world.view("auto", query, "AUTO")
    world.change("ALTER TABLE t ADD PARTITION (p = 3)")
    world.nothing()
    put(spark, [(5, 5)], COLUMNS, tmp_path / "five" / "file")
    world.change(f"ALTER TABLE t ADD PARTITION (p = 5) LOCATION '{tmp_path}/five'", "INSERT INTO t VALUES (3, 3, 3)")
    world.goes_on(2)
    world.change("INSERT OVERWRITE t PARTITION (p = 1) VALUES (10, 10)")
    world.goes_full("SOURCE_REWRITTEN")
    world.change("ALTER TABLE t DROP PARTITION (p = 3)", "INSERT INTO t VALUES (3, 3, 5)")
    world.goes_full("SOURCE_REWRITTEN")
    world.change("ALTER TABLE t PARTITION (p = 2) RENAME TO PARTITION (p = 22)")
    world.goes_full("SOURCE_REWRITTEN")
    put(spark, [(6, 6)], COLUMNS, tmp_path / "six" / "file")
    world.change(f"ALTER TABLE t PARTITION (p = 5) SET LOCATION '{tmp_path}/six'")
    world.goes_full("SOURCE_REWRITTEN", "t")


def test_dynamic_overwriting_touches_only_what_it_writes(fresh: World) -> None:
    world = fresh
    world.change(f"CREATE TABLE t ({COLUMNS}, p INT) USING parquet PARTITIONED BY (p)")
    world.change("INSERT INTO t VALUES (1, 1, 1), (2, 2, 2)")
    world.view("auto", GROUPED.format("t"), "AUTO")
    world.change("SET spark.sql.sources.partitionOverwriteMode = dynamic")
    try:
        world.change("INSERT OVERWRITE t PARTITION (p) VALUES (3, 3, 3)")
        world.goes_on(1)
        world.change("INSERT OVERWRITE t PARTITION (p) VALUES (20, 20, 2)")
        world.goes_full("SOURCE_REWRITTEN")
    finally:
        world.change("RESET spark.sql.sources.partitionOverwriteMode")


def test_partitions_that_share_or_change_a_folder(fresh: World) -> None:
    world = fresh
    world.change(f"CREATE TABLE t ({COLUMNS}, p INT) USING parquet PARTITIONED BY (p)")
    world.change("INSERT INTO t VALUES (1, 1, 1), (2, 2, 2)")
    world.view("auto", "SELECT p, k, v FROM t", "AUTO")
    folder = f"{location_of(world.spark, 't')}/p=1"
    # The same files once more, under other values: no file came.
    world.change(f"ALTER TABLE t ADD PARTITION (p = 7) LOCATION '{folder}'")
    world.goes_full("SOURCE_REWRITTEN", "t")
    assert world.rows("SELECT * FROM auto") == [(1, 1, 1), (2, 2, 2), (7, 1, 1)]
    world.change("INSERT INTO t PARTITION (p = 7) VALUES (3, 3)")
    world.goes_on(2)
    world.change("ALTER TABLE t DROP PARTITION (p = 2)", "INSERT INTO t VALUES (2, 2, 2)")
    world.goes_full("SOURCE_REWRITTEN")


def test_names_of_files(fresh: World) -> None:
    world, spark = fresh, fresh.spark
    table(world)
    world.view("auto", "SELECT k, v FROM t", "AUTO")
    folder = location_of(spark, "t")
    names = ["a b", "a%20b", "ü ñ 中", "a#b?", "a'b\"c", "a+b&c=d", "{x}[y]*", "part\\1"]
    source = put(spark, [(7, 7)], COLUMNS, folder / "first")
    for name in names:
        shutil.copy(source, folder / name)
    os.symlink(source, folder / "link")
    world.change("REFRESH TABLE t")
    world.goes_on(len(names) + 2)
    remove(folder / "a%20b")
    world.goes_full("SOURCE_REWRITTEN", "t")


def test_a_path_is_asked_for_its_columns_once(fresh: World, jobs: Jobs, tmp_path: Path, warned: list[str]) -> None:
    world, spark = fresh, fresh.spark
    for format_ in ("parquet", "orc", "json", "csv"):
        put(spark, [(1, 10), (2, 20)], COLUMNS, tmp_path / format_ / "p=1" / "one", format_)
    query = " UNION ALL ".join(
        f"(WITH c AS (SELECT * FROM {f}.`{tmp_path}/{f}`) SELECT p, CAST({k} AS INT) AS k FROM c)"
        for f, k in (("parquet", "k"), ("orc", "k"), ("json", "k"), ("csv", "_c0"))
    )
    world.both(query)
    assert sorted(w.split("`")[0].split()[-1] for w in warned if "guessed" in w and "strict" in w) == ["csv.", "json."]
    for name in ("auto", "strict"):
        assert jobs(partial(refresh_row, spark, name)) == 0
        assert refresh_row(spark, name).kind == "NO_DATA"
    for format_ in ("parquet", "orc", "json", "csv"):
        put(spark, [(1, 11), (3, 30)], COLUMNS, tmp_path / format_ / "p=2" / "two", format_)
    for name in ("auto", "strict"):
        assert world.refresh(name).rows_out == Row(inserts=8, deletes=0)
    world.view("as_read", f"SELECT p, k FROM json.`{tmp_path}/json`")
    # Another type: what Spark makes of all files together counts, and the view's columns are what they were.
    put(spark, [("x", 1)], "k STRING, v BIGINT", tmp_path / "json" / "p=3" / "three", "json")
    world.unmoved("as_read", "TIDEMILL_SCHEMA_CHANGED")
    world.unmoved("auto", "CAST_INVALID_INPUT")  # of the same columns still, but Spark cannot answer the query itself


def test_a_missing_or_corrupt_file_is_an_error_whatever_the_session_ignores(fresh: World) -> None:
    world, spark = fresh, fresh.spark
    table(world)
    world.view("v", "SELECT k, v FROM t", "AUTO")
    file = put(spark, [(3, 3)], COLUMNS, location_of(spark, "t") / "bad")
    content = file.read_bytes()
    file.write_bytes(b"x" * len(content))
    world.change("SET spark.sql.files.ignoreCorruptFiles = true")
    try:
        held = files_under(location_of(spark, "v"))
        with pytest.raises(Exception, match=r"FAILED_READ_FILE.*/bad"):  # Spark's own, which PySpark passes on as it is
            refresh_row(spark, "v")
        assert files_under(location_of(spark, "v")) == held
    finally:
        world.change("RESET spark.sql.files.ignoreCorruptFiles")
    file.write_bytes(content)
    world.change("REFRESH TABLE t")
    assert world.refresh("v").rows_in == Row(inserts=1, deletes=0)


def test_a_folder_that_may_not_be_read(fresh: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world, spark = fresh, fresh.spark
    table(world)
    world.view("v", "SELECT k, v FROM t", "AUTO")
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    folder = location_of(spark, "t")
    folder.chmod(0)
    try:
        with pytest.raises(PySparkException, match=r"[Pp]ermission"):
            refresh_row(spark, "v")
    finally:
        folder.chmod(0o755)
    assert world.refresh("v", kind="NO_DATA").run == 0


@pytest.mark.parametrize("what", ["gone", "written over", "added"])
@pytest.mark.parametrize("full", [False, True])
def test_files_that_change_between_pin_and_read(
    fresh: World, what: str, full: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, spark = fresh, fresh.spark
    world.change(f"CREATE TABLE t ({COLUMNS}) USING csv", "INSERT INTO t VALUES (1, 1)")
    world.view("v", "SELECT k, v FROM t", "AUTO")
    file = put(spark, [(3, 3)], COLUMNS, location_of(spark, "t") / "file", "csv")
    original = SparkJobs.write
    disturbed: list[bool] = []

    def write(*args: object, **named: object) -> object:
        if not disturbed:
            disturbed.append(True)
            if what == "gone":
                remove(file)
            elif what == "written over":
                put(spark, [(4, 4)], COLUMNS, file, "csv")  # as many bytes
            else:
                put(spark, [(5, 5)], COLUMNS, file.with_name("later"), "csv")
        return original(*args, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(SparkJobs, "write", write)
    clauses = "FULL" if full else ""
    held = files_under(location_of(spark, "v"))
    if what == "added":
        refresh_row(spark, "v", clauses)
        assert world.rows("SELECT * FROM v") == [(1, 1), (3, 3)]
    else:
        with pytest.raises(Exception, match="FAILED_READ_FILE" if what == "gone" else "TIDEMILL_SOURCE_DISTURBED"):
            refresh_row(spark, "v", clauses)
        assert files_under(location_of(spark, "v")) == held
        assert world.rows("SELECT * FROM v") == [(1, 1)]
    assert disturbed
    world.change("REFRESH TABLE t")
    refresh_row(spark, "v")
    world.equal("v")


def test_of_a_long_listing_a_run_writes_what_changed(fresh: World, jobs: Jobs, tmp_path: Path) -> None:
    """6,000 files in 60 folders; then one more."""
    world, spark = fresh, fresh.spark
    (tmp_path / "one").write_text("10\n")
    for p in range(60):
        folder = tmp_path / "data" / f"p={p}"
        folder.mkdir(parents=True)
        for n in range(100):
            os.link(tmp_path / "one", folder / f"part-{n:05d}-00000000-0000-0000-0000-000000000000.txt")
    query = f"SELECT p, COUNT(*) AS n, SUM(CAST(value AS BIGINT)) AS s FROM text.`{tmp_path}/data` GROUP BY p"
    world.change("SET spark.sql.files.openCostInBytes = 1", "SET spark.sql.files.maxPartitionNum = 2")
    try:
        world.change(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {query}")
    finally:
        world.change("RESET spark.sql.files.openCostInBytes", "RESET spark.sql.files.maxPartitionNum")
    assert world.rows("SELECT SUM(n), SUM(s) FROM v") == [(6000, 60000)]
    log = location_of(spark, "v") / "_tidemill" / "log"
    listed = {p: p.stat().st_size for p in log.iterdir()}
    (tmp_path / "data" / "p=7" / "more").write_text("20\n")
    row = refresh_row(spark, "v")
    assert (row.kind, row.rows_in, row.rows_out) == (
        "INCREMENTAL",
        Row(inserts=1, deletes=0),
        Row(inserts=1, deletes=1),
    )
    assert world.rows("SELECT n, s FROM v WHERE p = 7") == [(101, 1020)]
    written = sum(p.stat().st_size for p in log.iterdir() if p not in listed)
    assert written < 0.8 * sum(listed.values())
    assert jobs(lambda: refresh_row(spark, "v")) == 0
