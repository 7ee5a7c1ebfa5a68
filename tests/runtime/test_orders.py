"""Bases of states lie in an order, and few keys are looked up in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from tests.conftest import COSTS, Oracle, free, ordered
from tests.runtime.test_states import always, entry
from tidemill.runtime.before import sessions
from tidemill.runtime.run import steps
from tidemill.search.keep import compaction, wanted
from tidemill.search.keep.keeping import worth_ordering
from tidemill.search.space import orders

Refresh = Callable[..., Row]
GROUPS = 20_000


def asked_for(node: Any) -> Iterator[list[Any]]:
    """The values of each IN of a plan."""
    match node:
        case {"fn": "in", "args": [_, *values]}:
            yield [value["lit"] for value in values]
        case dict():
            yield from asked_for(list(node.values()))
        case list():
            for part in node:
                yield from asked_for(part)


@pytest.fixture
def looked_up(
    spark: SparkSession, executed: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], list[list[Any]]]]:
    """What runs have looked up in states, small as they are, since it was asked last, each time."""
    monkeypatch.setattr(orders, "LOOK_UP_FROM_ROWS", 1)
    monkeypatch.setattr(wanted, "worth_ordering", ordered)
    spark.conf.set(COSTS, free("exchange"))

    def since() -> list[list[Any]]:
        found = list(asked_for(executed))
        executed.clear()
        return found

    yield since
    spark.conf.unset(COSTS)


@pytest.mark.parametrize(
    ("key", "kind"), [("INT", int), ("BIGINT", int), ("SMALLINT", int), ("STRING", str)], ids=lambda x: str(x)
)
def test_few_keys_are_looked_up(
    spark: SparkSession,
    db: str,
    oracle: Oracle,
    refresh: Refresh,
    looked_up: Callable[[], list[list[Any]]],
    monkeypatch: pytest.MonkeyPatch,
    key: str,
    kind: Callable[[Any], Any],
) -> None:
    """Keys that are there, new ones and NULL; also after the base was merged with what came since."""
    spark.sql(f"CREATE TABLE many (k {key}, v BIGINT) USING delta")
    spark.sql(f"INSERT INTO many SELECT CAST(id % {GROUPS} AS {key}), id FROM range({GROUPS + 5})")
    query = "SELECT k, count(*) AS n, sum(v) AS s FROM many GROUP BY k"
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {query}")
    (state,) = entry(spark)["states"].values()
    assert [p["order"] for p in state["pieces"]] == ["c0"]
    for first in (None, 0, None):
        if first is not None:
            monkeypatch.setattr(compaction, "due", always(first))
        spark.sql("INSERT INTO many VALUES (7, 1), (7, 2), (12345, 3), (NULL, 4), (30000, 5)")
        looked_up()
        assert refresh("v").kind == "INCREMENTAL"
        oracle("v", query)
        assert [sorted(found) for found in looked_up()] == [sorted(map(kind, (7, 12345, 30000)))]
    (state,) = entry(spark)["states"].values()
    assert state["pieces"][0]["order"] == "c0"
    assert state["pieces"][0]["rows"] > GROUPS


def test_a_base_comes_into_order_once_few_keys_were_asked_for_often(
    spark: SparkSession,
    db: str,
    oracle: Oracle,
    refresh: Refresh,
    looked_up: Callable[[], list[list[Any]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wanted, "worth_ordering", worth_ordering)
    spark.conf.set(COSTS, free("exchange", "step", "hash", "write", "encode", "encode_text", "order"))
    spark.sql("CREATE TABLE many (k INT, v BIGINT) USING delta")
    spark.sql(f"INSERT INTO many SELECT id, id FROM range({GROUPS})")
    query = "SELECT k, count(*) AS n, sum(v) AS s FROM many GROUP BY k"
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {query}")
    seen: list[str | None] = []
    while len(seen) < 12 and seen[-2:] != ["c0", "c0"]:
        spark.sql("INSERT INTO many VALUES (7, 1), (12345, 3), (30000, 5)")
        looked_up()
        assert refresh("v").kind == "INCREMENTAL"
        assert list(map(sorted, looked_up())) == ([[7, 12345, 30000]] if seen[-1:] == ["c0"] else [])
        oracle("v", query)
        (state,) = entry(spark)["states"].values()
        seen.append(state["pieces"][0]["order"])
    assert seen[0] is None
    assert seen[-2:] == ["c0", "c0"]


def test_more_keys_than_are_looked_up(
    spark: SparkSession,
    db: str,
    oracle: Oracle,
    refresh: Refresh,
    looked_up: Callable[[], list[list[Any]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """More came than was expected: the whole state is read, by compiled code."""
    rows: list[float] = []
    fit = sessions.fit

    def noted(jvm: Any, source_bytes: float | None, shuffled: float, read: float, *rest: Any) -> dict[str, str]:
        rows.append(read)
        return fit(jvm, source_bytes, shuffled, read, *rest)

    spark.sql("CREATE TABLE many (k INT, v BIGINT) USING delta")
    spark.sql(f"INSERT INTO many SELECT id, id FROM range({GROUPS})")
    query = "SELECT k, count(*) AS n FROM many GROUP BY k"
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {query}")
    monkeypatch.setattr(steps, "LOOKED_UP_KEYS", 2)
    monkeypatch.setattr(sessions, "fit", noted)
    spark.sql("INSERT INTO many VALUES (1, 1), (2, 2), (3, 3)")
    assert refresh("v").kind == "INCREMENTAL"
    assert looked_up() == []
    assert max(rows[:2]) > sessions.INTERPRETED_READ
    oracle("v", query)


def test_a_text_that_cannot_be_told_is_looked_for_in_all_rows(
    spark: SparkSession, db: str, oracle: Oracle, refresh: Refresh, looked_up: Callable[[], list[list[Any]]]
) -> None:
    """One that is no UTF-8, or very long; the others are looked up as they are."""
    strange = "concat('x', CAST(X'FF' AS STRING))"
    spark.sql("CREATE TABLE many (k STRING, v BIGINT) USING delta")
    spark.sql(f"INSERT INTO many SELECT concat('k', id), id FROM range({GROUPS})")
    spark.sql(f"INSERT INTO many VALUES ({strange}, 1), (repeat('long', 100), 2), ('\\'', 3), ('\u00e9\\n', 4)")
    query = "SELECT k, count(*) AS n, sum(v) AS s FROM many GROUP BY k"
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {query}")
    for key, found in ((strange, []), ("repeat('long', 100)", []), ("'\\''", [["'"]]), ("'\u00e9\\n'", [["\u00e9\n"]])):
        spark.sql(f"INSERT INTO many VALUES ({key}, 5)")
        looked_up()
        assert refresh("v").kind == "INCREMENTAL"
        assert looked_up() == found
        oracle("v", query)


def test_pages_without_the_key_are_not_read(spark: SparkSession, db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wanted, "worth_ordering", ordered)
    rows = 100_000
    spark.sql(f"CREATE TABLE many USING delta AS SELECT id AS k, id AS v FROM range({rows}) ORDER BY hash(id)")
    query = "SELECT k, sum(v) AS s FROM many GROUP BY k"
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {query}")
    (state,) = entry(spark)["states"].values()
    (piece,) = state["pieces"]
    found = spark.read.parquet(*(f["path"] for f in piece["files"])).where(f"c0 = {rows // 2}")
    assert len(found.collect()) == 1
    scan = found._jdf.queryExecution().executedPlan().collectLeaves().head()
    assert scan.metrics().apply("numOutputRows").value() <= 2_000 * len(piece["files"])
