"""Faults at every point: each file or catalog operation of a statement, and each of its Spark runs, fails once.

The points are not chosen but counted: a statement is carried out once to see what it does, then again and again, each
time with a fault at the next point. After each fault the view must be right, its history without a gap, what was left
behind gone with the next VACUUM, and the statement must work when it is given again.

Three kinds of fault: the operation fails; it is done but its answer is lost; the process dies before it, so that none
of the cleaning up behind it happens either. Where folders are removed, a fourth: it dies when half of them is gone.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.conftest import difference, early_work
from tests.faults.checks import check
from tidemill.bridge.jvm import Jvm

pytestmark = pytest.mark.slow

CHANGING = {
    "files": {"write_new", "write", "mkdirs", "delete", "rename"},
    "catalog": {"create_table", "alter_table", "rename_table", "drop_table"},
    "delta": {"publish"},
}
KINDS = ("fails", "answer lost", "dies")
HALFWAY = "dies halfway"
BY_KEY = "SELECT k, sum(v) AS s, count(*) AS n FROM events GROUP BY k"
OTHER = "SELECT k, n, s + n AS m FROM (SELECT k, sum(v) AS s, count(*) AS n FROM events GROUP BY k)"
invoke = Jvm.invoke
# Of a variant of a statement that is tried in full, one trial in so many, drawn by the seed.
SEED = int(os.environ.get("TIDEMILL_SEED", "20260"))
PART = 1 if os.environ.get("TIDEMILL_ALL_POINTS") == "true" else 3


class FaultError(Exception):
    """What a test makes happen."""


@dataclass
class Faults:
    """Counts the points of a statement, or lets one of them fail."""

    at: int | None = None
    kind: str = ""
    seen: list[str] = field(default_factory=list)
    dead: bool = False

    def __call__(self, jvm: Jvm, method: str, request: Mapping[str, Any] | None = None) -> Any:
        if self.dead:
            raise FaultError("the process is dead")
        what = (request or {}).get("do", "")
        if method != "run" and what not in CHANGING.get(method, ()):
            return invoke(jvm, method, request)
        self.seen.append(f"{method} {what}".strip())
        if len(self.seen) - 1 != self.at:
            return invoke(jvm, method, request)
        if self.kind == "answer lost":
            invoke(jvm, method, request)
        if self.kind == HALFWAY and what == "delete":
            remove_half((request or {})["paths"])
        self.dead = self.kind in {"dies", HALFWAY}
        raise FaultError(f"{self.kind}: {self.seen[-1]}")


def remove_half(paths: Sequence[str]) -> None:
    """Every other file below the paths goes, in the order of their names."""
    roots = [Path(path.removeprefix("file:")) for path in paths]
    found = [p for root in roots for p in (root, *root.rglob("*")) if p.is_file()]
    for path in sorted(found)[::2]:
        path.unlink()


@contextmanager
def faults(at: int | None = None, kind: str = "") -> Iterator[Faults]:
    found = Faults(at, kind)
    with mock.patch.object(Jvm, "invoke", lambda jvm, method, request=None: found(jvm, method, request)):
        yield found


def endure(
    spark: SparkSession,
    prepare: Callable[[int], None],
    statement: Callable[[int], str],
    after: Callable[[int, str], None],
    least: int,
    kinds: Sequence[str] = KINDS,
    part: int = 1,
) -> list[str]:
    """Every point of a statement in every kind of fault; the points.

    `least`: points that there are at the least. `part`: of all trials, one in so many, drawn by the seed.
    """
    trial = 0
    prepare(trial)
    with faults() as counted:
        spark.sql(statement(trial)).collect()
    after(trial, "without a fault")
    assert len(counted.seen) >= least, counted.seen
    trials = [(kind, point, name) for kind in kinds for point, name in enumerate(counted.seen)]
    for kind, point, name in random.Random(SEED).sample(trials, -(-len(trials) // part)):
        trial += 1
        where = f"{kind} at point {point}, {name}, of {statement(trial)}"
        prepare(trial)
        with faults(point, kind) as fault:
            try:
                spark.sql(statement(trial)).collect()
            except (PySparkException, Py4JJavaError):
                pass
            else:
                # Only what follows the commit, and cleaning up, may go wrong without an error.
                assert len(fault.seen) > point, where
        after(trial, where)
    return counted.seen


@pytest.fixture
def events(spark: SparkSession, db: str) -> str:
    spark.sql("CREATE TABLE events (k INT, v BIGINT) USING parquet")
    spark.sql("INSERT INTO events VALUES (1, 10), (1, 10), (2, 20), (NULL, 5)")
    return db


@pytest.fixture
def view(spark: SparkSession, events: str) -> str:
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) REFRESH POLICY INCREMENTAL AS {BY_KEY}")
    return "v"


@pytest.mark.parametrize("clause", ["", "FULL"])
def test_refresh(spark: SparkSession, view: str, clause: str) -> None:
    refreshing(spark, clause)


@pytest.mark.parametrize("result", ["USING delta", "PARTITIONED BY (k)"])
def test_refresh_of_other_results(spark: SparkSession, events: str, result: str) -> None:
    spark.sql(f"CREATE INCREMENTAL VIEW v {result} SCHEDULE (ON DEMAND) REFRESH POLICY INCREMENTAL AS {BY_KEY}")
    assert "delta publish" in refreshing(spark, part=PART) or "delta" not in result


def refreshing(spark: SparkSession, clause: str = "", part: int = 1) -> list[str]:
    """The points of a refresh of `v`."""

    def prepare(trial: int) -> None:
        spark.sql(f"INSERT INTO events VALUES ({trial % 3}, {trial})")

    def after(trial: int, where: str) -> None:
        check(spark, "v", where)
        row = spark.sql("REFRESH INCREMENTAL VIEW v").collect()[0]
        assert row.kind in {"INCREMENTAL", "NO_DATA"}, where
        assert difference(spark, "v", BY_KEY) == (0, 0), where

    return endure(spark, prepare, lambda _: f"REFRESH INCREMENTAL VIEW v {clause}", after, 8, part=part)


def test_early_work(spark: SparkSession, events: str) -> None:
    """A run without output that does all it can, and now and then the one with output that builds upon it."""
    schedule = "SCHEDULE (AT '08:00' NO OUTPUT, AT '24:00')"
    spark.sql(f"CREATE INCREMENTAL VIEW v {schedule} REFRESH POLICY INCREMENTAL AS {BY_KEY}")

    def prepare(trial: int) -> None:
        spark.sql(f"INSERT INTO events VALUES ({trial % 3}, {trial})")

    def after(trial: int, where: str) -> None:
        check(spark, "v", where)
        if trial % 3 == 0:
            assert spark.sql("REFRESH INCREMENTAL VIEW v").collect()[0].kind in {"INCREMENTAL", "NO_DATA"}, where
            assert difference(spark, "v", BY_KEY) == (0, 0), where

    with early_work():
        seen = endure(spark, prepare, lambda _: "REFRESH INCREMENTAL VIEW v AT 1", after, 5, part=PART)
    assert seen.count("run") >= 2


def test_create(spark: SparkSession, events: str) -> None:
    def statement(trial: int) -> str:
        return f"CREATE INCREMENTAL VIEW v{trial} SCHEDULE (ON DEMAND) REFRESH POLICY INCREMENTAL AS {BY_KEY}"

    def after(trial: int, where: str) -> None:
        if not spark.catalog.tableExists(f"v{trial}"):
            spark.sql(statement(trial))
        check(spark, f"v{trial}", where)
        assert difference(spark, f"v{trial}", BY_KEY) == (0, 0), where
        spark.sql(f"DROP INCREMENTAL VIEW v{trial}")

    endure(spark, lambda _: None, statement, after, 7)


@pytest.mark.parametrize(
    "words", ["ALTER INCREMENTAL VIEW v AS", "CREATE OR REPLACE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS"]
)
def test_another_query(spark: SparkSession, view: str, words: str) -> None:
    def query(trial: int) -> str:
        return OTHER if trial % 2 == 0 else BY_KEY

    def prepare(trial: int) -> None:
        spark.sql(f"INSERT INTO events VALUES ({trial % 3}, {trial})")

    def after(trial: int, where: str) -> None:
        check(spark, "v", where)
        spark.sql("REFRESH INCREMENTAL VIEW v")
        said = spark.sql("SHOW CREATE INCREMENTAL VIEW v").collect()[0][0]
        assert spark.table("v").columns == (["k", "n", "m"] if "s + n AS m" in said else ["k", "s", "n"]), where
        spark.sql(f"{words} {query(trial)}")
        assert difference(spark, "v", query(trial)) == (0, 0), where

    endure(spark, prepare, lambda trial: f"{words} {query(trial)}", after, 8)


def test_amendments_and_another_name(spark: SparkSession, view: str) -> None:
    def again(trial: int, where: str) -> None:
        spark.sql("REFRESH INCREMENTAL VIEW v")
        said = spark.sql("SHOW CREATE INCREMENTAL VIEW v").collect()[0][0]
        assert f"COMMENT '{spark.catalog.getTable('v').description}'" in said or "COMMENT" not in said, where
        spark.sql(f"ALTER INCREMENTAL VIEW v SET COMMENT 'number {trial}'")
        assert f"COMMENT 'number {trial}'" in spark.sql("SHOW CREATE INCREMENTAL VIEW v").collect()[0][0], where
        check(spark, "v", where)

    endure(spark, lambda _: None, lambda trial: f"ALTER INCREMENTAL VIEW v SET COMMENT 'number {trial}'", again, 2)

    def back(trial: int, where: str) -> None:
        there = spark.catalog.tableExists("w")
        assert there != spark.catalog.tableExists("v"), where
        if there:
            spark.sql("ALTER INCREMENTAL VIEW w RENAME TO v")
        check(spark, "v", where)

    endure(spark, lambda _: None, lambda _: "ALTER INCREMENTAL VIEW v RENAME TO w", back, 1)


def test_vacuum(spark: SparkSession, view: str) -> None:
    def prepare(trial: int) -> None:
        for n in range(3):
            spark.sql(f"INSERT INTO events VALUES ({n}, {trial})")
            spark.sql("REFRESH INCREMENTAL VIEW v")

    def after(trial: int, where: str) -> None:
        check(spark, "v", where)
        assert difference(spark, "v", BY_KEY) == (0, 0), where

    endure(spark, prepare, lambda _: "VACUUM INCREMENTAL VIEW v RETAIN 0 HOURS", after, 1)


def test_drop(spark: SparkSession, events: str) -> None:
    create = f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS {BY_KEY}"

    def after(trial: int, where: str) -> None:
        if spark.catalog.tableExists("v"):
            check(spark, "v", where)
        else:  # what a DROP that died left lying there does not keep anyone from making the view again
            spark.sql(create)
            check(spark, "v", where)
        spark.sql("DROP INCREMENTAL VIEW v")

    def prepare(_: int) -> None:
        spark.sql(create)

    endure(spark, prepare, lambda _: "DROP INCREMENTAL VIEW v", after, 7, (*KINDS, HALFWAY))
