"""The three kinds of results of a rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tidemill.memo.memo import Built
from tidemill.plan.ops import QueryOp
from tidemill.tvr.form import Form


@dataclass(frozen=True, slots=True)
class NewForm:
    """The matched relation has this form, computed so; times are symbolic."""

    form: Form
    built: Built


@dataclass(frozen=True, slots=True)
class Equivalent:
    """The matched relation can be written so; the leaves are the relations of `Match.inputs` by number."""

    op: QueryOp
    inputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Linked:
    """The matched relation stands in a typed link to another, by number."""

    kind: str
    to: int


Result: TypeAlias = NewForm | Equivalent | Linked
