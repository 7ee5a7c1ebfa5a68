"""The shape of the repository: who may import whom, one file per rule, one test per rule."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CORE = ROOT / "python" / "tidemill"
LAYERS = ("plan", "tvr", "memo", "rule", "search", "explain", "runtime")  # each may import only those before it
# What a rule, or a cost model, may know of the core.
INTERFACES = {
    "rules": {"plan", "tvr", "memo", "rule"},
    "cost_model": {"plan", "tvr", "memo", "rule", "search.costing"},
}
PLUGGED = tuple(INTERFACES)


def imported(path: Path) -> Iterator[str]:
    """Full names of what a file imports from tidemill, also within functions; `from a import b` gives a and a.b."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            # cost_model/ has another name where it is installed, so its files import each other relatively
            assert node.level == 0 or path.parent.name == "cost_model", f"{path}:{node.lineno}: relative import"
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def parts(path: Path) -> set[str]:
    """The first-level parts of tidemill that a file imports."""
    return {match[1] for name in imported(path) if (match := re.match(r"tidemill\.(\w+)", name))}


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_knows_only_those_below_it(layer: str) -> None:
    above = set(LAYERS[LAYERS.index(layer) + 1 :])
    found = {(path.name, part) for path in files(CORE / layer) for part in parts(path) & above}
    assert not found


def test_the_planner_knows_neither_spark_nor_the_bridge() -> None:
    found = [
        (path.relative_to(CORE).as_posix(), name)
        for layer in LAYERS[:-1]
        for path in files(CORE / layer)
        for name in imported(path)
        if name.split(".")[0] in ("pyspark", "py4j") or name.startswith("tidemill.bridge")
    ]
    assert not found


def test_the_core_loads_rules_and_cost_model_only_by_name() -> None:
    found = [(path.relative_to(CORE).as_posix(), part) for path in files(CORE) for part in parts(path) & set(PLUGGED)]
    assert not found


@pytest.mark.parametrize("folder", PLUGGED)
def test_rules_and_cost_model_know_only_the_interfaces(folder: str) -> None:
    prefixes = tuple(f"tidemill.{name}." for name in INTERFACES[folder])
    found = {
        (path.relative_to(ROOT).as_posix(), name)
        for path in files(ROOT / folder)
        for name in imported(path)
        if name.startswith("tidemill.") and not f"{name}.".startswith(prefixes)
    }
    assert not found


def rules() -> list[Path]:
    return [path for path in files(ROOT / "rules") if not path.name.startswith("_")]


@pytest.mark.parametrize("rule", rules(), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_each_rule_has_a_test_of_its_name(rule: Path) -> None:
    tests = [path.stem.removeprefix("test_") for path in (ROOT / "tests" / "rules").rglob("*") if path.is_file()]
    assert rule.stem in tests


@pytest.mark.parametrize("rule", rules(), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_each_rule_file_defines_the_rule_of_its_name(rule: Path) -> None:
    tree = ast.parse(rule.read_text(encoding="utf-8"))
    names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    names |= {
        t.id for node in tree.body if isinstance(node, ast.Assign) for t in node.targets if isinstance(t, ast.Name)
    }
    names |= {n.target.id for n in tree.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)}
    assert rule.stem in names
