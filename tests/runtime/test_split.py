"""Where the time of a run went: recorded by part and by step, adds up, and is shown by EXPLAIN."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from tests.conftest import location_of, newest_entry
from tests.runtime.conftest import SUMMARY
from tidemill.bridge.jvm import Jvm
from tidemill.bridge.walls import PARTS, Walls
from tidemill.runtime.view import split
from tidemill.runtime.view.record import RunRecord

MS = 1_000_000


class Clock:
    """A clock that moves when it is told to."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now

    def pass_(self, milliseconds: float) -> None:
        self.now += int(milliseconds * MS)


def test_inner_parts_are_not_counted_twice() -> None:
    clock = Clock()
    walls = Walls(clock)
    clock.pass_(5)
    before = walls.totals()
    with walls.part("sources"):
        clock.pass_(10)
        with walls.part("analysis"):
            clock.pass_(20)
        clock.pass_(1.5)
    clock.pass_(7)
    assert walls.since(before) == {"sources": 11, "analysis": 20}
    walls.told({"jobs": 3.0, "catalyst": 0.5})
    assert walls.since(before) == {"sources": 11, "analysis": 20, "jobs": 3}


def test_a_part_that_fails_ends() -> None:
    clock = Clock()
    walls = Walls(clock)
    with suppress(ValueError), walls.part("planning"):
        clock.pass_(4)
        raise ValueError
    clock.pass_(8)
    assert walls.since({}) == {"planning": 4}


def test_of_a_block_only_its_borders_are_charged() -> None:
    clock = Clock()
    walls = Walls(clock)
    ended: list[type[BaseException] | None] = []

    @contextmanager
    def block() -> Any:
        clock.pass_(2)
        try:
            yield "entered"
        except ValueError as error:
            ended.append(type(error))
            raise
        finally:
            clock.pass_(3)

    with suppress(ValueError), walls.borders("commit", block()) as entered:
        clock.pass_(50)
        assert entered == "entered"
        raise ValueError
    assert ended == [ValueError]
    assert walls.since({}) == {"commit": 5}


def test_what_came_after_the_duration_is_that_of_the_same_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split, "_AFTER", {})
    split.note_after("a", 3, {"commit": 7})
    assert split.after("a", 3, None) == {"commit": 7}
    assert split.after("a", 2, None) is None
    assert split.after("b", 3, None) is None
    following = split.split_of("a", 10, {"jobs": 6})
    assert following.wall_ms == {"jobs": 6, "other": 4}
    assert split.after("elsewhere", 3, following) == {"commit": 7}
    assert split.Split.from_json(following.to_json()) == following
    monkeypatch.setattr(split, "MOST_VIEWS", 1)
    split.note_after("b", 0, {})
    assert split.after("a", 3, None) is None


def test_runs_say_where_their_time_went(spark: SparkSession, sales: str, refresh: Callable[..., Row]) -> None:
    spark.sql(f"CREATE INCREMENTAL VIEW summary SCHEDULE (ON DEMAND) REFRESH POLICY INCREMENTAL AS {SUMMARY}")
    spark.sql("INSERT INTO sales VALUES ('o5','c2',300)")
    row = refresh("summary")
    shown = json.loads(spark.sql("EXPLAIN INCREMENTAL JSON VIEW summary").collect()[0].plan)
    assert [run["run"] for run in shown["runs"]] == [1, 0]
    for run in shown["runs"]:
        assert set(run["wall_ms"]) <= {*PARTS, "other"}
        assert sum(run["wall_ms"].values()) == run["duration_ms"]
        assert min(run["wall_ms"].values()) >= 0
        assert {"commit"} <= set(run["after_ms"]) <= {*PARTS}
        assert "steps" not in run
    last = shown["last_run"]
    assert (last["duration_ms"], last["jobs"], last["cpu_ms"]) == (row.duration_ms, row.jobs, row.cpu_ms)
    steps = last["steps"]
    assert sum(step["jobs"] for step in steps) == row.jobs
    assert sum(step["rows_read"] for step in steps) == row.rows_read
    assert steps[-1]["step"] == "apply"
    (delta,) = (step for step in steps if step["step"] == "delta")
    assert delta["rows"] == row.rows_out.inserts + row.rows_out.deletes
    assert delta["estimated_cost"] > 0
    assert delta["estimated_rows"] is not None
    assert set(delta["wall_ms"]) <= {"catalyst", "jobs", "writing", "other"}
    text = spark.sql("EXPLAIN INCREMENTAL COST VIEW summary").collect()[0].plan
    assert f"; {row.duration_ms} ms: " in text
    assert "steps of run 1: " in text
    # Without a view there is nothing to tell.
    shown = json.loads(spark.sql(f"EXPLAIN INCREMENTAL JSON {SUMMARY}").collect()[0].plan)
    assert (shown["runs"], shown["last_run"]) == ([], None)


