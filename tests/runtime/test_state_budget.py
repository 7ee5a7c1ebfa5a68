"""STATE BUDGET: what kept states take after each commit; states chosen anew; what is said of them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from tests.conftest import files_under
from tidemill.runtime.run import attempt
from tidemill.runtime.run.steps import carry_out
from tidemill.search.contract.run_plan import RunPlan
from tidemill.search.keep import wanted

CUSTOMERS, ORDERS, LINES = 200, 3_000, 12_000
SHIPPED = """SELECT l.o, o.day, sum(l.price * (1 - l.discount)) AS revenue, max(l.price) AS most, count(*) AS n
    FROM customers c JOIN orders o ON c.c = o.c JOIN lines l ON l.o = o.o
    WHERE c.segment < 3 AND o.day < 900 GROUP BY l.o, o.day"""

NET = SHIPPED.replace("max(l.price) AS most, ", "")


@pytest.fixture(scope="module")
def shop(spark: SparkSession) -> Iterator[str]:
    """Three tables, as Delta."""
    spark.sql("DROP DATABASE IF EXISTS budgets CASCADE")
    spark.sql("CREATE DATABASE budgets")
    spark.sql("USE budgets")
    spark.sql(f"CREATE TABLE customers USING delta AS SELECT id AS c, id % 5 AS segment FROM range({CUSTOMERS})")
    columns = f"id AS o, id % {CUSTOMERS} AS c, id % 1000 AS day"
    spark.sql(f"CREATE TABLE orders USING delta AS SELECT {columns} FROM range({ORDERS})")
    spark.sql(
        f"""CREATE TABLE lines USING delta AS
            SELECT id AS l, id % {ORDERS} AS o, CAST(id % 977 AS DECIMAL(12, 2)) AS price,
                   CAST(id % 10 / 100 AS DECIMAL(4, 2)) AS discount FROM range({LINES})"""
    )
    yield "budgets"
    spark.sql("USE default")
    spark.sql("DROP DATABASE budgets CASCADE")


@pytest.fixture
def view(spark: SparkSession, shop: str) -> Iterator[Callable[..., str]]:
    """`view(clauses, query=SHIPPED)`: a view's name; it is dropped after the test."""
    made: list[str] = []

    def make(clauses: str, query: str = SHIPPED) -> str:
        name = f"v{len(made)}"
        spark.sql(f"CREATE INCREMENTAL VIEW {name} {clauses} AS {query}")
        made.append(name)
        return name

    spark.sql(f"USE {shop}")
    yield make
    for name in made:
        spark.sql(f"DROP INCREMENTAL VIEW IF EXISTS {name}")


def change(spark: SparkSession, number: int) -> None:
    """Inserts, deletes and updates; which tables change differs from round to round."""
    new = 10_000_000 + 1000 * number
    spark.sql(f"INSERT INTO lines SELECT {new} + id, (id * 7) % {ORDERS}, id % 977, 0.05 FROM range(200)")
    if number % 2:
        spark.sql(f"DELETE FROM lines WHERE l % 53 = {number % 53}")
        spark.sql(f"INSERT INTO orders SELECT {new} + id, id % {CUSTOMERS}, id FROM range(50)")
    if number % 3 == 0:
        spark.sql(f"UPDATE orders SET day = day + 1 WHERE o % 41 = {number % 41}")
        spark.sql(f"UPDATE customers SET segment = (segment + 1) % 5 WHERE c % 37 = {number % 37}")


def verified(spark: SparkSession, name: str) -> bool:
    return bool(spark.sql(f"VERIFY INCREMENTAL VIEW {name}").collect()[0].matches)


def explained(spark: SparkSession, name: str) -> dict[str, Any]:
    return dict(json.loads(spark.sql(f"EXPLAIN INCREMENTAL JSON VIEW {name}").collect()[0][0]))


def kept(spark: SparkSession, name: str) -> set[str]:
    return {s["name"] for s in explained(spark, name)["states"] if s["kept"]}


def history(spark: SparkSession, name: str) -> list[Row]:
    return spark.sql(f"SHOW REFRESHES IN {name}").collect()


