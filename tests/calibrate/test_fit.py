"""Constants come out of measurements that were made of them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from cost_model.default import MODEL
from tidemill.calibrate.benchmarks import BENCHMARKS, RECIPES
from tidemill.calibrate.fit import Recipe, fitted

ROOT = Path(__file__).resolve().parents[2]
MEASURED = {c.name: c.value for c in MODEL.constants if c.measured}
ROUNDS = 5


def samples(truth: dict[str, float]) -> dict[str, dict[int, list[float]]]:
    """What the benchmarks would take if constants were these; one round in five is disturbed."""
    dice = random.Random(11)
    slopes = {name: dice.uniform(1e-5, 1e-4) for name in BENCHMARKS}
    fixed = {name: dice.uniform(5, 30) for name in BENCHMARKS}
    for name, recipe in RECIPES.items():
        if recipe.fixed:
            fixed[recipe.benchmark] = truth[name] * recipe.times + (fixed[recipe.base] if recipe.base else 0)
        else:
            slopes[recipe.benchmark] = truth[name] * recipe.times + (slopes[recipe.base] if recipe.base else 0)
    return {
        name: {
            n: [(fixed[name] + slopes[name] * n) * (3.0 if i == 2 else 1.0) for i in range(ROUNDS)]
            for n in benchmark.sizes
        }
        for name, benchmark in BENCHMARKS.items()
    }


def test_constants_come_out() -> None:
    dice = random.Random(3)
    truth = {name: value * dice.uniform(0.2, 5) for name, value in MEASURED.items()}
    found = fitted(RECIPES, samples(truth), MEASURED)
    assert {name: f.value for name, f in found.items()} == pytest.approx(truth)
    assert not any(f.lost for f in found.values())
    assert all(f.off == pytest.approx(0, abs=1e-9 * f.value) for f in found.values())


def test_noise_gives_no_constant_below_nothing() -> None:
    seen = {"more": {1: [5.0], 2: [5.0]}, "less": {1: [5.0], 2: [6.0]}}
    found = fitted({"row": Recipe("more", base="less")}, seen, {"row": 5e-5})["row"]
    assert found.lost
    assert 0 < found.value < 5e-5


def test_how_far_rounds_are_off() -> None:
    found = fitted({"row": Recipe("b")}, {"b": {0: [0.0] * 5, 2: [2.0, 3.0, 4.0, 8.0, 20.0]}}, {"row": 1.0})["row"]
    assert (found.value, found.off) == (2.0, 1.0)


def test_fixed_and_per_unit_parts_come_apart() -> None:
    seen = {"step": {100: [41.0, 42.0, 43.0], 200: [43.0, 44.0, 45.0], 300: [45.0, 46.0, 47.0]}}
    found = fitted({"step": Recipe("step", fixed=True), "each": Recipe("step")}, seen, {"step": 40.0, "each": 1.0})
    assert found["step"].value == pytest.approx(40.0)
    assert found["each"].value == pytest.approx(0.02)


def test_there_is_a_recipe_for_each_constant_and_a_use_for_each_benchmark() -> None:
    assert set(RECIPES) == set(MEASURED)
    assert {b for recipe in RECIPES.values() for b in recipe.benchmarks} == set(BENCHMARKS)


@pytest.mark.parametrize("scale", [1.0, 0.001, 1e-9])
def test_each_benchmark_has_two_sizes(scale: float) -> None:
    assert all(0 < small < big for small, big in (b.scaled(scale) for b in BENCHMARKS.values()))


def test_the_page_has_all_constants() -> None:
    page = (ROOT / "docs" / "costs.md").read_text(encoding="utf-8")
    for c in MODEL.constants:
        assert f"| `{c.name}` | {c.unit} | {c.value:g} | {c.doc} |" in page
