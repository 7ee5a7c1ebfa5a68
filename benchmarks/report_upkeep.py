"""Tables of what runs cost as logs and listings grow, made from the JSON of a run; numbers come from there alone."""

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


def sections(figures: Sequence[Figures], note: str) -> Iterator[tuple[str, list[str]]]:
    """Per part that was run its name and lines; `note`: how and where it was measured."""
    for part, title, columns in (
        ("year", "A year of refreshes every five minutes", YEAR),
        ("listing", "Folders of many small files", LISTING),
    ):
        found = [f for f in figures if f["part"] == part]
        if found:
            yield part, [f"## {title}", "", f"{note} Wall milliseconds.", "", *_table(found, columns)]


def _table(figures: Sequence[Figures], columns: Mapping[str, str]) -> Iterator[str]:
    yield f"| {' | '.join(columns.values())} |"
    yield "|" + "---:|" * len(columns)
    for f in figures:
        yield f"| {' | '.join(f'{f[name]:,.0f}' for name in columns)} |"
