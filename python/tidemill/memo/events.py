"""The one event stream of planning; traces, statistics and provenance are its readers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

EventKind: TypeAlias = Literal[
    "space", "relation", "matched", "added", "merged", "tried", "applied", "stopped", "best", "kept", "dropped"
]
"""What happens, in the order of a planning call:

space     a space begins: a memo that is filled and explored; `detail` says for which runs
relation  it has another relation, `place`
matched   a rule is about to be applied at the relation `place`
added     an expression was added to the group `place`, or a way of writing to a relation
merged    two groups are one, `place` its number
tried     the rule has been applied; `seconds`: how long that took; `new`: it found something
applied   it yielded a result; `new`: which was not known
stopped   exploration ended; `detail`: why
best      the search for a plan begins anew, or has found a cheaper plan
kept      what was tried to make it cheaper did so
dropped   it did not, and was taken back
"""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened: by which rule, at which group or relation, in words. `seconds` of wall time."""

    kind: EventKind
    rule: str
    place: int
    detail: str = ""
    new: bool = False
    seconds: float = 0.0


Reader: TypeAlias = Callable[[Event], None]
