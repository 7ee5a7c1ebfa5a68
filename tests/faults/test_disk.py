"""A full disk: whatever write it stops, the statement fails clearly, leaves nothing, and works once there is room."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.conftest import difference
from tests.faults.checks import check, everything_under

pytestmark = pytest.mark.slow

PAGE = 4096
QUERY = "SELECT k, sum(v) AS s, count(*) AS n FROM events GROUP BY k"


class Disk:
    """A small file system in memory, counted in pages."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.ballast = root / "ballast"

    def leave(self, pages: int) -> None:
        """Fills it but for so many pages."""
        free = subprocess.run(["df", "--output=avail", "-B", str(PAGE), self.root], capture_output=True, check=True)
        with self.ballast.open("wb") as out:
            out.write(bytes(PAGE * (int(free.stdout.split()[-1]) - pages)))

    def free(self) -> None:
        self.ballast.unlink()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", tmp_path], capture_output=True).returncode:
        pytest.skip("only root can mount a small file system")
    yield Disk(tmp_path)
    subprocess.run(["umount", "-l", tmp_path], check=True)


def runs_of(spark: SparkSession) -> int:
    """How many runs the view has, without refreshes that failed."""
    return spark.sql("SHOW REFRESHES IN v").where("kind <> 'FAILED'").count()


def test_refresh_on_a_full_disk(spark: SparkSession, disk: Disk, db: str) -> None:
    """With each number of free pages from none to enough."""
    spark.sql("CREATE TABLE events (k INT, v BIGINT) USING parquet")
    spark.sql("INSERT INTO events SELECT id % 50, id FROM range(1000)")
    root = disk.root / "v"
    spark.sql(f"CREATE INCREMENTAL VIEW v LOCATION '{root}' SCHEDULE (ON DEMAND) REFRESH POLICY INCREMENTAL AS {QUERY}")
    errors: list[str] = []
    pages, enough = 0, False
    while not enough:
        spark.sql(f"INSERT INTO events VALUES ({pages}, {pages})")
        before = everything_under(root)
        runs = runs_of(spark)
        disk.leave(pages)
        try:
            spark.sql("REFRESH INCREMENTAL VIEW v").collect()
            enough = (root / "_spark_metadata" / f"{runs}.compact").exists()
        except Exception as error:
            errors.append(str(error))
        disk.free()
        if runs_of(spark) == runs:
            assert everything_under(root) == before, pages
        check(spark, "v", f"{pages} free pages")
        spark.sql("REFRESH INCREMENTAL VIEW v")
        assert difference(spark, "v", QUERY) == (0, 0), pages
        pages += 1
        assert pages < 100
    assert [e for e in errors if "No space left on device" not in e] == []
    assert len(errors) >= 8  # mark, content, state, delta, entry, manifest: each takes a page at least
