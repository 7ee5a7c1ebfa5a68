"""Small changes that are read twice, or that meet much, are read once and first."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plan.test_plan import query
from tidemill.cost.costing import FEW_ROWS
from tidemill.plan.change import SourceChange
from tidemill.runtime.run.changesets import BIG_BYTES, read_first
from tidemill.search.contract.run_plan import Step, Volume
from tidemill.wire import nodes, questions

QUERY = query("scan 0 [#0 := a, #1 := b]")
CHANGE = nodes.changes(0, [(7, "a")], 8, 0, 1)
FULLER = nodes.changes(0, [(9, "b"), (10, "a")], 11, 0, 1)
EARLIER = nodes.changes(0, [(7, "a")], 8, 1, 2)
STATE = nodes.state("s", [(20, "a", "long")])


def step(name: str, plan: Any) -> Step:
    return Step(name, "shared", None, None, plan, (), Volume())


def split(*steps: Step, rows: float | None = 3.0, size: float = BIG_BYTES, total: float = 1e9) -> tuple[Step, ...]:
    change = SourceChange(changed=True, old_readable=True, bytes=total, inserts=rows, deletes=0.0)
    return read_first(steps, QUERY, {0: change}, lambda leaf: size if nodes.kind_of(leaf) == "state" else 0.0)


def test_a_change_that_meets_much_is_read_first() -> None:
    found = split(step("d", nodes.join("inner", [], CHANGE, STATE)))
    assert [s.name for s in found] == ["change of source 0 from 0 to 1", "d"]
    first, second = found
    assert first.target == "shared"
    assert first.columns == ((0, "a"), (1, "_n"))
    (staged, state) = nodes.inputs_of(second.plan)
    assert staged == nodes.staged(first.name, [(7, "a", "long"), (8, "_n", "long")])
    assert state == STATE


def test_all_its_columns_are_read_at_once() -> None:
    found = split(step("one", CHANGE), step("two", FULLER), step("other", EARLIER))
    assert [s.name for s in found] == ["change of source 0 from 0 to 1", "one", "two", "other"]
    assert [field for _, field in found[0].columns] == ["a", "b", "_n"]
    assert [questions.count(s.plan, "changes") for s in found] == [1, 0, 0, 1]


@pytest.mark.parametrize(
    "steps",
    [
        split(step("d", nodes.join("inner", [], CHANGE, STATE)), rows=FEW_ROWS + 1.0),
        split(step("d", nodes.join("inner", [], CHANGE, STATE)), rows=None),
        split(step("d", nodes.join("inner", [], CHANGE, STATE)), size=BIG_BYTES - 1),
        split(step("d", CHANGE)),
    ],
    ids=["many rows", "unknown", "small other side", "no join"],
)
def test_others_stay(steps: tuple[Step, ...]) -> None:
    assert [s.name for s in steps] == ["d"]


def test_the_change_of_a_small_source_is_small() -> None:
    assert len(split(step("d", nodes.join("inner", [], CHANGE, STATE)), rows=None, total=1000.0)) == 2
