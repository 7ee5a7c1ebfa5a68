"""Kinds of what the planner is asked and answers: the same strings in Python, on disk and in SQL."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

Policy: TypeAlias = Literal["AUTO", "INCREMENTAL", "STRICT", "FULL"]
POLICIES: tuple[Policy, ...] = get_args(Policy)

PlanKind: TypeAlias = Literal["PARTIAL", "FULL", "INCREMENTAL"]
RunKind: TypeAlias = Literal["NO_DATA", PlanKind]
"""Of a run, as SHOW REFRESHES says it: one for which there was nothing to do has no plan."""
RUN_KINDS: frozenset[RunKind] = frozenset({"NO_DATA", *get_args(PlanKind)})

Target: TypeAlias = Literal["state", "delta", "held", "result", "shared"]
"""What a step writes: a piece of a state, the signed delta to be applied, or held back, the whole result, or what later
steps of the run read."""
Mode: TypeAlias = Literal["base", "segment", "compact"]
"""Of a piece of what is kept: all of it, what came since the piece before, or several pieces made one."""
