"""Documents that name code name what is there; docstrings say what a thing does or returns."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = [
    path for folder in ("python/tidemill", "rules", "cost_model") for path in sorted((ROOT / folder).rglob("*.py"))
]
SCALA = sorted((ROOT / "jvm-bridge" / "src").rglob("*.scala"))
QUESTIONS = ("What ", "Whether ", "How ", "Those ", "Which ", "Who ")
VARIABLE = re.compile(r"environ(?:\.get\(|\[)\"(TIDEMILL_\w+)\"")


def test_each_variable_of_the_tests_is_described() -> None:
    read = {
        name for path in (ROOT / "tests").rglob("*.py") for name in VARIABLE.findall(path.read_text(encoding="utf-8"))
    }
    text = (ROOT / "tests" / "README.md").read_text(encoding="utf-8")
    assert read == set(re.findall(r"`(TIDEMILL_(?!BENCH)\w+)`", text))


def in_code() -> Iterator[str]:
    """The names that the glossary says are in the code."""
    for line in (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("| **"):
            yield from re.findall(r"`(\w+)(?:\.\w+)?`", line.split("|")[3])


@pytest.mark.parametrize("name", sorted(set(in_code())))
def test_the_glossary_names_what_is_there(name: str) -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in [*SOURCES, *SCALA])
    defined = rf"\b(?:class|def|object|trait|val) {name}\b|^ *{name}\b(?: =|:)|\"{name}[\":]"
    assert re.search(defined, text, re.MULTILINE)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_docstrings_say_what_a_thing_does_or_returns(path: Path) -> None:
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            first = (ast.get_docstring(node) or "").partition("\n")[0]
            if first.startswith(QUESTIONS):
                found.append(first)
    assert not found
