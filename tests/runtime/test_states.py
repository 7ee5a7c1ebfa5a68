"""Stored states over many runs: their pieces are put together, and nothing else changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from tests.conftest import Oracle, files_under, location_of, newest_entry
from tidemill.cost.costing import CpuMs
from tidemill.search.contract.stored import Piece
from tidemill.search.keep import compaction
from tidemill.search.keep.compaction import Compaction

Refresh = Callable[..., Row]
BY_KEY = "SELECT k, sum(v) AS s, count(*) AS n, avg(v / 3.0D) AS a FROM events GROUP BY k"
TOTAL = "SELECT sum(v) AS s, count(*) AS n FROM events"


def root(spark: SparkSession, view: str = "v") -> Path:
    return Path(unquote(str(location_of(spark, view)).removeprefix("file:")))


def entry(spark: SparkSession, view: str = "v") -> dict[str, Any]:
    """The newest entry of the view's log."""
    return newest_entry(root(spark, view))


def pieces(spark: SparkSession, view: str = "v") -> list[int]:
    """How many pieces each state of a view has."""
    return [len(s["pieces"]) for s in entry(spark, view)["states"].values()]


def always(first: int) -> Callable[..., Compaction | None]:
    """Merges pieces from one on; a base keeps its order."""

    def due(found: list[Piece], *_: object) -> Compaction | None:
        order = found[0].order if first == 0 else None
        return Compaction(first, 1, CpuMs(0.0), order) if len(found) > first + 1 else None

    return due


def change(spark: SparkSession, n: int) -> None:
    """A group comes, one goes on, and one that came in the last round goes."""
    spark.sql(f"INSERT INTO deltas VALUES ({n}, {n}000, 'n'), (1, {n}, NULL), (1, {n}, NULL)")
    if n % 2 == 0:
        spark.sql(f"DELETE FROM deltas WHERE k = {n - 1}")


@pytest.fixture
def deltas(spark: SparkSession, db: str) -> str:
    spark.sql("CREATE TABLE deltas (k INT, v BIGINT, s STRING) USING delta")
    spark.sql("INSERT INTO deltas VALUES (1, 10, 'a'), (1, 10, 'a'), (2, 20, NULL), (NULL, 5, 'b')")
    spark.sql("INSERT INTO deltas SELECT 2, id, 'many' FROM range(1000)")  # so that states are cheaper to read
    return db


@pytest.mark.parametrize(("query", "first"), [(BY_KEY, 0), (TOTAL, 1)])
def test_states_put_together_are_what_they_were(
    spark: SparkSession,
    deltas: str,
    oracle: Oracle,
    refresh: Refresh,
    monkeypatch: pytest.MonkeyPatch,
    query: str,
    first: int,
) -> None:
    query = query.replace("events", "deltas")
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {query}")
    monkeypatch.setattr(compaction, "due", always(first))
    compacted = []
    for n in range(3, 6):
        change(spark, n)
        row = refresh("v")
        assert (row.kind, row.reason) == ("INCREMENTAL", None)
        oracle("v", query)
        assert max(pieces(spark)) <= first + 2
        compacted.append(bool(entry(spark)["compacted"]))
    assert any(compacted)
    described = {r.col_name: r.data_type for r in spark.sql("DESCRIBE INCREMENTAL VIEW EXTENDED v").collect()}
    assert any("compacted" in text for name, text in described.items() if name.startswith("State "))


def test_groups_that_are_gone_go_with_the_next_base(
    spark: SparkSession, deltas: str, refresh: Refresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = BY_KEY.replace("events", "deltas")
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {query}")
    spark.sql("DELETE FROM deltas WHERE k = 1")
    refresh("v")
    monkeypatch.setattr(compaction, "due", always(0))
    spark.sql("INSERT INTO deltas VALUES (2, 1, 'x')")
    refresh("v")
    (state,) = entry(spark)["states"].values()
    assert [p["rows"] for p in state["pieces"]] == [2, 1]


def test_a_run_that_changes_nothing_of_a_state_leaves_no_piece(
    spark: SparkSession, events: str, refresh: Refresh, oracle: Oracle
) -> None:
    query = "SELECT k, sum(v) AS s FROM events WHERE v > 100 GROUP BY k"
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {query}")
    before = [p for p in files_under(root(spark)) if "/state/" in p]
    spark.sql("INSERT INTO events VALUES (1, 1, 'small')")
    assert refresh("v").kind == "INCREMENTAL"
    assert [p for p in files_under(root(spark)) if "/state/" in p] == before
    assert pieces(spark) == [1]
    oracle("v", query)


def test_a_compaction_that_is_cut_off_is_made_again(
    spark: SparkSession, events: str, refresh: Refresh, oracle: Oracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidemill.runtime.storage.log import Log

    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {BY_KEY}")
    spark.sql("INSERT INTO events SELECT 1, id, 'x' FROM range(200000)")
    refresh("v")
    monkeypatch.setattr(compaction, "due", always(0))
    spark.sql("INSERT INTO events VALUES (2, 1, 'x')")
    before = files_under(root(spark))

    def fail(*_: object) -> None:
        raise RuntimeError("no commit")

    with monkeypatch.context() as patch:
        patch.setattr(Log, "commit", fail)
        with pytest.raises(PySparkException, match="no commit"):
            refresh("v")
    assert files_under(root(spark)) == before
    refresh("v")
    assert pieces(spark) == [2]
    oracle("v", BY_KEY)
