"""The baselines of the choice of states, from costs that are made up, and of a query without a session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks import report_iqp, states
from benchmarks.states import ALL, KINDS, NOTHING, Case, States, best_of_all, cached, kind_of, reads
from tests.search.test_keeping import QUERIES, request_of
from tidemill.cost.guesses import RUNS_TO_EARN
from tidemill.search.space.seed import Candidate
from tidemill.search.space.space import Space

SIZES = {"a": 4.0, "b": 3.0, "c": 3.0, "d": 9.0}


def fixed(worth: dict[str, float]) -> Callable[[str, States], float]:
    return lambda name, _: worth[name]


def test_the_best_of_all_sets_fits() -> None:
    gains = {"a": 5.0, "b": 4.0, "c": 3.0, "d": 100.0}

    def cost(kept: States) -> float:
        return 50.0 - sum(gains[name] for name in kept) + (6.0 if {"b", "c"} <= kept else 0.0)

    def within(budget: float) -> States:
        return best_of_all(SIZES, lambda kept: sum(SIZES[n] for n in kept) <= budget, cost)

    assert [within(budget) for budget in (0, 3, 6, 7, 9, 19)] == [
        NOTHING,
        {"b"},
        {"a"},  # c beside b gains less than it costs
        {"a", "b"},
        {"d"},
        {"a", "b", "d"},
    ]


def test_a_cache_evicts_those_of_less_benefit_on_average() -> None:
    assert cached(["a", "b", "c"], SIZES, 10.0, fixed({"a": 1.0, "b": 2.0, "c": 3.0})) == {"a", "b", "c"}
    # The one of least benefit goes first, and no more than must.
    assert cached(["a", "b", "c"], SIZES, 7.0, fixed({"a": 1.0, "b": 2.0, "c": 3.0})) == {"b", "c"}
    # One of less benefit does not come in, nor does one that takes more than all room.
    assert cached(["b", "c", "a", "d"], SIZES, 7.0, fixed({"a": 1.0, "b": 2.0, "c": 3.0, "d": 99.0})) == {"b", "c"}
    # Two must go for a large one, if it has more than their average. What went comes once more, after the first change.
    worth = {"a": 1.0, "b": 3.5}
    expected = {2.2: {"a", "b"}, 3.0: {"b"}, 4.0: {"d"}}
    assert {d: cached(["a", "b", "d"], SIZES, 9.0, fixed({**worth, "d": d})) for d in expected} == expected
    assert cached(["a"], SIZES, 0.0, fixed(worth)) == NOTHING


def test_a_cache_weighs_a_state_beside_those_that_it_holds() -> None:
    def benefit(name: str, others: States) -> float:
        return {"a": 5.0, "b": 2.0, "c": 3.0}[name] - (4.0 if name == "c" and "b" in others else 0.0)

    # c is nearly free to compute while b is there.
    assert cached(["b", "c"], SIZES, 3.0, benefit) == {"b"}
    assert cached(["c", "b"], SIZES, 3.0, benefit) == {"c"}


@pytest.fixture(scope="module", params=["with lines", pytest.param("some customers", marks=pytest.mark.slow)])
def case(request: pytest.FixtureRequest) -> Case:
    return Case(request_of(QUERIES[request.param]))


def candidates(case: Case) -> tuple[Space, tuple[Candidate, ...]]:
    return case._space, case._space.candidates


def test_kinds_are_told_by_the_operators_below(case: Case) -> None:
    space, found = candidates(case)
    kinds = {kind_of(space.memo, c) for c in found}
    assert kinds <= set(KINDS) - {ALL}
    assert {kind_of(space.memo, c) for c in found if c.partial is not None} == {KINDS[0]}
    assert KINDS[1] in kinds


def test_reads_are_counted_by_operator(case: Case) -> None:
    space, _ = candidates(case)
    found = reads(space.memo, space.root)
    assert found[space.root] == 0
    assert set(found.values()) == {1}


def test_no_way_to_choose_is_better_than_the_best_of_all(case: Case) -> None:
    rows = case.budgets()
    assert [row["share"] for row in rows] == list(states.SHARES)
    for row in rows:
        assert min(row["chosen"], row["searched"], row["programme"], row["cache"]) >= row["best"] * (1 - 1e-9)
    assert len({rows[0][way] for way in ("chosen", "programme", "cache", "best")}) == 1
    assert rows[-1]["chosen"] == pytest.approx(rows[-1]["best"])
    assert rows[0]["best"] > rows[-1]["best"]


def test_states_of_all_kinds_are_no_worse_than_those_of_one(case: Case) -> None:
    *single, together = case.kinds()
    assert together["candidates"] == sum(row["candidates"] for row in single)
    for row in single:
        assert row["states"] <= row["candidates"]
        assert total(together) <= total(row) + 1e-6


def total(row: dict[str, float]) -> float:
    return row["run_ms"] + row["filling_ms"] / RUNS_TO_EARN


def test_the_page_compares_the_ways(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(report_iqp, "PLOT", tmp_path / "states.svg")
    row = {"query": 3, "share": "1", "budget": 10.0, "candidates": 2, "every": 120.0, "every_bytes": 40.0, "anew": 90.0}
    rows = [
        {**row, "share": "0", "chosen": 100.0, "best": 100.0, "searched": 100.0, "programme": 100.0, "cache": 100.0},
        {**row, "chosen": 80.0, "best": 75.0, "searched": 75.0, "programme": 84.0, "cache": 120.0},
        {**row, "query": 5, "chosen": 80.0, "searched": 80.0, "programme": 80.0, "cache": 80.0},
    ]
    figures = [{"part": "chosen", "rows": rows}]
    ((name, lines),) = report_iqp.sections(figures, "note")
    text = "\n".join(lines)
    assert name == "chosen"
    assert "Of 2 cells in which all sets were weighed, Tidemill's choice is the best one in 1, and" in text
    assert "in 2 if its search never tries all sets" in text
    assert "the paper's programme is up to 5% above in 1 of 3 cells, the cache up to 50% above in 1 of 3 cells" in text
    assert "cheaper in 1." in text
    assert "| 3 | 1 | 10 | 2 | 80 | 75 | 75 | 84 | 120 | 120 | 90 | 40 |" in lines
    assert (tmp_path / "states.svg").exists()
