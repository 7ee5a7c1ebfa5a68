"""Tables of the planner's decisions, made from the JSON of a run; numbers come from there alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.decisions.judged import (
    AUTO,
    LIMIT,
    Cell,
    Choices,
    Estimates,
    Noise,
    Run,
    choices,
    noise,
    of_rows,
    of_runs,
    of_steps,
)

Figures = Mapping[str, Any]
GROUPS = {"one row": ("one row",), "up to 1 %": ("0.1 %", "1 %"), "10 % and more": ("10 %", "30 %")}
"""Cells by the size of their change."""


def sections(figures: Sequence[Figures], note: str) -> Iterator[tuple[str, list[str]]]:
    """A section per ground; `note`: how and where it was measured."""
    found: dict[str, list[Cell]] = defaultdict(list)
    for f in figures:
        for cell in f.get("cells", ()):
            found[f"{cell['suite']} {cell['size']}"].append(Cell(cell))
    for name, cells in found.items():
        yield name, [*_ground(name, cells, note)]


def _ground(name: str, cells: Sequence[Cell], note: str) -> Iterator[str]:
    known = noise(cells)
    yield from [f"## Decisions: {name}", "", note, ""]
    yield "CPU milliseconds, medians. Runs that had the same plan count together, whichever alternative had it. Nine of"
    yield f"ten pairs of equal views are at most {known.ms:,.0f} ms apart, or {known.share:.0%} from 500 ms on: noise."
    yield ""
    yield from _shares(cells, known)
    yield ""
    yield from _table(cells, known)
    if above := [c for c in cells if c.regret > LIMIT]:
        above.sort(key=lambda c: (c.right(known), -c.regret))
        told = (f"{c.name} ({c.regret:.2f}{', noise' * c.right(known)})" for c in above)
        yield from ["", f"Above {LIMIT} times the best: {'; '.join(told)}."]
    yield from ["", "Estimates, measured / estimated:", ""]
    yield from _estimates(cells)


def _shares(cells: Sequence[Cell], known: Noise) -> Iterator[str]:
    yield f"| changes | cells | within 10 % | or within noise | regret, mean | 95 % | above {LIMIT} | most | in |"
    yield "|---|" + "---:|" * 7 + "---|"
    groups = {"all": cells} | {
        title: [c for c in cells if c.figures["change"].split(",")[0] in sizes] for title, sizes in GROUPS.items()
    }
    for title, some in groups.items():
        if some:
            yield _share(title, choices(some, known))


def _share(title: str, found: Choices) -> str:
    return (
        f"| {title} | {found.cells} | {found.near:.0%} | {found.right:.0%} | {found.mean:.2f} | {found.most_95:.2f}"
        f" | {found.above} | {found.worst:.2f} | {found.worst_cell} |"
    )


def _table(cells: Sequence[Cell], known: Noise) -> Iterator[str]:
    yield "| view | change | AUTO took | CPU | best | CPU | regret | full | incremental | wall, AUTO | wall, best | |"
    yield "|---|---|---|---:|---|---:|---:|---:|---:|---:|---:|---|"
    for cell in cells:
        best = cell.best
        mark = "" if cell.right() else ("noise" if cell.right(known) else "**wrong**")
        shown = [cell.figures["view"], cell.figures["change"], taken(cell.measured), _ms(cell.auto), best]
        shown += [_ms(cell.costs[best]), f"{cell.regret:.2f}", _ms(cell.costs.get("full"))]
        shown += [
            _ms(cell.costs.get("incremental")),
            _ms(cell.of(AUTO, "wall_ms")),
            _ms(cell.of(best, "wall_ms")),
            mark,
        ]
        yield f"| {' | '.join(shown)} |"


def taken(runs: Sequence[Run]) -> str:
    """The kind of AUTO's most frequent plan, with its packs unless it is full."""
    ((kind, methods), _) = Counter(
        (r["kind"], tuple(r["methods"])) for r in runs if r["alternative"] == AUTO
    ).most_common(1)[0]
    return kind.lower() if kind == "FULL" or not methods else " ".join(methods)


def _ms(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def firsts(cells: Sequence[Cell]) -> tuple[list[Run], list[Run]]:
    """The first run of each view of each alternative, and all later ones; without runs in which nothing had changed."""
    first: list[Run] = []
    later: list[Run] = []
    seen: set[tuple[str, str, str, str]] = set()
    for cell in cells:
        for run in cell.runs:
            key = (cell.figures["suite"], cell.figures["size"], cell.figures["view"], run["alternative"])
            if run["kind"] in {"FULL", "INCREMENTAL"}:
                (later if key in seen else first).append(run)
                seen.add(key)
    return first, later


def _estimates(cells: Sequence[Cell]) -> Iterator[str]:
    first, later = firsts(cells)
    yield "| estimates | number, first | within 2 times | median | number, later | within 2 times | median |"
    yield "|---|" + "---:|" * 6
    for title, of, kinds in (
        ("incremental runs", of_runs, {"INCREMENTAL"}),
        ("full runs", of_runs, {"FULL"}),
        ("steps of them, CPU", of_steps, {"INCREMENTAL", "FULL"}),
        ("steps of them, rows", of_rows, {"INCREMENTAL", "FULL"}),
    ):
        shown = [_told(of(run for run in runs if run["kind"] in kinds)) for runs in (first, later)]
        yield f"| {title} | {' | '.join(shown)} |"


def _told(found: Estimates | None) -> str:
    return " | | " if found is None else f"{found.number} | {found.within:.0%} | {found.middle:.2f}"
