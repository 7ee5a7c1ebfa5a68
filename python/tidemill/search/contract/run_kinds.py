"""Kinds in requests and plans: the same strings in Python, on disk and in SQL."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

Policy: TypeAlias = Literal["AUTO", "INCREMENTAL", "STRICT", "FULL"]
POLICIES: tuple[Policy, ...] = get_args(Policy)
GRADUAL: frozenset[Policy] = frozenset({"INCREMENTAL", "STRICT"})
"""Policies under which no run is full by choice."""

PlanKind: TypeAlias = Literal["PARTIAL", "FULL", "INCREMENTAL"]
RunKind: TypeAlias = Literal["NO_DATA", "FAILED", PlanKind]
"""The kind of a run in SHOW REFRESHES. A run with nothing to do, or one that failed, has no plan."""
RUN_KINDS: frozenset[RunKind] = frozenset({"NO_DATA", "FAILED", *get_args(PlanKind)})

Target: TypeAlias = Literal["state", "delta", "held", "result", "shared"]
"""The target of a step: a piece of a state, the delta, the held change, the result, or rows for later steps."""
Mode: TypeAlias = Literal["base", "segment", "compact"]
"""The mode of a written piece: all rows, the rows since the previous piece, or several pieces merged."""
