"""SHOW REFRESHES, SHOW INCREMENTAL VIEWS, DESCRIBE, EXPLAIN and the Python surface."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

import tidemill
from tests.conftest import Oracle, location_of
from tests.runtime.conftest import SUMMARY
from tidemill.runtime.before import planning
from tidemill.search.contract import past

COLUMNS = (
    "run bigint, view string, point int, trigger string, kind string, reason string, methods array<string>, "
    "rows_in struct<inserts:bigint,deletes:bigint>, rows_out struct<inserts:bigint,deletes:bigint>, "
    "started_at timestamp, duration_ms bigint, cpu_ms bigint, jobs int, estimated_cost double, measured_cost double, "
    "state_bytes bigint, positions map<string,string>, regret double, "
    "rows_read bigint"
)


def test_columns_and_order(spark: SparkSession, sales: str) -> None:
    spark.sql(f"CREATE INCREMENTAL VIEW summary SCHEDULE (ON DEMAND) AS {SUMMARY}")
    spark.sql("INSERT INTO sales VALUES ('o5','c2',300)")
    refreshed = spark.sql("REFRESH INCREMENTAL VIEW summary")
    history = spark.sql("SHOW REFRESHES FROM summary")
    for answer in (refreshed, history):
        assert ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in answer.schema.fields) == COLUMNS
    rows = history.collect()
    assert [r.run for r in rows] == [1, 0]
    assert rows[0] == refreshed.first()
    for row in rows:
        assert row.view == f"spark_catalog.{sales}.summary"
        assert isinstance(row.started_at, datetime)
        assert row.duration_ms >= 0
        assert row.cpu_ms >= 0
        assert row.jobs >= 1
        assert row.estimated_cost >= 0
        assert row.measured_cost >= 0
        assert row.state_bytes >= 0
        assert row.rows_read >= 2
        assert len(row.positions) == 2
    assert rows[0].positions != rows[1].positions
    assert spark.sql("SHOW REFRESHES IN summary LIMIT 1").collect() == rows[:1]


AS_SUMMARY = f"INCREMENTAL VIEW summary SCHEDULE (ON DEMAND) AS {SUMMARY}"


@pytest.mark.parametrize(
    "statement",
    [
        f"CREATE {AS_SUMMARY}",
        f"CREATE OR REPLACE {AS_SUMMARY}",
        f"ALTER INCREMENTAL VIEW summary AS {SUMMARY}",
        "REFRESH INCREMENTAL VIEW summary",
    ],
    ids=lambda text: text.split(" INCREMENTAL")[0],
)
def test_a_run_begins_before_it_is_planned(
    spark: SparkSession, sales: str, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    """What analysing and planning take is in its duration."""
    if not statement.startswith("CREATE INCREMENTAL"):
        spark.sql(f"CREATE {AS_SUMMARY}")
        spark.sql("INSERT INTO sales VALUES ('o5','c2',300)")
    planned_at: list[datetime] = []
    for name in ("initial_load", "plan", "plan_again"):
        known = getattr(planning, name)

        def noted(*args: Any, known: Callable[..., object] = known, **more: Any) -> object:
            planned_at.append(datetime.now())
            return known(*args, **more)

        monkeypatch.setattr(planning, name, noted)
    spark.sql(statement)
    row = spark.sql("SHOW REFRESHES IN summary").collect()[0]
    assert row.started_at < planned_at[0]


def test_regret(spark: SparkSession, sales: str, refresh: Callable[..., Row], monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs too small to tell are given weight here; what they took is not asserted, but what follows from it is."""
    monkeypatch.setattr(past, "LEAST", 0.0)
    monkeypatch.setattr(past, "ALIKE", float("inf"))
    spark.sql(f"CREATE INCREMENTAL VIEW summary SCHEDULE (ON DEMAND) REFRESH POLICY INCREMENTAL AS {SUMMARY}")
    filled = spark.sql("SHOW REFRESHES IN summary").collect()[0]
    for _ in ("cold", "warm"):
        refresh("summary", "FULL")
    spark.sql("INSERT INTO sales VALUES ('o5','c2',300)")
    row = refresh("summary")
    assert (filled.regret, row.kind) == (None, "INCREMENTAL")
    assert row.regret is not None
    assert 0 <= row.regret <= row.measured_cost
    monkeypatch.setattr(past, "LEAST", float("inf"))
    spark.sql("INSERT INTO sales VALUES ('o6','c2',300)")
    assert refresh("summary").regret is None


