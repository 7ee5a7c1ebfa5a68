"""Tables of views against their queries, by kind of change, made from the JSON of a run."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tidemill.bridge.walls import PARTS
from tidemill.runtime.view.split import OTHER

Figures = Mapping[str, Any]
TITLES = {"fill": "first filling", "F": "change F", "R": "change R"}
WHAT = {
    "fill": "Against CREATE TABLE AS SELECT and a plain write of each kept state.",
    "F": "1 % of {facts}; 60 % new keys, 20 % deleted, 20 % updated.",
    "R": "1 % random rows of every table, same mix.",
}
FACTS = {"tpch": "orders and their line items", "tpcds": "random rows of every table of facts"}
HEAD = "| query | CPU ms | full CPU ms | CPU ratio | wall ms | full wall ms | wall ratio | jobs | methods |"


def sections(figures: Sequence[Figures], note: str) -> Iterator[tuple[str, list[str]]]:
    """Per kind of change that was run its name and lines; `note`: how and where it was measured."""
    for change, title in TITLES.items():
        found = [f for f in figures if f["change"].rstrip("0123456789") == change]
        if found:
            bench = found[0]["bench"]
            head = f"## {bench.upper()}, scale {found[0]['scale']:g}, {found[0]['policy']}: {title}"
            measured = f"{note} Medians over the rounds, the first left out; every view was verified."
            what = WHAT[change].format(facts=FACTS[bench])
            yield change, [head, "", what, "", measured, "", *_table(found), "", *_parts(found)]


def _table(figures: Sequence[Figures]) -> Iterator[str]:
    """One line per query and the geometric means of the ratios: of those whose sources changed, for without a change a
    refresh costs nothing."""
    yield HEAD
    yield "|---|---:|---:|---:|---:|---:|---:|---:|---|"
    ratios: list[tuple[float, float]] = []
    for query in sorted({f["query"] for f in figures}):
        rounds = [f for f in figures if f["query"] == query]
        cpu, full_cpu, wall, full_wall, jobs = (
            statistics.median(f[name] for f in rounds)
            for name in ("cpu_ms", "full_cpu_ms", "wall_ms", "full_wall_ms", "jobs")
        )
        if all(f["kind"] == "NO_DATA" for f in rounds):
            yield f"| {query} | | {full_cpu:,.0f} | | {wall:,.0f} | {full_wall:,.0f} | | {jobs:.0f} | no data |"
            continue
        # The ratio of each round, then the median: refresh and recomputing of one round met the same tables.
        ratio = statistics.median(f["cpu_ms"] / max(f["full_cpu_ms"], 1) for f in rounds)
        wall_ratio = statistics.median(f["wall_ms"] / f["full_wall_ms"] for f in rounds)
        ratios.append((ratio, wall_ratio))
        methods = " ".join(sorted({m for f in rounds for m in f["methods"]}))
        yield (
            f"| {query} | {cpu:,.0f} | {full_cpu:,.0f} | {ratio:.2f} | {wall:,.0f} | {full_wall:,.0f} "
            f"| {wall_ratio:.2f} | {jobs:.0f} | {methods} |"
        )
    cpu_mean, wall_mean = (
        statistics.geometric_mean(max(r, 1e-6) for r in column) for column in zip(*ratios, strict=True)
    )
    yield f"| geometric mean | | | {cpu_mean:.2f} | | | {wall_mean:.2f} | | |"


def _parts(figures: Sequence[Figures]) -> Iterator[str]:
    """Where the wall time of all runs together went, in percent; parts of less than one are left out."""
    ran = [f for f in figures if f["kind"] != "NO_DATA"]
    sums = {part: sum(f["parts"].get(part, 0) for f in ran) for part in (*PARTS, OTHER)}
    whole = max(1, sum(sums.values()))
    told = ", ".join(f"{part} {100 * ms / whole:.0f} %" for part, ms in sums.items() if ms >= whole / 100)
    yield f"Wall time of these runs by [part](runs.md#where-the-time-of-a-run-goes): {told}."
