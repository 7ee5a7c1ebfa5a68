"""States in the order of a column: few keys that a run has written are looked up in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from cost_model.default import MODEL
from tests.model.maintain import View
from tests.model.mode import Mode
from tests.search.test_cases import SOURCES, VIEWS, T, maintained, plan
from tests.search.test_cuts import nodes
from tidemill.cost.costing import LOOKED_UP_KEYS
from tidemill.explain import explained
from tidemill.plan.change import SourceChange
from tidemill.plan.ops import Aggregate, LookUp, Partial
from tidemill.search.contract.request import PlanRequest
from tidemill.search.contract.run_plan import RunPlan
from tidemill.search.contract.stored import Piece
from tidemill.search.runs import task
from tidemill.search.runs.explanation import ExplainedPlan
from tidemill.search.service.plan_cache import PlanCache
from tidemill.search.service.planner import plan_run
from tidemill.settings import PlannerSettings
from tidemill.text.parser import parse_query

SUMS = plan(
    "aggregate keys=[#9 := #0, #10 := #1, #11 := #2] calls=[#12 := count(*), #13 := sum(#1)]",
    T,
)
KEYS = SOURCES.replace("x: double", "x: long", 1)
"""The sources with three numbers in the first: so many groups of all three can there be."""
ROWS = 5_000_000


def looked_up(found: ExplainedPlan, step: int | None = None) -> list[Mapping[str, Any]]:
    """What is looked up in a run, or by one of its steps."""
    steps = found.steps if step is None else found.steps[step : step + 1]
    return [node["among"] for s in steps for node, _ in nodes(s.plan) if "among" in node]


def filling(text: str, expected: float | None = 10, prefer: str | None = None) -> tuple[PlanRequest, ExplainedPlan]:
    """The first run of a view over large tables, to each of which so many rows are expected to come from run to run."""
    query = parse_query(KEYS + text)
    request = PlanRequest(
        query,
        "STRICT",
        dict.fromkeys(query.sources, SourceChange(True, True, rows=1e8, bytes=1e10, direct=True)),
        frozenset(),
        first=True,
        full_reason=None,
        cycle={} if expected is None else dict.fromkeys(query.sources, (expected, 0.0)),
        settings=PlannerSettings(prefer=prefer),
    )
    return request, plan_run(request)


def request_after(
    text: str, inserts: float, *, order: bool = True, segments: Sequence[int] = (), prefer: str | None = None
) -> PlanRequest:
    """What is asked of the planner after so many rows came to the sources of a view, whose states are large.

    `segments`: rows of their pieces after the base.
    """
    request, filled = filling(text, prefer=prefer)
    orders = {step.state: step.order for step in filled.steps if step.mode == "base"}
    later = [Piece(1, rows, rows, 1) for rows in segments]
    pieces = {s.name: [Piece(1, ROWS, 2 * ROWS, 0, orders[s.name] if order else None), *later] for s in filled.states}
    sources = {n: replace(s, inserts=inserts, deletes=0) for n, s in request.sources.items()}
    return replace(request, first=False, sources=sources, states=frozenset(pieces), pieces=pieces, chosen=filled.chosen)


def run_after(
    text: str, inserts: float, *, order: bool = True, segments: Sequence[int] = (), prefer: str | None = None
) -> ExplainedPlan:
    """The plan of the run that `request_after` asks for."""
    return plan_run(request_after(text, inserts, order=order, segments=segments, prefer=prefer))


def test_groups_of_few_keys_are_looked_up() -> None:
    found = run_after(SUMS, 10)
    segment, delta = found.steps
    (among,) = looked_up(found)
    assert among["step"] == segment.name
    assert among["field"] in {field for _, field in segment.columns}
    assert among["nulls"]  # NULL is a key of a group like any other
    assert delta.target == "delta"
    assert any(isinstance(u.expression.op, LookUp) for u in found.explanation.used)
    assert "in the order of" in explained(found, "STATE")


@pytest.mark.parametrize(("inserts", "order"), [(50 * LOOKED_UP_KEYS, True), (10, False)])
def test_many_keys_are_not_nor_is_anything_in_what_has_no_order(inserts: float, order: bool) -> None:
    assert looked_up(run_after(SUMS, inserts, order=order)) == []


def test_what_is_looked_up_costs_less() -> None:
    with_order, without = (run_after(SUMS, 10, order=order).estimated for order in (True, False))
    assert with_order < without / 5


def test_keys_are_written_so_that_they_can_be_looked_up() -> None:
    """Those that rows are asked for by in a state of rows, though nothing else reads them twice."""
    text = VIEWS["anti join of semi joins"]
    found = run_after(text, 5, prefer="affected")
    assert looked_up(found)
    for among in looked_up(found):
        (step,) = (s for s in found.steps if s.name == among["step"])
        assert among["field"] in {field for _, field in step.columns}
        readers = [i for i in range(len(found.steps)) if among in looked_up(found, i)]
        assert found.steps.index(step) < min(readers)


def test_a_base_is_in_the_order_of_the_key_with_most_values() -> None:
    text = SOURCES.replace("[a: long, b: long, x: double]", "[a: double, b: string, x: date]", 1) + SUMS.replace(
        "sum(#1)", "count(#1)"
    )
    query = parse_query(text)
    request = PlanRequest(
        query,
        "STRICT",
        {0: SourceChange(True, True, rows=1e8)},
        frozenset(),
        first=True,
        full_reason=None,
        cycle={0: (10.0, 0.0)},
    )
    (base,) = (step for step in plan_run(request).steps if step.mode == "base")
    names = {field: column for column, field in base.columns}
    assert base.order is not None
    assert names[base.order] == 10, "of a double Parquet keeps no order that Spark has"


@pytest.mark.parametrize(("expected", "ordered"), [(10, True), (100 * LOOKED_UP_KEYS, False), (None, False)])
def test_a_base_is_put_in_order_for_runs_that_ask_for_few_keys(expected: float | None, ordered: bool) -> None:
    """Where nobody said what is to come, a hundredth of the table is taken to."""
    _, plan = filling(SUMS, expected)
    (base,) = (step for step in plan.steps if step.mode == "base")
    assert (base.order is not None) == ordered


def test_an_order_is_part_of_what_the_filling_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    _, plan = filling(SUMS)
    monkeypatch.setattr(task, "cost_model", lambda *_: replace(MODEL, order=0.0))
    _, free = filling(SUMS)
    assert [step.order for step in free.steps] == [step.order for step in plan.steps]
    rows = next(u.rows for u in plan.explanation.used if isinstance(u.expression.op, Partial | Aggregate))
    assert plan.estimated - free.estimated == pytest.approx(MODEL.ordering(rows))


def in_order(found: RunPlan) -> bool:
    """Whether a run puts a base in order that was not."""
    return any(step.mode == "compact" and step.first == 0 and step.order is not None for step in found.steps)


def test_a_base_is_put_in_order_once_runs_have_asked_for_few_keys_for_long_enough() -> None:
    """As long as all of it being read costs less than that."""
    runs = [n for n in range(1, 41) if in_order(run_after(SUMS, 10, order=False, segments=[10] * n))]
    assert runs == list(range(runs[0], 41))
    read, written = MODEL.load(ROWS), MODEL.merging(1, ROWS, ROWS) + MODEL.ordering(ROWS)
    assert runs[0] == pytest.approx(written / read, abs=1)
    plan = run_after(SUMS, 10, order=False, segments=[10] * runs[0])
    assert "in the order of" in explained(plan, "STATE")


@pytest.mark.parametrize("inserts", [10, 50 * LOOKED_UP_KEYS])
def test_runs_in_which_much_came_are_no_reason_to(inserts: float) -> None:
    """Nor does a run to which much came put anything in order."""
    much = 10 * LOOKED_UP_KEYS if inserts == 10 else 10
    assert not in_order(run_after(SUMS, inserts, order=False, segments=[much] * 40))


def test_a_plan_that_was_made_before_is_not_taken_over_when_a_base_is_to_be_put_in_order() -> None:
    plans, searches = PlanCache(), 0

    def search(request: PlanRequest) -> RunPlan:
        nonlocal searches
        searches += 1
        return plan_run(request).bare

    found = [plans.plan(request_after(SUMS, 10, order=False, segments=[10] * n), search) for n in (1, 2, 40)]
    assert searches == 2
    assert list(map(in_order, found)) == [False, False, True]


@pytest.mark.parametrize(("rows", "base"), [(1_000, False), (100_000, True)])
def test_the_order_lasts_as_long_as_the_base(rows: int, base: bool) -> None:
    """A merge that takes the base in writes the order again, one of segments alone has none."""
    (merge,) = (step for step in run_after(SUMS, 10, segments=[rows] * 40).steps if step.mode == "compact")
    assert (merge.first == 0, merge.order is not None) == (base, base)


@pytest.mark.slow
def test_plans_drawn_by_chance_use_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The differential suite meets them in every kind of view; here it is seen that it does."""
    used: list[Mapping[str, Any]] = []

    def noted(self: View, found: ExplainedPlan, execute: Any = View._execute) -> None:
        used.extend(looked_up(found))
        execute(self, found)

    monkeypatch.setattr(View, "_execute", noted)
    for name in ("sums", "anti join of semi joins", "sums joined", "left join, null-safe"):
        for seed in range(3):
            for prefer in (None, "affected"):
                maintained(VIEWS[name], Mode(prefer=prefer, keep=1.0, shake=seed or None, ordered=True), seed, 3)
    assert len(used) > 5
