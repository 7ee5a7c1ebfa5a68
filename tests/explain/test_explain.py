"""The six ways in which a plan shows itself, without Spark: what stands in each, and that they agree."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from cost_model.default import MODEL
from tidemill.explain import MODES, explained
from tidemill.explain.document import document
from tidemill.plan.change import SourceChange
from tidemill.search.contract.request import PlanRequest, UpcomingPoint
from tidemill.search.runs.explanation import ExplainedPlan
from tidemill.search.service.planner import plan_run
from tidemill.settings import PlannerSettings
from tidemill.text.parser import parse_query

QUERY = """\
source 0 t [a: long, b: long] rows=10000000
aggregate keys=[#9 := #0] calls=[#10 := sum(#1)]
  filter [(#1 > 3)]
    scan 0 [#0 := a, #1 := b]
"""
EXTREMA = QUERY.replace("sum", "min")
CHANGE = SourceChange(changed=True, old_readable=True, rows=1e7, inserts=1e4, deletes=1e4)
PACKS = ["delta", "affected", "recompute"]


def planned(text: str, **more: Any) -> ExplainedPlan:
    request: dict[str, Any] = {"policy": "AUTO", "states": frozenset(), "first": False, "full_reason": None}
    return plan_run(PlanRequest(query=parse_query(text), sources={0: CHANGE}, **{**request, **more}))


@pytest.fixture(scope="module")
def run() -> ExplainedPlan:
    """A refresh that reads the state that the filling left."""
    filling = planned(QUERY, first=True)
    return planned(QUERY, states=frozenset(s.name for s in filling.states))


def test_the_document_holds_all_that_is_promised(run: ExplainedPlan) -> None:
    shown = json.loads(explained(run, "JSON"))
    assert {"points", "methods", "states", "paces", "estimated", "alternatives", "search"} <= shown.keys()
    (point,) = shown["points"]
    assert (point["point"], point["price"], point["output"]) == (1, 1.0, True)
    steps = point["steps"]
    wanted = {"id", "operator", "inputs", "rule", "pack", "form", "reads", "saves", "rows", "cost"}
    assert all(wanted == s.keys() for s in steps)
    assert [s["id"] for s in steps] == list(range(len(steps)))
    assert all(i < s["id"] for s in steps for i in s["inputs"])
    assert {s["form"] for s in steps} <= {"snapshot", "delta", "positive", "negative", "attribute"}
    assert {"total", "final", "priced"} <= shown["estimated"].keys()
    assert {"groups", "rules_fired", "milliseconds", "stopped"} == shown["search"].keys()


def test_the_steps_of_a_plan_without_sharing_cost_what_the_plan_costs(run: ExplainedPlan) -> None:
    """Also of steps whose rows were staged before the last step was lowered."""
    fresh = planned(EXTREMA, policy="FULL", full_reason="POLICY")
    steps = document(fresh, {})["points"][0]["steps"]
    assert sum(s["cost"] for s in steps) == pytest.approx(fresh.estimated, abs=0.01)
    assert all(s["cost"] > 0 for s in document(run, {})["points"][0]["steps"] if s["operator"].startswith("changes"))


@pytest.mark.parametrize("text", [QUERY, EXTREMA], ids=["sum", "min"])
def test_the_best_plan_of_each_pack_is_an_alternative(text: str) -> None:
    plan = planned(text)
    shown = document(plan, {})
    packs = PACKS if text is QUERY else ["lineage", "affected", "recompute"]
    assert [a["pack"] for a in shown["alternatives"]] == packs
    best = shown["estimated"]["priced"]
    for a in shown["alternatives"]:
        assert a["priced"] >= (best - MODEL.noise if a["pack"] == "recompute" else best * 0.999)
    assert all(a["per_point"] == [a["priced"]] and a["priced"] < 1e9 for a in shown["alternatives"])


def test_a_plan_that_lost_to_a_full_run_is_an_alternative() -> None:
    settings = PlannerSettings(packs=frozenset(["recompute"]))
    assert [a["pack"] for a in document(planned(EXTREMA, settings=settings), {})["alternatives"]] == ["recompute"]
    much = SourceChange(changed=True, old_readable=True, rows=1e7, inserts=9e6, deletes=9e6)
    query = parse_query(EXTREMA)
    full = plan_run(PlanRequest(query, "AUTO", {0: much}, frozenset(), first=False, full_reason=None))
    assert (full.kind, (full.reason or "").partition(":")[0]) == ("FULL", "COST")
    assert "affected" in {a["pack"] for a in document(full, {})["alternatives"]}


def test_a_preferred_pack_reads_what_is_kept(run: ExplainedPlan) -> None:
    """Preferring the deltas does not mean to compute anew what is there."""
    preferred = planned(QUERY, states=frozenset(s.name for s in run.states), settings=PlannerSettings(prefer="delta"))
    assert preferred.estimated == pytest.approx(run.estimated)


def test_points_that_are_planned_together() -> None:
    """Cheap first, dear last: the filling is prepared at point 1, point 3 loads it; each pack's plan beside it."""
    there = replace(CHANGE, rows=2e7, inserts=2e7, deletes=0.0)
    more = {0: replace(there, inserts=2e4)}
    points = (UpcomingPoint(0.5, output=False, changes=more, number=2), UpcomingPoint(1.0, True, more, 3))
    request = PlanRequest(parse_query(QUERY), "AUTO", {0: there}, frozenset(), first=True, full_reason=None)
    plan = plan_run(replace(request, price=0.1, ahead=points))
    shown = json.loads(explained(plan, "JSON"))
    assert [(p["point"], p["price"], p["output"]) for p in shown["points"]] == [
        (1, 0.1, False),
        (2, 0.5, False),
        (3, 1.0, True),
    ]
    first, second, last = (p["steps"] for p in shown["points"])
    assert "for point 3" in {s["saves"] for s in first}
    assert second == []
    assert ["what point 1 saved"] in [s["reads"] for s in last]
    assert all(i < s["id"] for steps in (first, last) for s in steps for i in s["inputs"])
    estimated = shown["estimated"]
    costs = [sum(s["cost"] for s in steps) for steps in (first, second, last)]
    assert estimated["total"] == pytest.approx(sum(costs), abs=0.01)
    assert estimated["final"] == pytest.approx(costs[-1], abs=0.01)
    assert estimated["priced"] == pytest.approx(0.1 * costs[0] + costs[2], abs=0.01)
    others = {a["pack"]: a for a in shown["alternatives"]}
    assert others.keys() == {"delta", "recompute"}
    assert all(len(a["per_point"]) == 3 and a["priced"] >= 0.999 * estimated["priced"] for a in others.values())
    assert others["recompute"]["per_point"][:2] == [0.0, 0.0]
    for mode in MODES:
        assert explained(plan, mode)
    assert "point 3: price 1.0, output true" in explained(plan, "PLAN")
    assert explained(plan, "MEMO")


def test_a_plan_without_change_sets_says_what_it_reads() -> None:
    compared = planned(EXTREMA, policy="INCREMENTAL", settings=PlannerSettings(prefer="recompute"))
    assert compared.kind == "INCREMENTAL"
    assert explained(compared, "PLAN").startswith("The run reads all rows of t before and after its change. ")


def test_plan(run: ExplainedPlan) -> None:
    text = explained(run, "PLAN")
    first, _, rest = text.partition("\n\n")
    assert first.startswith("The run reads 20,000 changed rows of t. It touches about ")
    assert re.search(r"about [\d,]+ keys of a\. It costs about [\d,]+ ms of CPU, against [\d,]+ in full\.$", first)
    assert rest.startswith("kind: INCREMENTAL\nmethods: delta\npoint 1: price 1.0, output true\n")
    assert "saves 'sum(b) per a of t'" in text
    assert "<- state 'sum(b) per a of t'" in text
    assert text.count(run.states[0].name) == 1, "its name stands beside what it holds, once"
    assert all(f"alternative {pack} (" in text for pack in PACKS)
    assert "saturated" in text


def test_a_plan_in_words_says_why_it_is_full_and_what_it_was_made_for(run: ExplainedPlan) -> None:
    full = planned(QUERY, policy="FULL", full_reason="POLICY")
    text = explained(full, "PLAN", notes=["Nothing else."])
    assert text.startswith("The run computes the view from all rows of t (POLICY). It costs about ")
    assert text.partition("\n\n")[0].endswith(" Nothing else.")
    assert json.loads(explained(full, "JSON"))["summary"] == text.partition("\n\n")[0].replace(" Nothing else.", "")
    assert explained(run, "COST", notes=["Nothing else."]).startswith("Nothing else.\n")


def test_a_step_that_several_read_is_shown_once() -> None:
    shown = document(planned(EXTREMA, settings=PlannerSettings(prefer="affected")), {})
    text = explained(planned(EXTREMA, settings=PlannerSettings(prefer="affected")), "PLAN")
    (point,) = shown["points"]
    times = {s["id"]: sum(s["id"] in r["inputs"] for r in point["steps"]) for s in point["steps"]}
    assert max(times.values()) > 1
    for number in times:
        assert len(re.findall(rf"^ +{number}: (?!as above)", text, re.MULTILINE)) == 1
        assert len(re.findall(rf"^ +{number}: as above$", text, re.MULTILINE)) == max(0, times[number] - 1)


def test_the_rows_to_read_are_told(run: ExplainedPlan) -> None:
    """Each reading counts: those of a first run are all rows, those of a run from changes these and the state."""
    assert document(planned(QUERY, first=True), {})["estimated"]["rows_read"] == 10_000_000
    rows = document(run, {})["estimated"]["rows_read"]
    assert rows == 20_000 + round(run.explanation.space.facts.kept.size(run.states[0].name))
    assert f"applying the change: {rows}" in explained(run, "COST")


def test_cost_shows_the_dearest_step_first(run: ExplainedPlan) -> None:
    text = explained(run, "COST")
    own = [float(found) for found in re.findall(r"^ +([\d.]+) +\d+% ", text, re.MULTILINE)]
    assert len(own) == len(run.explanation.used) + len(run.explanation.jobs)
    assert re.search(r": write delta$", text, re.MULTILINE)
    assert own == sorted(own, reverse=True)
    assert f"priced {run.estimated:.3f}" in text
    assert all(f"best of pack {pack} " in text for pack in PACKS)


def test_state_shows_what_is_kept_and_what_is_not(run: ExplainedPlan) -> None:
    name = run.states[0].name
    kept = explained(run, "STATE", {name: 123})
    assert kept.startswith(f"kept: {name}, attribute of aggregate")
    assert "123 bytes; step " in kept
    without = explained(planned(QUERY), "STATE")
    assert without.startswith(f"not kept: {name}, ")
    assert "the view does not have it" in without
    assert "nothing could be" in explained(planned(EXTREMA.replace("min", "first")), "STATE")


def test_memo_shows_every_expression_and_marks_the_chosen(run: ExplainedPlan) -> None:
    lines = explained(run, "MEMO").split("\n")
    marked = [line for line in lines if line.lstrip().startswith("* ")]
    assert len(marked) == len(run.explanation.used)
    groups = list(run.explanation.space.memo.live_groups())
    assert sum("[" in line and "/" in line.rpartition("[")[2] for line in lines) == sum(
        len(g.expressions) for g in groups
    )
    assert {f"G{g.number}" for g in groups} == {
        found[1] for line in lines if (found := re.match(r"(?:  \S.* = )?(G\d+)$", line))
    }
    assert any("recompute/difference" in line for line in lines)


def test_dot_draws_each_step_and_each_arrow(run: ExplainedPlan) -> None:
    text = explained(run, "DOT")
    steps = document(run, {})["points"][0]["steps"]
    assert text.count("{") == text.count("}") == 2
    assert len(re.findall(r"^    step_1_\d+ \[", text, re.MULTILINE)) == len(steps)
    arrows = set(re.findall(r"^  step_1_(\d+) -> step_1_(\d+);", text, re.MULTILINE))
    assert arrows == {(str(i), str(s["id"])) for s in steps for i in s["inputs"]}
    assert f'"new state {run.states[0].name}"' in text


@pytest.mark.parametrize("mode", [*MODES, "MEMO"])
def test_every_mode_shows_a_filling_and_a_run_of_nothing(mode: str) -> None:
    assert explained(planned(QUERY, first=True), mode)
    assert explained(planned("source 0 t [a: long] kind=static rows=3\nscan 0 [#0 := a]", first=True), mode)
