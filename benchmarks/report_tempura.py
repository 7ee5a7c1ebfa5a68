"""Tables and plots of Tempura's experiments, made from the JSON of a run; numbers come from there alone."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias

import matplotlib as mpl
from matplotlib import pyplot as plt

from benchmarks.data import ROOT
from benchmarks.tempura import ALL, METHODS, RECOMPUTE, SCENARIOS, Figures, alike

PLOTS = ROOT / "docs" / "plots"
NEAR = 1.1
"""Within 10 % of the best is as good as the best."""
EQUAL = 1e-6
"""Estimates of one plan differ by less."""
Maker: TypeAlias = Callable[[Sequence[Figures], str], Iterator[str]]
mpl.rcParams["svg.hashsalt"] = "tidemill"  # the same figures give the same file


def sections(figures: Sequence[Figures], note: str) -> Iterator[tuple[str, list[str]]]:
    """Per part that was run its name and lines; `note`: how and where it was measured. Of the grid, which takes hours,
    each scenario is a part."""
    parts: dict[str, list[Figures]] = defaultdict(list)
    for f in figures:
        parts[f"grid {f['scenario']}" if f["part"] == "grid" else f["part"]].append(f)
    makers: Mapping[str, Maker] = {
        "example": _example,
        "planning": _planning,
        "grid": partial(_grid, figures),
        "estimates": _estimates,
    }
    for part, found in parts.items():
        yield part, [*makers[part.split()[0]](found, note)]


def _example(figures: Sequence[Figures], note: str) -> Iterator[str]:
    yield from ["## The papers' running example", "", note, ""]
    yield "Tuples at the first point, at the second, and priced, of each method's own plan and of the chosen one."
    yield ""
    packs = ("delta", "positive_negative", "recompute")
    yield from _header(["downstream", "data", "price", *packs, "chosen", "methods"])
    for f in figures:
        costs = [*(f["costs"][pack] for pack in packs), f["chosen"]]
        cells = [f"{one:g} + {two:g} = {priced:g}" for priced, one, two in costs]
        yield f"| {f['aggregate']} | {f['name']} | {f['price']} | {' | '.join(cells)} | {' '.join(f['methods'])} |"


def _header(names: Sequence[str]) -> Iterator[str]:
    yield f"| {' | '.join(names)} |"
    yield "|" + "---|" * len(names)


def _estimates(figures: Sequence[Figures], note: str) -> Iterator[str]:
    above = [f for f in figures if not at_or_below_all(f["priced"])]
    yield from [f"## Tempura: all cells by estimate; scale {figures[0]['scale']:g}", "", note, ""]
    yield f"All methods together, of {len(figures)} cells: at or below every single one in {len(figures) - len(above)}."
    yield "Shares of IM-1, whose cost is in CPU milliseconds."
    yield ""
    yield from _header(["objective", "arrival", "query", *METHODS, "IM-1, CPU ms", ""])
    for f in figures:
        priced = f["priced"]
        ratios = [f"{priced[method] / max(priced['IM-1'], 1e-9):.2f}" for method in METHODS]
        told = [f["scenario"], f["arrival"], f["query"], *ratios, f"{priced['IM-1']:,.0f}", "**above**" * (f in above)]
        yield f"| {' | '.join(told)} |"


def at_or_below_all(priced: Mapping[str, float]) -> bool:
    """Whether all methods together cost no more than each by itself, and than to compute all anew.

    >>> at_or_below_all({"IM-1": 2.0, "recompute": 3.0, "all": 2.0}), at_or_below_all({"IM-1": 1.0, "all": 1.1})
    (True, False)
    """
    return priced[ALL] <= min(cost for method, cost in priced.items() if method != ALL) * (1 + EQUAL)


class _Cell:
    """One cell of the grid: figures by method, each round's.

    Methods whose estimates and numbers of jobs agree in both runs have the same plan. What is measured of one is
    measured of all: their rounds count together, or the best of five equal ones would be the luckiest.

    `others`: figures of the same queries and arrivals for another price, which count where the plan is the same.
    """

    def __init__(self, figures: Sequence[Figures], others: Sequence[Figures]) -> None:
        self._scenario = SCENARIOS[figures[0]["scenario"]]
        self._all = (*figures, *others)
        self._by_method: dict[str, list[Figures]] = defaultdict(list)
        for f in figures:
            self._by_method[f["method"]].append(f)

    def rounds(self, method: str) -> int:
        return len(self._by_method.get(method, ()))

    def of(self, method: str, name: str) -> float:
        """The median over the rounds of what is estimated or measured."""
        return statistics.median(self._priced(f, name) for f in self._by_plan(method))

    def _priced(self, f: Figures, name: str) -> float:
        first, last = (float((f[run] or {}).get(COMPARED[name]) or 0.0) for run in ("first", "last"))
        return self._scenario.priced(first, last)

    def _by_plan(self, method: str) -> list[Figures]:
        return [f for f in self._all if alike(self._by_method[method][0], f)]

    def alike(self, method: str, other: str) -> bool:
        """Whether two methods have the same plan."""
        return alike(self._by_method[method][0], self._by_method[other][0])

    def range(self, method: str) -> tuple[float, float]:
        measured = [self._priced(f, "measured") for f in self._by_plan(method)]
        return min(measured), max(measured)

    def state_bytes(self, method: str) -> float:
        return statistics.median(float(f["last"]["state_bytes"] or 0) for f in self._by_method[method])

    def best(self, name: str) -> str:
        """The incremental method alone with the least."""
        return min((m for m in METHODS if m not in {ALL, RECOMPUTE}), key=lambda m: self.of(m, name))

    def relative(self, method: str, name: str) -> float:
        """Against IM-1, as the paper shows it."""
        return self.of(method, name) / max(self.of("IM-1", name), 1e-9)

    @property
    def holds_by_estimate(self) -> bool:
        return self.of(ALL, "estimated") <= self.of(self.best("estimated"), "estimated") * (1 + EQUAL)

    @property
    def holds_by_measurement(self) -> bool:
        return self.of(ALL, "measured") <= NEAR * self.of(self.best("measured"), "measured")

    @property
    def tie(self) -> bool:
        """The rounds of both overlap."""
        return self.range(ALL)[0] <= self.range(self.best("measured"))[1]


def _grid(everything: Sequence[Figures], figures: Sequence[Figures], note: str) -> Iterator[str]:
    scenario = figures[0]["scenario"]
    cells: dict[tuple[str, str], list[Figures]] = defaultdict(list)
    others: dict[tuple[str, str], list[Figures]] = defaultdict(list)
    for f in figures:
        cells[f["arrival"], f["query"]].append(f)
    for f in everything:
        priced = f["part"] == "grid" and None not in {SCENARIOS[f["scenario"]].price, SCENARIOS[scenario].price}
        if priced and f["scenario"] != scenario:
            others[f["arrival"], f["query"]].append(f)
    found = {key: _Cell(each, others[key]) for key, each in cells.items()}
    by_estimate = sum(c.holds_by_estimate for c in found.values())
    near = sum(c.holds_by_measurement for c in found.values())
    tied = sum(c.holds_by_measurement or c.tie for c in found.values())
    title = f"## Tempura: each method alone, and all together, {TOLD[scenario]}; scale {figures[0]['scale']:g}"
    yield from [title, "", note, ""]
    yield f"All together, of {len(found)} cells: at or below the best single method by estimate in {by_estimate};"
    yield f"best or within 10 % by measurement in {near}, with cells whose rounds overlap in {tied}."
    less = {name: sum(c.of(ALL, name) <= c.of(RECOMPUTE, name) for c in found.values()) for name in COMPARED}
    yield f"At or below computing all anew in {less['estimated']} by estimate, in {less['measured']} by measurement."
    own = sum(not any(c.alike(ALL, m) for m in METHODS if m != ALL) for c in found.values())
    yield f"A plan that no method alone has in {own}; who has the same plan shares its rounds, for whichever price."
    yield ""
    yield "Estimated / measured, as shares of IM-1."
    yield ""
    yield from _header(["arrival", "query", *METHODS, "IM-1, CPU ms"])
    for (arrival, query), cell in found.items():
        ratios = [f"{cell.relative(m, 'estimated'):.2f} / {cell.relative(m, 'measured'):.2f}" for m in METHODS]
        yield f"| {arrival} | {query} | {' | '.join(ratios)} | {cell.of('IM-1', 'measured'):,.0f} |"
    plot = f"tempura-grid-{scenario}.svg"
    _bars(found, PLOTS / plot, scenario)
    yield from ["", f"![{scenario}](plots/{plot})"]
    yield from _states(found)
    yield from _misled(found, figures)


COMPARED = {"estimated": "estimated_cost", "measured": "cpu_ms"}
"""What methods are compared by, as it is called of a run."""
TOLD = {
    name: "the second run's cost" if s.price is None else f"both runs' cost, the first at {s.price:g}"
    for name, s in SCENARIOS.items()
} | {name: "the cost vector from the last run backwards" for name, s in SCENARIOS.items() if s.last}


def _states(cells: Mapping[tuple[str, str], _Cell]) -> Iterator[str]:
    if not any(cell.state_bytes(method) for cell in cells.values() for method in METHODS):
        return
    yield from ["", "### Bytes of the states after the second run", ""]
    yield from _header(["arrival", "query", *METHODS])
    for (arrival, query), cell in cells.items():
        yield f"| {arrival} | {query} | {' | '.join(f'{cell.state_bytes(m):,.0f}' for m in METHODS)} |"


def _misled(cells: Mapping[tuple[str, str], _Cell], figures: Sequence[Figures]) -> Iterator[str]:
    """Where the planner was told another pattern than the one that came."""
    told = sorted({f["method"] for f in figures} - set(METHODS))
    if not told:
        return
    yield from ["", "### Wrong estimates: measured, as shares of IM-1", ""]
    yield from _header(["arrival", "query", "best single", ALL, *told])
    for (arrival, query), cell in cells.items():
        if all(cell.rounds(method) for method in told):
            ratios = [f"{cell.relative(m, 'measured'):.2f}" for m in (cell.best("measured"), ALL, *told)]
            yield f"| {arrival} | {query} | {' | '.join(ratios)} |"


def _bars(cells: Mapping[tuple[str, str], _Cell], path: Path, title: str) -> None:
    """Measured shares of IM-1: a group of bars per cell."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure, axes = plt.subplots(figsize=(max(6.0, 0.7 * len(cells)), 4), layout="constrained")
    width = 0.8 / len(METHODS)
    for i, method in enumerate(METHODS):
        heights = [cell.relative(method, "measured") for cell in cells.values()]
        axes.bar([x + i * width for x in range(len(cells))], heights, width, label=method)
    labels = ["\n".join([f"q{query}", *arrival.split(", ")]) for arrival, query in cells]
    axes.set_xticks([x + 0.4 for x in range(len(cells))], labels, fontsize=6)
    axes.set_ylabel("CPU, share of IM-1")
    axes.set_title(title)
    axes.legend(ncols=len(METHODS), fontsize=7)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _planning(figures: Sequence[Figures], note: str) -> Iterator[str]:
    by_kind: dict[str, list[Figures]] = defaultdict(list)
    for f in figures:
        by_kind[f["of"]].append(f)
    yield from ["## Tempura: how long planning takes", "", note, ""]
    if queries := by_kind["queries"]:
        yield from _queries(queries)
    for kind, what in (("points", "points"), ("packs", "packs"), ("ablation", "variant")):
        if by_kind[kind]:
            yield from ["", f"### {TITLES[kind]}", ""]
            yield from _against_first(by_kind[kind], what)


