"""The JSON document of sql.md, "EXPLAIN INCREMENTAL ... JSON". The other ways to show a plan are made from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tidemill.memo.memo import Expression
from tidemill.plan.ops import Changes, HeldScan, ResultScan, Scan, StateScan
from tidemill.plan.text import Printer
from tidemill.search.explanation import Explanation, Used
from tidemill.search.run_plan import RunPlan
from tidemill.search.seed import Candidate

FORM_NAMES = {"attribute_delta": "attribute"}


def document(run: RunPlan, stored: Mapping[str, int]) -> dict[str, Any]:
    """What is done at each point, what is kept, what it costs, what lost and how long it was searched.

    Costs are CPU milliseconds. A step's inputs name the steps that it reads; `reads` names sources, states or the
    result; `saves` the state that keeps its rows. `stored`: bytes of the states that are there.
    """
    why = run.explanation
    found, cost = why.found, run.estimated
    steps = _steps(why)
    steps += _compactions(run, len(steps))
    return {
        "kind": run.kind,
        "reason": run.reason,
        "points": [{"point": 1, "price": 1.0, "output": True, "steps": steps}],
        "methods": list(run.methods),
        "states": list(_states(run, steps, stored)),
        "paces": [],
        "estimated": {"total": cost, "final": cost, "priced": cost, "model": why.model},
        "alternatives": [
            {"pack": a.pack, "methods": list(a.methods), "priced": a.cost, "per_point": [a.cost]} for a in why.rivals()
        ],
        "search": {
            "groups": sum(1 for _ in found.memo.live_groups()),
            "rules_fired": found.explored.rules_fired,
            "milliseconds": round(found.explored.seconds * 1000, 1),
            "stopped": found.explored.stopped,
        },
    }


def _steps(why: Explanation) -> list[dict[str, Any]]:
    """Groups from the leaves up: an expression's inputs come before it."""
    memo = why.found.memo
    printer = Printer(memo.query, memo.columns.name)
    numbers: dict[int, int] = {}
    steps: list[dict[str, Any]] = []
    # A later step may compute a group in another way, out of what an earlier step staged: the first way stands here,
    # for a mixture of both could be a cycle.
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
    return steps


def _compactions(run: RunPlan, first: int) -> list[dict[str, Any]]:
    """The steps that put pieces of states together. They come first in the run."""
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


def _states(run: RunPlan, steps: list[dict[str, Any]], stored: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """The states that are kept after the run, and those that could be."""
    kept = {s.name for s in run.states}
    readers = {read.removeprefix("state "): s["id"] for s in steps for read in s["reads"] if read.startswith("state ")}
    for candidate in {c.name: c for c in run.explanation.found.candidates}.values():
        name = candidate.name
        yield {
            "name": name,
            "form": candidate.kind.name,
            "of": _of(run.explanation, candidate),
            "rows": round(run.explanation.found.facts.kept.get(name, 0.0)),
            "bytes": stored.get(name),
            "kept": name in kept,
            "reason": _why_kept(run, readers.get(name)) if name in kept else _why_not(run),
        }


def _of(why: Explanation, candidate: Candidate) -> str:
    memo = why.found.memo
    return Printer(memo.query, memo.columns.name).op(memo.tvrs[candidate.tvr].expressions[0][0])


def _why_kept(run: RunPlan, reader: int | None) -> str:
    if reader is not None:
        return f"step {reader} reads it"
    if run.kind == "FULL":
        return "the cheapest plan of a small change reads it"
    return "chosen when the view was filled; this run has no need of it"


def _why_not(run: RunPlan) -> str:
    if run.kind == "FULL":
        return "no step of the cheapest plan of a small change reads it"
    return "the view does not have it: when it was filled, no step of the cheapest plan of a small change read it"


def _reads(why: Explanation, e: Expression) -> list[str]:
    sources = why.found.memo.query.sources
    match e.op:
        case Scan(source, _, time):
            return [f"{sources[source].name}@{time}"]
        case Changes(source, _, _, _):
            return [f"changes of {sources[source].name}"]
        case StateScan(name, _, _, _):
            return [f"state {name}"]
        case HeldScan():
            return ["the view's change that is held back"]
        case ResultScan():
            return ["the view's content"]
        case _:
            return []
