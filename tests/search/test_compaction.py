"""When pieces of a state are put together, and what of it shows in a plan."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from cost_model.default import MODEL
from tidemill.explain import explained
from tidemill.explain.document import document
from tidemill.plan.change import SourceChange
from tidemill.search.contract.request import PlanRequest
from tidemill.search.contract.stored import Piece
from tidemill.search.keep.compaction import MOST_UNREAD, SHARE, due
from tidemill.search.runs.explanation import ExplainedPlan
from tidemill.search.service.planner import plan_run
from tidemill.text.parser import parse_query

SUMS = """\
source 0 t [k: long, v: long] rows=1000000
aggregate keys=[#9 := #0] calls=[#10 := sum(#1)]
  scan 0 [#0 := k, #1 := v]
"""


def followed(base: int, segments: list[int], share: float = 1.0) -> tuple[list[Piece], int, int]:
    """A state after runs with segments of so many rows: its pieces, the most there were, and all rows written.

    `share`: of the rows that are merged, how many are left.
    """
    pieces, written, most = [Piece(1, base, base, 0)], base, 1
    for rows in segments:
        found = due(pieces, MODEL)
        if found is not None:
            tail = pieces[found.first :]
            assert found.rows == sum(p.rows for p in tail)
            merged = max(*(p.rows for p in tail), round(found.rows * share))
            pieces[found.first :] = [Piece(1, merged, found.rows, sum(p.segments for p in tail))]
            written += merged
        pieces.append(Piece(1, rows, rows, 1))
        written += rows
        most = max(most, len(pieces))
    return pieces, most, written


@pytest.mark.parametrize("base", [0, 1, 1_000, 10_000_000])
@pytest.mark.parametrize("rows", [0, 1, 100])
def test_pieces_are_few_and_writing_is_in_the_size_of_the_change(base: int, rows: int) -> None:
    n = 10_000
    _, most, written = followed(base, [rows] * n)
    total = base + n * max(rows, 1)
    assert most <= 15 + math.log(total, 1 / SHARE)
    assert written <= base + 2 * n * rows * math.log2(n)


def test_pieces_are_few_whatever_the_sizes() -> None:
    dice = random.Random(7)
    sizes = [int(10 ** dice.uniform(0, 4)) for _ in range(5_000)]
    _, most, written = followed(1_000_000, sizes)
    assert most <= 40
    assert written <= 1_000_000 + 20 * sum(sizes)


def test_a_base_whose_keys_come_again_is_merged_by_rows() -> None:
    """Big segments are not merged for the sake of a few files, but if reading them again and again costs more."""
    many = [1_000_000] * 60
    assert followed(100_000_000, many)[1] == 61
    pieces = [Piece(1, 100_000_000, 200_000_000, 9), *[Piece(1, 5_000_000, 5_000_000, 1)] * 20]
    found = due(pieces, MODEL)
    assert found is not None
    assert found.first == 0


def planned(pieces: list[Piece]) -> ExplainedPlan:
    query = parse_query(SUMS)
    filled = plan_run(
        PlanRequest(query, "AUTO", {0: SourceChange(True, True, 1e6, None, None)}, frozenset(), True, None)
    )
    (state,) = filled.states
    change = SourceChange(changed=True, old_readable=True, rows=1e6, inserts=10.0, deletes=0.0)
    return plan_run(
        PlanRequest(
            query, "INCREMENTAL", {0: change}, frozenset({state.name}), False, None, pieces={state.name: pieces}
        )
    )


def test_a_compaction_is_a_step_that_shows_and_costs() -> None:
    base, segment = Piece(1, 1_000, 1_000, 0), Piece(1, 10, 10, 1)
    plain = planned([base, segment])
    assert [s.mode for s in plain.steps] == ["segment", None]
    plan = planned([base, *[segment] * 20])
    assert [s.mode for s in plan.steps] == ["compact", "segment", None]
    step = plan.steps[0]
    assert (step.name, step.first) == (f"compact {plan.states[0].name}", 1)
    assert plan.estimated >= plain.estimated + MODEL.step
    shown = [s for s in document(plan, {})["points"][0]["steps"] if s["rule"] == "compact"]
    assert [(s["form"], s["reads"], s["saves"], s["rows"]) for s in shown] == [
        ("attribute", [f"state {plan.states[0].name}"], plan.states[0].name, 200)
    ]
    held = document(plan, {})["states"][0]["holds"]
    assert shown[0]["operator"].replace(plan.states[0].name, f"'{held}'") in explained(plan, "PLAN")


def test_after_early_work_it_is_the_last_step() -> None:
    """The others read the pieces before and after the content apart."""
    query, (state,) = parse_query(SUMS), planned([Piece(1, 1_000, 1_000, 0)]).states
    change = SourceChange(changed=True, old_readable=True, rows=1e6, inserts=10.0, deletes=0.0)
    request = PlanRequest(query, "INCREMENTAL", {0: change}, frozenset({state.name}), False, None)
    pieces = [Piece(1, 1_000, 1_000, 0), *[Piece(1, 10, 10, 1)] * 30]
    plan = plan_run(
        replace(
            request,
            pieces={state.name: pieces},
            between=({0: change}, {0: change}),
            standing={state.name: 1},
            before={state.name: 30},
        )
    )
    assert [s.mode for s in plan.steps] == ["segment", None, "compact"]


@pytest.mark.parametrize(("budget", "modes"), [(1_200, ["segment", None]), (1_000, ["segment", None, "compact"])])
def test_near_its_budget_a_state_is_merged_with_what_the_run_adds(budget: int, modes: list[str | None]) -> None:
    """Else each run would find that the new piece does not fit, and be carried out twice."""
    query, (state,) = parse_query(SUMS), planned([Piece(1, 1_000, 1_000, 0)]).states
    change = SourceChange(changed=True, old_readable=True, rows=1e6, inserts=10.0, deletes=0.0)
    request = PlanRequest(query, "INCREMENTAL", {0: change}, frozenset({state.name}), False, None, budget=budget)
    plan = plan_run(replace(request, pieces={state.name: [Piece(1, 1_000, 1_000, 0, bytes=1_000)]}))
    assert [s.mode for s in plan.steps] == modes
    if modes[-1] == "compact":
        assert plan.steps[-1].first == 0


@pytest.mark.parametrize(("pieces", "compacted"), [(MOST_UNREAD, False), (MOST_UNREAD + 1, True)])
def test_a_state_that_no_run_reads_is_left_as_it_is_for_long(pieces: int, compacted: bool) -> None:
    query = parse_query(SUMS)
    filled = plan_run(
        PlanRequest(query, "AUTO", {0: SourceChange(True, True, 1e6, None, None)}, frozenset(), True, None)
    )
    name = filled.states[0].name
    change = SourceChange(changed=False, old_readable=True, rows=1e6, inserts=0.0, deletes=0.0)
    kept = {name: [Piece(1, 10, 10, 1)] * pieces}
    plan = plan_run(PlanRequest(query, "AUTO", {0: change}, frozenset({name}), False, None, pieces=kept))
    assert ("compact" in [s.mode for s in plan.steps]) == compacted
