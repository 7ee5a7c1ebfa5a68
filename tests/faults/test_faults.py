"""The points of the statements that make, amend and refresh views; points.py says what must hold after each."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.conftest import difference, early_work, location_of
from tests.faults.checks import check
from tests.faults.points import BY_KEY, endure
from tidemill.runtime.content import apply, mark

pytestmark = pytest.mark.slow

OTHER = "SELECT k, n, s + n AS m FROM (SELECT k, sum(v) AS s, count(*) AS n FROM events GROUP BY k)"


@pytest.mark.parametrize("clause", ["", "FULL"])
def test_refresh(spark: SparkSession, view: str, clause: str) -> None:
    refreshing(spark, clause, part=6 if clause else 1)


@pytest.mark.parametrize("result", ["USING delta", "PARTITIONED BY (k)"])
def test_refresh_of_other_results(spark: SparkSession, events: str, result: str) -> None:
    spark.sql(f"CREATE INCREMENTAL VIEW v {result} SCHEDULE (ON DEMAND) REFRESH POLICY INCREMENTAL AS {BY_KEY}")
    assert "delta publish" in refreshing(spark, part=9) or "delta" not in result


def test_refresh_of_marked_rows(spark: SparkSession, events: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply, "SMALL_RESULT_BYTES", 0)
    monkeypatch.setattr(mark, "FEW_MARKED", 1)
    spark.sql(f"CREATE INCREMENTAL VIEW v USING delta SCHEDULE (ON DEMAND) REFRESH POLICY INCREMENTAL AS {BY_KEY}")
    assert "delta publish" in refreshing(spark, part=9)
    assert [*location_of(spark, "v").glob("deletion_vector_*.bin")]


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
        seen = endure(spark, prepare, lambda _: "REFRESH INCREMENTAL VIEW v AT 1", after, 5, part=3)
    assert seen.count("run") >= 2


@pytest.mark.parametrize("words", ["", "USING delta", "INITIALIZE DEFERRED"])
def test_create(spark: SparkSession, events: str, words: str) -> None:
    initialize = words if "DEFERRED" in words else ""
    using = "" if initialize else words

    def statement(trial: int) -> str:
        clauses = f"{using} SCHEDULE (ON DEMAND) REFRESH POLICY INCREMENTAL {initialize}"
        return f"CREATE INCREMENTAL VIEW v{trial} {clauses} AS {BY_KEY}"

    def after(trial: int, where: str) -> None:
        if not spark.catalog.tableExists(f"v{trial}"):
            spark.sql(statement(trial))
        if initialize:
            spark.sql(f"REFRESH INCREMENTAL VIEW v{trial}")
        check(spark, f"v{trial}", where)
        assert difference(spark, f"v{trial}", BY_KEY) == (0, 0), where
        spark.sql(f"DROP INCREMENTAL VIEW v{trial}")

    endure(spark, lambda _: None, statement, after, 4 if initialize else 7, part=6 if words else 1)


def test_the_first_run_of_a_view_that_was_not_filled(spark: SparkSession, events: str) -> None:
    def prepare(trial: int) -> None:
        clauses = "SCHEDULE (ON DEMAND) REFRESH POLICY INCREMENTAL INITIALIZE DEFERRED"
        spark.sql(f"CREATE INCREMENTAL VIEW v{trial} {clauses} AS {BY_KEY}")

    def after(trial: int, where: str) -> None:
        spark.sql(f"REFRESH INCREMENTAL VIEW v{trial}")
        check(spark, f"v{trial}", where)
        assert difference(spark, f"v{trial}", BY_KEY) == (0, 0), where
        spark.sql(f"DROP INCREMENTAL VIEW v{trial}")

    endure(spark, prepare, lambda trial: f"REFRESH INCREMENTAL VIEW v{trial}", after, 5, part=3)


def test_cascade(spark: SparkSession, events: str) -> None:
    """A fault in the run of either view; what the upstream committed stays, and the next CASCADE takes it along."""
    total = f"SELECT count(*) AS groups, sum(s) AS s FROM ({BY_KEY})"
    for view, query in {"lower": BY_KEY, "upper": "SELECT count(*) AS groups, sum(s) AS s FROM lower"}.items():
        spark.sql(f"CREATE INCREMENTAL VIEW {view} SCHEDULE (ON DEMAND) REFRESH POLICY INCREMENTAL AS {query}")

    def prepare(trial: int) -> None:
        spark.sql(f"INSERT INTO events VALUES ({trial}, {trial})")

    def after(trial: int, where: str) -> None:
        check(spark, "lower", where)
        check(spark, "upper", where)
        spark.sql("REFRESH INCREMENTAL VIEW upper CASCADE")
        assert difference(spark, "upper", total) == (0, 0), where

    seen = endure(spark, prepare, lambda _: "REFRESH INCREMENTAL VIEW upper CASCADE", after, 16, part=9)
    assert seen.count("run") >= 2


@pytest.mark.parametrize("using", ["", "USING delta"])
@pytest.mark.parametrize(
    "words", ["ALTER INCREMENTAL VIEW v AS", "CREATE OR REPLACE INCREMENTAL VIEW v {} SCHEDULE (ON DEMAND) AS"]
)
def test_another_query(spark: SparkSession, events: str, words: str, using: str) -> None:
    words = words.format(using)
    spark.sql(f"CREATE INCREMENTAL VIEW v {using} SCHEDULE (ON DEMAND) REFRESH POLICY INCREMENTAL AS {BY_KEY}")

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

    endure(spark, prepare, lambda trial: f"{words} {query(trial)}", after, 8, part=16 if using else 6)


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