@pytest.mark.slow
def test_no_commit_is_above_its_budget(
    spark: SparkSession, view: Callable[..., str], refresh: Callable[..., Row]
) -> None:
    """With more room runs get no dearer by estimate; recomputing is the worst case."""
    free = view("SCHEDULE (ON DEMAND) REFRESH POLICY INCREMENTAL")
    most = history(spark, free)[0].state_bytes
    assert most > 0
    curve = explained(spark, free)["budgets"]
    assert [point["bytes"] for point in curve] == sorted(point["bytes"] for point in curve)
    assert [point["cost"] for point in curve] == sorted((point["cost"] for point in curve), reverse=True)
    budgets = {view(f"SCHEDULE (ON DEMAND) STATE BUDGET '{n}'"): n for n in (0, most // 2, 10 * most)}
    first, *_, last = budgets
    assert not kept(spark, first)
    assert kept(spark, last) == kept(spark, free)
    for number in range(4):
        change(spark, number)
        for name in budgets:
            refresh(name)
    for name, budget in budgets.items():
        assert all(row.state_bytes <= budget for row in history(spark, name))
        assert verified(spark, name)


def test_a_smaller_budget_holds_from_the_next_run_on(
    spark: SparkSession, view: Callable[..., str], refresh: Callable[..., Row]
) -> None:
    name = view("SCHEDULE (ON DEMAND) REFRESH POLICY INCREMENTAL")
    assert refresh(name).state_bytes > 0
    spark.sql(f"ALTER INCREMENTAL VIEW {name} SET STATE BUDGET '0'")
    assert refresh(name).state_bytes == 0  # although no source has changed
    assert verified(spark, name)
    described = {r.col_name: (r.data_type, r.comment) for r in describe(spark, name)}
    assert described["State Budget"] == ("0", "0 of 0 bytes are used")
    change(spark, 11)
    row = refresh(name)
    assert (row.kind, row.state_bytes) == ("INCREMENTAL", 0)
    assert verified(spark, name)
    spark.sql(f"ALTER INCREMENTAL VIEW {name} SET STATE BUDGET '1GB'")
    change(spark, 12)
    assert refresh(name).state_bytes > 0  # what pays is made again
    assert verified(spark, name)


def describe(spark: SparkSession, name: str) -> list[Row]:
    return spark.sql(f"DESCRIBE INCREMENTAL VIEW EXTENDED {name}").collect()


def test_a_state_that_turns_out_too_big_is_given_up(
    spark: SparkSession,
    view: Callable[..., str],
    refresh: Callable[..., Row],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The estimate says that it fits; what was written does not. It is remembered, so it is not made again."""
    monkeypatch.setattr(wanted, "STORED_SHARE", 1e-6)
    name = view("SCHEDULE (ON DEMAND) STATE BUDGET '5KB'", NET)
    (row,) = history(spark, name)
    assert row.state_bytes == 0
    (gone,) = [r for r in describe(spark, name) if r.col_name == "Given Up"]
    assert re.fullmatch(r"\d+ bytes; all states would take \d+, and STATE BUDGET is 5120", gone.comment)
    (shown,) = [s for s in explained(spark, name)["states"] if s["name"] == gone.data_type]
    assert (shown["kept"], shown["estimated"]) == (False, False)
    assert shown["bytes"] == int(gone.comment.split()[0])
    assert shown["reason"].startswith("given up in the last run: ")
    assert shown["name"] in spark.sql(f"EXPLAIN INCREMENTAL STATE VIEW {name}").collect()[0][0]
    location = next(r.data_type for r in describe(spark, name) if r.col_name == "Location").removeprefix("file:")
    assert not [path for path in files_under(location) if "/state/" in path and path.endswith(".parquet")]
    change(spark, 16)
    assert refresh(name).state_bytes == 0
    assert not [r for r in describe(spark, name) if r.col_name == "Given Up"]
    (after,) = [s for s in explained(spark, name)["states"] if s["name"] == shown["name"]]
    assert after["reason"] == "STATE BUDGET does not hold it"
    assert verified(spark, name)


def test_states_are_merged_before_one_is_given_up(
    spark: SparkSession,
    view: Callable[..., str],
    refresh: Callable[..., Row],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A run finds that its segment does not fit, and is carried out once more: then the state is in one piece. Later
    runs with little room merge what they add, and are carried out once."""
    times: list[str] = []

    def counted(plan: RunPlan, *given: Any) -> Any:
        times.append(plan.kind)
        return carry_out(plan, *given)

    monkeypatch.setattr(attempt, "carry_out", counted)
    query = "SELECT o % 7 AS g, sum(price) AS p, count(*) AS n FROM lines GROUP BY o % 7"
    name, free = (view("SCHEDULE (ON DEMAND) REFRESH POLICY INCREMENTAL", query) for _ in range(2))
    sizes = [history(spark, name)[0].state_bytes]
    for number in (41, 42):
        change(spark, number)
        sizes.append(refresh(name).state_bytes)
        refresh(free)
    room = sizes[2] + (sizes[2] - sizes[1]) // 2
    assert sizes[2] < 0.9 * room  # nothing is merged in advance
    spark.sql(f"ALTER INCREMENTAL VIEW {name} SET STATE BUDGET '{room}'")
    change(spark, 43)
    assert refresh(free).state_bytes > room
    times.clear()
    sizes.append(refresh(name).state_bytes)
    assert 0 < sizes[-1] < sizes[1]
    assert times == ["INCREMENTAL"] * 2
    little = round(1.105 * sizes[-1])  # it is chosen, and nearly fills the budget
    spark.sql(f"ALTER INCREMENTAL VIEW {name} SET STATE BUDGET '{little}'")
    for number in (44, 46):
        change(spark, number)
        times.clear()
        sizes.append(refresh(name).state_bytes)
        assert 0 < sizes[-1] <= little, sizes
        assert times == ["INCREMENTAL"]
    assert not [r for r in describe(spark, name) if r.col_name == "Given Up"]
    assert verified(spark, name)


def test_strict_refuses_a_budget_that_cannot_hold_what_it_needs(
    spark: SparkSession, view: Callable[..., str], shop: str
) -> None:
    query = "SELECT o, first(price) AS p FROM lines GROUP BY o LIMIT 100"
    for policy in ("STRICT", "INCREMENTAL"):
        clauses = f"SCHEDULE (ON DEMAND) STATE BUDGET '0' REFRESH POLICY {policy}"
        with pytest.raises(PySparkException) as raised:
            spark.sql(f"CREATE INCREMENTAL VIEW refused {clauses} AS {query}")
        assert raised.value.getCondition() == "TIDEMILL_NOT_INCREMENTAL"
        assert "bytes" in str(raised.value)
        assert "STATE BUDGET" in str(raised.value)
    assert not spark.catalog.tableExists("refused")
    name = view("SCHEDULE (ON DEMAND) STATE BUDGET '0'", query)
    change(spark, 14)
    assert spark.sql(f"REFRESH INCREMENTAL VIEW {name}").collect()[0].state_bytes == 0


def test_expect_chooses_the_states_anew(
    spark: SparkSession, view: Callable[..., str], refresh: Callable[..., Row]
) -> None:
    still = "lines 0 ROWS, orders 0 ROWS, customers 0 ROWS"
    name = view(f"SCHEDULE (ON DEMAND) EXPECT ({still})", NET)
    change(spark, 13)
    refresh(name)
    assert stored(spark, name) == []
    spark.sql(f"ALTER INCREMENTAL VIEW {name} SET EXPECT (lines 5000 ROWS, orders 0 ROWS, customers 0 ROWS)")
    change(spark, 15)
    refresh(name)
    assert len(stored(spark, name)) == 1
    assert verified(spark, name)
    spark.sql(f"ALTER INCREMENTAL VIEW {name} SET EXPECT ({still})")
    change(spark, 17)
    refresh(name)
    assert stored(spark, name) == []
    assert verified(spark, name)


def test_the_last_cycles_choose_the_states_anew(
    spark: SparkSession, view: Callable[..., str], refresh: Callable[..., Row]
) -> None:
    """First nobody knows what comes; then it is so much that runs are full, and no state pays."""
    name = view("SCHEDULE (ON DEMAND)", NET)
    assert len(stored(spark, name)) == 1
    for number in range(5):
        spark.sql("UPDATE lines SET price = price + 1")
        before = stored(spark, name)
        assert number < 4 or not before
        refresh(name)
    assert stored(spark, name) == []
    assert verified(spark, name)


def test_runs_count_at_the_prices_of_their_points(
    spark: SparkSession, view: Callable[..., str], refresh: Callable[..., Row]
) -> None:
    """Orders come before noon, line items after it; both points have output. A state of the orders that have line items
    helps where the run that is dear meets new line items."""
    query = """SELECT o.day, count(*) AS n FROM orders o LEFT SEMI JOIN (SELECT * FROM lines WHERE price > 100) l
        ON l.o = o.o WHERE o.day < 900 GROUP BY o.day"""
    schedule = "SCHEDULE (AT '12:00' COST {}, AT '24:00' COST {}) REFRESH POLICY INCREMENTAL"
    names = [view(schedule.format(0.01, 1), query), view(schedule.format(1, 0.01), query)]
    for number in range(60, 64):
        new = 10_000_000 + 1000 * number
        spark.sql(f"INSERT INTO orders SELECT {new} + id, id % {CUSTOMERS}, id FROM range(100)")
        early = [refresh(name, "AT 1") for name in names]
        spark.sql(f"INSERT INTO lines SELECT {new} + id, (id * 7) % {ORDERS}, id % 977, 0.05 FROM range(200)")
        late = [refresh(name, "AT 2") for name in names]
        assert {row.kind for row in (*early, *late)} == {"INCREMENTAL"}
    saves = []
    for name in names:
        (state,) = (s for s in explained(spark, name)["states"] if "keys=[o]" in s["of"])
        saves.append(state["benefit"])
        assert verified(spark, name)
    assert saves[0] > 3 * saves[1]


def stored(spark: SparkSession, name: str) -> list[str]:
    return [r.col_name for r in describe(spark, name) if r.col_name.startswith("State s")]


@pytest.mark.slow
def test_nothing_is_held_back_beyond_the_budget(
    spark: SparkSession, view: Callable[..., str], refresh: Callable[..., Row]
) -> None:
    points = "SCHEDULE (AT '12:00' COST 0.01 NO OUTPUT, AT '24:00')"
    names = {n: view(f"{points} STATE BUDGET '{n}'") for n in ("0", "2KB", "1GB")}
    for number in (21, 22):
        change(spark, number)
        for budget, name in names.items():
            early = refresh(name, "AT 1")
            assert early.state_bytes <= {"0": 0, "2KB": 2048, "1GB": 1 << 30}[budget]
        change(spark, number + 2)
        for budget, name in names.items():
            row = refresh(name)
            assert row.state_bytes <= {"0": 0, "2KB": 2048, "1GB": 1 << 30}[budget]
            assert verified(spark, name)


def test_early_work_without_room_is_undone(
    spark: SparkSession, view: Callable[..., str], refresh: Callable[..., Row]
) -> None:
    """The state fits as it is, but not with what an early run would add; nothing of that stays."""
    name = view("SCHEDULE (AT '12:00' COST 0.01 NO OUTPUT, AT '24:00') STATE BUDGET '1GB'", NET)
    room = history(spark, name)[0].state_bytes
    assert room > 0
    location = next(r.data_type for r in describe(spark, name) if r.col_name == "Location").removeprefix("file:")
    before = state_files(location)
    spark.sql(f"ALTER INCREMENTAL VIEW {name} SET STATE BUDGET '{room}'")
    change(spark, 31)
    early = refresh(name, "AT 1")
    assert (early.kind, early.state_bytes) == ("PARTIAL", room)
    assert early.jobs > 0  # it was tried
    assert [r.data_type for r in describe(spark, name) if r.col_name == "Given Up"] == ["early work"]
    assert state_files(location) == before
    assert refresh(name).state_bytes <= room
    assert verified(spark, name)


def test_a_point_without_work_gives_up_what_has_no_room(
    spark: SparkSession, view: Callable[..., str], refresh: Callable[..., Row]
) -> None:
    name = view("SCHEDULE (AT '12:00' NO OUTPUT, AT '24:00') STATE BUDGET '1GB'", NET)
    assert history(spark, name)[0].state_bytes > 0
    spark.sql(f"ALTER INCREMENTAL VIEW {name} SET STATE BUDGET '0'")
    change(spark, 32)
    early = refresh(name, "AT 1")
    assert (early.kind, early.state_bytes) == ("PARTIAL", 0)
    assert refresh(name).state_bytes == 0
    assert verified(spark, name)


def state_files(location: str) -> list[str]:
    return sorted(p for p in files_under(location) if "/state/" in p or "/delta/" in p)
