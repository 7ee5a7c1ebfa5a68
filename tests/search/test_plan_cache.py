"""Which runs take over the plan of an earlier one, and which do not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.search.test_planner import SOURCES, SUMS, change
from tidemill.cost.kept import CONTENT
from tidemill.plan.change import SourceChange
from tidemill.search.contract.learned import Learned
from tidemill.search.contract.past import Past, PastRun
from tidemill.search.contract.request import PlanRequest, UpcomingPoint
from tidemill.search.contract.stored import Layout, Piece
from tidemill.search.runs.explanation import ExplainedPlan
from tidemill.search.service import plan_cache
from tidemill.search.service.plan_cache import PlanCache
from tidemill.search.service.planner import plan_run
from tidemill.settings import PlannerSettings
from tidemill.text.parser import parse_query

STATES = frozenset(
    s.name
    for s in plan_run(
        PlanRequest(parse_query(SOURCES + SUMS), "AUTO", {0: change()}, frozenset(), first=True, full_reason=None)
    ).states
)
PIECES = {name: [Piece(10, 50_000, 50_000, 0)] for name in STATES}


def request(sources: Mapping[int, SourceChange] | None = None, **more: Any) -> PlanRequest:
    told = PlanRequest(
        parse_query(SOURCES + SUMS),
        "AUTO",
        {0: change(), 1: change(changed=False), 2: change(changed=False)},
        STATES,
        first=False,
        full_reason=None,
        pieces=PIECES,
    )
    return replace(told, sources={**told.sources, **(sources or {})}, **more)


class Planner:
    """Counts what it is asked."""

    def __init__(self) -> None:
        self.cache = PlanCache()
        self.asked = 0

    def search(self, asked: PlanRequest) -> ExplainedPlan:
        self.asked += 1
        return plan_run(asked)

    def searches(self, *requests: PlanRequest) -> int:
        """How many of them are not answered from what was asked before."""
        before = self.asked
        for asked in requests:
            plan = self.cache.plan(asked, self.search)
            assert [s.plan for s in plan.steps] == [s.plan for s in plan_run(asked).steps]
        return self.asked - before


def named_otherwise(asked: PlanRequest) -> PlanRequest:
    columns = {n: replace(c, name=f"_common_expr_{n}") for n, c in asked.query.columns.items()}
    return replace(asked, query=replace(asked.query, columns=columns, number=7))


def test_runs_alike_are_planned_once() -> None:
    planner = Planner()
    again = [
        request(),
        request({0: change(share=0.0015)}),
        request({0: change(rows=1.4e7)}),
        request(pieces={name: [*pieces, Piece(1, 900, 900, 1)] for name, pieces in PIECES.items()}),
        named_otherwise(request()),
    ]
    assert planner.searches(request(), *again) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"sources": {0: change(inserts=0.0)}},
        {"sources": {0: change(inserts=None)}},
        {"sources": {0: change(old_readable=False)}},
        {"sources": {0: change(changed=False)}},
        {"sources": {1: change()}},
        {"states": frozenset(), "pieces": {}},
        {"rows": 5.0},
        {"layout": Layout(1, 1e6)},
        {"policy": "STRICT"},
        {"full_reason": "REQUESTED"},
        {"refill": "FIRST"},
        {"lost": STATES, "states": frozenset()},
        {"meaning": "spark.sql.ansi.enabled=false"},
        {"settings": PlannerSettings(packs=frozenset({"delta", "recompute"}))},
        {"settings": PlannerSettings(cost_model="tuples")},
        {"policy": "STRICT", "past": Past([PastRun("FULL", 1000.0, 2000.0)])},
    ],
    ids=" ".join,
)
def test_others_are_planned_anew(other: dict[str, Any]) -> None:
    planner = Planner()
    assert planner.searches(request(), request(**other), request(**other), request()) == 2


@pytest.mark.parametrize(
    "other",
    [
        {"sources": {0: change(share=0.004)}},
        {"sources": {0: change(rows=3e6)}},
        {"pieces": {name: [Piece(10, 500_000, 500_000, 0)] for name in STATES}},
    ],
    ids=["change", "table", "state"],
)
def test_sizes_that_moved_are_planned_anew(other: dict[str, Any]) -> None:
    """One plan is remembered for runs that differ in sizes alone: the last one."""
    planner = Planner()
    assert planner.searches(request(), request(**other), request(**other), request()) == 3


def test_a_plan_that_is_used_again_tells_rows_of_the_present_change() -> None:
    """By the sources' changes, and by factors that were learned since it was made; it is made anew for large ones."""
    planner, more = Planner(), request({0: change(share=0.0015)})
    [name] = {s.name for s in plan_run(request()).steps if s.mode == "segment"} & {f"segment of {n}" for n in STATES}

    def written(asked: PlanRequest) -> dict[str, float]:
        return {s.name: s.volume.written or 0.0 for s in planner.cache.plan(asked, planner.search).steps}

    def changed(asked: PlanRequest) -> float:
        return sum((s.inserts or 0.0) + (s.deletes or 0.0) for s in asked.sources.values() if s.changed)

    first, second, grown = written(request()), written(more), changed(more) / changed(request())
    assert grown > 1.1
    third = written(replace(more, learned=Learned(sizes={name.removeprefix("segment of "): 1.5})))
    assert planner.asked == 1
    assert first[name] > 1.0
    assert second == pytest.approx({step: grown * rows for step, rows in first.items()})
    assert third[name] == pytest.approx(1.5 * grown * first[name])
    written(replace(more, learned=Learned(sizes={CONTENT: 3.0})))
    written(replace(more, learned=Learned(sizes={CONTENT: 4.0})))
    assert planner.asked == 2


