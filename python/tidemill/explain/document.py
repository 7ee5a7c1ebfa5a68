"""The JSON document of EXPLAIN INCREMENTAL JSON. The other modes are made from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tidemill.explain.kept import NOTHING_DROPPED, budgets_shown, states_shown
from tidemill.explain.words import paragraph
from tidemill.memo.memo import Expression
from tidemill.plan.ops import Changes, HeldScan, LookUp, ResultScan, Scan, StateScan, state_of
from tidemill.search.runs.explanation import ExplainedPlan, Explanation, PlannedPoint, Used
from tidemill.search.space.seed import CORE, methods_of
from tidemill.text.printer import Printer
from tidemill.wire import questions

FORM_NAMES = {"attribute_delta": "attribute"}


def document(
    run: ExplainedPlan,
    stored: Mapping[str, int],
    notes: Sequence[str] = (),
    ran: Sequence[Mapping[str, Any]] = (),
    dropped: Mapping[str, str] = NOTHING_DROPPED,
) -> dict[str, Any]:
    """The work at each point, the kept states, the costs, the alternatives and the time of the search.

    Costs are CPU milliseconds. A step's inputs name the steps that it reads; `reads` names sources, states or the
    result; `saves` names the state that keeps its rows. `expected`: arrivals until an upcoming point. `stored`: bytes
    of the stored states; `dropped`: those that the last run gave up for want of room, and why. `budgets`: as
    `budgets_shown`. `notes`: sentences about what the plan was made for. `summary`: the plan in plain words.
    `runs`: `ran`, earlier runs, newest first, with their milliseconds by part; `last_run` has its steps too.
    """
    why = run.explanation
    space = why.space
    if why.schedule:
        steps = [_planned_steps(why, number) for number in range(len(why.points))]
    else:
        steps = [_steps(why)]
        steps[0] += _compactions(run, len(steps[0]))
    costs, prices = why.costs, [p.price for p in why.points]
    shown = {
        "kind": run.kind,
        "reason": run.reason,
        "points": [
            {"point": p.number, "price": p.price, "output": p.output, "expected": _expected(why, p), "steps": each}
            for p, each in zip(why.points, steps, strict=True)
        ],
        "methods": list(run.methods) if not why.schedule else _methods(why),
        "states": list(states_shown(run, [s for each in steps for s in each], stored, dropped)),
        "budget": None if run.chosen is None else run.chosen.made_for.budget,
        "budgets": budgets_shown(run),
        "paces": [],
        "estimated": {
            "total": sum(costs),
            "final": costs[-1],
            "priced": _priced(costs, prices),
            "model": why.model,
            "rows_read": round(_rows_read(run)),
        },
        "alternatives": [
            {
                "pack": a.pack,
                "methods": list(a.methods),
                "priced": _priced(a.costs, prices),
                "per_point": list(a.costs),
            }
            for a in why.rivals()
        ],
        "search": {
            "groups": sum(1 for _ in space.memo.live_groups()),
            "rules_fired": space.explored.rules_fired,
            "milliseconds": round(why.search.seconds * 1000, 1),
            "stopped": why.search.stopped.value,
        },
        "notes": list(notes),
        "runs": [{key: value for key, value in told.items() if key != "steps"} for told in ran],
        "last_run": next(iter(ran), None),
    }
    return {"summary": paragraph(run, shown), **shown}


def _rows_read(run: ExplainedPlan) -> float:
    """The estimated rows that the steps of the run read from sources, change sets, states and the content."""
    rows: dict[str, float] = {}
    for used in run.explanation.used:
        match used.expression.op:
            case Scan(source) as op:
                rows[f"scan {source}"] = used.rows
            case Changes(source, _, start, end):
                read = run.explanation.space.facts.read_over(source, start, end)
                rows[f"changes {source}"] = max(used.rows, read or 0.0)
            case StateScan() | LookUp() as op:
                rows[f"state {state_of(op)}"] = used.rows
            case ResultScan():
                rows["result"] = used.rows
            case HeldScan():
                rows["held"] = used.rows
            case _:
                pass
    # Segments alone are few rows beside the base, which another leaf reads.
    leaves = [node for step in run.steps for node in questions.walk(step.plan) if not node.get("first")]
    return sum(rows.get(f"{node['op']} {node.get('source', node.get('name', ''))}".strip(), 0.0) for node in leaves)


def _expected(why: Explanation, point: PlannedPoint) -> dict[str, dict[str, float | None]]:
    """The expected rows of each source that changes, since the previous planned point."""
    names = {n: s.name for n, s in why.space.memo.query.sources.items() if s.kind != "clock"}
    changing = {n: c for n, c in point.expected.items() if c.changed and n in names}
    return {names[n]: {"inserts": _rounded(c.inserts), "deletes": _rounded(c.deletes)} for n, c in changing.items()}


def _rounded(rows: float | None) -> float | None:
    return None if rows is None else round(rows, 1)


def _priced(costs: Sequence[float], prices: Sequence[float]) -> float:
    return sum(cost * price for cost, price in zip(costs, prices, strict=True))


def _methods(why: Explanation) -> list[str]:
    return methods_of(why.space.memo, [(p.group, e) for p in why.schedule if (e := p.choice.expression) is not None])


def _planned_steps(why: Explanation, run: int) -> list[dict[str, Any]]:
    """The planned work of one of several points: computed there, saved for later ones, or loaded from earlier ones."""
    memo = why.space.memo
    printer = Printer(memo.query, memo.columns.name)
    later = {(p.group, p.choice.saved): p for p in why.schedule if p.choice.saved is not None}
    numbers: dict[int, int] = {}
    steps: list[dict[str, Any]] = []

    def add(group: int, operator: str, rule: str, pack: str, reads: list[str], rows: float, cost: float) -> None:
        about = memo.group(group).about
        form = about[1].kind.name if about else "snapshot"
        loaded = later.get((group, run))
        steps.append(
            {
                "id": len(steps),
                "operator": operator,
                "inputs": [],
                "rule": rule,
                "pack": pack,
                "form": FORM_NAMES.get(form, form),
                "reads": reads,
                "saves": None if loaded is None else f"for point {why.points[loaded.run].number}",
                "rows": round(rows),
                "cost": round(cost + (0.0 if loaded is None else loaded.choice.saving), 3),
            }
        )
        numbers[group] = steps[-1]["id"]

    for planned in (p for p in why.schedule if p.run == run):
        choice, e = planned.choice, planned.choice.expression
        if e is not None:
            own = choice.own * planned.times
            add(planned.group, printer.op(e.op), e.rule, e.pack, _reads(why, e), choice.rows, own)
            steps[-1]["inputs"] = [numbers[i] for i in map(memo.find, e.inputs) if i in numbers]
        elif choice.saved is not None:
            source = f"what point {why.points[choice.saved].number} saved"
            add(planned.group, "load", "load", CORE, [source], choice.rows, choice.own * planned.times)
        else:
            written = f"what step {numbers[planned.group]} wrote" if planned.group in numbers else "what is written"
            add(planned.group, "load", "load", CORE, [written], choice.rows, choice.own * planned.times)
    return steps


def _steps(why: Explanation) -> list[dict[str, Any]]:
    """The steps of a plan, one per group, and the jobs beside them; inputs come before their readers."""
    memo = why.space.memo
    printer = Printer(memo.query, memo.columns.name)
    numbers: dict[int, int] = {}
    steps: list[dict[str, Any]] = []
    # A later step may compute a group in another way, from what an earlier step staged. The first way is shown, because
    # a mixture of both could be a cycle.
    by_group: dict[int, Used] = {}
    for used in why.used:
        by_group.setdefault(used.group, used)

    def visit(used: Used) -> int:
        if used.group in numbers:
            return numbers[used.group]
        e = used.expression
        inputs = [visit(by_group[i]) for i in map(memo.find, e.inputs) if i in by_group]
        about = memo.group(used.group).about
        form = about[1].kind.name if about else ("delta" if isinstance(e.op, Changes) else "snapshot")
        numbers[used.group] = len(steps)
        steps.append(
            {
                "id": len(steps),
                "operator": printer.op(e.op),
                "inputs": inputs,
                "rule": e.rule,
                "pack": e.pack,
                "form": FORM_NAMES.get(form, form),
                "reads": _reads(why, e),
                "saves": why.saves.get(used.group),
                "rows": round(used.rows),
                "cost": round(used.own, 3),
            }
        )
        return numbers[used.group]

    for used in why.used:
        visit(used)
    for job in why.jobs:
        before = len(steps) - 1 if job.group is None else numbers.get(memo.find(job.group))
        about = None if job.group is None else memo.group(job.group).about
        form = about[1].kind.name if about else "delta"
        steps.append(
            {
                "id": len(steps),
                "operator": job.name,
                "inputs": [] if before is None else [before],
                "rule": "write",
                "pack": CORE,
                "form": FORM_NAMES.get(form, form),
                "reads": [],
                "saves": None,
                "rows": round(job.rows),
                "cost": round(job.cost, 3),
            }
        )
    return steps


def _compactions(run: ExplainedPlan, first: int) -> list[dict[str, Any]]:
    """The compactions, which come first in the run."""
    forms = {s.name: s.form for s in run.states}
    return [
        {
            "id": number,
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
        for number, (name, compaction) in enumerate(run.explanation.compacted.items(), first)
    ]


def _reads(why: Explanation, e: Expression) -> list[str]:
    sources = why.space.memo.query.sources
    match e.op:
        case Scan(source, _, time):
            return [f"{sources[source].name}@{time}"]
        case Changes(source, _, _, _):
            return [f"changes of {sources[source].name}"]
        case StateScan() | LookUp():
            return [f"state {state_of(e.op)}"]
        case HeldScan():
            return ["the view's change that is held back"]
        case ResultScan():
            return ["the view's content"]
        case _:
            return []
