"""Strings of kinds that come from outside are checked where they are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tidemill.runtime.view.history import RunRow
from tidemill.sql.codec import action_from_json
from tidemill.wire.query_document import read_query

DOCUMENT = {"version": 1, "columns": [], "expressions": [], "sources": [], "output": []}
SCAN = {"op": "scan", "source": 0, "columns": []}
SOURCE = {"source": 0, "kind": "table", "name": "t", "id": "t", "fields": []}


def join(kind: str) -> dict[str, Any]:
    return {"op": "join", "kind": kind, "condition": [], "inputs": [SCAN, SCAN]}


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda: read_query({**DOCUMENT, "root": join("outer")}), "a join's kind .* not 'outer'"),
        (lambda: read_query({**DOCUMENT, "root": SCAN, "sources": [SOURCE]}), "a source's kind .* not 'table'"),
        (lambda: action_from_json({"kind": "set_policy", "policy": "FAST"}), "policy .* not 'FAST'"),
        (lambda: RunRow.from_json({"run": 1, "kind": "HALF"}), "a run's kind .* not 'HALF'"),
    ],
)
def test_a_kind_that_does_not_exist_is_an_error(read: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read()
