"""Runs the text blocks of each rule, and holds the rules to their form."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.rules.blocks import perform, read_blocks, rewrite
from tidemill.rule.pack import built_in_packs
from tidemill.rule.registry import load_rules
from tidemill.rule.rule import Rule

HERE = Path(__file__).parent
RULES = {r.name: r for r in load_rules()}
FOLDER = HERE.parents[1] / "rules"
CITATIONS = (FOLDER / "CITATIONS.md").read_text(encoding="utf-8")
FILES = sorted(HERE.glob("*.txt"))
WAYS = {"expect", "expect-not", "disable"}


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_blocks(path: Path, request: pytest.FixtureRequest) -> None:
    again = request.config.getoption("--rewrite", default=False)
    results = []
    for block in read_blocks(path.read_text(encoding="utf-8")):
        result, fired = perform(block, path.stem)
        where = f"{path.name}:{block.line} {block.head}"
        for name in block.values("expect"):
            assert name in fired, f"{where}\n{name} did not fire\n{result}"
        for name in block.values("expect-not"):
            assert name not in fired, f"{where}\n{name} fired\n{result}"
        assert not set(block.values("disable")) & fired, where
        if not again:
            assert result == block.expected, f"{where}\n{result}"
        results.append((block, result))
    if again:
        rewrite(path, results)


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda r: r.name)
def test_each_rule_has_a_case_that_fires_one_that_must_not_and_one_switched_off(rule: Rule) -> None:
    blocks = read_blocks((HERE / f"{rule.name}.txt").read_text(encoding="utf-8"))
    found = {way for b in blocks for way in WAYS for v in b.values(way) if v in {rule.name, rule.pack}}
    assert found == WAYS


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_each_file_of_blocks_belongs_to_a_rule(path: Path) -> None:
    assert path.stem in RULES


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda r: r.name)
def test_each_docstring_has_its_five_parts(rule: Rule) -> None:
    parts = re.split(r"^\s*(Matches|Why|Unsafe|Citation):", rule.doc, flags=re.MULTILINE)
    assert parts[1::2] == ["Matches", "Why", "Unsafe", "Citation"]
    assert re.fullmatch(r"[A-Z].*\.", parts[0].strip()), "the first line says the effect in one sentence"
    assert "Yields:" in parts[2], "a picture: Matches / Yields"
    keys = re.findall(r"\[(\w+)\]", parts[8])
    assert keys, "a citation key"
    for key in keys:
        assert f"**[{key}]**" in CITATIONS, f"[{key}] does not stand in rules/CITATIONS.md"


def test_the_readme_lists_the_packs_and_their_rules_in_their_order() -> None:
    rows = []
    for pack in built_in_packs():
        names = ", ".join(f"`{rule.name}`" for rule in RULES.values() if rule.pack == pack.name)
        rows.append(f"| `{pack.name}` | {pack.published}: {pack.method} | {names} |")
    assert "\n".join(rows) in (FOLDER / "README.md").read_text(encoding="utf-8")
