"""The three kinds of results of a rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tidemill.memo.memo import Built, Memo, Ref
from tidemill.plan.ops import QueryOp
from tidemill.text.printer import Printer
from tidemill.tvr.form import Form, Span


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


def in_words(memo: Memo, tvr: int, span: Span, result: Result) -> str:
    """A result at a relation, for an interval, as text for people; times within operators are symbolic."""
    printer = Printer(memo.query)

    def show(built: Built) -> str:
        match built:
            case Ref(relation, form):
                return f"R{relation}.{form.placed(span)}"
            case _:
                below = f" <- ({', '.join(map(show, built.inputs))})" if built.inputs else ""
                return f"{printer.op(built.op)}{below}"

    match result:
        case NewForm(form, built):
            return f"R{tvr}.{form.placed(span)} = {show(built)}"
        case Equivalent(op, inputs):
            return f"R{tvr} = {printer.op(op)} <- ({', '.join(f'R{i}' for i in inputs)})"
        case Linked(kind, to):
            return f"R{tvr} has R{to} as its {kind}"