TITLES = {
    "points": "More points (at most four are planned jointly)",
    "packs": "More packs",
    "ablation": "Without a device of the search, at four points",
}


def _queries(figures: Sequence[Figures]) -> Iterator[str]:
    seconds = sorted(f["seconds"] for f in figures)
    few, more = ([f["limited"][limit] for f in figures] for limit in ("3", "30"))
    dearer = sum(short["cost"] > 1.05 * long["cost"] for short, long in zip(few, more, strict=True))
    yield f"{len(figures)} queries of TPC-DS are planned over three points."
    yield ""
    yield from _header(["search", "within 1 s", "within 3 s", "within 14 s", "median", "longest"])
    for name, found in (("with the default limit of 3 s", [f["seconds"] for f in few]), ("run to its end", seconds)):
        within = " | ".join(str(sum(s <= limit for s in found)) for limit in (1, 3, 14))
        yield f"| {name} | {within} | {statistics.median(found):.2f} s | {max(found):.1f} s |"
    yield ""
    yield f"What is found with a limit of 3 s costs over 5 % more than what is found with 30 s for {dearer} of them."
    plot = "tempura-planning.svg"
    PLOTS.mkdir(parents=True, exist_ok=True)
    figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
    axes.step(seconds, [(i + 1) / len(seconds) for i in range(len(seconds))], where="post")
    axes.set_xlabel("seconds of planning")
    axes.set_ylabel("share of the queries")
    axes.set_ylim(0, 1)
    figure.savefig(PLOTS / plot, metadata={"Date": None})
    plt.close(figure)
    yield from ["", f"![seconds of planning](plots/{plot})", "", "The ten that take longest:", ""]
    yield from _header(["query", "seconds", "groups", "rules fired"])
    for f in sorted(figures, key=lambda f: -f["seconds"])[:10]:
        yield f"| {f['query']} | {f['seconds']:.2f} | {f['groups']:,} | {f['rules_fired']:,} |"


