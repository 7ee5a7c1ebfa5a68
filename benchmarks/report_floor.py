"""Tables of what one-row refreshes cost, made from the JSON of a run; numbers come from there alone."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.floor import SHAPES
from tidemill.bridge.walls import PARTS
from tidemill.runtime.view.split import OTHER

Figures = Mapping[str, Any]
COLUMNS = (
    *("rows", "refresh", "by hand", "ratio"),
    *("CPU ms", "CPU by hand", "jobs", "jobs by hand", "nothing due"),
)
SHOWN = (*PARTS, OTHER)


def sections(figures: Sequence[Figures], note: str) -> Iterator[tuple[str, list[str]]]:
    """The tables; `note`: how and where it was measured."""
    found = sorted(figures, key=lambda f: (f["rows"], list(SHAPES).index(f["shape"]), f["results"]))
    what = "Medians in milliseconds of wall time, as the statement's user sees it; every view was verified."
    yield (
        "floor",
        [
            "## The floor: a change of one row",
            "",
            f"{note} {what}",
            "",
            *_ratios(found),
            "",
            "Where the time of these refreshes went, by [part](runs.md#where-the-time-of-a-run-goes):",
            "",
            *_parts(found),
        ],
    )


def _ratios(figures: Sequence[Figures]) -> Iterator[str]:
    yield f"| view | result | {' | '.join(COLUMNS)} |"
    yield "|---|---|" + "---:|" * len(COLUMNS)
    for f in figures:
        own, hand = _median(f, "statement_ms"), _median(f, "hand_ms")
        yield (
            f"| {f['shape']} | {f['results']} | {f['rows']:,} | {own:,.0f} | {hand:,.0f} | {own / hand:.2f} "
            f"| {_median(f, 'cpu_ms'):,.0f} | {_median(f, 'hand_cpu_ms'):,.0f} | {_median(f, 'jobs'):.0f} "
            f"| {_median(f, 'hand_jobs'):.0f} | {f['nothing_ms']:,.0f} |"
        )


def _parts(figures: Sequence[Figures]) -> Iterator[str]:
    yield f"| view | result | rows | {' | '.join(SHOWN)} |"
    yield "|---|---|" + "---:|" * (1 + len(SHOWN))
    for f in figures:
        parts = (statistics.median(run["parts"].get(part, 0) for run in f["refreshes"]) for part in SHOWN)
        yield f"| {f['shape']} | {f['results']} | {f['rows']:,} | {' | '.join(f'{ms:,.0f}' for ms in parts)} |"


def _median(figures: Figures, name: str) -> float:
    return float(statistics.median(run[name] for run in figures["refreshes"]))
