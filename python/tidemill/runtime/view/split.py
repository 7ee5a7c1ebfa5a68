"""The time of a run: by part, and by step beside the estimates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

OTHER = "other"
MOST_VIEWS = 1_000
"""Views of which a process remembers what their last run took after its commit began."""
_AFTER: dict[str, tuple[int, Mapping[str, int]]] = {}
"""By location, the last run that this process committed, and milliseconds by part since its row was made. The log entry
of a run is written before they are known, so the entry of the next run has them."""


@dataclass(frozen=True, slots=True)
class StepSpent:
    """The time, cost and rows of a step of a run.

    `wall_ms`: milliseconds by part. `rows`: written; None: it counts none.
    `estimated_cost`, `estimated_rows`: CPU milliseconds and written rows as the plan estimates them; None: it does not.
    """

    step: str
    wall_ms: Mapping[str, int]
    cpu_ms: int
    jobs: int
    rows_read: int
    rows: int | None = None
    estimated_cost: float | None = None
    estimated_rows: float | None = None


@dataclass(frozen=True, slots=True)
class Split:
    """Milliseconds of a run by part. They add up to its `duration_ms`.

    `before`: the number of an earlier run, and what that took by part after its own duration had ended.
    """

    wall_ms: Mapping[str, int]
    before: tuple[int, Mapping[str, int]] | None = None

    def to_json(self) -> dict[str, Any]:
        before = None if self.before is None else {"run": self.before[0], "wall_ms": dict(self.before[1])}
        return {"wall_ms": dict(self.wall_ms), "before": before}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Split:
        before = data.get("before")
        return Split(data["wall_ms"], None if before is None else (before["run"], before["wall_ms"]))


def split_of(location: str, duration_ms: int, parts: Mapping[str, int]) -> Split:
    """Returns the split of a run of the view at a location.

    `parts`: milliseconds by part, together at most `duration_ms`.
    """
    return Split(by_part(duration_ms, parts), _AFTER.get(location))


def by_part(duration_ms: int, parts: Mapping[str, int]) -> dict[str, int]:
    """Returns milliseconds by part that add up to a duration: what the parts do not cover is `other`."""
    return {**parts, OTHER: duration_ms - sum(parts.values())}


def note_after(location: str, run: int, parts: Mapping[str, int]) -> None:
    """Remembers what the run of a view took by part after its duration had ended."""
    _AFTER.pop(location, None)
    _AFTER[location] = (run, parts)
    while len(_AFTER) > MOST_VIEWS:
        _AFTER.pop(next(iter(_AFTER)), None)


def after(location: str, run: int, later: Split | None) -> Mapping[str, int] | None:
    """Returns what a run took by part after its duration had ended; None if nobody has told.

    `later`: the split of the run that followed; None: there is none, or it has none.
    """
    told = later.before if later is not None else _AFTER.get(location)
    return told[1] if told is not None and told[0] == run else None


def steps_to_json(steps: Sequence[StepSpent]) -> list[dict[str, Any]]:
    return [asdict(step) for step in steps]


def steps_from_json(data: Sequence[Mapping[str, Any]]) -> tuple[StepSpent, ...]:
    return tuple(StepSpent(**step) for step in data)
