"""The plan for people: what it does in plain words, steps, kept states, estimated costs and alternatives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def plan(shown: Mapping[str, Any]) -> str:
    """A paragraph in plain words, and the steps of each point as trees; then states, costs, alternatives, search.

    States go by what they hold. A step that several others read is shown once.
    """
    return "\n".join(_lines(shown))


def _lines(shown: Mapping[str, Any]) -> Iterator[str]:
    named = {s["name"]: f"'{s['holds']}'" for s in shown["states"]}
    yield shown["summary"]
    yield ""
    yield f"kind: {shown['kind']}" + (f" ({shown['reason']})" if shown["reason"] else "")
    yield "methods: " + (", ".join(shown["methods"]) or "none")
    for point in shown["points"]:
        yield f"point {point['point']}: price {point['price']}, output {str(point['output']).lower()}"
        for name, rows in point["expected"].items():
            yield f"  expects {name}: {_count(rows['inserts'])} inserts, {_count(rows['deletes'])} deletes"
        steps = point["steps"]
        read = {i for s in steps for i in s["inputs"]}
        done: set[int] = set()
        for step in steps:
            if step["id"] not in read:
                yield from (_with(named, line) for line in _tree(step, steps, 1, done))
    for state in shown["states"]:
        if state["kept"]:
            yield f"state '{state['holds']}' ({state['name']}): about {state['rows']} rows; {state['reason']}"
    yield f"estimated: {shown['estimated']['total']:.1f} ms of CPU"
    for other in shown["alternatives"]:
        yield f"alternative {other['pack']} ({', '.join(other['methods'])}): {other['priced']:.1f} ms"
    search = shown["search"]
    yield (
        f"search: {search['groups']} groups, {search['rules_fired']} rules fired, {search['milliseconds']} ms, "
        f"{search['stopped']}"
    )


def _count(rows: float | None) -> str:
    return "unknown" if rows is None else f"{rows:.0f}"


def _with(named: Mapping[str, str], line: str) -> str:
    """The line with states by what they hold in place of their names."""
    for name, held in named.items():
        line = line.replace(name, held)
    return line


def _tree(step: Mapping[str, Any], steps: list[Mapping[str, Any]], depth: int, done: set[int]) -> Iterator[str]:
    if step["id"] in done:
        yield f"{'  ' * depth}{step['id']}: as above"
        return
    done.add(step["id"])
    saved = f", saves {step['saves']}" if step["saves"] else ""
    source = f" <- {', '.join(step['reads'])}" if step["reads"] else ""
    yield (
        f"{'  ' * depth}{step['id']}: {step['operator']}{source}"
        f"  [{step['form']}, {step['pack']}/{step['rule']}, {step['rows']} rows, {step['cost']} ms{saved}]"
    )
    for i in step["inputs"]:
        yield from _tree(steps[i], steps, depth + 1, done)
