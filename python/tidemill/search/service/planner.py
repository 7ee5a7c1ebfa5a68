"""The plan of a run: full or incremental, its steps in order, the states it keeps, and why.

The pipeline, top to bottom: normal form; the space of what the run and the points to come may compute; the cheapest
plan under the policy; against it the full plan; lowering, state by state and the result last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidemill.memo.events import Reader
from tidemill.search.contract.request import PlanRequest
from tidemill.search.runs.anew import full, rebuild
from tidemill.search.runs.early import early
from tidemill.search.runs.explanation import ExplainedPlan
from tidemill.search.runs.incremental import IncrementalPlanner
from tidemill.search.runs.task import PlanningTask
from tidemill.search.space.space import normal_query


def plan_run(request: PlanRequest, readers: Sequence[Reader] = ()) -> ExplainedPlan:
    """Plan a run; `readers` are called with every event of the search.

    Raises:
        TidemillError: TIDEMILL_NOT_INCREMENTAL under INCREMENTAL or STRICT, if an operator has no rule but `recompute`.
    """
    task = PlanningTask(replace(request, query=normal_query(request.query)), readers)
    if request.ahead:
        return early(task)
    if request.first and request.states and request.full_reason is None:
        return rebuild(task, "FIRST")
    if request.first or request.full_reason is not None:
        return full(task, request.full_reason or "FIRST")
    if request.refill is not None:
        return rebuild(task, request.refill)
    return IncrementalPlanner(task).plan()
