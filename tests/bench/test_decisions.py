"""Choices and estimates are judged as they should be, from figures that are made up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from benchmarks.changes import one_order
from benchmarks.decisions.grounds import FEW_TPCH, FEW_VIEWS, grounds
from benchmarks.decisions.judged import (
    AUTO,
    TWINS,
    Cell,
    Noise,
    choices,
    noise,
    of_rows,
    of_runs,
    of_steps,
    quantile,
)
from benchmarks.decisions.small import APART, CHANGES, FEW_CHANGES, VIEWS, Small, share_of
from benchmarks.pipeline import views as pipeline_views
from benchmarks.report_decisions import firsts, sections, taken

ONE, OTHER = TWINS
CALM = Noise(ms=0.0, share=0.0)


def run(
    alternative: str,
    cpu: float,
    plan: str,
    *,
    measured: bool = True,
    estimated: float = 1.0,
    kind: str = "INCREMENTAL",
    methods: Sequence[str] = ("delta",),
    steps: Sequence[object] = (),
) -> dict[str, Any]:
    """A run as it is noted."""
    return {
        "alternative": alternative,
        "cpu_ms": cpu,
        "wall_ms": 2 * cpu,
        "plan": plan,
        "measured": measured,
        "estimated_cost": estimated,
        "kind": kind,
        "methods": list(methods),
        "steps": list(steps),
    }


def cell(runs: Sequence[object], view: str = "v") -> Cell:
    """A cell of these runs."""
    return Cell({"suite": "s", "size": "1", "view": view, "change": "c", "runs": runs})


def test_equal_plans_are_measured_together() -> None:
    runs = [run(AUTO, 130, "p"), run(ONE, 90, "p"), run(OTHER, 110, "p"), run("full", 105, "q")]
    found = cell(runs)
    assert found.plans == {"p": 110, "q": 105}
    assert found.costs == {AUTO: 110, ONE: 110, OTHER: 110, "full": 105}
    assert (found.best, found.auto) == ("full", 110)
    assert found.regret == pytest.approx(110 / 105)
    assert found.raw_regret == pytest.approx(130 / 90)


def test_auto_is_charged_what_its_plans_cost_that_it_changed_between() -> None:
    runs = [run(AUTO, 90, "p"), run(AUTO, 95, "q"), run(AUTO, 99, "q"), run(ONE, 10, "p"), run("full", 200, "q")]
    found = cell(runs)
    assert found.plans == {"p": 50, "q": 99}
    assert (found.auto, found.best, found.regret) == (99, ONE, 1.98)


def test_runs_that_warm_up_count_for_no_choice() -> None:
    found = cell([run(AUTO, 900, "p", measured=False), run(AUTO, 100, "p"), run("full", 1, "q", measured=False)])
    assert found.costs == {AUTO: 100}
    assert (found.best, found.regret, found.cost("full")) == (AUTO, 1.0, None)


@pytest.mark.parametrize(
    ("auto", "allowed", "right"),
    [(110, CALM, True), (111, CALM, False), (111, Noise(11, 0.0), True), (112, Noise(11, 0.0), False)],
)
def test_right_is_within_a_tenth_or_within_noise(auto: float, allowed: Noise, right: bool) -> None:
    assert cell([run(AUTO, auto, "p"), run("full", 100, "q")]).right(allowed) == right


def test_noise_is_told_by_equal_views() -> None:
    small = [cell([run(ONE, 100, "p"), run(OTHER, 100 + n, "p"), run("full", 9_999, "q")]) for n in range(1, 11)]
    large = [cell([run(ONE, 1_000, "p"), run(OTHER, 1_000 * (1 + n / 100), "p")]) for n in range(1, 11)]
    assert noise(small).ms == 9
    assert noise(small).share == pytest.approx(0.1)
    assert noise(large).share == pytest.approx(0.09 / 1.045)
    assert noise(large).ms == pytest.approx(500 * noise(large).share)
    both = noise([*small, *large])
    assert both.of(499) == 9
    assert both.of(2_000) == pytest.approx(2_000 * both.share)
    other_work = [
        cell([run(ONE, 100, "p"), run(OTHER, 900, "q")]),
        cell([run(ONE, 100, "p"), run(OTHER, 900, "p", steps=[step(1, 1, name="compact s1")])]),
    ]
    assert noise([*small, *other_work]).ms == 9
    untold = noise([cell([run(AUTO, 1, "p")])])
    assert [untold.ms, untold.share] == pytest.approx([50, 0.1])


def test_choices_are_summed_up() -> None:
    regrets = [1.0] * 17 + [1.05, 1.2, 4.0]
    cells = [cell([run(AUTO, 100 * r, "p"), run("full", 100, "q")], view=f"v{r}") for r in regrets]
    found = choices(cells, Noise(20, 0.0))
    assert (found.cells, found.near, found.right, found.above) == (20, 0.9, 0.95, 1)
    assert found.mean == pytest.approx((1.05 * 1.2 * 4) ** (1 / 20))
    assert [found.most_95, found.worst] == pytest.approx([1.2, 4])
    assert found.worst_cell == "s 1, v4.0, c"
    with pytest.raises(ValueError, match="no cells"):
        choices([], CALM)


def test_quantiles_are_values_that_were_seen() -> None:
    assert [quantile([3.0, 1.0, 2.0], share) for share in (0.1, 0.5, 0.95)] == [1, 2, 3]
    with pytest.raises(ValueError, match="no values"):
        quantile([], 0.5)


def step(
    estimated: float | None, cpu: float, estimated_rows: float | None = None, rows: int | None = None, name: str = "s"
) -> object:
    return {"step": name, "estimated_cost": estimated, "cpu_ms": cpu, "estimated_rows": estimated_rows, "rows": rows}


def test_estimates_are_compared_by_run_by_step_and_by_row() -> None:
    steps = [step(10, 100, 0, 1), step(5, 19), step(100, 0, 50, 100), step(None, 40, 10, 90), step(100, 50)]
    runs = [run(AUTO, 100, "p", estimated=50, steps=steps), run(ONE, 201, "p", estimated=100)]
    found = of_runs(runs)
    assert found is not None
    assert (found.number, found.within) == (2, 0.5)
    assert found.middle == pytest.approx(2.005)
    found = of_steps(runs)
    assert found is not None
    assert (found.number, found.within) == (2, 0.5)  # small ones, and those without one of both numbers, do not count
    found = of_rows(runs)
    assert found is not None
    assert found.number == 3
    assert found.within == pytest.approx(2 / 3)
    assert of_steps([run(AUTO, 1, "p")]) is None


def test_first_runs_are_those_of_each_view() -> None:
    one = cell([run(AUTO, 1, "p", kind="NO_DATA"), run(AUTO, 2, "p"), run(ONE, 3, "p"), run(AUTO, 4, "p")])
    two = cell([run(ONE, 5, "p"), run("full", 6, "q")])
    first, later = firsts([one, two])
    assert ([r["cpu_ms"] for r in first], [r["cpu_ms"] for r in later]) == ([2, 3, 6], [4, 5])


def test_the_page_tells_wrong_choices_from_noise() -> None:
    runs = {
        "good": [run(AUTO, 100, "p"), run("full", 100, "q")],
        "noisy": [run(AUTO, 150, "p"), run("full", 100, "q")],
        "bad": [run(AUTO, 400, "p"), run("full", 100, "q", kind="FULL")],
    }
    twins = [run(ONE, 900, "t"), run(OTHER, 950, "t"), run(ONE, 300, "u"), run(OTHER, 350, "u")]
    cells = [cell([*found, *twins[:2]], view=view).figures for view, found in runs.items()]
    cells.append(cell([run(AUTO, 300, "u"), *twins[2:]], view="calm").figures)
    ((name, lines),) = sections([{"cells": cells}], "note")
    assert name == "s 1"
    marks = {
        line.split(" | ")[0].strip("| "): line.rstrip(" |").rsplit("| ", 1)[-1] for line in lines if "| c |" in line
    }
    assert marks["bad"].strip() == "**wrong**"
    assert marks["noisy"].strip() == "noise"
    assert "wrong" not in marks["good"]
    (above,) = (line for line in lines if line.startswith("Above"))
    assert above == "Above 1.3 times the best: s 1, bad, c (4.00); s 1, noisy, c (1.50, noise)."


def test_taken_is_the_kind_or_the_packs() -> None:
    runs = [run(AUTO, 1, "p", methods=["delta", "affected"]), run(AUTO, 1, "q", kind="FULL"), run(ONE, 1, "q")]
    assert taken([runs[0]]) == "delta affected"
    assert taken(runs[1:]) == "full"


def test_changes_have_names_that_tell_their_share() -> None:
    assert {share_of(change) for change in CHANGES} >= {(0.0, "new"), (0.001, "mixed"), (0.3, "new")}
    assert set(FEW_CHANGES) <= set(CHANGES)


@pytest.mark.parametrize("rows", [1_000, 10_000, 10_000_000])
def test_old_rows_of_a_change_are_different_ones(rows: int) -> None:
    count = min(rows, 3_000)
    assert len({(n + 3 * 100_003) * APART % rows for n in range(count)}) == count


def test_a_change_is_made_to_the_tables_that_a_view_reads() -> None:
    made = Small(1_000)
    read: Mapping[str, Sequence[str]] = {view: made.statements(view, "30 %, mixed", 1) for view in VIEWS}
    for view, statements in read.items():
        tables = [statement.split()[2] for statement in statements]
        assert tables == [table for table in ("facts", "events") if f" {table}" in VIEWS[view]]
    (one,) = made.statements("aggregate", "one row, new", 2)
    assert one.endswith("range(3000, 3001)")
    (mixed,) = read["aggregate"]
    assert "if(id < 180, id + 2000" in mixed
    assert "WHEN id < 240 THEN 'gone'" in mixed
    (updated,) = made.statements("limit", "one row, mixed", 1)
    assert "id < 0 THEN 'new' WHEN id < 0 THEN 'gone'" in updated


@pytest.mark.parametrize("few", [True, False])
def test_each_suite_is_a_ground(few: bool) -> None:
    found = list(grounds(0.1, (1_000, 10_000), (), few=few))
    assert [ground.suite for ground in found] == ["small", "small", "tpch", "tpcds", "pipeline"]
    assert all(ground.views and ground.changes for ground in found)
    by_suite = {ground.suite: ground for ground in found}
    assert len(by_suite["tpch"].views) == (len(FEW_TPCH) if few else 22)
    assert len(by_suite["pipeline"].views) == (len(FEW_VIEWS) if few else len(pipeline_views()))
    chosen = {ground.suite: list(ground.views) for ground in grounds(0.1, (), (3, 98), few=few)}
    assert (chosen["tpch"], chosen["tpcds"]) == (["q3"], ["q3", "q98"])


def test_one_order_is_another_one_each_time() -> None:
    pairs = [one_order(seed, updated=updated) for seed in (1, 2) for updated in (False, True)]
    assert len({statement for pair in pairs for statement in pair}) == 8
    assert {statement.split()[0] for pair in pairs[1::2] for statement in pair} == {"UPDATE"}
    with_lines = [statement for statement in pairs[0] if "lineitem" in statement]
    assert len(with_lines) == 1
    assert "l_orderkey = 33" in with_lines[0]
