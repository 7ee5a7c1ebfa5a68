"""Answers as text: every column of a run is there, times are the session's, tables are aligned."""

from __future__ import annotations

from typing import Any

import pytest

from tidemill.sql import readable
from tidemill.sql.answers import REFRESH

RUN: dict[str, Any] = {
    **{name: None for name, *_ in REFRESH},
    "run": 12,
    "view": "spark_catalog.default.v",
    "kind": "FULL",
    "reason": "COST: full 612 ms, incremental 900 ms",
    "methods": ["recompute", "delta"],
    "rows_in": [5, 2],
    "rows_out": [3, 0],
    "started_at": 1_700_000_000_123_456,
    "duration_ms": 812,
    "measured_cost": 611.04,
    "jobs": 4,
    "positions": {"t": "version 3"},
}


def test_a_run() -> None:
    lines = readable.of_run(list(RUN.values()), "Asia/Tokyo")
    assert [line.split()[0] for line in lines] == list(RUN)
    assert {line[:16].rstrip() for line in lines} == set(RUN), "the values begin at one place"
    shown = dict(line.split(maxsplit=1) for line in lines)
    assert shown["started_at"] == "2023-11-15 07:13:20"
    assert (shown["rows_in"], shown["methods"], shown["positions"]) == ("+5 -2", "recompute, delta", "t: version 3")
    assert shown["cpu_ms"] == "-"


@pytest.mark.parametrize("zone", ["UTC", "+09:00", "nowhere"])
def test_a_history(zone: str) -> None:
    head, *runs = readable.of_history(
        [list(RUN.values()), list((RUN | {"reason": None, "rows_out": None}).values())], zone
    )
    assert [run.index("2023-11-14") for run in runs] == [head.index("started_at")] * 2
    assert readable.of_history([], zone)[0].startswith("run  kind  reason")


def test_runs_of_several_views() -> None:
    failed = RUN | {"view": "d.w", "run": None, "kind": "FAILED", "reason": "DIVIDE_BY_ZERO", "rows_in": None}
    head, *runs = readable.of_views([list(RUN.values()), list(failed.values())], "UTC")
    assert head.split() == ["view", "run", "kind", "reason", "rows_in", "rows_out", "duration_ms", "jobs", "rows_read"]
    assert runs[1].split() == ["d.w", "-", "FAILED", "DIVIDE_BY_ZERO", "-", "+3", "-0", "812", "4", "-"]


def test_what_create_did() -> None:
    began = RUN["started_at"]
    assert readable.of_create("v", None, began) == "v is created and not filled: the first REFRESH fills it"
    made = readable.of_create("v", list(RUN.values()), began)
    assert made == "spark_catalog.default.v is created and holds 3 rows: run 12, 812 ms, 4 jobs"
    assert "was there already" in readable.of_create("v", list(RUN.values()), began + 1)
