"""Changes that touch no column that a query reads are no changes; a small job tells before the run is planned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from tests.conftest import Oracle
from tidemill.runtime.run import netting
from tidemill.wire import questions

QUERY = "SELECT s.k, v, name FROM facts s JOIN dims d ON s.k = d.k"


@pytest.fixture
def joined(spark: SparkSession, db: str) -> str:
    """A view over `facts` and `dims`, of which it does not read the column `note`; its query."""
    spark.sql("CREATE TABLE facts (k INT, v BIGINT) USING delta")
    spark.sql("CREATE TABLE dims (k INT, name STRING, note STRING) USING delta")
    spark.sql("INSERT INTO facts SELECT id % 4, id FROM range(8)")
    spark.sql("INSERT INTO dims SELECT id, 'n' || id, 'old' FROM range(4)")
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) REFRESH POLICY INCREMENTAL AS {QUERY}")
    return QUERY


def sources_read(executed: list[dict[str, Any]]) -> int:
    return sum(questions.count(plan, "scan") for plan in executed)


def test_an_update_of_a_column_that_nobody_reads_is_no_change(
    spark: SparkSession,
    joined: str,
    refresh: Callable[..., Row],
    oracle: Oracle,
    executed: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(netting, "NETTING_PAYS_FROM", 0.0)
    spark.sql("UPDATE dims SET note = 'new' WHERE k = 1")
    row = refresh("v")
    assert sources_read(executed) == 0
    assert (row.kind, row.rows_in, row.rows_out) == (
        "INCREMENTAL",
        Row(inserts=1, deletes=1),
        Row(inserts=0, deletes=0),
    )
    assert refresh("v").kind == "NO_DATA"
    spark.sql("UPDATE dims SET note = 'again', name = 'other' WHERE k = 2")
    row = refresh("v")
    assert row.rows_out == Row(inserts=2, deletes=2)
    oracle("v", joined)


def test_a_run_that_costs_little_does_not_ask(
    spark: SparkSession, joined: str, refresh: Callable[..., Row], executed: list[dict[str, Any]]
) -> None:
    spark.sql("UPDATE dims SET note = 'new' WHERE k = 1")
    row = refresh("v")
    assert row.rows_out == Row(inserts=0, deletes=0)
    assert sources_read(executed) > 0
