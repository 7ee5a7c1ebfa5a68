"""Lines about earlier runs: time by part of each, and by step of the last one, beside the estimates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

STEP_PARTS = ("catalyst", "jobs", "writing")
"""Parts of a step's time that have columns."""


def runs(told: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yields a line per run, newest first: its cost beside the estimate, and its milliseconds by part."""
    for run in told:
        estimated, measured = run["estimated_cost"], run["measured_cost"]
        cost, time = "not estimated", ""
        if estimated and measured is not None:
            cost = f"estimated {estimated:.3f}, measured {measured:.3f}, {measured / estimated:.2f} times that"
        if run["wall_ms"] is not None:
            after = "" if run["after_ms"] is None else f", then {_parts(run['after_ms'])}"
            time = f"; {run['duration_ms']} ms: {_parts(run['wall_ms'])}{after}"
        yield f"run {run['run']} ({run['kind']}): {cost}{time}"


def last_run(told: Mapping[str, Any]) -> Iterator[str]:
    """Yields a line for each step of the last run, in the order in which they were carried out."""
    if not told["steps"]:
        return
    yield f"steps of run {told['run']}: milliseconds, CPU milliseconds, Spark jobs, and rows"
    names = ("ms", *STEP_PARTS, "CPU", "estimated", "jobs", "read", "written", "estimated")
    yield "  " + " ".join(f"{name:>9}" for name in names) + "  step"
    for step in told["steps"]:
        wall = step["wall_ms"]
        cells = (
            sum(wall.values()),
            *(wall.get(part, 0) for part in STEP_PARTS),
            step["cpu_ms"],
            "" if step["estimated_cost"] is None else round(step["estimated_cost"]),
            step["jobs"],
            step["rows_read"],
            "" if step["rows"] is None else step["rows"],
            "" if step["estimated_rows"] is None else step["estimated_rows"],
        )
        yield "  " + " ".join(f"{cell:>9}" for cell in cells) + f"  {step['step']}"


def _parts(wall: Mapping[str, int]) -> str:
    """The parts that took time, the longest first; the remainder is the last one."""
    some = sorted((part for part in wall if wall[part]), key=lambda part: (part == "other", -wall[part]))
    return ", ".join(f"{part} {wall[part]}" for part in some) or "nothing"
