"""Tables of what ticks of the scheduler cost, and of how far views were behind, from a run's JSON alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Figures = Mapping[str, Any]
TICK = {
    "what": ("", ""),
    "views": ("views", ",.0f"),
    "due": ("due", ",.0f"),
    "wall_ms": ("wall ms", ",.0f"),
    "cpu_ms": ("CPU ms", ",.0f"),
    "jobs": ("jobs", ",.0f"),
    "each": ("wall ms of each", ",.2f"),
}
LOGS = {**{name: TICK[name] for name in ("what", "views")}, "entries": ("entries of a log", ",.0f"), **TICK}
FOLLOW = {
    "schedule": ("schedule", ""),
    "seconds": ("seconds", ",.0f"),
    "inserts": ("inserts", ",.0f"),
    "runs": ("runs", ",.0f"),
    "median_s": ("behind, median s", ",.1f"),
    "most_s": ("most s", ",.1f"),
}
MEANING = 'CPU is that of the planner and of its JVM, with jobs; "each" are the\nviews that are due, or all if none is.'


def sections(figures: Sequence[Figures], note: str) -> Iterator[tuple[str, list[str]]]:
    """Per part that was run its name and lines; `note`: how and where it was measured."""
    for part, title, columns in (
        ("tick", "A tick over many views", TICK),
        ("logs", "Ticks over logs of any length", LOGS),
        ("follow", "Ten minutes behind another process", FOLLOW),
    ):
        found = [row for f in figures if f["part"] == part for row in f["rows"]]
        if found:
            told = note if part == "follow" else f"{note} {MEANING}"
            yield part, [f"## {title}", "", told, "", *_table(found, columns)]


def _table(figures: Sequence[Figures], columns: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    yield f"| {' | '.join(title for title, _ in columns.values())} |"
    yield "|" + "".join("---:|" if form else "---|" for _, form in columns.values())
    for f in figures:
        row = {**f, "each": f["wall_ms"] / (f["due"] or f["views"])} if "views" in f else f
        yield f"| {' | '.join(f'{row[name]:{form}}' for name, (_, form) in columns.items())} |"
