"""Tables of the pipeline against plain Spark, made from the JSON of a run; numbers come from there alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Figures = Mapping[str, Any]
TOTALS = ("cpu_ms", "wall_ms", "rows_read", "jobs")
DEAR = 12
"""Views of a batch that are listed: those that cost most."""


def sections(figures: Sequence[Figures], note: str) -> Iterator[tuple[str, list[str]]]:
    """Per format of the results its name and lines; `note`: how and where it was measured."""
    for results in sorted({f["results"] for f in figures}):
        found = sorted((f for f in figures if f["results"] == results), key=lambda f: f["batch"])
        one = found[0]
        head = f"## Pipeline, scale {one['scale']:g}, {one['policy']}, results as {results}"
        yield (
            results,
            [head, "", f"{note} Every view was verified after every batch.", "", *_totals(found), "", *_views(found)],
        )


def _totals(figures: Sequence[Figures]) -> Iterator[str]:
    yield (
        "| batch | views at a time | CPU ms | ratio | wall ms | ratio | rows read | ratio | jobs | of plain Spark "
        "| no data | incremental | full |"
    )
    yield "|---:|" + "---:|" * 12
    for f in figures:
        kinds = Counter(view["kind"] for view in f["views"])
        ratios = {name: f[name] / max(f[f"full_{name}"], 1) for name in TOTALS}
        cells = [f"{f[name]:,.0f} | {ratios[name]:.2f}" for name in ("cpu_ms", "wall_ms", "rows_read")]
        batch = "filling" if f["batch"] == 1 else f["batch"]
        yield (
            f"| {batch} | {f['side_by_side']} | {' | '.join(cells)} | {f['jobs']:,} "
            f"| {f['full_jobs']:,} | {kinds['NO_DATA']} | {kinds['INCREMENTAL']} | {kinds['FULL']} |"
        )


def _views(figures: Sequence[Figures]) -> Iterator[str]:
    """The dearest views of the last batch that was refreshed one view at a time."""
    alone = [f for f in figures if f["batch"] > 1 and f["side_by_side"] == 1]
    if not alone:
        return
    last = alone[-1]
    yield f"The views that cost most in batch {last['batch']}:"
    yield ""
    yield "| layer | view | kind | reason | CPU ms | of plain Spark | ratio | rows read | of plain Spark | jobs |"
    yield "|---|---|---|---|" + "---:|" * 6
    for view in sorted(last["views"], key=lambda view: -view["cpu_ms"])[:DEAR]:
        read = view["rows_read"]
        yield (
            f"| {view['layer']} | {view['view']} | {view['kind']} | {view['reason'] or ''} | {view['cpu_ms']:,} "
            f"| {view['full_cpu_ms']:,.0f} | {view['cpu_ms'] / max(view['full_cpu_ms'], 1):.2f} "
            f"| {'' if read is None else f'{read:,}'} | {view['full_rows_read']:,} | {view['jobs']} |"
        )
