"""Runs that make the content anew tell the views above what they change."""

from __future__ import annotations

from dataclasses import replace

from tests.model.maintain import View
from tests.model.mode import Mode
from tests.model.semantics import Record
from tidemill.search.service.planner import plan_run

QUERY = """\
source 0 t [k: long, v: double] rows=1000000
aggregate keys=[#2 := #0] calls=[#3 := sum(#1)]
  scan 0 [#0 := k, #1 := v]"""
START: list[Record] = [{"k": 1, "v": 1}, {"k": 1, "v": 1}, {"k": None, "v": 2}, {"k": 2, "v": None}]


def test_the_difference_follows_the_result() -> None:
    kept = View(QUERY, {0: START}, Mode(policy="FULL", tells=1.0))
    for change in ([(START[2], -1), ({"k": 3, "v": 1}, 1)], [(START[0], -1)], [(START[0], 1), (START[0], -1)]):
        plan = kept.refresh({0: change})  # which checks that the change, applied to the content before, gives the new
        assert [step.target for step in plan.steps] == ["result", "delta"]


def test_the_difference_is_part_of_the_cost() -> None:
    kept = View(QUERY, {0: START}, Mode())
    kept.moments.change({0: [(START[0], -1)]})
    request = replace(kept._request(first=False), full_reason="REQUESTED", rows=200_000.0)
    untold, told = (plan_run(replace(request, tells=tells)).estimated for tells in (False, True))
    assert told > untold + 200_000 * 1e-4
