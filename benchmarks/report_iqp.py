"""Tables and a plot of what states cost and save, from a run's JSON; numbers come from there alone."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt

from benchmarks.data import ROOT

Figures = Mapping[str, Any]
PLOT = ROOT / "docs" / "plots" / "iqp-states.svg"
EQUAL = 1 + 1e-6
"""Estimates of one plan differ by less."""
mpl.rcParams["svg.hashsalt"] = "tidemill"  # the same figures give the same file
BUDGETS = {
    "query": "query",
    "share": "share of all",
    "budget": "budget",
    "state_bytes": "most bytes kept",
    "estimated_ms": "likely run, estimated",
    "cpu_ms": "CPU ms",
    "full_ms": "full CPU ms",
    "ratio": "ratio",
    "last_ms": "last four",
    "last_full_ms": "full",
    "last_ratio": "ratio, last four",
    "kinds": "kinds, last four",
}
CLEANING = {
    "table": "table",
    "first_ms": "first refresh, told",
    "told_ms": "CPU ms, told",
    "untold_ms": "CPU ms, not told",
    "full_ms": "full CPU ms",
    "told_bytes": "bytes, told",
    "untold_bytes": "bytes, not told",
}
DELETES = {
    "query": "query",
    "share": "share of deletes",
    "cpu_ms": "CPU ms",
    "full_ms": "full CPU ms",
    "ratio": "CPU ratio",
}
WAYS = {
    "chosen": "Tidemill",
    "searched": "by search alone",
    "best": "best of all sets",
    "programme": "the paper's programme",
    "cache": "a cache",
    "every": "every state",
    "anew": "computed anew",
}
"""The ways to choose states."""
STATES = {
    "query": "query",
    "share": "budget, share",
    "budget": "budget, bytes",
    "candidates": "candidates",
    **WAYS,
    "every_bytes": "bytes of every state",
}
KINDS = {
    "query": "query",
    "kind": "may be kept",
    "candidates": "candidates",
    "states": "kept",
    "bytes": "bytes",
    "run_ms": "likely run",
    "filling_ms": "first filling",
}
PARTS: Mapping[str, tuple[str, str, Mapping[str, str]]] = {
    "budgets": (
        "Budgets of states",
        "Changes F of 1 %; the budget as a share of what a view without one keeps; medians over the rounds, the first"
        " left out, and over the last four alone, when AUTO has tried what it was not sure of; each view was verified"
        " after each refresh, and none took more than its budget.",
        BUDGETS,
    ),
    "cleaning": (
        "Tables cleaned one after another",
        "TPC-H 8; one per cent of one table updated before each refresh; told: SET EXPECT said which table is next.",
        CLEANING,
    ),
    "deletes": ("Shares of deletes", "1 % of orders and their line items, deleted or inserted.", DELETES),
    "chosen": (
        "States within a budget, chosen in several ways",
        "CPU milliseconds of a likely run and of its part of making the states, as estimated; the budget as a share of"
        " what is kept without one. The baselines are ours, after the paper of IQP. By search alone: Tidemill, if it"
        " never tries all sets. Every state takes more than these budgets. Computed anew: a run that reads the sources"
        " alone.",
        STATES,
    ),
    "kinds": (
        "Kinds of states",
        "CPU milliseconds as estimated, without a budget: of a likely run with the best states of one kind, and of the"
        " first filling that makes them.",
        KINDS,
    ),
}


def sections(figures: Sequence[Figures], note: str) -> Iterator[tuple[str, list[str]]]:
    """Per part that was run its name and lines; `note`: how and where it was measured."""
    for part, (title, about, columns) in PARTS.items():
        found = [row for f in figures if f["part"] == part for row in f["rows"]]
        if found:
            more = MORE[part](found) if part in MORE else ()
            yield part, [f"## {title}", "", about, "", note, "", *more, *_table(found, columns)]


def _compared(rows: Sequence[Figures]) -> Iterator[str]:
    """How far the ways to choose are from the best set, and their plot."""
    known = [row for row in rows if row.get("best") is not None]
    if known:
        best = sum(row["chosen"] <= row["best"] * EQUAL for row in known)
        search = sum(row["searched"] <= row["best"] * EQUAL for row in known)
        yield f"Of {len(known)} cells in which all sets were weighed, Tidemill's choice is the best one in {best}, and"
        yield f"in {search} if its search never tries all sets, as it does for up to eight candidates."
    above = {way: [row[way] / row["chosen"] - 1 for row in rows] for way in ("programme", "cache")}
    told = {
        way: f"up to {max(each):.0%} above in {sum(1 + a > EQUAL for a in each)} of {len(each)} cells"
        for way, each in above.items()
    }
    yield f"Against it the paper's programme is {told['programme']}, the cache {told['cache']}."
    less = sum(row["anew"] < row["chosen"] for row in rows)
    yield f"To compute all anew is estimated to be cheaper in {less}."
    _plot(rows)
    yield from ["", f"![states within a budget](plots/{PLOT.name})", ""]


def _plot(rows: Sequence[Figures]) -> None:
    """One panel per query: the cost of a likely run over budgets, in each way to choose."""
    queries = list(dict.fromkeys(row["query"] for row in rows))
    figure, panels = plt.subplots(1, len(queries), figsize=(3 * len(queries), 3.5), layout="constrained", squeeze=False)
    for axes, query in zip(panels[0], queries, strict=True):
        own = [row for row in rows if row["query"] == query]
        for place, (way, label) in enumerate(WAYS.items()):
            if way != "searched" and all(row.get(way) is not None for row in own):
                style = "--" if way in {"every", "anew"} else "-"
                width = max(7.0 - 1.5 * place, 1.0)  # equal costs lie upon each other
                axes.plot([row["share"] for row in own], [row[way] for row in own], style, linewidth=width, label=label)
        axes.set(title=f"TPC-H {query}", xlabel="budget", ylim=(0, None))
    panels[0][0].set_ylabel("CPU ms, estimated")
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=6)
    PLOT.parent.mkdir(exist_ok=True)
    figure.savefig(PLOT, metadata={"Date": None})
    plt.close(figure)


MORE: Mapping[str, Callable[[Sequence[Figures]], Iterator[str]]] = {"chosen": _compared}
"""What stands between the note of a part and its table."""


def _table(rows: Sequence[Figures], columns: Mapping[str, str]) -> Iterator[str]:
    yield f"| {' | '.join(columns.values())} |"
    yield "|" + "---:|" * len(columns)
    for row in rows:
        ratios = {"ratio": _ratio(row, "cpu_ms", "full_ms"), "last_ratio": _ratio(row, "last_ms", "last_full_ms")}
        yield f"| {' | '.join(_cell({**row, **ratios}.get(name)) for name in columns)} |"


def _ratio(row: Figures, of: str, to: str) -> str:
    return f"{row[of] / row[to]:.2f}" if row.get(of) is not None and row.get(to) else ""


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if isinstance(value, int | float) else str(value)
