"""The one event stream of planning; traces, statistics and provenance are its readers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

EventKind: TypeAlias = Literal["matched", "applied", "merged", "best", "kept", "dropped", "stopped"]


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened: which rule, at which group or relation, in words."""

    kind: EventKind
    rule: str
    place: int
    detail: str = ""


Reader: TypeAlias = Callable[[Event], None]
