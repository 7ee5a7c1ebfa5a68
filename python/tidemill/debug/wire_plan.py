"""A plan as it is carried out: its steps with their wire plans, and its states."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from tidemill.explain.document import document
from tidemill.plan.query import Query
from tidemill.search.runs.explanation import ExplainedPlan
from tidemill.text.printer import Printer
from tidemill.wire.expressions import expr_from_json


def steps(plan: ExplainedPlan) -> str:
    """Kind, reason and methods; each step with its wire plan, a line per node; the states that are kept."""
    query = plan.explanation.space.memo.query
    lines = [plan.kind + (f" ({plan.reason})" if plan.reason else "") + f" by {', '.join(plan.methods) or 'nothing'}"]
    for step in plan.steps:
        lines.append(f"{step.name}: [{', '.join(f'#{c} := {f}' for c, f in step.columns)}]")
        lines.extend(_wire(step.plan, query, 1))
    lines.extend(f"state {s.name}: {s.form} of {s.text}" for s in plan.states)
    return "\n".join(lines)


def numbered(text: str, plan: ExplainedPlan, kept: Collection[str]) -> str:
    """A text in which states are called s0, s1, ...; `kept`: names of those that earlier runs left."""
    names = dict.fromkeys((*(s.name for s in plan.states), *sorted(kept)))
    for number, name in enumerate(names):
        text = text.replace(name, f"s{number}")
    return text


def costs(plan: ExplainedPlan) -> Iterator[str]:
    """What the plan is estimated to cost, what others would have cost, and why the search stopped."""
    shown = document(plan, {})
    yield f"estimated: {shown['estimated']['total']:.3f} ms of CPU"
    for other in shown["alternatives"]:
        yield f"alternative {other['pack']} ({', '.join(other['methods'])}): {other['priced']:.3f} ms"
    search = shown["search"]
    yield f"search: {search['groups']} groups, {search['rules_fired']} rules fired, {search['stopped']}"


def _wire(node: dict[str, Any], query: Query, depth: int) -> Iterator[str]:
    """A wire plan, one line per node: its operands in the order of the contract."""
    printer = Printer(query)

    def expr(data: Any) -> str:
        return printer.expr(expr_from_json(data))

    def show(key: str, value: Any) -> str:
        match key:
            case "condition":
                return "[" + ", ".join(map(expr, value)) + "]"
            case "keys" | "aggregates":
                return f"{key}=[" + ", ".join(f"#{c} := {expr(e)}" for c, e in value) + "]"
            case "columns" if node["op"] == "project":
                return "[" + ", ".join(f"#{c}" if e == {"col": c} else f"#{c} := {expr(e)}" for c, e in value) + "]"
            case "columns":
                shown = (c if isinstance(c, list) else [c] for c in value)
                return "[" + ", ".join(f"#{c[0]}" + (f" := {c[1]}" if len(c) > 1 else "") for c in shown) + "]"
            case "count":
                return f"count={expr(value) if isinstance(value, dict) else f'#{value}'}"
            case "limit" | "offset":
                return f"{key}={expr(value)}"
            case "order":
                return "order=[" + ", ".join(f"{expr(e)} {up} {first}" for e, up, first in value) + "]"
            case "kind" | "source" | "name":
                return str(value)
            case _:
                return f"{key}={value}"

    hidden = {"op", "inputs", "from", "to"}
    operands = [show(k, v) for k, v in node.items() if k not in hidden and v is not None]
    yield "  " * depth + " ".join((node["op"], *operands))
    for child in node.get("inputs", ()):
        yield from _wire(child, query, depth + 1)
