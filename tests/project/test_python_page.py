"""The page of the Python API is made of the code, and has all of it."""

from __future__ import annotations

import runpy
from pathlib import Path

import tidemill

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")


def test_the_page_is_current() -> None:
    made = runpy.run_path(str(ROOT / "docs" / "python_page.py"))["page"]()
    assert made == PAGE, "run: python docs/python_page.py > docs/python.md"


def test_each_public_name_is_on_it() -> None:
    names = {name for name in tidemill.__all__ if not name.startswith("__")} - {"IncrementalView"}
    names |= {name for name in vars(tidemill.IncrementalView) if not name.startswith("_")}
    assert all(f"\n### {name}\n" in PAGE for name in names)
    assert {line.removeprefix("### ") for line in PAGE.splitlines() if line.startswith("### ")} == names
