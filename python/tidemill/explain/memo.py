"""The searched space: each relation of the query, its forms, and all expressions that rules found for them."""

from __future__ import annotations

from collections.abc import Iterator

from tidemill.memo.memo import Expression, Group
from tidemill.search.choose.chosen import Chosen
from tidemill.search.runs.explanation import ExplainedPlan
from tidemill.text.printer import Printer


def memo(run: ExplainedPlan) -> str:
    """The forms of each relation with their expressions; `*` marks those that the plan uses.

    The inputs of an expression are groups. Groups that are no form of a relation (inner parts of rules' results) are
    listed at the end. Costs are CPU milliseconds, with all inputs.
    """
    return "\n".join(_lines(run))


def _lines(run: ExplainedPlan) -> Iterator[str]:
    why = run.explanation
    searched = why.space.memo
    printer = Printer(searched.query, searched.columns.name)
    used = {(u.group, u.expression) for u in why.used}

    def line(group: Group, e: Expression) -> str:
        choice = Chosen.making(why.extractor, group.number).weighed(group.number, e)
        mark = "*" if (group.number, e) in used else " "
        inputs = f" <- {', '.join(f'G{searched.find(i)}' for i in e.inputs)}" if e.inputs else ""
        worth = f"{round(choice.rows)} rows, {choice.cost:.3f} ms" if choice is not None else "not computable"
        return f"  {mark} {printer.op(e.op)}{inputs}  [{e.pack}/{e.rule}, {worth}]"

    named: set[int] = set()
    for relation in searched.tvrs:
        for op, inputs in relation.expressions:
            below = f" <- {', '.join(f'R{i}' for i in inputs)}" if inputs else ""
            yield f"R{relation.number}: {printer.op(op)}{below}"
        for form, number in sorted(relation.forms.items(), key=lambda item: str(item[0])):
            group = searched.group(number)
            again = ", as above" if group.number in named else ""
            named.add(group.number)
            yield f"  {form} = G{group.number}{again}"
            if not again:
                yield from (f"  {line(group, e)}" for e in group.expressions)
    for group in searched.live_groups():
        if group.number not in named:
            yield f"G{group.number}"
            yield from (line(group, e) for e in group.expressions)
