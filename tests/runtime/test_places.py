"""Steps that read rows of the content tell the places of those that leave: nothing is read twice to find them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
from pyspark.sql import Row, SparkSession

from tests.conftest import Oracle
from tidemill.plan.expr import ONE, Col, Lit, fn
from tidemill.runtime.content import apply, leaving
from tidemill.runtime.content.places import FILE_PLACES, PLACE, PLACES, Places
from tidemill.search.contract.stored import MOST_PLACED_FILES
from tidemill.wire import nodes, questions
from tidemill.wire.nodes import WireNode

FILES = [{"path": f"file:/v/part-{n}.parquet", "bytes": 1, "modified": 0} for n in range(3)]
NEW = nodes.staged("shared 9", [(1, "k", "long"), (2, "x", "double")])


def content(*fields: str) -> WireNode:
    return nodes.result([(i, f, "long" if f == "k" else "double") for i, f in enumerate(fields, 1)])


def cut(rows: WireNode) -> WireNode:
    wanted = nodes.staged("shared 0", [(3, "key", "long")])
    return nodes.join("semi", [fn("<=>", Col(1), Col(3))], nodes.where([fn(">", Col(1), ONE)], rows), wanted)


def counted(rows: WireNode, count: int, shown: tuple[int, int] = (1, 2)) -> WireNode:
    return nodes.project([*((i, Col(c)) for i, c in enumerate(shown, 1)), (9, Lit(count, "long"))], rows)


def net(*parts: WireNode) -> WireNode:
    both = nodes.union((1, 2, 9), *(((1, 2, 9), part) for part in parts))
    rows = nodes.aggregate(nodes.same([1, 2]), [(9, fn("sum", Col(9)))], both)
    return nodes.where([fn("not", fn("=", Col(9), Lit(0, "long")))], rows)


COLUMNS = ((1, "k"), (2, "x"), (9, "_n"))


def leaf(plan: WireNode, kind: str) -> Any:
    return next(n for n in questions.walk(plan) if n["op"] == kind and n.get("step") != "shared 9")


def test_a_difference_with_the_content_observes_places() -> None:
    plan = Places(FILES).netting(net(counted(NEW, 1), counted(cut(content("k", "x")), -1)), COLUMNS)
    assert plan is not None
    assert (plan["op"], plan["name"]) == ("observe", PLACES)
    assert {"path_column", "row_column"} <= leaf(plan, "result").keys()
    (grouped,) = (n for n in questions.walk(plan) if n["op"] == "aggregate")
    assert len(grouped["aggregates"]) == 3


def test_places_go_through_the_files_of_a_shared_step() -> None:
    places = Places(FILES)
    noted = places.noting("shared 1", cut(content("k", "x")), ((1, "k0"), (2, "x0")))
    assert noted is not None
    plan, place = noted
    assert [c for c, _ in plan["columns"]] == [1, 2, place]
    read = counted(nodes.staged("shared 1", [(1, "k0", "long"), (2, "x0", "double")]), -1)
    netted = places.netting(net(counted(NEW, 1), read), COLUMNS)
    assert netted is not None
    assert PLACE in [f for _, f, _ in leaf(netted, "staged")["columns"]]


@pytest.mark.parametrize(
    "old",
    [
        pytest.param(counted(NEW, -1), id="rows from elsewhere"),
        pytest.param(counted(cut(content("x", "k")), -1), id="other columns"),
        pytest.param(counted(cut(content("k", "x")), -1, shown=(1, 1)), id="a column shown twice"),
        pytest.param(counted(nodes.aggregate(nodes.same([1, 2]), [], content("k", "x")), -1), id="groups"),
    ],
)
def test_what_is_no_row_of_the_content_has_no_place(old: WireNode) -> None:
    assert Places(FILES).netting(net(counted(NEW, 1), old), COLUMNS) is None


def test_files_that_cannot_be_told_apart_or_are_many() -> None:
    plan = net(counted(NEW, 1), counted(cut(content("k", "x")), -1))
    many = [{**FILES[0], "path": f"file:/v/{n}"} for n in range(MOST_PLACED_FILES + 1)]
    for files in ([], [FILES[0], {**FILES[0], "path": "file:/v/p=1/part-0.parquet"}], many):
        assert Places(files).netting(plan, COLUMNS) is None


def test_places_count_only_if_all_are_told() -> None:
    places, told = Places(FILES), [FILE_PLACES + 7, 3 * FILE_PLACES, FILE_PLACES + 2]
    found = places.found({"told": told, "untold": 0}, 3)
    assert found is not None
    assert found.rows == {"file:/v/part-0.parquet": (2, 7), "file:/v/part-2.parquet": (0,)}
    for observed, deletes in (({}, 0), ({"told": told, "untold": 1}, 3), ({"told": told}, 4), ({"told": None}, 3)):
        assert places.found(observed, deletes) is None


@pytest.mark.parametrize("using", ["parquet", "delta"])
def test_a_window_reads_its_content_once(
    spark: SparkSession,
    db: str,
    oracle: Oracle,
    refresh: Callable[..., Row],
    monkeypatch: pytest.MonkeyPatch,
    using: str,
) -> None:
    monkeypatch.setattr(apply, "SMALL_RESULT_BYTES", 0)
    query = "SELECT *, row_number() OVER w AS n, lag(v) OVER w AS b FROM t WINDOW w AS (PARTITION BY k ORDER BY id)"
    feed = "USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    spark.sql(f"CREATE TABLE t (id BIGINT, k INT, v INT) {feed}")
    spark.sql("INSERT INTO t SELECT id, CAST(id % 5000 AS INT), 1 FROM range(0, 20000, 1, 1)")
    spark.sql(f"CREATE INCREMENTAL VIEW v USING {using} SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {query}")
    spark.sql("UPDATE t SET v = 2 WHERE id = 19999")
    refresh("v")
    spark.sql("DELETE FROM t WHERE id IN (3, 5003)")
    # The source and the content once, and pages that rows are cut out of.
    assert refresh("v").rows_read < 2 * 20000 + (9000 if using == "parquet" else 100)
    oracle("v", query)


def test_rows_that_are_the_same_are_looked_for(
    spark: SparkSession, db: str, oracle: Oracle, refresh: Callable[..., Row], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two rows of one value one leaves: a place that the step has seen may be that of either."""
    monkeypatch.setattr(apply, "SMALL_RESULT_BYTES", 0)
    searches = mock.Mock(wraps=leaving.find)
    monkeypatch.setattr(leaving, "find", searches)
    query = "SELECT k, count(*) OVER (PARTITION BY k) AS n, v FROM t"
    spark.sql("CREATE TABLE t (id INT, k INT, v STRING) USING delta")
    spark.sql("INSERT INTO t SELECT id, id % 50, IF(id < 1000, 'a', uuid()) FROM range(0, 2000, 1, 2)")
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {query}")
    for change, number in (
        ("DELETE FROM t WHERE id = 7", 1),
        ("UPDATE t SET v = 'a' WHERE id = 1999", 1),  # the only row of its value
        ("DELETE FROM t WHERE id < 99", 2),
    ):
        spark.sql(change)
        refresh("v")
        oracle("v", query)
        assert searches.call_count == number
