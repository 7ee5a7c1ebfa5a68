"""Small files of a view that are damaged: each of them, in every way, under every statement.

A statement goes on, or ends with a condition; nothing is lost: with the file as it was, the view is right.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.conftest import difference, location_of
from tests.faults.points import ALL, BY_KEY, SEED
from tests.log_of_a_year import grow
from tidemill.runtime.storage import log
from tidemill.runtime.storage.log import SPAN

pytestmark = pytest.mark.slow

OTHER = "SELECT k, count(*) AS n FROM events GROUP BY k"
DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "object": lambda _: b"{}",
    "list": lambda _: b"[]",
    "null": lambda _: b"null",
    "half": lambda old: old[: len(old) // 2],
    "empty": lambda _: b"",
    "no text": lambda old: old[: len(old) // 2] + b"\xff\xfe" + old[len(old) // 2 :],
    "zeros": lambda old: b"\0" * len(old),
}
READING = (
    "DESCRIBE INCREMENTAL VIEW EXTENDED v",
    "SHOW INCREMENTAL VIEWS",
    "SHOW REFRESHES IN v",
    "SHOW CREATE INCREMENTAL VIEW v",
    "SELECT * FROM v",
    "REFRESH INCREMENTAL VIEW above DRY RUN",
    "VACUUM INCREMENTAL VIEW v RETAIN 0 HOURS DRY RUN",
)
WRITING = (
    "REFRESH INCREMENTAL VIEW v",
    "VACUUM INCREMENTAL VIEW v RETAIN 0 HOURS",
    "REFRESH INCREMENTAL VIEW above",
    "ALTER INCREMENTAL VIEW v SET COMMENT 'again'",
    "REFRESH INCREMENTAL VIEW v FULL",
    "VERIFY INCREMENTAL VIEW v",
)
LAST = (
    f"CREATE OR REPLACE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS {BY_KEY}",
    f"ALTER INCREMENTAL VIEW v AS {BY_KEY}",
    "DROP INCREMENTAL VIEW v",
)


@pytest.fixture
def kept(
    spark: SparkSession, events: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Path, Path]]:
    """Where `v` lies, and a copy of it: a view with every kind of file, and with one above it."""
    monkeypatch.setattr(log, "LONG", 2)
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS {OTHER}")
    root = location_of(spark, "v")
    grow(str(root), SPAN + 3)
    spark.sql("CREATE INCREMENTAL VIEW above SCHEDULE (ON DEMAND) AS SELECT sum(n) AS n FROM v")
    spark.sql("VACUUM INCREMENTAL VIEW v RETAIN 0 HOURS")
    spark.sql(f"ALTER INCREMENTAL VIEW v AS {BY_KEY}")
    for n in range(2):
        spark.sql(f"INSERT INTO events VALUES ({n}, {n})")
        spark.sql("REFRESH INCREMENTAL VIEW v")
        spark.sql(f"ALTER INCREMENTAL VIEW v SET COMMENT 'number {n}'")
    marks = root / "_tidemill" / "writers"
    marks.mkdir(exist_ok=True)
    (marks / f"{'a' * 32}-{'b' * 32}.json").write_text('{"started": null}')
    (root / "_tidemill" / "dropping").write_text("7")
    spark.sql("INSERT INTO events VALUES (1, 1)")
    copy = tmp_path / "copy"
    shutil.copytree(root, copy)
    yield root, copy
    put_back(root, copy)
    spark.sql("DROP INCREMENTAL VIEW above")


def put_back(root: Path, copy: Path) -> None:
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(copy, root)


def small(root: Path) -> list[Path]:
    """The files that Tidemill has made, and not Spark."""
    found = [p for name in ("_tidemill", "_spark_metadata") for p in (root / name).rglob("*") if p.is_file()]
    return sorted(p for p in found if p.suffix not in {".parquet", ".crc"} and p.name != "_SUCCESS")


def outcome(spark: SparkSession, sql: str, where: str) -> str | None:
    """The condition of a statement; None if it went on."""
    failed: Exception | None = None
    try:
        spark.sql(sql).collect()
    except (PySparkException, Py4JJavaError) as error:
        failed = error
    if not isinstance(failed, PySparkException):  # Spark's own reader of manifests has no condition
        assert failed is None or "_spark_metadata" in where, f"{where}: {sql}: {failed}"
        return None if failed is None else "none"
    condition = failed.getCondition()
    assert condition not in {None, "TIDEMILL_PLANNER_FAILED", "INTERNAL_ERROR"}, f"{where}: {sql}: {failed}"
    return condition


def test_every_file_in_every_way(spark: SparkSession, kept: tuple[Path, Path]) -> None:
    root, copy = kept
    names = [path.relative_to(root) for path in small(root)]
    assert len({name.parent for name in names}) >= 8, names
    trials = [(name, kind) for name in names for kind in DAMAGE]
    for number, (name, kind) in enumerate(random.Random(SEED).sample(trials, len(trials) if ALL else 6)):
        where = f"{kind}: {name}"
        put_back(root, copy)
        spark.sql("REFRESH TABLE v")
        (root / name).write_bytes(DAMAGE[kind]((root / name).read_bytes()))
        (root / name).with_name(f".{name.name}.crc").unlink(missing_ok=True)
        for sql in (*READING, *WRITING):
            outcome(spark, sql, where)
        if (
            "_spark_metadata" in where
            or "writers" in name.parts
            or "dropping" in name.parts
            or "leases" in name.parts
            or name.name == "newest"
        ):
            assert outcome(spark, WRITING[0], where) is None, where
        if (copy / name).exists() and name.parts[-2] != "leases":
            shutil.copy(copy / name, root / name)
        assert outcome(spark, "REFRESH INCREMENTAL VIEW v", where) is None, where
        assert outcome(spark, "REFRESH INCREMENTAL VIEW above", where) is None, where
        assert difference(spark, "v", BY_KEY) == (0, 0), where
        runs = [row.run for row in spark.sql("SHOW REFRESHES IN v").collect() if row.kind != "FAILED"]
        assert runs == list(range(len(runs)))[::-1], where
        (root / name).write_bytes(DAMAGE[kind]((copy / name).read_bytes()))
        outcome(spark, LAST[number % 2], where)
        assert outcome(spark, LAST[2], where) is None, where
        shutil.rmtree(root, ignore_errors=True)
        spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) INITIALIZE DEFERRED AS {BY_KEY}")
