"""The estimated cost of a plan by step, the most expensive first, the costs of the alternatives, and what runs took."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tidemill.explain.spent import last_run, runs


def cost(shown: Mapping[str, Any]) -> str:
    """A line per step of each point: milliseconds, fraction of the sum, rows; then totals, alternatives, past runs."""
    return "\n".join(_lines(shown))


def _lines(shown: Mapping[str, Any]) -> Iterator[str]:
    estimated = shown["estimated"]
    yield from shown["notes"]
    yield f"cost model {estimated['model']}, milliseconds of executor CPU"
    for point in shown["points"]:
        steps = sorted(point["steps"], key=lambda s: (-s["cost"], s["id"]))
        total = sum(s["cost"] for s in steps)
        yield f"point {point['point']}: price {point['price']}, output {str(point['output']).lower()}"
        yield f"  {'ms':>12} {'share':>6} {'rows':>12}  step"
        for step in steps:
            share = f"{step['cost'] / total:.0%}" if total else ""
            yield f"  {step['cost']:>12.3f} {share:>6} {step['rows']:>12}  {step['id']}: {step['operator']}"
    yield (
        f"total {estimated['total']:.3f}, after the data is complete {estimated['final']:.3f}, priced "
        f"{estimated['priced']:.3f}; a step that several others read is counted for each of them"
    )
    yield f"rows read from files, without those of applying the change: {estimated['rows_read']}"
    for other in sorted(shown["alternatives"], key=lambda a: a["priced"]):
        times = f", {other['priced'] / estimated['priced']:.2f} times that" if estimated["priced"] else ""
        yield f"best of pack {other['pack']} (uses {', '.join(other['methods'])}): priced {other['priced']:.3f}{times}"
    if shown["last_run"] is not None:
        yield from last_run(shown["last_run"])
    yield from runs(shown["runs"])
