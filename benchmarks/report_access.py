"""Refreshes by size of table and of change, made from the JSON of a run; numbers come from there alone."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt

from benchmarks.data import ROOT

Figures = Mapping[str, Any]
PLOT = ROOT / "docs" / "plots" / "access.svg"
TITLES = {"lookup": "a projection with a look-up", "latest": "newest row of each key", "window": "joins and windows"}
mpl.rcParams["svg.hashsalt"] = "tidemill"  # the same figures give the same file


def sections(figures: Sequence[Figures], note: str) -> Iterator[tuple[str, list[str]]]:
    """The table with its plot; `note`: how and where it was measured."""
    _plot(figures)
    what = "Each refresh is divided by a full run of the same view. Medians; every view was verified."
    yield (
        "access",
        [
            "## By size of table and of change",
            "",
            f"{note} {what}",
            "",
            f"![ratios](plots/{PLOT.name})",
            "",
            *_table(figures),
        ],
    )


def _table(figures: Sequence[Figures]) -> Iterator[str]:
    yield "| view | result | facts | new facts | CPU ratio | wall ratio | rows read | of a full run | jobs | CPU ms |"
    yield "|---|---|" + "---:|" * 8
    for f in sorted(figures, key=lambda f: (list(TITLES).index(f["query"]), f["results"], f["facts"])):
        for change in sorted({r["change"] for r in f["refreshes"]}):
            own = _medians(f, change)
            full = f["full"]
            cpu, wall = own["cpu_ms"] / max(full["cpu_ms"], 1), own["wall_ms"] / full["wall_ms"]
            yield (
                f"| {f['query']} | {f['results']} | {f['facts']:,} | {change:,} | {cpu:.2f} | {wall:.2f} "
                f"| {own['rows_read']:,.0f} | {full['rows_read']:,.0f} | {own['jobs']:.0f} | {own['cpu_ms']:,.0f} |"
            )


def _medians(figures: Figures, change: int) -> dict[str, float]:
    rounds = [r for r in figures["refreshes"] if r["change"] == change]
    return {name: statistics.median(r[name] for r in rounds) for name in ("cpu_ms", "wall_ms", "jobs", "rows_read")}


def _plot(figures: Sequence[Figures]) -> None:
    """One panel per view: the ratio of wall times over the change as a share of the facts."""
    found = [query for query in TITLES if any(f["query"] == query for f in figures)]
    figure, panels = plt.subplots(
        1, len(found), figsize=(4 * len(found), 4), sharey=True, layout="constrained", squeeze=False
    )
    for axes, query in zip(panels[0], found, strict=True):
        for f in sorted((f for f in figures if f["query"] == query), key=lambda f: (f["results"], f["facts"])):
            changes = sorted({r["change"] for r in f["refreshes"]})
            ratios = [_medians(f, change)["wall_ms"] / f["full"]["wall_ms"] for change in changes]
            axes.plot(
                [c / f["facts"] for c in changes], ratios, marker="o", label=f"{f['results']}, {f['facts']:,} rows"
            )
        axes.axhline(1, color="grey", linewidth=0.8)
        axes.set(xscale="log", xlabel="new rows / rows of the table", title=TITLES[query], ylim=(0, None))
    panels[0][0].set_ylabel("time of a refresh / of a full run")
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    PLOT.parent.mkdir(exist_ok=True)
    figure.savefig(PLOT, metadata={"Date": None})
    plt.close(figure)