def test_what_is_of_the_moment_is_not_remembered() -> None:
    """Early work, and putting pieces together."""
    planner = Planner()
    early = request(price=0.1, ahead=(UpcomingPoint(1.0, True, {n: change() for n in range(3)}),))
    pieces = {name: [Piece(1, 1000, 1000, 0), *[Piece(1, 10, 10, 1)] * 25] for name in STATES}
    assert any(step.mode == "compact" for step in plan_run(request(pieces=pieces)).steps)
    assert planner.searches(early, early, request(pieces=pieces), request(pieces=pieces)) == 4


def test_the_plan_that_was_not_used_for_longest_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_cache, "PLANS", 2)
    planner = Planner()
    one, two, three = request(), request(policy="STRICT"), request(policy="INCREMENTAL")
    assert planner.searches(one, two, one, three) == 3
    assert planner.searches(one, three, two) == 1


def test_only_runs_that_lead_to_another_choice_count() -> None:
    """Under AUTO what both kinds took may do so; else a full run is only told of beside the plan."""
    planner = Planner()
    full, changed = PastRun("FULL", 1000.0, 2000.0), PastRun("INCREMENTAL", 1000.0, 2000.0)
    assert planner.searches(*(request(policy="STRICT", past=Past(runs)) for runs in ([full], [changed, full]))) == 1
    whole, part = planner.cache.plan(request(), plan_run).compared or (0.0, 0.0)
    full, changed = PastRun("FULL", whole, whole), PastRun("INCREMENTAL", part, part)
    dear = PastRun("INCREMENTAL", part, 3 * whole)
    assert planner.searches(*(request(past=Past(runs)) for runs in ([], [changed], [full], [changed, full] * 2))) == 0
    runs = Past([dear, dear, full, full])
    plans = [planner.cache.plan(request(past=runs), planner.search) for _ in range(3)]
    assert [plan.kind for plan in plans] == ["FULL"] * 3
    assert planner.asked == 2  # STRICT once, and AUTO once after the dear runs


def test_a_plan_that_is_used_again_tells_what_runs_took_since() -> None:
    cache = plan_cache.PlanCache()
    whole, part = cache.plan(request(), plan_run).compared or (0.0, 0.0)
    runs = [PastRun("FULL", whole, 7 * whole), PastRun("INCREMENTAL", part, part)] * 2
    assert cache.plan(request(past=Past(runs)), plan_run).rejected == pytest.approx(7 * whole)
    assert cache.plan(request(), plan_run).rejected is None


def test_files_of_a_source_count_as_sizes() -> None:
    planner = Planner()
    few, more, many = (request({0: change(files=files)}) for files in (2.0, 3.0, 80.0))
    assert planner.searches(few, more) == 1
    assert planner.searches(many) == 1


def test_another_way_of_applying_is_planned_anew() -> None:
    """As rows may be marked, or no key is known, or the content is small, or small files are merged. A content that
    grew a little is alike."""
    planner, layout = Planner(), Layout(2, 1e8, ("#9",))
    grown = [replace(layout, files=3, bytes=1.5e8), layout]
    assert planner.searches(request(layout=layout), *(request(layout=other) for other in grown)) == 1
    for other in (
        replace(layout, marks=True),
        replace(layout, keys=None),
        replace(layout, bytes=1e5),
        replace(layout, merged=9e6),
    ):
        assert planner.searches(request(layout=other)) == 1