def test_show_views(spark: SparkSession, events: str) -> None:
    spark.sql("CREATE INCREMENTAL VIEW a_view SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS SELECT k FROM events")
    spark.sql("CREATE INCREMENTAL VIEW b_view SCHEDULE (ON DEMAND) INITIALIZE DEFERRED AS SELECT k FROM events")
    rows = spark.sql("SHOW INCREMENTAL VIEWS").collect()
    assert [(r.namespace, r.viewName, r.status, r.policy, r.lastRun) for r in rows] == [
        (events, "a_view", "ACTIVE", "STRICT", 0),
        (events, "b_view", "NOT_FILLED", "AUTO", None),
    ]
    assert isinstance(rows[0].lastOutputAt, datetime)
    assert rows[1].lastOutputAt is None
    assert [r.viewName for r in spark.sql("SHOW INCREMENTAL VIEWS LIKE 'b*'").collect()] == ["b_view"]
    assert [r.viewName for r in spark.sql(f"SHOW INCREMENTAL VIEWS IN {events} 'a*'").collect()] == ["a_view"]
    assert spark.sql("SHOW INCREMENTAL VIEWS IN default").collect() == []


def test_views_are_shown_though_one_cannot_be_read(spark: SparkSession, events: str) -> None:
    for name in ("a_view", "b_view", "c_view"):
        spark.sql(f"CREATE INCREMENTAL VIEW {name} SCHEDULE (ON DEMAND) INITIALIZE DEFERRED AS SELECT k FROM events")
    places = {n: str(location_of(spark, n)).removeprefix("file:") for n in ("a_view", "b_view")}
    (Path(places["a_view"]) / "_tidemill" / "view.json").write_text("{ nonsense")
    (Path(places["a_view"]) / "_tidemill" / ".view.json.crc").unlink(missing_ok=True)
    shutil.rmtree(places["b_view"])
    rows = spark.sql("SHOW INCREMENTAL VIEWS").collect()
    assert [(r.viewName, r.status, r.policy, r.lastRun) for r in rows] == [
        ("a_view", "UNREADABLE", None, None),
        ("b_view", "UNREADABLE", None, None),
        ("c_view", "NOT_FILLED", "AUTO", None),
    ]


def test_describe(spark: SparkSession, events: str) -> None:
    spark.sql(
        "CREATE INCREMENTAL VIEW v COMMENT 'some text' SCHEDULE (AT '14:00' COST 0.25 NO OUTPUT, AT '24:00')"
        " AS SELECT k, sum(v) AS v FROM events GROUP BY k"
    )
    rows = spark.sql("DESCRIBE INCREMENTAL VIEW v").collect()
    assert [(r.col_name, r.data_type) for r in rows[:2]] == [("k", "int"), ("v", "bigint")]
    assert "not in effect" not in {r.data_type for r in rows}, "the clock fires AT"
    extended = {r.col_name: r.data_type for r in spark.sql("DESC INCREMENTAL VIEW EXTENDED v").collect()}
    assert extended["Comment"] == "some text"
    assert extended["Refresh Policy"] == "AUTO"
    assert "AT '14:00'" in extended["Schedule"]


