"""Files of states and of the result that are damaged cost only themselves."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from tests.conftest import Oracle
from tests.runtime.test_states import root

BY_KEY = "SELECT k, sum(v) AS s, count(*) AS n FROM events GROUP BY k"


def gone(path: Path) -> None:
    path.unlink()


def empty(path: Path) -> None:
    path.write_bytes(b"")


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def flipped(path: Path) -> None:
    """One bit; length and time stay, the checksum beside it does not fit."""
    stat, content = path.stat(), bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(bytes(content))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def zeros(path: Path) -> None:
    """All bytes; length and time stay, and nothing beside it tells."""
    stat = path.stat()
    path.write_bytes(b"\0" * stat.st_size)
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def touched(path: Path) -> None:
    """Written anew with the same length."""
    path.write_bytes(path.read_bytes())


def forget(spark: SparkSession) -> None:
    """Has files read again, as a new process reads them."""
    jvm: Any = spark._jvm
    jvm.org.apache.spark.sql.tidemill.view.RowsInMemory.forget()


SEEN_BEFORE = (gone, empty, truncated, folder)
SEEN_BY_JOB = (flipped, zeros)


@pytest.fixture
def view(spark: SparkSession, events: str) -> str:
    spark.sql("INSERT INTO events SELECT 2, id, 'many' FROM range(100000)")  # so that states are cheaper to read
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {BY_KEY}")
    return "v"


def live_states(spark: SparkSession) -> list[Path]:
    return sorted((root(spark) / "_tidemill" / "state").rglob("*.parquet"))


@pytest.mark.slow
def test_a_damaged_state_costs_only_itself(
    spark: SparkSession, view: str, oracle: Oracle, refresh: Callable[..., Row], jobs: Callable[..., int]
) -> None:
    for n, damage in enumerate((*SEEN_BEFORE, touched, *SEEN_BY_JOB)):
        spark.sql(f"INSERT INTO events VALUES ({n}, {n}, 'n')")
        damage(live_states(spark)[-1])
        forget(spark)
        rows: list[Row] = []
        counted = jobs(lambda rows=rows: rows.append(refresh("v")))
        (row,) = rows
        assert (row.kind, row.reason.partition(":")[0]) == ("INCREMENTAL", "STATE_LOST"), damage.__name__
        assert row.jobs == counted, damage.__name__
        oracle("v", BY_KEY)
        spark.sql(f"INSERT INTO events VALUES ({n}, {n}, 'n')")
        row = refresh("v")
        assert (row.kind, row.reason) == ("INCREMENTAL", None), damage.__name__
        oracle("v", BY_KEY)
        spark.sql("VACUUM INCREMENTAL VIEW v RETAIN 0 HOURS")


def test_a_damaged_result_is_made_from_states(
    spark: SparkSession, view: str, oracle: Oracle, refresh: Callable[..., Row]
) -> None:
    for n, damage in enumerate((*SEEN_BEFORE, *SEEN_BY_JOB)):
        # A group that is there changes, so that the file with its row is read.
        spark.sql(f"INSERT INTO events VALUES (2, {n}, 'n')")
        for path in root(spark).glob("*.parquet"):
            damage(path)
        forget(spark)
        row = refresh("v")
        assert row.reason is not None, damage.__name__
        assert (row.kind, row.reason.partition(":")[0]) == ("INCREMENTAL", "STATE_LOST"), damage.__name__
        oracle("v", BY_KEY)
        for path in root(spark).glob("*.parquet"):
            if path.is_dir():
                shutil.rmtree(path)
        spark.sql("VACUUM INCREMENTAL VIEW v RETAIN 0 HOURS")


def test_content_in_memory_is_written_anew_where_its_file_is_damaged(
    spark: SparkSession, view: str, oracle: Oracle, refresh: Callable[..., Row]
) -> None:
    spark.sql("INSERT INTO events VALUES (2, 7, 'n')")
    refresh("v")
    oracle("v", BY_KEY)
    for path in root(spark).glob("*.parquet"):
        flipped(path)
    spark.sql("INSERT INTO events VALUES (2, 8, 'n')")
    assert refresh("v").kind == "INCREMENTAL"
    oracle("v", BY_KEY)


def test_the_judge_of_a_view_reads_the_files_of_the_view_below(
    spark: SparkSession, view: str, refresh: Callable[..., Row]
) -> None:
    """Not what the process still knows of them."""
    spark.sql("CREATE INCREMENTAL VIEW above SCHEDULE (ON DEMAND) AS SELECT * FROM v")
    spark.sql("INSERT INTO events VALUES (2, 7, 'n')")
    refresh("v")
    refresh("above")
    assert spark.sql("VERIFY INCREMENTAL VIEW above").collect()[0].matches
    for path in root(spark).glob("*.parquet"):
        flipped(path)
    with pytest.raises(Exception, match=r"(?i)checksum"):
        spark.sql("VERIFY INCREMENTAL VIEW above").collect()


def test_all_at_once(spark: SparkSession, view: str, oracle: Oracle, refresh: Callable[..., Row]) -> None:
    spark.sql("INSERT INTO events VALUES (1, 1, 'n')")
    for path in (*live_states(spark), *root(spark).glob("*.parquet")):
        flipped(path)
    forget(spark)
    spark.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    try:
        spark.sql("ALTER INCREMENTAL VIEW v SET REFRESH POLICY AUTO")
        assert refresh("v").reason.startswith("STATE_LOST")
    finally:
        spark.conf.unset("spark.sql.files.ignoreCorruptFiles")
    oracle("v", BY_KEY)


def test_a_session_that_ignores_damage_creates_views_that_do_not(
    spark: SparkSession, events: str, oracle: Oracle, refresh: Callable[..., Row]
) -> None:
    other = spark.newSession()
    other.sql(f"USE {events}")
    other.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    other.sql("INSERT INTO events SELECT 2, id, 'many' FROM range(100000)")
    other.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {BY_KEY}")
    spark.sql("INSERT INTO events VALUES (2, 1, 'n')")
    flipped(live_states(spark)[-1])
    forget(spark)
    row = refresh("v")
    oracle("v", BY_KEY)
    assert (row.kind, row.reason.partition(":")[0]) == ("INCREMENTAL", "STATE_LOST")


def test_a_failure_of_the_query_is_no_damage(spark: SparkSession, events: str, refresh: Callable[..., Row]) -> None:
    spark.sql("CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS SELECT k, 1 / v AS x FROM events")
    spark.sql("INSERT INTO events VALUES (1, 0, 'zero')")
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        refresh("v")