def test_the_steps_of_a_plan_are_estimated_as_the_plan_is(
    spark: SparkSession, sales: str, refresh: Callable[..., Row]
) -> None:
    spark.sql(f"CREATE INCREMENTAL VIEW summary SCHEDULE (ON DEMAND) REFRESH POLICY INCREMENTAL AS {SUMMARY}")
    spark.sql("INSERT INTO sales VALUES ('o5','c2',300)")
    row = refresh("summary")
    steps = newest_record(spark, "summary").steps
    assert sum(step.estimated_cost or 0.0 for step in steps) == pytest.approx(row.estimated_cost, abs=0.01)


def test_an_entry_without_it_is_read(spark: SparkSession, sales: str, refresh: Callable[..., Row]) -> None:
    """As earlier versions wrote them."""
    spark.sql(f"CREATE INCREMENTAL VIEW summary SCHEDULE (ON DEMAND) AS {SUMMARY}")
    entry = newest_entry(location_of(spark, "summary"))
    path = max((location_of(spark, "summary") / "_tidemill" / "log").glob("*[0-9].json"))
    del entry["steps"], entry["metrics"]["split"]
    path.write_text(json.dumps(entry))
    (path.parent / f".{path.name}.crc").unlink(missing_ok=True)
    shown = json.loads(spark.sql("EXPLAIN INCREMENTAL JSON VIEW summary").collect()[0].plan)
    assert (shown["last_run"]["wall_ms"], shown["last_run"]["steps"]) == (None, [])
    assert "run 0 (FULL): estimated" in spark.sql("EXPLAIN INCREMENTAL COST VIEW summary").collect()[0].plan
    spark.sql("INSERT INTO sales VALUES ('o5','c2',300)")
    assert refresh("summary").run == 1
    shown = json.loads(spark.sql("EXPLAIN INCREMENTAL JSON VIEW summary").collect()[0].plan)
    assert [run["wall_ms"] is None for run in shown["runs"]] == [False, True]


def test_runs_without_output_and_of_upstream_views_add_up(spark: SparkSession, sales: str) -> None:
    spark.sql("CREATE INCREMENTAL VIEW below SCHEDULE (ON DEMAND) AS SELECT cat, price FROM sales")
    spark.sql(
        "CREATE INCREMENTAL VIEW above SCHEDULE (ON DEMAND) AS SELECT cat, sum(price) AS s FROM below GROUP BY cat"
    )
    early = "SCHEDULE (AT '14:00' COST 0.25 NO OUTPUT, AT '24:00')"
    spark.sql(f"CREATE INCREMENTAL VIEW early {early} AS {SUMMARY}")
    spark.sql("INSERT INTO sales VALUES ('o5','c2',300)")
    spark.sql("REFRESH INCREMENTAL VIEW above CASCADE")
    spark.sql("REFRESH INCREMENTAL VIEW early AT 1")
    spark.sql("INSERT INTO sales VALUES ('o6','c2',300)")
    spark.sql("REFRESH INCREMENTAL VIEWS")
    for name, runs in {"below": 3, "above": 3, "early": 3}.items():
        shown = json.loads(spark.sql(f"EXPLAIN INCREMENTAL JSON VIEW {name}").collect()[0].plan)
        assert len(shown["runs"]) == runs
        for run in shown["runs"]:
            assert sum(run["wall_ms"].values()) == run["duration_ms"]
            assert min(run["wall_ms"].values()) >= 0, (name, run)


def newest_record(spark: SparkSession, view: str) -> RunRecord:
    return RunRecord.from_json(newest_entry(location_of(spark, view)))


def test_with_nothing_due_few_calls_reach_the_jvm(
    spark: SparkSession, sales: str, refresh: Callable[..., Row], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each call is a round trip between two processes, and may be one more to a store."""
    spark.sql(f"CREATE INCREMENTAL VIEW summary SCHEDULE (ON DEMAND) AS {SUMMARY}")
    refresh("summary")
    called: list[str] = []
    call = Jvm._call

    def noted(jvm: Jvm, method: str, request: str) -> Any:
        called.append(method)
        return call(jvm, method, request)

    monkeypatch.setattr(Jvm, "_call", noted)
    row = refresh("summary")
    assert (row.kind, row.jobs) == ("NO_DATA", 0)
    assert {"analyze", "pin", "release"} <= set(called)
    assert len(called) <= 14, called
