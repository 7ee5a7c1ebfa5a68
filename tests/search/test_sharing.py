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
