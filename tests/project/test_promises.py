"""docs/promises.md names tests that are there, and says of each whether it is slow."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMED = re.findall(r"`([\w/]+\.py)(?:::(\w+))?`( °)?", (ROOT / "docs" / "promises.md").read_text(encoding="utf-8"))


def test_each_promise_has_a_test() -> None:
    rows = [x for x in (ROOT / "docs" / "promises.md").read_text(encoding="utf-8").splitlines() if x.startswith("| ")]
    assert all(re.search(r"`[\w/]+\.py", row) for row in rows[1:])
    assert len(rows) > 10


@pytest.mark.parametrize(("file", "name", "slow"), NAMED, ids=[f"{f}::{n}" for f, n, _ in NAMED])
def test_a_named_test_is_there(file: str, name: str, slow: str) -> None:
    text = (ROOT / "tests" / file).read_text(encoding="utf-8")
    if name:
        found = re.search(rf"((?:^@.*\n)*)^def {name}\(", text, re.MULTILINE)
        assert found, f"{file} has no {name}"
        marked = "pytest.mark.slow" in found[1] or "pytestmark = pytest.mark.slow" in text
        assert marked == bool(slow)
