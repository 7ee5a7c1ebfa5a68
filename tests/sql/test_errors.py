"""The table of conditions, the page made from it, and the uses of it in the code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidemill.errors import TidemillError, conditions, page

ROOT = Path(__file__).parents[2]
PROMISED = [
    *("INVALID_SCHEDULE", "INVALID_CLAUSE", "NO_SUCH_POINT", "ALREADY_EXISTS", "NOT_FOUND", "NOT_AN_INCREMENTAL_VIEW"),
    *("NOT_FILLED", "COLUMN_MISMATCH", "LOCATION_MISMATCH", "LOCATION_NOT_EMPTY", "CATALOG_UNSUPPORTED"),
    *("NOT_INCREMENTAL", "SOURCE_WITHOUT_CHANGES", "NON_DETERMINISTIC", "TEMPORARY_OBJECT", "FUNCTION_MISSING"),
    *("SCHEMA_CHANGED", "HISTORY_GONE", "CONCURRENT_REFRESH", "PLANNER_FAILED", "USE_OTHER_STATEMENT", "NOT_YET"),
]


def test_all_promised_conditions_are_there() -> None:
    assert {f"TIDEMILL_{name}" for name in PROMISED} <= set(conditions())
    assert "DUPLICATE_CLAUSES" in conditions()


@pytest.mark.parametrize("name", list(conditions()))
def test_condition_is_complete(name: str) -> None:
    condition = conditions()[name]
    assert re.fullmatch(r"[A-Z][A-Z_]+", name)
    assert re.fullmatch(r"[0-9A-Z]{5}", condition.sql_state)
    assert condition.message.endswith((".", ">"))
    assert condition.doc.endswith(".")
    assert condition.example
    error = TidemillError(name, dict.fromkeys(condition.parameters, "x"))
    assert error.message.startswith(f"[{name}] ")
    assert error.message.endswith(f" SQLSTATE: {condition.sql_state}")
    assert "<" not in error.message


def test_message_and_envelope() -> None:
    error = TidemillError("TIDEMILL_NOT_FOUND", {"view": "`a`.`<view>`", "catalog": "c"}, (2, 5))
    text = "[TIDEMILL_NOT_FOUND] The incremental view `a`.`<view>` cannot be found in c. SQLSTATE: 42P01"
    assert str(error) == error.message == text
    assert error.envelope() == {
        "error": {
            "condition": "TIDEMILL_NOT_FOUND",
            "sqlState": "42P01",
            "message": text,
            "parameters": {"view": "`a`.`<view>`", "catalog": "c"},
            "start": 2,
            "stop": 5,
        }
    }
    placeless = TidemillError("TIDEMILL_NOT_FOUND", {"view": "v"}).envelope()["error"]
    assert (placeless["start"], placeless["stop"]) == (None, None)


def test_unknown_condition_is_a_mistake_of_ours() -> None:
    with pytest.raises(KeyError):
        TidemillError("TIDEMILL_NO_SUCH_CONDITION")


def test_page_is_current() -> None:
    assert (ROOT / "docs/errors.md").read_text(encoding="utf-8") == page(), "python -m tidemill.errors > docs/errors.md"


def uses() -> Iterator[tuple[str, int, str, set[str] | None]]:
    """File, line, condition and parameter names of each TidemillError made from literals (None: not literal)."""
    for folder in ("python", "rules", "cost_model"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if not isinstance(node, ast.Call) or getattr(node.func, "id", None) != "TidemillError" or not node.args:
                    continue
                condition, given = node.args[0], node.args[1] if len(node.args) > 1 else None
                if isinstance(condition, ast.Constant):
                    keys = (
                        {str(key.value) for key in given.keys if isinstance(key, ast.Constant)}
                        if isinstance(given, ast.Dict)
                        else None
                    )
                    yield (
                        str(file.relative_to(ROOT)),
                        node.lineno,
                        str(condition.value),
                        set() if given is None else keys,
                    )


def test_every_use_gives_the_parameters_of_its_message() -> None:
    wrong = [
        f"{file}:{line}: {condition} {sorted(given or ())}"
        for file, line, condition, given in uses()
        if condition not in conditions() or (given is not None and given != set(conditions()[condition].parameters))
    ]
    assert not wrong
