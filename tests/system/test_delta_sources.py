"""Delta tables that misbehave: what each does to the run, and that no row is ever wrong."""

from __future__ import annotations

import pytest

from tests.system.conftest import World
from tidemill.runtime.execution import Execution

pytestmark = pytest.mark.slow

GROUPED = "SELECT k, COUNT(*) AS n, SUM(v) AS s FROM t GROUP BY k"


def table(world: World, feed: bool, properties: str = "", rest: str = "", columns: str = "k INT, v BIGINT") -> None:
    """Four rows in three commits."""
    given = f"delta.enableChangeDataFeed = {str(feed).lower()}" + (f", {properties}" if properties else "")
    world.change(
        f"CREATE TABLE t ({columns}) USING delta {rest} TBLPROPERTIES ({given})",
        "INSERT INTO t VALUES (1, 1), (2, 2)",
        "INSERT INTO t VALUES (3, 3)",
        "INSERT INTO t VALUES (4, 4)",
    )


def test_a_parquet_table_becomes_delta(fresh: World) -> None:
    world = fresh
    world.change("CREATE TABLE t (k INT, v BIGINT) USING parquet", "INSERT INTO t VALUES (1, 1)")
    world.view("auto", GROUPED, "AUTO")
    world.change("CONVERT TO DELTA t")
    world.fails("VERIFY INCREMENTAL VIEW auto", "TIDEMILL_HISTORY_GONE")
    world.goes_full("SOURCE_REPLACED")
    world.change("INSERT INTO t VALUES (2, 2)", "DELETE FROM t WHERE k = 1")
    world.goes_on(1, 1)


@pytest.mark.parametrize("what", ["restored", "replaced", "made anew"])
def test_changes_between_pin_and_read(fresh: World, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    world, spark = fresh, fresh.spark
    table(world, feed=False)
    world.view("auto", "SELECT k, v FROM t", "AUTO")
    world.change("UPDATE t SET v = 30 WHERE k = 3")
    wanted = world.rows("SELECT k, v FROM t")
    original = Execution.write
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

    monkeypatch.setattr(Execution, "write", write)
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
        return [w for w in warned if "not in effect" not in w]

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