def _against_first(figures: Sequence[Figures], what: str) -> Iterator[str]:
    """Medians over the queries of the ratios against the first value; of costs against the last one of packs, as with
    few some queries have no plan but to compute all anew."""
    values = list(dict.fromkeys(f[what] for f in figures))
    by_place = {(f[what], f["query"]): f for f in figures}
    numbers = sorted({f["query"] for f in figures})
    first, whole = values[0], values[-1] if what == "packs" else values[0]
    queries, other = ", ".join(map(str, numbers)), "first" if whole == first else "last"
    yield f"Medians over the queries {queries}; ratios against the first line, those of costs against"
    yield f"the {other}, over the queries that have a plan other than to compute all anew."
    yield ""
    shown = ("seconds", "seconds, ratio", "rules fired, ratio", "groups, ratio", "queries with a plan", "cost, ratio")
    yield from _header([what, *shown])
    for value in values:
        ratios = [
            f"{statistics.median(by_place[value, n][name] / by_place[first, n][name] for n in numbers):.2f}"
            for name in ("seconds", "rules_fired", "groups")
        ]
        seconds = statistics.median(by_place[value, n]["seconds"] for n in numbers)
        costs = [by_place[value, n]["cost"] / by_place[whole, n]["cost"] for n in numbers if by_place[value, n]["cost"]]
        cost = f"{statistics.median(costs):.2f}" if costs else ""
        yield f"| {value} | {seconds:.2f} | {' | '.join(ratios)} | {len(costs)} | {cost} |"
