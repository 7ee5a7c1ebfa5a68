"""Forms of a time-varying relation, and their times (Tempura section 3).

A form is what can be computed of a relation: its snapshot at a moment, or its change over an interval, either as signed
rows (multiplicity perspective) or as parts that merge per key (attribute perspective). Packs may add kinds of their
own. Rules use a symbolic `Span`; the memo holds one copy per interval of the schedule (translational symmetry).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

Time: TypeAlias = int
"""The number of a moment: 0 is the content's, later ones follow. In rules times are symbolic: OLD and NEW."""
OLD: Time = 0
NEW: Time = 1


@dataclass(frozen=True, slots=True)
class FormKind:
    """A kind of form. `interval`: it describes a change, not a moment; `signed`: its rows carry counts."""

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
        """The moment that the symbol OLD or NEW stands for."""
        return self.new if symbol == NEW else self.old


@dataclass(frozen=True, slots=True)
class Form:
    """A kind of form at a moment (`start` is None) or over the interval (start, end]."""

    kind: FormKind
    start: Time | None
    end: Time

    def placed(self, span: Span) -> Form:
        """This form with its symbolic times replaced by the moments of an interval."""
        return Form(self.kind, None if self.start is None else span.of(self.start), span.of(self.end))

    def __str__(self) -> str:
        return f"{self.kind.name}@{self.end}" if self.start is None else f"{self.kind.name}({self.start}, {self.end}]"


def at(kind: FormKind, time: Time) -> Form:
    """The form of a kind at a moment."""
    return Form(kind, None, time)


def over(kind: FormKind, span: Span) -> Form:
    """The form of a kind over an interval."""
    return Form(kind, span.old, span.new)


SYMBOLIC = Span(OLD, NEW)
"""The interval that rules use."""


@dataclass(frozen=True, slots=True)
class Link:
    """A typed edge between two relations, such as "positive part of"; packs may add kinds of their own.

    `pack`: of a `KEPT` link, the pack that would keep the relation.
    """

    kind: str
    of: int
    to: int
    pack: str = ""


POSITIVE, NEGATIVE = "positive", "negative"
"""Kinds of links to the two parts whose bag union is the relation. The positive part loses no row while the sources
only grow; the negative part may (Tempura equation 3)."""
KEPT = "kept"
"""Kind of the link to a relation whose snapshot the method would keep; cost decides whether it is kept."""
