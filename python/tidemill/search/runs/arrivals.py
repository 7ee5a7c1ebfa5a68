"""Arrivals at operators, where a cost model counts rows instead of time.

Each input that counts is written by a step of its own, net, so that the run knows its rows exactly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidemill.cost.costing import CostModel, OperatorWork
from tidemill.plan.expr import ONE
from tidemill.plan.query import COUNT_FIELD
from tidemill.search.contract.run_plan import Step, Volume
from tidemill.search.lower.lowered import Blocks, Lowered, Staged
from tidemill.wire import nodes


def arriving(model: CostModel, work: Sequence[OperatorWork]) -> list[int]:
    """The groups whose rows a model counts, each before those that are computed from it; none if it counts time.

    Args:
        work: operators, each after those that compute its inputs.
    """
    counted = {read.group for read in model.counted(work) or ()}
    return list(dict.fromkeys(read.group for w in work for read in w.inputs if read.group in counted))


def counted_steps(model: CostModel, work: Sequence[OperatorWork], written: Mapping[int, str]) -> tuple[str, ...] | None:
    """The steps whose written rows add up to the cost of a run, each as often as it counts; None if time is the unit.

    Args:
        written: the step that writes each group.
    """
    counted = model.counted(work)
    return None if counted is None else tuple(written[read.group] for read in counted)


def shared_step(name: str, lowered: Lowered, volume: Volume, blocks: Blocks) -> tuple[Step, Staged]:
    """A step that writes rows for later steps, and how these read them. Rows without columns get one."""
    fields = tuple((c, f"c{i}") for i, c in enumerate(lowered.columns))
    columns, plan = fields, lowered.node
    if lowered.count is not None:
        columns = (*fields, (lowered.count, COUNT_FIELD))
    elif not fields:
        columns = ((blocks.count, COUNT_FIELD),)
        plan = nodes.project([(blocks.count, ONE)], plan)
    step = Step(name, "shared", None, None, plan, columns, volume)
    return step, Staged(name, fields, lowered.count is not None)
