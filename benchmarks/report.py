"""The table in docs/benchmarks.md, made from the JSON of a run; numbers come from there alone."""

import json
import re
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import (
    report_access,
    report_clock,
    report_decisions,
    report_floor,
    report_iqp,
    report_pipeline,
    report_tempura,
    report_upkeep,
    report_views,
)
from benchmarks.data import ROOT

PAGE = ROOT / "docs" / "benchmarks.md"
REPORTS = {
    "access": report_access,
    "clock": report_clock,
    "decisions": report_decisions,
    "floor": report_floor,
    "iqp": report_iqp,
    "pipeline": report_pipeline,
    "tempura": report_tempura,
    "tpcds": report_views,
    "tpch": report_views,
    "upkeep": report_upkeep,
}
"""By benchmark what makes sections of its figures."""
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
    for part, lines in REPORTS[name.split("-")[0]].sections(figures, note):
        yield f"{name} {part}", lines