def test_explain(spark: SparkSession, sales: str) -> None:
    spark.sql(f"CREATE INCREMENTAL VIEW summary SCHEDULE (ON DEMAND) AS {SUMMARY}")
    spark.sql("INSERT INTO sales VALUES ('o5','c2',300)")
    for target in ("VIEW summary", f"CREATE INCREMENTAL VIEW x SCHEDULE (ON DEMAND) AS {SUMMARY}", SUMMARY):
        rows = spark.sql(f"EXPLAIN INCREMENTAL {target}").collect()
        assert len(rows) == 1
        assert rows[0].plan
        document = json.loads(spark.sql(f"EXPLAIN INCREMENTAL JSON {target}").collect()[0].plan)
        assert {"points", "methods", "states", "paces", "estimated", "alternatives", "search"} <= set(document)
        assert document["points"][0]["steps"]
        for mode, words in {"COST": "best of pack", "STATE": "kept: s", "MEMO": "R0: ", "DOT": "digraph"}.items():
            assert words in spark.sql(f"EXPLAIN INCREMENTAL {mode} {target}").collect()[0].plan
    text = spark.sql("EXPLAIN INCREMENTAL VIEW summary").collect()[0].plan
    # Of five rows, two snapshots are read sooner than a change is joined with all that it meets.
    assert text.startswith(f"The run reads all rows of spark_catalog.{sales}.sales before and after its change.")
    assert "first refreshes in a session" in text.partition("\n")[0]
    measured = spark.sql("EXPLAIN INCREMENTAL COST VIEW summary").collect()[0].plan.split("\n")[-1]
    assert measured.startswith("run 0 (FULL): estimated ")
    assert [r.run for r in spark.sql("SHOW REFRESHES IN summary").collect()] == [0]


def test_explain_of_a_view_with_nothing_pending(spark: SparkSession, sales: str) -> None:
    spark.sql("INSERT INTO sales SELECT CAST(id AS STRING), 'c9', id FROM range(3996)")
    spark.sql("CREATE INCREMENTAL VIEW rows SCHEDULE (ON DEMAND) AS SELECT cat, price FROM sales WHERE price > 7")
    text = spark.sql("EXPLAIN INCREMENTAL VIEW rows").collect()[0].plan
    assert "nothing is pending; shown for a change of 1 %" in text
    assert text.startswith("The run reads 60 changed rows of "), "one per cent of 4,000 comes, half as much goes"


def test_the_python_surface(spark: SparkSession, sales: str, oracle: Oracle) -> None:
    view = tidemill.create_incremental_view(
        spark,
        "`order`",
        SUMMARY,
        schedule=[tidemill.at("14:00", cost=0.25, output=False), tidemill.on_demand()],
        columns=["cat", ("gross", "what's left"), "n"],
        comment="it's a comment",
        properties={"owner": "me"},
    )
    spark.sql("INSERT INTO sales VALUES ('o5','c2',300)")
    assert view.refresh(1).kind == "PARTIAL"
    assert view.refresh(dry_run=True).run is None
    assert view.refresh().run == 2
    assert view.verify() == Row(matches=True, missing=0, unexpected=0)
    assert view.history(limit=1).count() == 1
    assert view.toDF().columns == ["cat", "gross", "n"]
    assert view.explain()
    assert "COST 0.25 NO OUTPUT" in view.showCreate()
    again = tidemill.IncrementalView.forName(spark, f"{sales}.`order`")
    assert again.history().count() == 3
    oracle("`order`", SUMMARY)
    again.drop()


def test_readers_see_whole_runs(spark: SparkSession, sales: str, refresh: Callable[..., Row]) -> None:
    spark.sql(f"CREATE INCREMENTAL VIEW summary SCHEDULE (ON DEMAND) AS {SUMMARY}")
    before = spark.table("summary")
    held = sorted(before.collect())
    spark.sql("INSERT INTO sales VALUES ('o5','c2',300)")
    other = spark.newSession()
    other.sql(f"USE {sales}")
    assert sorted(other.table("summary").collect()) == held
    refresh("summary")
    assert sorted(before.collect()) == held, "a DataFrame that was resolved before keeps its run"
    assert sorted(other.table("summary").collect()) == sorted(spark.table("summary").collect()) != held
