"""The methods of IncrementalView run the statements of their names; notebooks show what they return."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import tidemill
from tests.conftest import Oracle
from tidemill import notebook


def test_the_life_of_a_view(spark: SparkSession, events: str, oracle: Oracle) -> None:
    view = tidemill.create_incremental_view(spark, "v", "SELECT k, v FROM events", policy="STRICT")
    above = tidemill.create_incremental_view(spark, f"{events}.above", "SELECT sum(v) AS s FROM v", deferred=True)
    assert str(tidemill.IncrementalView.list(spark)) == (
        f"[IncrementalView({events}.above), IncrementalView({events}.v)]"
    )
    assert [str(found) for found in tidemill.IncrementalView.list(spark, events, "v*")] == [
        f"IncrementalView({events}.v)"
    ]
    above.drop()
    above.drop(if_exists=True)
    view.alter(
        "SELECT k, v, s FROM events",
        schedule=[tidemill.at("14:00", cost=0.5, output=False), tidemill.on_demand()],
        state_budget="8MB",
        expect=[tidemill.expected("events", 5)],
        policy="auto",
        comment="it's events",
        properties={"a.b": "1", "c": "x"},
        unset=["c"],
    )
    made = view.showCreate()
    for part in (
        "SCHEDULE (AT '14:00' COST 0.5 NO OUTPUT, ON DEMAND)",
        "STATE BUDGET '8MB'",
        "EXPECT (events 5 ROWS",
        "'a.b' = '1'",
        "s FROM",
    ):
        assert part in made
    assert "POLICY" not in made
    assert "'c'" not in made
    oracle("v", "SELECT k, v, s FROM events")
    view.suspend()
    assert [row.status for row in spark.sql("SHOW INCREMENTAL VIEWS").collect()] == ["SUSPENDED"]
    view.resume()
    view.rename("w")
    assert repr(view) == "IncrementalView(w)"
    view.refresh(full=True)
    assert view.vacuum(0, dry_run=True) == view.vacuum(0) != []
    view.replace("SELECT max(k) AS top FROM events", policy="FULL", columns=["most"], state_budget=0)
    assert view.toDF().columns == ["most"]
    assert view.refresh(full=True).reason == "REQUESTED"
    view.drop()
    with pytest.raises(AnalysisException, match="TIDEMILL_NOT_FOUND"):
        view.refresh()
    assert "TIDEMILL_NOT_FOUND" in view._repr_html_()


def test_notebooks_show_tables(spark: SparkSession, events: str) -> None:
    view = tidemill.create_incremental_view(spark, "v", "SELECT k, s FROM events WHERE v < 5")
    shown = view._repr_html_()
    for part in ("<th>view</th><td>v</td>", "k int, s string", "<th>kind</th><td>FULL</td>"):
        assert part in shown
    row = view.verify()
    assert row.matches
    assert tuple(row) == (True, 0, 0)
    assert row.asDict() == {"matches": True, "missing": 0, "unexpected": 0}
    assert repr(row) == "Row(matches=True, missing=0, unexpected=0)"
    assert "<th>missing</th><td>0</td>" in row._repr_html_()
    assert "<th>reason</th><td>NULL</td>" in view.refresh()._repr_html_()
    plan = view.explain()
    assert isinstance(plan, str)
    assert notebook.Text("a < b")._repr_html_() == "<pre>a &lt; b</pre>"
