"""Tables of what runs cost as logs, listings and sessions grow, from a run's JSON; numbers come from there alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Figures = Mapping[str, Any]

YEAR = {
    "runs": "runs so far",
    "rows_ms": "one row came",
    "nothing_ms": "nothing came",
    "plan_ms": "EXPLAIN",
    "history_ms": "SHOW REFRESHES",
    "vacuum_ms": "VACUUM",
    "jobs": "jobs",
}
LISTING = {
    "files": "files",
    "rows_ms": "one file came",
    "cpu_ms": "its CPU",
    "jobs": "jobs",
    "nothing_ms": "nothing came",
    "spark_ms": "Spark's own listing",
    "log_bytes": "bytes of the log",
}
WALL = "Wall milliseconds."
MEMORY = {"heap_mib": "MiB of heap", "python_mib": "MiB of the planner"}
SESSION = {"refreshes": "refreshes", "rows_ms": "one row came", "files": "files of the view", **MEMORY}
VIEWS = {
    "views": "views",
    "all_ms": "all of them, each",
    "rows_ms": "one of them",
    "nothing_ms": "nothing came",
    **MEMORY,
}
CYCLES = {
    "view": "view",
    "cycle": "cycle",
    "worked": "early runs that worked",
    "states": "states",
    "pieces": "most pieces of a state",
    "files": "files of states",
    "kib": "KiB of states",
    "early_ms": "CPU, early",
    "due_ms": "CPU, due",
}


def sections(figures: Sequence[Figures], note: str) -> Iterator[tuple[str, list[str]]]:
    """Per part that was run its name and lines; `note`: how and where it was measured."""
    for part, title, columns in (
        ("year", "A year of refreshes every five minutes", YEAR),
        ("listing", "Folders of many small files", LISTING),
        ("session", "Five hundred refreshes in a session", SESSION),
        ("views", "Two hundred views in a session", VIEWS),
        ("cycles", "A hundred cycles with early work", CYCLES),
    ):
        found = [row for f in figures if f["part"] == part for row in f.get("rows", [f])]
        if found:
            unit = "CPU milliseconds are medians of the cycles since the row above." if part == "cycles" else WALL
            yield part, [f"## {title}", "", f"{note} {unit}", "", *_table(found, columns)]


def _table(figures: Sequence[Figures], columns: Mapping[str, str]) -> Iterator[str]:
    yield f"| {' | '.join(columns.values())} |"
    texts = {name for name in columns if any(isinstance(f[name], str) for f in figures)}
    yield "|" + "".join("---|" if name in texts else "---:|" for name in columns)
    for f in figures:
        yield f"| {' | '.join(f[name] if name in texts else f'{f[name]:,.0f}' for name in columns)} |"
