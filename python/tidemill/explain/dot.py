"""The plan as a graph in the DOT language of Graphviz: data flows along the arrows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def dot(shown: Mapping[str, Any]) -> str:
    """The graph: steps as boxes in one cluster per point, leaves as ellipses, states as cylinders."""
    return "\n".join(("digraph plan {", '  rankdir="BT";', '  node [shape="box"];', *_body(shown), "}"))


def _body(shown: Mapping[str, Any]) -> Iterator[str]:
    drawn: set[str] = set()
    for point in shown["points"]:
        number, price = point["point"], point["price"]
        yield f"  subgraph cluster_{number} {{"
        yield f"    label={_quoted(f'point {number}, price {price}')};"
        for step in point["steps"]:
            label = (
                f"{step['id']}: {step['operator']}\n{step['pack']}/{step['rule']}, {step['form']}\n"
                f"{step['rows']} rows, {step['cost']} ms"
            )
            yield f"    {_step(number, step['id'])} [label={_quoted(label)}];"
        yield "  }"
        for step in point["steps"]:
            here = _step(number, step["id"])
            yield from (f"  {_step(number, i)} -> {here};" for i in step["inputs"])
            for name in step["reads"]:
                if name not in drawn:
                    drawn.add(name)
                    shape = "cylinder" if name.startswith("state ") else "ellipse"
                    yield f"  {_quoted(name)} [shape={_quoted(shape)}];"
                yield f"  {_quoted(name)} -> {here};"
            if step["saves"]:
                saved = f"new state {step['saves']}"
                yield f'  {_quoted(saved)} [shape="cylinder"];'
                yield f"  {here} -> {_quoted(saved)};"


def _step(point: int, number: int) -> str:
    return f"step_{point}_{number}"


def _quoted(text: str) -> str:
    r"""A string of the DOT language.

    >>> print(_quoted('a "b" \\ c'))
    "a \"b\" \\ c"
    """
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
