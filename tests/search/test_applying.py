"""What a run does beside its operators, in its estimate: writing the rows of steps, applying the view's change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cost_model.default import MODEL
from tests.search.test_planner import EXTREMA, SUMS, T, U, change, planned
from tidemill.explain import explained
from tidemill.plan.change import SourceChange
from tidemill.search.contract.request import PlanRequest
from tidemill.search.contract.stored import FEW_MARKED, MOST_FOUND, MOST_PLACED_FILES, SMALL_RESULT_BYTES, Layout
from tidemill.search.runs.applying import Content
from tidemill.search.runs.explanation import ExplainedPlan
from tidemill.search.service.planner import plan_run
from tidemill.settings import PlannerSettings
from tidemill.text.parser import parse_query

ROWS = 1e6
FIND, CUT, COME = "find rows that leave", "cut rows that leave", "write rows that come"
ANEW = "write the content anew"
COLUMNS = {"k": "long", "s": "string", "x": "double", "y": "decimal(12,2)"}
LARGE = Layout(2, 5e7, ("k",))


def jobs(plan: ExplainedPlan) -> list[str]:
    return [job.name for job in plan.explanation.jobs]


def applied(
    inserts: float, deletes: float, layout: Layout = LARGE, *, keys: Any = ("k",), placed: bool = False
) -> tuple[list[str], float]:
    """Names and cost of the jobs that apply a change to a content of a million rows."""
    content = Content.of(ROWS, COLUMNS, layout, keys)
    found = list(content.applying(inserts, deletes, MODEL, placed=placed))
    return [job.name for job in found], sum(float(job.cost) for job in found)


def test_a_full_run_costs_what_it_writes() -> None:
    """As many rows as the content has, by their columns."""
    text, unchanged = "join inner [(#0 = #2)]\n" + T + U, {0: change(), 1: change(changed=False)}
    few, many = (planned(text, unchanged, policy="FULL", full_reason="POLICY", rows=rows) for rows in (1e4, 1e6))
    assert jobs(few) == jobs(many) == ["write result"]
    (small,), (large,) = few.explanation.jobs, many.explanation.jobs
    assert (small.rows, large.rows) == (1e4, 1e6)
    assert large.cost - small.cost == pytest.approx(MODEL.writing(1e6, ["long"] * 4) - MODEL.writing(1e4, ["long"] * 4))
    assert many.estimated - few.estimated >= large.cost - small.cost


def test_columns_are_written_one_by_one() -> None:
    none, number, text = (
        MODEL.writing(ROWS, types) - MODEL.job for types in (["long"], ["long"] * 2, ["long", "string"])
    )
    assert number - none == pytest.approx(ROWS * MODEL.encode)
    assert text - none == pytest.approx(ROWS * MODEL.encode_text)
    assert MODEL.writing(ROWS, ["string collate UNICODE"]) == MODEL.writing(ROWS, ["string"])


def test_a_step_is_written_once() -> None:
    """States too; what is shared is priced by its choice."""
    first = planned(SUMS, first=True)
    (state,) = first.states
    assert jobs(first) == [f"write base of {state.name}", "write result"]
    plan = planned(SUMS, states=frozenset({state.name}))
    assert jobs(plan)[:2] == [f"write segment of {state.name}", "write delta"]
    assert plan.estimated == pytest.approx(plan.explanation.costs[0])
    shared = planned("join full [(#0 = #2)]\n" + T + U, policy="STRICT")
    assert "shared" in {step.target for step in shared.steps}
    assert jobs(shared)[0] == "write delta"


def test_small_files_that_are_merged_count() -> None:
    """With the rows that come, in one job; a content that is written anew has no need of it."""
    crowd = replace(LARGE, files=12, merged=2e7)
    assert applied(100.0, 0.0, crowd)[0] == ["write rows that come, and small files anew"]
    assert applied(0.0, 0.0, crowd) == ([], 0.0)
    names, cost = applied(0.0, 5.0, crowd, placed=True)
    assert names == [CUT, "write rows that come, and small files anew"]
    merged = MODEL.rewriting(0.4 * ROWS, 0.4 * ROWS, list(COLUMNS.values()), grouped=False)
    assert cost - applied(0.0, 5.0, placed=True)[1] == pytest.approx(float(merged))
    small = replace(crowd, bytes=SMALL_RESULT_BYTES, merged=SMALL_RESULT_BYTES)
    assert applied(1.0, 1.0, small)[0] == [ANEW]


def test_rows_that_only_come_take_one_job() -> None:
    assert applied(100.0, 0.0)[0] == [COME]
    assert applied(100.0, 0.4) == applied(100.0, 0.0)
    assert applied(0.0, 0.0) == ([], 0.0)


def test_rows_that_leave_are_found_and_cut() -> None:
    """Or marked; by the columns of a key, or all; not where their places are known."""
    names, cost = applied(100.0, 100.0)
    assert names == [FIND, CUT, COME]
    assert applied(0.0, 100.0)[0] == [FIND, CUT]
    marked, cheaper = applied(100.0, 100.0, replace(LARGE, marks=True))
    assert marked == [FIND, COME]
    placed, cheapest = applied(100.0, 100.0, replace(LARGE, marks=True), placed=True)
    assert placed == [COME]
    assert cost > cheaper > cheapest
    assert applied(100.0, 100.0, replace(LARGE, files=MOST_PLACED_FILES + 1), placed=True)[0] == [FIND, CUT, COME]
    few = Content.of(FEW_MARKED * 100.0, COLUMNS, replace(LARGE, marks=True), ("k",))
    for deletes, then in ((100.0, [FIND]), (101.0, [FIND, CUT])):
        assert [job.name for job in few.applying(0.0, deletes, MODEL, placed=False)] == then


@pytest.mark.parametrize("keys", [None, ("s",)], ids=["no key", "another key than before"])
def test_without_a_key_all_columns_are_compared(keys: Any) -> None:
    assert applied(1.0, 1.0, keys=keys)[1] > applied(1.0, 1.0)[1]
    assert applied(1.0, 1.0, replace(LARGE, keys=keys))[1] > applied(1.0, 1.0)[1]


def test_a_key_that_spark_compares_otherwise_does_not_find_rows() -> None:
    collated = {**COLUMNS, "k": "string collate UNICODE_CI"}
    content = Content.of(ROWS, collated, LARGE, ("k",))
    assert content.compared == [*collated.values()]


def test_a_small_content_and_many_rows_that_leave_are_written_anew() -> None:
    assert applied(1.0, 1.0, replace(LARGE, bytes=SMALL_RESULT_BYTES))[0] == [ANEW]
    names, cost = applied(1.0, MOST_FOUND + 1.0)
    assert names == ["find files with rows that leave", ANEW]
    assert cost > applied(1.0, float(MOST_FOUND))[1]


def test_a_change_is_applied_by_the_signs_of_its_sources() -> None:
    """Only rows that come, as many as leave, or a replaced row for each touched group."""
    text = "filter [(#1 > 3)]\n" + T
    more = change(deletes=0.0)
    plan = planned(text, {0: more}, policy="STRICT", layout=LARGE)
    assert jobs(plan) == ["write delta", COME]
    assert jobs(planned(text, policy="STRICT", layout=LARGE)) == ["write delta", FIND, CUT, COME]
    joined = planned("join inner [(#0 = #2)]\n" + T + U, {0: more, 1: more}, policy="STRICT", layout=LARGE)
    assert jobs(joined)[-2:] == ["write delta", COME]
    few = change(inserts=100.0, deletes=0.0)
    assert jobs(planned(EXTREMA, {0: few}, policy="STRICT", layout=LARGE))[-2:] == [CUT, COME]


def test_rows_read_of_the_content_tell_their_places() -> None:
    """The old rows of touched groups come from the content, so nothing searches for them."""
    plan = planned(EXTREMA, {0: change(inserts=100.0, deletes=0.0)}, policy="STRICT", layout=LARGE)
    assert any("result" in str(step.plan) for step in plan.steps)
    assert FIND not in jobs(plan)


def test_the_rows_to_be_written_decide() -> None:
    """The same changes of the same sources: a small content is made anew, a large one is not."""
    named = ", ".join(f"#{i} := {field}" for i, field in enumerate("abc"))
    scans = [named, named.replace("#0", "#3").replace("#1", "#4").replace("#2", "#5")]
    scans += [named.replace("#0", "#6").replace("#1", "#7").replace("#2", "#8")]
    text = "".join(f"source {i} t{i} [a: long, b: string, c: double] kind=delta rows=100000\n" for i in range(3))
    text += "join inner [(#0 = #3), (#3 = #6)]\n" + "".join(f"  scan {i} [{scan}]\n" for i, scan in enumerate(scans))
    some = SourceChange(changed=True, old_readable=True, rows=1e5, inserts=5e3, deletes=5e2)

    def kind(rows: float) -> str:
        asked = PlanRequest(parse_query(text), "AUTO", dict.fromkeys(range(3), some), frozenset(), False, None)
        return plan_run(replace(asked, rows=rows, layout=Layout(2, 40 * rows))).kind

    assert (kind(1e3), kind(3e6)) == ("FULL", "INCREMENTAL")


def test_explain_shows_what_is_written_and_applied() -> None:
    plan = planned("filter [(#1 > 3)]\n" + T, policy="STRICT", layout=LARGE)
    for mode in ("COST", "PLAN"):
        shown = explained(plan, mode)
        assert all(name in shown for name in ("write delta", FIND, CUT, COME)), mode
    lines = explained(plan, "PLAN").split("\n")
    first = next(i for i, line in enumerate(lines) if COME in line)
    assert [name in line for name, line in zip((COME, CUT, FIND, "write delta"), lines[first:], strict=False)] == [
        True
    ] * 4


def test_rows_that_arrive_are_all_that_tuples_count() -> None:
    settings = PlannerSettings(cost_model="tuples")
    assert jobs(planned(EXTREMA, policy="STRICT", settings=settings, layout=LARGE)) == []
