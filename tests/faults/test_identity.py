"""A state is the same state in every process: found by its name, read where it lies, never computed again."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import newest_entry
from tests.faults import identity_worker
from tests.faults.processes import running

pytestmark = pytest.mark.slow


def lived(folder: Path, number: int) -> dict[str, Any]:
    """The rows of the refreshes of a process, by view; each process hashes strings in its own way."""
    command = [sys.executable, "-m", identity_worker.__name__, str(folder), str(number)]
    with running(folder, f"life{number}", command, {"PYTHONHASHSEED": str(number + 1)}) as process:
        process.ended_well(300)
        rows: dict[str, Any] = json.loads(process.lines[-1])
        return rows


def states(folder: Path) -> dict[str, dict[str, list[str]]]:
    """By view and name, the files of each state's pieces."""
    found = {view: newest_entry(folder / view)["states"] for view in identity_worker.queries(folder)}
    return {
        view: {name: [f["path"] for p in state["pieces"] for f in p["files"]] for name, state in kept.items()}
        for view, kept in found.items()
    }


def test_states_across_processes(tmp_path: Path) -> None:
    before: dict[str, dict[str, list[str]]] = {}
    for number in range(3):
        rows = lived(tmp_path, number)
        for view, row in rows.items():
            assert (row["run"], row["kind"], row["reason"]) == (number + 1, "INCREMENTAL", None), view
            assert "recompute" not in row["methods"], view
            assert row["rows_in"] == {"inserts": 1, "deletes": 0}, view
        after = states(tmp_path)
        for view, kept in before.items():
            assert kept.keys() == after[view].keys() != set(), view
            assert {name: paths[0] for name, paths in kept.items()} == {n: p[0] for n, p in after[view].items()}, view
        before = after
