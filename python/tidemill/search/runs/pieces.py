"""Pieces of states: the steps that write them, and what a run records of a state."""

from __future__ import annotations

from tidemill.plan.query import COUNT_FIELD
from tidemill.search.contract.run_kinds import Mode
from tidemill.search.contract.run_plan import StateSpec, Step, Volume
from tidemill.search.lower.lowered import Lowered
from tidemill.search.space.seed import Candidate
from tidemill.search.space.space import Space


def state_step(candidate: Candidate, mode: Mode, lowered: Lowered, volume: Volume) -> Step:
    columns = stored_columns(candidate, lowered)
    return Step(f"{mode} of {candidate.name}", "state", candidate.name, mode, lowered.node, columns, volume)


def stored_columns(candidate: Candidate, lowered: Lowered) -> tuple[tuple[int, str], ...]:
    columns = tuple((c, f) for c, f, _ in candidate.scan.columns)
    return columns if lowered.count is None else (*columns, (lowered.count, COUNT_FIELD))


def state_spec(candidate: Candidate, space: Space) -> StateSpec:
    fields = [(f, t) for _, f, t in candidate.scan.columns]
    if candidate.partial is None:
        fields.append((COUNT_FIELD, "long"))
    op, _ = space.memo.tvrs[candidate.tvr].expressions[0]
    text = type(op).__name__.lower()
    return StateSpec(candidate.name, candidate.kind.name, tuple(fields), text, candidate.group, candidate.parts)
