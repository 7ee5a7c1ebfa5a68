"""What a plan shows of itself: the JSON document of EXPLAIN INCREMENTAL, and its text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidemill.memo.memo import Expression
from tidemill.plan.ops import Changes, ResultScan, Scan, StateScan
from tidemill.plan.text import Printer
from tidemill.search.compaction import Compaction
from tidemill.search.extract import Extractor
from tidemill.search.space import Space

if TYPE_CHECKING:
    from tidemill.search.run_plan import StateSpec

FORM_NAMES = {"attribute_delta": "attribute"}


def document(
    found: Space,
    extractor: Extractor,
    used: Sequence[tuple[int, Expression]],
    saves: Mapping[int, str],
    methods: Sequence[str],
    states: Sequence[StateSpec],
    cost: float,
    kind: str,
    reason: str | None,
    alternatives: Sequence[tuple[tuple[str, ...], float]],
) -> dict[str, Any]:
    """The document of sql.md, "EXPLAIN INCREMENTAL ... JSON", for one time point.

    Costs are CPU milliseconds. A step's inputs name the steps that it reads; `reads` names sources, states or the
    result; `saves` the state that keeps its rows.
    """
    memo = found.memo
    # Groups are listed from the leaves up: an expression's inputs come before it.
    numbers: dict[int, int] = {}
    steps: list[dict[str, Any]] = []
    printer = Printer(memo.query, memo.columns.name)
    # A later step may compute a group in another way, out of what an earlier step staged: the first way stands here,
    # for a mixture of both could be a cycle.
    by_group: dict[int, Expression] = {}
    for group, e in used:
        by_group.setdefault(group, e)

    def visit(group: int, e: Expression) -> int:
        if group in numbers:
            return numbers[group]
        inputs = [visit(i, by_group[i]) for i in (memo.find(x) for x in e.inputs) if i in by_group]
        about = memo.group(group).about
        form = about[1].kind.name if about else ("delta" if _is_change(e) else "snapshot")
        choice = extractor.best(group)
        numbers[group] = len(steps)
        steps.append(
            {
                "id": len(steps),
                "operator": printer.op(e.op),
                "inputs": inputs,
                "rule": e.rule,
                "pack": e.pack,
                "form": FORM_NAMES.get(form, form),
                "reads": _reads(found, e),
                "saves": saves.get(group),
                "rows": round(choice.rows) if choice else None,
                "cost": round(choice.own, 3) if choice else None,
            }
        )
        return numbers[group]

    for group, e in used:
        visit(group, e)
    return {
        "kind": kind,
        "reason": reason,
        "points": [{"point": 1, "price": 1.0, "output": True, "steps": steps}],
        "methods": list(methods),
        "states": [
            {
                "name": s.name,
                "rows": round(found.facts.kept.get(s.name, 0.0)),
                "bytes": None,
                "kept": True,
                "reason": f"the {s.form} form of {s.text} is read by the next run",
            }
            for s in states
        ],
        "paces": [],
        "estimated": {"total": cost, "final": cost, "priced": cost},
        "alternatives": [
            {"methods": list(packs), "priced": priced, "per_point": [priced]} for packs, priced in alternatives
        ],
        "search": {
            "groups": sum(1 for _ in memo.live_groups()),
            "rules_fired": found.explored.rules_fired,
            "milliseconds": round(found.explored.seconds * 1000, 1),
            "stopped": found.explored.stopped,
        },
    }


def add_compactions(
    explained: Mapping[str, Any], compacted: Mapping[str, Compaction], states: Sequence[StateSpec]
) -> None:
    """Adds the steps that put pieces of states together; they come first in the run."""
    steps = explained["points"][0]["steps"]
    forms = {s.name: s.form for s in states}
    for name, compaction in compacted.items():
        steps.append(
            {
                "id": len(steps),
                "operator": f"compact {name} from piece {compaction.first} on",
                "inputs": [],
                "rule": "compact",
                "pack": "core",
                "form": forms[name],
                "reads": [f"state {name}"],
                "saves": name,
                "rows": compaction.rows,
                "cost": round(compaction.cost, 3),
            }
        )


def _is_change(e: Expression) -> bool:
    return isinstance(e.op, Changes)


def _reads(found: Space, e: Expression) -> list[str]:
    match e.op:
        case Scan(source, _, time):
            return [f"{found.memo.query.sources[source].name} ({time})"]
        case Changes(source, _):
            return [f"changes of {found.memo.query.sources[source].name}"]
        case StateScan(name, _, _):
            return [f"state {name}"]
        case ResultScan():
            return ["the view's content"]
        case _:
            return []


def text(found: Space, plan: Mapping[str, Any]) -> str:
    """The plan for people: per step its operator, rule, rows and cost; then states and the alternatives that lost."""
    lines = [f"kind: {plan['kind']}" + (f" ({plan['reason']})" if plan["reason"] else "")]
    lines.append("methods: " + (", ".join(plan["methods"]) or "none"))
    for point in plan["points"]:
        lines.append(f"point {point['point']}: price {point['price']}, output {str(point['output']).lower()}")
        steps = point["steps"]
        read = {i for s in steps for i in s["inputs"]}

        def show(step: Mapping[str, Any], depth: int, steps: Any = steps) -> None:
            saved = f", saves {step['saves']}" if step["saves"] else ""
            source = f" <- {', '.join(step['reads'])}" if step["reads"] else ""
            lines.append(
                f"{'  ' * (depth + 1)}{step['id']}: {step['operator']}{source}"
                f"  [{step['form']}, {step['pack']}/{step['rule']}, {step['rows']} rows, {step['cost']} ms{saved}]"
            )
            for i in step["inputs"]:
                show(steps[i], depth + 1)

        for step in steps:
            if step["id"] not in read:
                show(step, 0)
    for state in plan["states"]:
        lines.append(f"state {state['name']}: about {state['rows']} rows; {state['reason']}")
    lines.append(f"estimated: {plan['estimated']['total']:.1f} ms of CPU")
    for other in plan["alternatives"]:
        lines.append(f"alternative {', '.join(other['methods'])}: {other['priced']:.1f} ms")
    search = plan["search"]
    lines.append(
        f"search: {search['groups']} groups, {search['rules_fired']} rules fired, {search['milliseconds']} ms, "
        f"{search['stopped']}"
    )
    return "\n".join(lines)
