"""Methods that may be cheaper than they look are tried, and what they took decides."""

from __future__ import annotations

from typing import Any

import pytest

from tests.search.test_planner import EXTREMA, SOURCES, SUMS, change, planned
from tidemill.search.contract.past import TRIES, TRUSTED, Methods, Past, PastRun
from tidemill.search.contract.request import PlanRequest
from tidemill.search.contract.run_plan import RunPlan
from tidemill.search.service.plan_cache import PlanCache
from tidemill.search.service.planner import plan_run
from tidemill.settings import PlannerSettings
from tidemill.text.parser import parse_query

FEW = {0: change()} | {n: change(changed=False) for n in (1, 2)}
FIRST = planned(SUMS, first=True)
STATES = frozenset(s.name for s in FIRST.states)
DELTA, GROUPS = ("delta",), ("affected", "delta")


def after(past: Past, **more: Any) -> RunPlan:
    return planned(SUMS, FEW, states=STATES, chosen=FIRST.chosen, past=past, **more)


def ran(times: int, plan: RunPlan, off: float = 1.0, *, kind: Any = "INCREMENTAL") -> list[PastRun]:
    return [PastRun(kind, plan.estimated, off * plan.estimated, methods=plan.methods)] * times


@pytest.mark.parametrize(("off", "stays"), [(1.0, DELTA), (0.5, GROUPS)])
def test_what_tried_methods_took_decides(off: float, stays: Methods) -> None:
    """The cheapest by estimate runs first; then the other methods, which would be cheaper at half of their estimate."""
    first = after(Past())
    past = Past(ran(TRUSTED, first))
    for _ in range(TRIES):
        plan = after(past)
        assert (first.methods, plan.kind, plan.methods) == (DELTA, "INCREMENTAL", GROUPS)
        assert [methods for methods, _ in plan.rivals] == [DELTA, GROUPS]
        past = past.then(*ran(1, plan, off))
    assert after(past).methods == stays
    assert {s.name for s in after(past).states} == STATES


def test_few_runs_or_cold_ones_have_nothing_tried() -> None:
    plan = after(Past())
    cold = [PastRun(run.kind, run.estimated, run.measured, True, run.methods) for run in ran(TRUSTED, plan)]
    for past in (Past(ran(TRUSTED - 1, plan)), Past(cold)):
        assert after(past).methods == DELTA
        assert len(after(past).rivals) == 1


@pytest.mark.parametrize(
    "more",
    [{"policy": "INCREMENTAL"}, {"policy": "STRICT"}, {"settings": PlannerSettings(prefer="delta")}],
    ids=["INCREMENTAL", "STRICT", "preference"],
)
def test_what_a_user_asks_for_is_not_tried_otherwise(more: dict[str, Any]) -> None:
    assert after(Past(ran(TRUSTED, after(Past(), **more))), **more).methods == DELTA


def test_where_a_full_run_is_cheaper_no_method_is_tried() -> None:
    plan = after(Past())
    full = [PastRun("FULL", plan.compared[0], 0.5 * plan.estimated)] * 2 if plan.compared else []
    assert after(Past([*full, *ran(TRUSTED, plan)])).kind == "FULL"


def test_plans_are_searched_once_more_for_a_comparison_and_when_it_ends() -> None:
    """At a run that changes nothing of the decision the remembered plan serves."""
    cache, asked = PlanCache(), 0

    def search(request: PlanRequest) -> RunPlan:
        nonlocal asked
        asked += 1
        return plan_run(request)

    def run(past: Past) -> RunPlan:
        query = parse_query(SOURCES + SUMS)
        request = PlanRequest(query, "AUTO", FEW, STATES, False, None, rows=2e6, chosen=FIRST.chosen, past=past)
        return cache.plan(request, search)

    past, methods, searched = Past(), list[Methods](), list[int]()
    for _ in range(TRUSTED + TRIES + 3):
        plan = run(past)
        methods.append(plan.methods)
        searched.append(asked)
        past = past.then(*ran(1, plan))
    assert methods == [DELTA] * TRUSTED + [GROUPS] * TRIES + [DELTA] * 3
    assert searched == [1] * TRUSTED + [2] * TRIES + [3] * 3


def test_a_plan_far_dearer_by_estimate_is_not_tried() -> None:
    plan = planned(EXTREMA)
    again = planned(EXTREMA, past=Past(ran(TRUSTED, plan)))
    assert len(again.rivals) == 2
    assert again.rivals[1][1] > 2.0 * plan.estimated
    assert again.methods == plan.methods
