"""The table in docs/benchmarks.md, made from the JSON of a run; numbers come from there alone."""

import json
import re
import statistics
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import report_tempura, report_upkeep
from benchmarks.data import ROOT

PAGE = ROOT / "docs" / "benchmarks.md"
TITLES = {
    "fill": "First filling against CREATE TABLE AS SELECT and a plain write of each kept state",
    "F": "Change F: 1 % of {facts}; 60 % new keys, 20 % deleted, 20 % updated",
    "R": "Change R: 1 % random rows of every table, same mix",
}
FACTS = {"tpch": "orders and their line items", "tpcds": "random rows of every table of facts"}
HEAD = "| query | CPU ms | full CPU ms | CPU ratio | wall ms | full wall ms | wall ratio | jobs | methods |"
OF_PARTS = {"tempura": report_tempura, "upkeep": report_upkeep}
"""Benchmarks whose parts are sections of their own."""
Figures = dict[str, Any]


def write(figures: Path, command: str) -> None:
    """Replace the sections of these figures in docs/benchmarks.md, or add them."""
    page = PAGE.read_text(encoding="utf-8") if PAGE.exists() else "# Benchmarks\n"
    for name, lines in sections(figures.stem, json.loads(figures.read_text()), command):
        start, end = f"<!-- {name}: generated -->", f"<!-- {name}: end -->"
        section = "\n".join([start, *lines, end])
        pattern = re.compile(re.escape(start) + ".*?" + re.escape(end), re.DOTALL)
        if start in page:
            # A function as replacement: its result is taken as it is, back-slashes too.
            page = pattern.sub(partial(_as_it_is, section), page)
        else:
            page = page.rstrip("\n") + "\n\n" + section + "\n"
    PAGE.write_text(page, encoding="utf-8")


def _as_it_is(section: str, _: re.Match[str]) -> str:
    return section


def sections(name: str, document: dict[str, Any], command: str) -> Iterable[tuple[str, Iterable[str]]]:
    """The parts of the page that a run's figures make, by name."""
    machine = document["machine_info"]
    cpu = machine.get("cpu", {}).get("brand_raw", "unknown CPU")
    note = f"`{command}`, {document['datetime'][:10]}, {cpu}, 2 task slots, Python\n{machine['python_version']}."
    figures: list[Figures] = [b["extra_info"] for b in document["benchmarks"] if b["extra_info"]]
    bench = name.split("-")[0]
    if bench in OF_PARTS:
        for part, lines in OF_PARTS[bench].sections(figures, note):
            yield f"{name} {part}", lines
    else:
        yield name, view_lines([f for f in figures if "query" in f], bench, note)


def view_lines(figures: Sequence[Figures], name: str, note: str) -> Iterable[str]:
    """How it was measured, then one table per kind of change."""
    yield f"## {name.upper()}, scale {figures[0]['scale']:g}, {figures[0]['policy']}"
    yield ""
    yield f"{note} Medians over the rounds, the first of each kind left out;"
    yield "every view was verified after every refresh."
    for change, title in TITLES.items():
        found = [f for f in figures if f["change"].rstrip("0123456789") == change]
        if found:
            yield from ["", f"### {title.format(facts=FACTS[name])}", "", *table(found)]


def table(figures: Sequence[Figures]) -> Iterable[str]:
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
