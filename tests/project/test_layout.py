"""The shape of the repository: rooms, who may import whom, one file per rule, one test per rule."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CORE = ROOT / "python" / "tidemill"
ROOMS = (
    *("errors", "version", "isolated", "recent", "monitor"),
    *("plan", "wire", "text", "tvr", "memo", "rule", "settings", "cost"),
    *(f"search.{room}" for room in ("contract", "space", "choose", "keep", "lower", "runs", "service")),
    *("explain", "debug", "sql", "bridge", "sources"),
    *(
        f"runtime.{room}"
        for room in ("storage", "view", "before", "content", "run", "scheduler", "judge", "load", "statements")
    ),
    *("points", "driver", "calibrate", "notebook", "view", "cli"),
)
"""Folders, and files that lie in none, from the bottom up: each may import only those before it."""
PLANNER = ROOMS[ROOMS.index("plan") : ROOMS.index("sql")]
MOST_FILES = 15
# What a rule, or a cost model, may know of the core.
INTERFACES = {
    "rules": {"plan", "tvr", "memo", "rule"},
    "cost_model": {"plan", "tvr", "memo", "rule", "cost"},
}
PLUGGED = tuple(INTERFACES)


@cache
def imported(path: Path) -> frozenset[str]:
    """Full names of what a file imports from tidemill, also within functions; `from a import b` gives a and a.b."""
    found = set[str]()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            # cost_model/ has another name where it is installed, so its files import each other relatively
            assert node.level == 0 or path.parent.name == "cost_model", f"{path}:{node.lineno}: relative import"
            found.add(node.module or "")
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(found)


def parts(path: Path) -> set[str]:
    """The first-level parts of tidemill that a file imports."""
    return {match[1] for name in imported(path) if (match := re.match(r"tidemill\.(\w+)", name))}


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def module(path: Path) -> str:
    """The name below `tidemill` of a file of the core; of `tidemill/__init__.py`, the empty text."""
    return ".".join(path.relative_to(CORE).with_suffix("").parts).removesuffix("__init__").rstrip(".")


def room(name: str) -> str | None:
    """The room of a module; None for a folder of rooms, and for the package itself."""
    return next((r for r in ROOMS if name == r or name.startswith(f"{r}.")), None)


@cache
def arrows() -> dict[str, frozenset[str]]:
    """The modules of the core, each with those that it imports."""
    modules = {module(path): path for path in files(CORE)}
    found = {}
    for name, path in modules.items():
        names = {n.removeprefix("tidemill.") for n in imported(path) if n.startswith("tidemill.")}
        submodules = {n for n in names if n in modules}
        # `from tidemill.a import b` imports a module of a, or what a itself defines
        defined = {n.rpartition(".")[0] for n in names - submodules} & modules.keys()
        found[name] = frozenset((submodules | defined) - {name, ""})
    return found


def test_each_file_lies_in_a_room() -> None:
    folders = {room.partition(".")[0] for room in ROOMS if "." in room}
    assert {name for name in arrows() if room(name) is None} == {"", *folders}


@pytest.mark.parametrize("name", ROOMS)
def test_a_room_knows_only_those_below_it(name: str) -> None:
    above = ROOMS[ROOMS.index(name) + 1 :]
    found = {(m, n) for m, names in arrows().items() if room(m) == name for n in names if room(n) in above}
    assert not found


def test_no_file_imports_itself_by_way_of_others() -> None:
    below: dict[str, set[str]] = {}

    def reach(name: str, path: tuple[str, ...]) -> set[str]:
        assert name not in path, " -> ".join((*path[path.index(name) :], name))
        if name not in below:
            below[name] = set().union(*({n} | reach(n, (*path, name)) for n in arrows()[name]))
        return below[name]

    for name in arrows():
        reach(name, ())


def folders() -> list[Path]:
    return sorted({path.parent for path in [*files(CORE), *files(ROOT / "rules"), *files(ROOT / "cost_model")]})


@pytest.mark.parametrize("folder", folders(), ids=lambda folder: folder.relative_to(ROOT).as_posix())
def test_a_folder_says_what_it_is_and_is_readable(folder: Path) -> None:
    sentence = (ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or "").partition("\n")[0]
    assert sentence.endswith((".", ")"))
    assert len([path for path in folder.glob("*.py") if path.name != "__init__.py"]) <= MOST_FILES


def test_the_planner_knows_neither_spark_nor_the_bridge() -> None:
    found = [
        (name, other)
        for name in arrows()
        if room(name) in PLANNER
        for other in imported(next(path for path in files(CORE) if module(path) == name))
        if other.split(".")[0] in ("pyspark", "py4j") or other.startswith("tidemill.bridge")
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


def names(tree: ast.Module) -> Iterator[str]:
    """What a file defines at its top."""
    for node in tree.body:
        match node:
            case ast.FunctionDef(name=name):
                yield name
            case ast.Assign(targets=targets):
                yield from (t.id for t in targets if isinstance(t, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name


@pytest.mark.parametrize("rule", rules(), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_each_rule_has_a_test_of_its_name(rule: Path) -> None:
    tests = [path.stem.removeprefix("test_") for path in (ROOT / "tests" / "rules").rglob("*") if path.is_file()]
    assert rule.stem in tests


@pytest.mark.parametrize("rule", rules(), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_each_rule_file_defines_the_rule_of_its_name(rule: Path) -> None:
    assert rule.stem in names(ast.parse(rule.read_text(encoding="utf-8")))
