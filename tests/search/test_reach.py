"""Random windows over few rows, maintained from the first row on that a change reaches, and in no other way."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias
from unittest import mock

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.model import maintain as maintaining
from tests.model.maintain import View
from tests.model.mode import Mode
from tests.model.semantics import Record
from tidemill.plan.change import SourceChange
from tidemill.search.contract.request import PlanRequest
from tidemill.search.runs.explanation import ExplainedPlan
from tidemill.search.service.planner import plan_run

Draw: TypeAlias = Callable[[st.SearchStrategy[Any]], Any]

EXAMPLES = int(os.environ.get("TIDEMILL_EXAMPLES", "0"))
SOURCE = "source 0 t [a: long, b: long, c: long] rows=1000000\n"
SCAN = "\n  scan 0 [#0 := a, #1 := b, #2 := c]"
PHASES = [Phase.explicit, Phase.generate]
OTHERS = frozenset({"affected_partitions", "touched_keys", "difference"})
VALUES = st.sampled_from([None, 0, 1, 2, 3])
RECORDS = st.builds(lambda a, b, c: {"a": a, "b": b, "c": c}, st.sampled_from([None, 1]), VALUES, VALUES)


@st.composite
def windows(draw: Draw) -> str:
    """A window in an order without real ties, or in one where rows tie and have the same values for that."""

    def one(*choices: str | int) -> str | int:
        chosen: str | int = draw(st.sampled_from(choices))
        return chosen

    by = ", ".join(f"#{c} {one('asc', 'desc')} nulls {one('first', 'last')}" for c in draw(st.permutations([0, 1, 2])))
    since = one("", "", " since=[#2]", " since=[#1, #2]")
    rows = f"rows={one(0, 0, 1, 2)},{one(0, 0, 1)}{since}{one('', '', ' whole any order', ' whole in order')}"
    if one(True, False, False, False):
        by, rows = by.split(",")[0], "rows=0,0 whole any order"
    return f"window [#0, #1, #2, #3] partition=[{one('', '#0')}] order=[{by}] {rows} (around)"


@st.composite
def changes(draw: Draw, rows: list[Record]) -> list[tuple[Record, int]]:
    gone = [row for row in rows if draw(st.sampled_from([False, False, False, True]))]
    come = draw(st.lists(RECORDS, max_size=2))
    return [*((row, -1) for row in gone), *((row, 1) for row in come)]


def row(b: int | None, c: int | None) -> Record:
    return {"a": 1, "b": b, "c": c}


TIED_AT_THE_START = (
    "window [#0, #1, #2, #3] partition=[#0] order=[#1 asc nulls first, #2 asc nulls first] rows=2,1 (around)",
    [row(3, 0), row(3, 1), row(4, 1), row(4, 2), row(4, 3)],
    [[(row(5, 0), 1)]],
)
"""Rows of the first value that is reached are reached from the first of them on, and so are the rows read for that."""


def maintain(window: str, rows: list[Record], next_change: Callable[[list[Record]], list[tuple[Record, int]]]) -> None:
    view = View(SOURCE + window + SCAN, {0: rows}, Mode(off=OTHERS, policy="INCREMENTAL"))
    for _ in range(2):
        change = next_change(list(view.tables[0]))
        view.refresh({0: change})
        assert view.kinds[-1] in {"INCREMENTAL", "NO_DATA"}


@settings(
    max_examples=EXAMPLES or 60,
    derandomize=not EXAMPLES,
    deadline=None,
    phases=PHASES,
    suppress_health_check=list(HealthCheck),
)
@given(st.data(), windows(), st.lists(RECORDS, max_size=9))
def test_a_window_is_maintained_from_the_first_row_reached_on(
    data: st.DataObject, window: str, rows: list[Record]
) -> None:
    maintain(window, rows, lambda now: data.draw(changes(now), "changes"))


def test_rows_that_share_the_value_at_which_they_are_reached_are_all_read() -> None:
    window, rows, (change,) = TIED_AT_THE_START
    left = [change, []]
    maintain(window, rows, lambda _: left.pop(0))


@pytest.mark.parametrize("rows", ["rows=0,0", "rows=0,1"])
def test_a_value_that_ties_is_carried_on_as_it_was(rows: str) -> None:
    """Which of the rows that tie is the last one is free, and shuffled, but the same one for all rows behind."""
    window = f"window [#0, #1, #2, #3] partition=[#0] order=[#1 asc nulls first] {rows} since=[#2] (around)"
    differences = set()
    for seed in range(12):
        start = [row(0, None), row(1, 1), row(1, 2), row(3, None), row(4, None), row(4, None)]
        mode = Mode(off=OTHERS, policy="INCREMENTAL")
        view = View(SOURCE + window + SCAN, {0: start}, mode, valid=lambda *_: None, seed=seed)
        view.refresh({0: [(row(4, None), 1), (row(4, None), 1)]})
        assert view.kinds[-1] == "INCREMENTAL"
        three, four = (max(value for _, b, _, value in view.rows() if b == at) for at in (3, 4))
        differences.add(four - three)
    assert len(differences) == 1


@pytest.mark.parametrize("rows", ["rows=0,0 since=[#2]", "rows=2,0"])
def test_a_way_that_is_dearer_is_tried_and_left(rows: str) -> None:
    """To look at rows before the first changed one takes one more scan: here it costs more than it saves."""
    window = f"window [#0, #1, #2, #3] partition=[#0] order=[#1 asc nulls first] {rows} (around)"

    def plan(request: PlanRequest) -> ExplainedPlan:
        known = SourceChange(True, True, rows=301_400.0, inserts=200.0, deletes=0.0, direct=True, values={"a": 2000.0})
        return plan_run(replace(request, sources={0: known}, rows=301_200.0))

    costs = []
    for off in (frozenset({"reached_rows"}), frozenset[str]()):
        view = View(SOURCE + window + SCAN, {0: [row(1, 1)]}, Mode(off=off, policy="INCREMENTAL"))
        with mock.patch.object(maintaining, "plan_run", plan):
            costs.append(view.refresh({0: [(row(2, None), 1)]}).estimated)
    assert costs[1] <= costs[0]
