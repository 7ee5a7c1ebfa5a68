"""Forms of a time-varying relation, and the times they are about (Tempura section 3).

A form is what can be known of a relation: its snapshot at a time, its change over an interval, either as signed rows
(multiplicity perspective) or as parts that merge per key (attribute perspective). Packs may bring kinds of their own.
Rules speak of a symbolic `Span`; the memo holds one copy per interval of the schedule (translational symmetry).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

Time: TypeAlias = int
"""Number of a moment: 0 is that of what was kept, others follow. In rules times are symbolic: OLD and NEW."""
OLD: Time = 0
NEW: Time = 1


@dataclass(frozen=True, slots=True)
class FormKind:
    """A kind of form. `interval`: about a change rather than a moment; `signed`: rows carry counts."""

    name: str
    interval: bool
    signed: bool


SNAPSHOT = FormKind("snapshot", interval=False, signed=False)
DELTA = FormKind("delta", interval=True, signed=True)
ATTRIBUTE = FormKind("attribute", interval=False, signed=False)
ATTRIBUTE_DELTA = FormKind("attribute_delta", interval=True, signed=False)


@dataclass(frozen=True, slots=True)
class Span:
    """The interval (old, new] that a rule is applied to."""

    old: Time
    new: Time

    def of(self, symbol: Time) -> Time:
        """The moment that OLD or NEW stands for."""
        return self.new if symbol == NEW else self.old


@dataclass(frozen=True, slots=True)
class Form:
    """A kind at a time (`start` None) or over the interval (start, end]."""

    kind: FormKind
    start: Time | None
    end: Time

    def placed(self, span: Span) -> Form:
        """A form at symbolic times, at those of an interval."""
        return Form(self.kind, None if self.start is None else span.of(self.start), span.of(self.end))

    def __str__(self) -> str:
        return f"{self.kind.name}@{self.end}" if self.start is None else f"{self.kind.name}({self.start}, {self.end}]"


def at(kind: FormKind, time: Time) -> Form:
    """The form of a moment."""
    return Form(kind, None, time)


def over(kind: FormKind, span: Span) -> Form:
    """The form of a change."""
    return Form(kind, span.old, span.new)


SYMBOLIC = Span(OLD, NEW)
"""The interval that rules speak of."""


@dataclass(frozen=True, slots=True)
class Link:
    """A typed edge between two relations, such as "positive part of"; packs bring their own kinds."""

    kind: str
    of: int
    to: int


POSITIVE, NEGATIVE = "positive", "negative"
"""Kinds of links to the two parts of which a relation is the bag union: the positive one loses no row while the sources
only grow, the negative one may (Tempura equation 3)."""
KEPT = "kept"
"""Kind of the link of a relation to one whose snapshot its method would keep; whether it is kept is decided by cost."""
