"""What is read several times is computed once, also where lowering or what is written reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tidemill.plan.change import SourceChange
from tidemill.search.contract.request import PlanRequest
from tidemill.search.runs.task import PlanningTask
from tidemill.search.service.planner import plan_run
from tidemill.search.space.space import Kept, normal_query
from tidemill.text.parser import parse_query

LEAST = """\
source 0 t [a: long, b: long] rows=10000000
source 1 u [a: long, c: long] rows=50000000
aggregate keys=[#9 := #0] calls=[#10 := min(#3)]
  join inner [(#0 = #2)]
    scan 0 [#0 := a, #1 := b]
    scan 1 [#2 := a, #3 := c]
"""


def scans(node: Mapping[str, Any], source: int) -> int:
    """How often a wire plan reads the snapshot of a source."""
    own = int(node["op"] == "scan" and node["source"] == source)
    return own + sum(scans(below, source) for below in node.get("inputs", ()))


def test_a_change_that_picks_the_old_values_is_computed_once() -> None:
    """Old values are read by the keys of the change and compared with it; a state of the run is made from it, too."""
    query = normal_query(parse_query(LEAST))
    grows = SourceChange(changed=True, old_readable=True, rows=1e7, inserts=1e3, deletes=0.0)
    sources = {0: grows, 1: replace(grows, changed=False)}
    asked = PlanRequest(query, "STRICT", sources, frozenset(), False, None, rows=2e6)
    possible = {c.name for c in PlanningTask(asked).space(asked.steps, Kept(None)).candidates}
    assert len(possible) > 2
    for kept in (frozenset[str](), *(frozenset({name}) for name in possible)):
        plan = plan_run(replace(asked, states=kept))
        assert "affected" in plan.methods
        assert sum(scans(step.plan, 1) for step in plan.steps) == 1, kept


LATE = """\
source 0 lines [k: long, s: long, due: date, came: date] rows=60000000
project [#0]
  join anti [(#0 = #6), (#1 < #7)]
    join semi [(#0 = #4), (#1 < #5)]
      filter [(#3 > #2)]
        scan 0 [#0 := k, #1 := s, #2 := due, #3 := came]
      scan 0 [#4 := k, #5 := s]
    filter [(#9 > #8)]
      scan 0 [#6 := k, #7 := s, #8 := due, #9 := came]
"""
"""The three times that TPC-H 21 reads its lines, of which no two have the same columns."""


def test_rows_of_some_keys_are_read_once_for_scans_of_several_columns() -> None:
    """No part of the plan needs the rows with all columns by itself: only together do the scans save by it."""
    change = SourceChange(changed=True, old_readable=True, rows=6e7, inserts=3e5, deletes=2e5, direct=True)
    query = normal_query(parse_query(LATE))
    plan = plan_run(PlanRequest(query, "STRICT", {0: change}, frozenset(), False, None, rows=5e6))
    assert sum(scans(step.plan, 0) for step in plan.steps) == 1
