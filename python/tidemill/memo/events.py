"""The one event stream of planning; traces, statistics and provenance are its readers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

EventKind: TypeAlias = Literal[
    "space", "relation", "matched", "added", "merged", "tried", "applied", "stopped", "best", "kept", "dropped"
]
"""Kinds of events, in the order of a planning call:

space     a space begins: a memo that is seeded and explored; `detail` names its runs
relation  the memo has a new relation, `place`
matched   a rule is about to be applied at the relation `place`
added     an expression was added to the group `place`, or another way to write the relation `place`
merged    two groups became one, `place` is its number
tried     the rule has been applied; `seconds`: the time it took; `new`: it found something
applied   the rule yielded a result; `new`: the result was not known
stopped   exploration ended; `detail`: why
best      the search for a plan begins anew, or has found a cheaper plan
kept      an attempt to make the plan cheaper succeeded
dropped   the attempt failed and was rolled back
"""


@dataclass(frozen=True, slots=True)
class Event:
    """An event: its kind, the rule, the group or relation, and a description. `seconds`: wall time."""

    kind: EventKind
    rule: str
    place: int
    detail: str = ""
    new: bool = False
    seconds: float = 0.0


Reader: TypeAlias = Callable[[Event], None]
