"""Tables of what states cost and save, from a run's JSON; numbers come from there alone."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Figures = Mapping[str, Any]
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
}


def sections(figures: Sequence[Figures], note: str) -> Iterator[tuple[str, list[str]]]:
    """Per part that was run its name and lines; `note`: how and where it was measured."""
    for part, (title, about, columns) in PARTS.items():
        found = [row for f in figures if f["part"] == part for row in f["rows"]]
        if found:
            yield part, [f"## {title}", "", about, "", note, "", *_table(found, columns)]


def _table(rows: Sequence[Figures], columns: Mapping[str, str]) -> Iterator[str]:
    yield f"| {' | '.join(columns.values())} |"
    yield "|" + "---:|" * len(columns)
    for row in rows:
        ratios = {"ratio": _ratio(row, "cpu_ms", "full_ms"), "last_ratio": _ratio(row, "last_ms", "last_full_ms")}
        yield f"| {' | '.join(_cell({**row, **ratios}[name]) for name in columns)} |"


def _ratio(row: Figures, of: str, to: str) -> str:
    return f"{row[of] / row[to]:.2f}" if row.get(of) is not None and row.get(to) else ""


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if isinstance(value, int | float) else str(value)
