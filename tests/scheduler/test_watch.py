"""Looks at sources: a table that many views wait for is looked at once in a tick; one that is gone stops no other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from unittest import mock

from pyspark.sql import SparkSession

from tests.scheduler.conftest import MIDNIGHT, Rehearse
from tidemill.bridge.jvm import Jvm

VIEWS = 5


def test_a_table_is_looked_at_once_in_a_tick(spark: SparkSession, db: str, rehearse: Rehearse) -> None:
    spark.sql("CREATE TABLE t (k INT, x BIGINT) USING delta")
    spark.sql("CREATE TABLE u (k INT) USING parquet")
    for n in range(VIEWS):
        columns = "k" if n % 2 else "k, x"
        spark.sql(f"CREATE INCREMENTAL VIEW v{n} SCHEDULE (ON CHANGE) AS SELECT {columns} FROM t")
    spark.sql("CREATE INCREMENTAL VIEW w SCHEDULE (ON CHANGE) AS SELECT k FROM u")
    spark.sql("CREATE INCREMENTAL VIEW above SCHEDULE (ON CHANGE) AS SELECT count(*) AS n FROM v0")
    scheduler = rehearse(*(f"v{n}" for n in range(VIEWS)), "w", "above")
    asked: list[list[str]] = []
    invoke = Jvm.invoke

    def watching(jvm: Jvm, method: str, request: Mapping[str, Any] | None = None) -> Any:
        if method == "pin" and request is not None:
            asked.append(sorted(source["name"].rsplit(".", 1)[-1] for source in request["sources"]))
        return invoke(jvm, method, request)

    with mock.patch.object(Jvm, "invoke", watching):
        assert scheduler.at(MIDNIGHT + 1) == []
        assert asked == [["t", "u", "v0"]]
        spark.sql("INSERT INTO u VALUES (1)")
        asked.clear()
        assert [row.view.rsplit(".", 1)[1] for row in scheduler.at(MIDNIGHT + 2)] == ["w"]
        assert asked[:2] == [["t", "u", "v0"], ["u"]]
    spark.sql("INSERT INTO t VALUES (1, 1)")
    assert len(scheduler.at(MIDNIGHT + 3)) == VIEWS
    assert [row.view.rsplit(".", 1)[1] for row in scheduler.at(MIDNIGHT + 4)] == ["above"]
    assert scheduler.at(MIDNIGHT + 5) == []
    # A table that is gone stops those alone that read it.
    spark.sql("DROP TABLE u")
    spark.sql("INSERT INTO t VALUES (2, 2)")
    rows = scheduler.at(MIDNIGHT + 6)
    assert {row.view.rsplit(".", 1)[1] for row in rows if row.kind != "FAILED"} == {f"v{n}" for n in range(VIEWS)}
