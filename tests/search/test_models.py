"""Cost models by name, and the files that their constants come from."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tidemill.cost.costing import Calibrated
from tidemill.cost.models import FORMAT, MOST_BYTES, cost_model, text
from tidemill.errors import TidemillError
from tidemill.plan.change import SourceChange
from tidemill.search.contract.request import PlanRequest
from tidemill.search.runs.explanation import ExplainedPlan
from tidemill.search.service.planner import plan_run
from tidemill.settings import PlannerSettings
from tidemill.text.parser import parse_query

SUMS = """\
source 0 t [a: long, b: long] rows=1000000
aggregate keys=[#9 := #0] calls=[#10 := sum(#1)]
  scan 0 [#0 := a, #1 := b]
"""
SHIPPED = cost_model("default")
assert isinstance(SHIPPED, Calibrated)
CONSTANTS = {c.name: c.value for c in SHIPPED.constants if c.measured}
DOCUMENT: dict[str, Any] = {"format": FORMAT, "model": "default", "constants": CONSTANTS}


def planned(constants: str) -> ExplainedPlan:
    change = SourceChange(changed=True, old_readable=True, rows=1e6, inserts=1000.0, deletes=10.0)
    settings = PlannerSettings(cost_constants=constants)
    return plan_run(PlanRequest(parse_query(SUMS), "INCREMENTAL", {0: change}, frozenset(), False, None, settings))


PAIRS = """\
source 0 t [a: long, b: long] rows=1000000
source 1 u [c: long, d: long] rows=1000000
source 2 v [e: long, f: long] rows=1000000
join inner [(#0 = #2), (#0 = #4)]
  scan 0 [#0 := a, #1 := b]
  scan 1 [#2 := c, #3 := d]
  scan 2 [#4 := e, #5 := f]
"""


@pytest.mark.parametrize("pack", [None, "delta"])
def test_all_rows_that_arrive_at_a_join_count_whichever_way_it_is_carried_out(pack: str | None) -> None:
    """All inputs change: the join may be read once for all changes, or once for each."""
    changes = {
        n: SourceChange(changed=True, old_readable=True, rows=1e6, inserts=rows, deletes=1.0)
        for n, rows in enumerate((10.0, 20.0, 30.0))
    }
    settings = PlannerSettings(cost_model="tuples", prefer=pack)
    request = PlanRequest(parse_query(PAIRS), "INCREMENTAL", changes, frozenset(), False, None, settings)
    plan = plan_run(request)
    assert plan.estimated == 63.0
    assert [a.costs for a in plan.explanation.rivals() if a.pack == "delta"] == [(63.0,)]


def written(path: Path, factor: float = 1.0) -> str:
    """A file with the shipped constants, all times a factor."""
    assert isinstance(SHIPPED, Calibrated)
    constants = [replace(c, value=c.value * factor) for c in SHIPPED.constants]
    path.write_text(text("default", constants, {"at": "now"}))
    return str(path)


def test_plans_are_made_with_the_constants_of_the_file(tmp_path: Path) -> None:
    shipped = planned("")
    assert planned(written(tmp_path / "same")).estimated == pytest.approx(shipped.estimated)
    tenfold = planned(written(tmp_path / "ten", 10))
    assert tenfold.estimated == pytest.approx(10 * shipped.estimated)
    assert [(step.name, step.plan) for step in tenfold.steps] == [(step.name, step.plan) for step in shipped.steps]


def test_a_file_is_read_once_and_again_when_it_is_another(tmp_path: Path) -> None:
    path = written(tmp_path / "costs.json")
    first = cost_model("default", path)
    assert cost_model("default", path) is first
    written(tmp_path / "new", 2)
    (tmp_path / "new").replace(path)
    second = cost_model("default", path)
    assert second is not first
    assert float(second.load(1e6)) == pytest.approx(2 * float(first.load(1e6)))
    assert cost_model("default") is SHIPPED


def test_a_choice_may_be_named_too(tmp_path: Path) -> None:
    path = tmp_path / "costs.json"
    path.write_text(json.dumps({**DOCUMENT, "constants": {**CONSTANTS, "broadcast_bytes": 7}}))
    model = cost_model("default", str(path))
    assert isinstance(model, Calibrated)
    assert {c.name: c.value for c in model.constants} == {**CONSTANTS, "noise": 100.0, "broadcast_bytes": 7}


def without(name: str) -> dict[str, float]:
    return {n: value for n, value in CONSTANTS.items() if n != name}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "it is no such file"),
        ("{", "it is no such file"),
        ("[" * 50_000, "it is no such file"),
        ("\xff", "it is no such file"),
        (" " * MOST_BYTES + "{}", "it is no such file"),
        (json.dumps([FORMAT]), "it is no such file"),
        (json.dumps({"password": "hunter2"}), "it is no such file"),
        (json.dumps({**DOCUMENT, "format": "tidemill cost constants 2"}), "it is no such file"),
        (json.dumps({**DOCUMENT, "model": "tuples"}), "for the cost model tuples, not default"),
        (json.dumps({**DOCUMENT, "constants": None}), "it holds no constants"),
        (json.dumps({**DOCUMENT, "constants": {**CONSTANTS, "hush": 1, "name": "x"}}), "no constant hush, name"),
        (json.dumps({**DOCUMENT, "constants": without("write")}), "it lacks write"),
        *(
            (json.dumps({**DOCUMENT, "constants": {**CONSTANTS, "hash": value}}), "hash is no number between")
            for value in (0, -1, "1", True, None, [1], float("nan"), float("inf"), 10**400, 1e308, 1e-320)
        ),
    ],
)
def test_what_no_calibration_wrote_is_refused(tmp_path: Path, content: str, why: str) -> None:
    path = tmp_path / "costs.json"
    path.write_text(content, encoding="latin-1")
    with pytest.raises(TidemillError) as error:
        planned(str(path))
    assert error.value.condition == "TIDEMILL_INVALID_SETTING"
    assert error.value.parameters["setting"] == "spark.tidemill.cost.constants"
    assert error.value.parameters["value"] == str(path)
    assert why in error.value.message
    assert "password" not in error.value.message


@pytest.mark.parametrize("path", ["missing", "folder", "pipe", "nul\0"])
def test_what_is_no_file_is_refused(tmp_path: Path, path: str) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TidemillError, match="TIDEMILL_INVALID_SETTING"):
        planned(str(tmp_path / path))


@pytest.mark.parametrize("name", ["other", "sizes"])  # a file that is not there, and one without a model
def test_a_model_that_is_not_there_is_named(name: str) -> None:
    with pytest.raises(TidemillError, match=rf"TIDEMILL_NOT_YET.*cost\.model={name}"):
        cost_model(name)
