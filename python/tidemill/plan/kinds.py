"""Kinds: closed sets of strings, the same in Python, on the wire and on disk."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias, TypeVar, get_args

K = TypeVar("K", bound=str)

JoinKind: TypeAlias = Literal["inner", "left", "right", "full", "semi", "anti", "existence"]
JOIN_KINDS: frozenset[JoinKind] = frozenset(get_args(JoinKind))

SourceKind: TypeAlias = Literal["files", "delta", "view", "static", "clock"]
SOURCE_KINDS: frozenset[SourceKind] = frozenset(get_args(SourceKind))

OperatorName: TypeAlias = Literal[
    "scan", "filter", "project", "join", "aggregate", "union", "sort", "limit", "row_wise", "window", "opaque"
]
"""Names of the operators of queries, in the query document and in plans as text."""
OPERATOR_NAMES: frozenset[OperatorName] = frozenset(get_args(OperatorName))

StatePart: TypeAlias = Literal["", "before", "since"]
"""A part of a state that stands at a later moment than the view's content: all of it, the part that existed at the
content's moment, or the part added since."""

Whole: TypeAlias = Literal["", "any order", "in order"]
"""Whether window functions read all rows before a row, and whether the order of rows that tie matters to them."""
WHOLE: tuple[Whole, ...] = get_args(Whole)
"""From the least to the most that is asked."""


def one_of(kinds: Iterable[K], value: object, what: str) -> K:
    """A string from outside as one of its kinds; `what` names the kind in the error.

    Raises:
        ValueError: if the string is none of the kinds.

    >>> one_of(JOIN_KINDS, "semi", "join")
    'semi'
    >>> one_of(["AUTO", "FULL"], "fast", "policy")
    Traceback (most recent call last):
    ValueError: policy must be one of AUTO, FULL, not 'fast'
    """
    known = tuple(kinds)
    for kind in known:
        if kind == value:
            return kind
    raise ValueError(f"{what} must be one of {', '.join(known)}, not {value!r}")
