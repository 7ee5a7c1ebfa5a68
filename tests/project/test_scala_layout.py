"""The rooms of the Scala side: one sentence each, few files, imports downwards only, no circle between files."""

import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

SOURCES = Path(__file__).resolve().parents[2] / "jvm-bridge" / "src" / "main" / "scala"
BELOW = "org.apache.spark.sql.tidemill"
# Each may import only those before it. Spark's own packages are open to those below BELOW.
ORDER = (
    *(
        f"{BELOW}.{room}"
        for room in (
            "base",
            "sum",
            "value",
            "view",
            "source",
            "normal",
            "query",
            "physical",
            "step",
            "leaving",
            "judge",
            "bridge",
        )
    ),
    "tidemill.spark",
)
MOST_FILES = 15


def folder(package: str) -> Path:
    return SOURCES.joinpath(*package.split("."))


def files(package: str) -> list[Path]:
    """The files of a package, but for the one with its sentence."""
    return [path for path in sorted(folder(package).glob("*.scala")) if path.name != "package.scala"]


def code(path: Path) -> str:
    """The text without comments; of strings only the names in `$name` and the begins of `${...}` are left."""
    text = re.sub(r'"""(.*?)"""', '""', path.read_text(encoding="utf-8"), flags=re.DOTALL)
    text = re.sub(r'"(\\.|[^"\\\n])*"', lambda found: " ".join(re.findall(r"\$\{?(\w+)", found[0])), text)
    return re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.DOTALL)


def packages_named(path: Path) -> set[str]:
    """The packages of ours that a file imports, or names in full."""
    _, _, text = code(path).partition("\n")  # behind the package clause
    inner = {f"{BELOW}.{room}" for room in re.findall(rf"\b{re.escape(BELOW)}\.(\w+|\W)", text)}
    return inner | ({"tidemill.spark"} if re.search(r"(?<![\w.])tidemill\.spark\b", text) else set())


def defined(path: Path) -> set[str]:
    """Names of the top-level classes, objects and traits of a file."""
    kinds = r"^(?:private(?:\[\w+\])? |sealed |final |abstract |implicit |case )*(?:class|object|trait) (\w+)"
    return set(re.findall(kinds, code(path), flags=re.MULTILINE))


def files_used() -> Iterator[tuple[Path, set[Path]]]:
    """Each file with the files whose names it uses: those of its package, and what it imports."""
    places: dict[tuple[str, str], Path] = {
        (package, name): path for package in ORDER for path in files(package) for name in defined(path)
    }
    for package in ORDER:
        for path in files(package):
            text = code(path)
            visible = {name: place for (owner, name), place in places.items() if owner == package}
            for owner, several, one in re.findall(r"^import ([\w.]+)\.(?:\{([^}]*)\}|(\w+))", text, flags=re.MULTILINE):
                for name in (part.strip() for part in (several or one).split(",") if "=>" not in part):
                    visible.pop(name, None)
                    if (owner, name) in places:
                        visible[name] = places[owner, name]
            own = defined(path)
            words = set(re.findall(r"(?<![.\w])([A-Z]\w*)", re.sub(r"^import .*$", "", text, flags=re.MULTILINE)))
            yield path, {place for name, place in visible.items() if name in words - own and place != path}


def test_every_file_lies_in_a_room() -> None:
    inside = {path for package in ORDER for path in folder(package).glob("*.scala")}
    assert set(SOURCES.rglob("*.scala")) == inside


@pytest.mark.parametrize("package", ORDER)
def test_a_room_says_what_it_is_in_one_sentence(package: str) -> None:
    text = (folder(package) / "package.scala").read_text(encoding="utf-8")
    assert re.fullmatch(rf"/\*\* [A-Z][^.\n]*\. \*/\npackage {re.escape(package)}\n", text)


@pytest.mark.parametrize("package", ORDER)
def test_a_room_has_few_files_of_its_package(package: str) -> None:
    assert 0 < len(files(package)) <= MOST_FILES
    assert all(path.read_text(encoding="utf-8").startswith(f"package {package}\n") for path in files(package))


@pytest.mark.parametrize("package", ORDER)
def test_a_room_imports_only_those_below_it(package: str) -> None:
    allowed = set(ORDER[: ORDER.index(package) + 1])
    found = {(path.name, name) for path in files(package) for name in packages_named(path) - allowed}
    assert not found


def test_no_circle_between_files() -> None:
    graph = {path.name: {place.name for place in used} for path, used in files_used()}
    assert sum(map(len, graph.values())) > len(graph)  # the reader of Scala still sees something
    TopologicalSorter(graph).prepare()  # raises a CycleError that names the circle
