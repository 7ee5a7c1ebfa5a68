"""Full against incremental runs, refusals, states chosen."""

from __future__ import annotations

import re
from collections.abc import Mapping
from textwrap import indent
from typing import Any
from unittest import mock

import pytest

from cost_model.default import MODEL
from tidemill.errors import TidemillError
from tidemill.explain import explained
from tidemill.explain.document import document
from tidemill.plan.change import SourceChange
from tidemill.plan.ops import Aggregate, Filter
from tidemill.rule.engine import Budget
from tidemill.rule.registry import load_rules
from tidemill.search.choose import sharing
from tidemill.search.choose.sharing import Shared
from tidemill.search.contract.choice import Choice
from tidemill.search.contract.past import Past, PastRun
from tidemill.search.contract.request import PlanRequest
from tidemill.search.contract.stored import Piece
from tidemill.search.runs import task
from tidemill.search.runs.explanation import ExplainedPlan
from tidemill.search.runs.task import PlanningTask
from tidemill.search.service.planner import plan_run
from tidemill.search.space.space import Kept, SpaceRequest, explore_space, normal_query
from tidemill.settings import PlannerSettings
from tidemill.text.parser import parse_query

SOURCES = """\
source 0 t [a: long, b: long] rows=10000000
source 1 u [a: long, c: long] rows=50000000
source 2 w [a: long, d: long] rows=1000
"""
T, U = "  scan 0 [#0 := a, #1 := b]\n", "  scan 1 [#2 := a, #3 := c]\n"
SUMS = "aggregate keys=[#9 := #0] calls=[#10 := sum(#1)]\n" + T
EXTREMA = "aggregate keys=[#9 := #0] calls=[#10 := min(#1)]\n" + T
WINDOW = "opaque Window [#0, #1, #9] (windows have no rule yet)\n" + T


def change(share: float = 0.001, **more: Any) -> SourceChange:
    facts: dict[str, Any] = {"changed": True, "old_readable": True, "rows": 1e7}
    return SourceChange(**{**facts, "inserts": share * 1e7, "deletes": share * 1e7, **more})


def planned(text: str, changes: Mapping[int, SourceChange] | None = None, **more: Any) -> ExplainedPlan:
    query = parse_query(SOURCES + text)
    sources = {n: change() for n in query.sources} if changes is None else changes
    request: dict[str, Any] = {"policy": "AUTO", "states": frozenset(), "first": False, "full_reason": None}
    if not more.get("first"):
        request["rows"] = 2e6  # of the content
    return plan_run(PlanRequest(query=query, sources=sources, **{**request, **more}))


def operators(node: Mapping[str, Any]) -> list[str]:
    """The operators of a wire plan, parents first."""
    return [node["op"], *(x for i in node.get("inputs", ()) for x in operators(i))]


def scanned(node: Mapping[str, Any]) -> set[int]:
    """The sources whose snapshots a wire plan reads."""
    below = set[int]().union(*map(scanned, node.get("inputs", ())))
    return below | ({node["source"]} if node["op"] == "scan" else set())


def test_a_small_change_is_followed_and_a_large_one_is_not() -> None:
    assert planned(EXTREMA).kind == "INCREMENTAL"
    large = planned(EXTREMA, {0: change(share=3.0)} | {n: change(changed=False) for n in (1, 2)})
    assert (large.kind, large.methods) == ("FULL", ("recompute",))
    assert re.fullmatch(r"COST: full \d+ ms, incremental \d+ ms", large.reason or "")


def test_what_runs_took_decides_where_that_is_known_of_both_sides() -> None:
    """Full runs took more than was estimated, incremental ones less; and the other way round."""
    many = {0: change(share=3.0)} | {n: change(changed=False) for n in (1, 2)}
    whole, part = planned(EXTREMA, many).compared or (0.0, 0.0)
    assert planned(EXTREMA, many).kind == "FULL"
    known = [PastRun("FULL", whole, 50 * whole), PastRun("INCREMENTAL", part, part / 2)]
    plan = planned(EXTREMA, many, past=Past(known))
    assert plan.kind == "INCREMENTAL"
    assert plan.rejected == pytest.approx(50 * whole)
    few = planned(EXTREMA)
    whole, part = few.compared or (0.0, 0.0)
    known = [PastRun("FULL", whole, 0.6 * whole), PastRun("INCREMENTAL", part, 9 * part)]
    plan = planned(EXTREMA, past=Past(known))
    assert plan.kind == "FULL"
    assert plan.reason == f"COST: full {0.6 * whole:.0f} ms, incremental {9 * part:.0f} ms"
    assert plan.rejected == pytest.approx(9 * part)
    plan = planned(EXTREMA, past=Past(known), policy="STRICT")
    assert plan.kind == "INCREMENTAL"
    assert plan.rejected == pytest.approx(0.6 * whole)


def test_the_alternative_of_a_kind_that_alone_has_run_is_tried_if_that_took_far_too_long() -> None:
    many = {0: change(share=3.0)} | {n: change(changed=False) for n in (1, 2)}
    whole, part = planned(EXTREMA, many).compared or (0.0, 0.0)
    even = (part / whole) ** 2  # whole * even == part * sqrt(even)
    for times, kind in ((0.9 * even, "FULL"), (1.1 * even, "INCREMENTAL")):
        plan = planned(EXTREMA, many, past=Past([PastRun("FULL", whole, times * whole)]))
        assert (plan.kind, plan.rejected is None) == (kind, kind == "FULL")


def test_a_full_run_by_reason() -> None:
    assert planned(SUMS, first=True).reason == "FIRST"
    assert planned(SUMS, full_reason="SCHEMA_CHANGED").reason == "SCHEMA_CHANGED"


@pytest.mark.parametrize("policy", ["INCREMENTAL", "STRICT"])
def test_what_has_no_rule_is_refused_by_name(policy: str) -> None:
    with pytest.raises(TidemillError) as caught:
        planned(WINDOW, policy=policy)
    assert "a window function: windows have no rule yet" in str(caught.value)
    with pytest.raises(TidemillError, match="aggregate: no rule but recompute"):
        planned(EXTREMA, policy=policy, settings=PlannerSettings(packs=frozenset({"delta", "recompute"})))


def test_a_state_of_rows_is_not_looked_for_among_those_of_parts() -> None:
    text = "aggregate keys=[#20 := #9] calls=[#21 := count(*)]\n  limit 2 order=[#10 asc nulls first]\n" + "\n".join(
        "    " + x for x in EXTREMA.splitlines()
    )
    found = explore_space(
        SpaceRequest(normal_query(parse_query(SOURCES + text)), [{0: change()}], 1, Kept(None)), [], MODEL, Budget()
    )
    every = frozenset(c.name for c in found.candidates)
    with mock.patch.object(PlanningTask, "worth_keeping", return_value=every):
        first = planned(text, first=True)
    assert {s.form for s in first.states} == {"attribute", "snapshot"}
    some = frozenset(s.name for s in first.states if s.form == "attribute")
    assert planned(text, states=some, stored=first.states).kind == "FULL"  # the rows are not there: no error


def test_a_state_that_is_not_kept_is_no_missing_rule() -> None:
    text = "project [#9]\n  filter [(#10 > 3)]\n    aggregate keys=[#9 := #0] calls=[#10 := first(#1)]\n    " + T
    query = normal_query(parse_query(SOURCES + text))
    found = explore_space(SpaceRequest(query, [{0: change()}], 1, Kept(None)), [], MODEL, Budget())
    names = {type(found.memo.tvrs[c.tvr].expressions[0][0]): c.name for c in found.candidates}
    for operator in (Aggregate, Filter):
        pieces = {names[operator]: [Piece(1, 2_000_000, 2_000_000, 0)]}
        plan = planned(text, policy="STRICT", states=frozenset(pieces), pieces=pieces)
        assert (plan.kind, "recompute" in plan.methods) == ("INCREMENTAL", operator is Filter)


@pytest.mark.parametrize("policy", ["AUTO", "INCREMENTAL", "STRICT"])
def test_what_a_source_has_no_longer_is_no_missing_rule(policy: str) -> None:
    gone = change(old_readable=False)
    text = "join inner [(#0 = #2)]\n" + T + U
    plan = planned(text, {0: gone, 1: gone}, policy=policy)
    assert (plan.kind, plan.reason) == ("FULL", "HISTORY_GONE: what t, u held at the last run cannot be read any more")
    # The old content of one side is enough: the changes lead from there to the other's.
    assert planned(text, {0: gone, 1: change()}, policy=policy).kind == "INCREMENTAL"


def test_under_auto_it_is_recomputed_alone() -> None:
    above = "aggregate keys=[#19 := #9] calls=[#20 := count(*)]\n" + "\n".join("  " + x for x in WINDOW.splitlines())
    first = planned(above, first=True)
    names = frozenset(s.name for s in first.states)
    plan = planned(above, states=names, settings=PlannerSettings(prefer="delta"))
    assert plan.kind == "INCREMENTAL"
    assert "recompute" in plan.methods


@pytest.mark.parametrize(
    ("cycle", "kept"), [({}, 1), ({0: (10.0, 0.0)}, 1), ({2: (0.0, 0.0)}, 1), ({0: (0.0, 0.0)}, 0)]
)
def test_states_are_kept_for_what_is_expected(cycle: Mapping[int, tuple[float, float]], kept: int) -> None:
    """A table that does not change needs none; of others than it, nothing follows."""
    assert len(planned(SUMS, first=True, cycle=cycle).states) == kept


def test_the_states_that_the_next_run_reads_are_kept() -> None:
    plan = planned(SUMS, first=True)
    assert [s.form for s in plan.states] == ["attribute"]
    assert [(s.target, s.mode) for s in plan.steps] == [("state", "base"), ("result", None)]
    assert "staged" in operators(plan.steps[-1].plan)  # the result is made from the state
    # Of these steps one reads the source, which does not count, the other the 200 groups that the first one wrote.
    assert [s.volume.read for s in plan.steps] == [0.0, 200.0]
    assert planned(SUMS, first=True, policy="FULL").states == ()
    assert planned(EXTREMA, first=True).states == ()
    after = planned(SUMS, states=frozenset(s.name for s in plan.states))
    assert [(s.target, s.mode) for s in after.steps] == [("state", "segment"), ("delta", None)]
    assert [s.name for s in after.states] == [s.name for s in plan.states]
    assert "scan" not in [x for s in after.steps for x in operators(s.plan)]


def test_rows_that_a_join_selects_of_a_large_source_are_kept() -> None:
    """What is changed on the other side meets them, and not the source."""
    text = "join inner [(#0 = #2)]\n" + T + "  filter [(#3 = 1)]\n  " + U
    plan = planned(text, first=True)
    (kept,) = plan.states
    assert kept.form == "snapshot"
    after = planned(text, {0: change(), 1: change()}, states=frozenset({kept.name}))
    assert {(s.target, s.mode) for s in after.steps} == {("state", "segment"), ("delta", None)}
    assert {source for s in after.steps for source in scanned(s.plan)} == {0}
    assert planned("join inner [(#0 = #2)]\n" + T + U, first=True).states == ()


def test_a_state_that_no_candidate_has_the_name_of_is_lost() -> None:
    (kept,) = planned(SUMS, first=True).states
    plan = planned(SUMS, states=frozenset({"s0"}), policy="STRICT")
    assert (plan.kind, plan.reason) == ("INCREMENTAL", "STATE_LOST: s0")
    assert [s.name for s in plan.states] == [kept.name]
    assert [(s.target, s.mode) for s in plan.steps] == [("state", "base"), ("shared", None), ("delta", None)]
    # The base reads the source; the keys come from the change; the delta reads the view's content.
    assert [s.volume.read for s in plan.steps] == [0.0, 20_000.0, 2e6]
    # Where it is cheaper to make the whole view anew, the reason is the same.
    plan = planned(SUMS, states=frozenset({"s0"}))
    assert (plan.kind, plan.reason, [s.name for s in plan.states]) == ("FULL", "STATE_LOST: s0", [kept.name])


def test_a_full_run_is_weighed_without_choosing_states_for_it() -> None:
    first = planned(SUMS, first=True)
    states = frozenset(s.name for s in first.states)
    assert states
    known = Past([PastRun("FULL", 1000.0, 1000.0)])
    with mock.patch.object(PlanningTask, "worth_keeping", side_effect=AssertionError("states are chosen")):
        for policy in ("AUTO", "STRICT"):
            plan = planned(SUMS, policy=policy, states=states, chosen=first.chosen, past=known)
            assert plan.kind == "INCREMENTAL"
            assert document(plan, {})
    # Where it is to be made, they are.
    large = planned(
        SUMS, {0: change(share=300.0)} | {n: change(changed=False) for n in (1, 2)}, states=states, chosen=first.chosen
    )
    assert (large.kind, large.states) == ("FULL", first.states)
    assert re.fullmatch(r"COST: full \d+ ms, incremental \d+ ms", large.reason or "")


def test_what_states_made_anew_have_in_common_is_computed_once() -> None:
    """Or the change of a join of joins would be written out for each of its readers, in each state and in the view."""
    both = "  join full [(#0 = #2)]\n" + indent(T + U, "  ") + "  scan 2 [#4 := a, #5 := d]\n"
    text = "aggregate keys=[#9 := #5] calls=[#10 := sum(#1), #11 := min(#3)]\n  join full [(#3 = #4)]\n" + indent(
        both, "  "
    )
    plan = planned(text, policy="INCREMENTAL", chosen=Choice(), settings=PlannerSettings(prefer="delta"))
    assert (plan.kind, [s.mode for s in plan.steps if s.target == "state"]) == ("INCREMENTAL", ["base", "base"])
    assert max(len(operators(s.plan)) for s in plan.steps) < 200


def test_names_of_states_hold_what_the_query_means() -> None:
    names = [planned(SUMS, first=True, meaning=text).states[0].name for text in ("zone=UTC", "zone=UTC", "zone=JST")]
    assert names[0] == names[1] != names[2]
    groups = [planned(SUMS, first=True, meaning=text).states[0].group for text in ("zone=UTC", "zone=JST")]
    assert groups[0] != groups[1]


def test_a_view_whose_sources_stood_still_keeps_its_states() -> None:
    states = frozenset(s.name for s in planned(SUMS, first=True).states)
    elsewhere = {0: change(changed=False), 1: change(), 2: change()}
    text = "join inner [(#9 = #2)]\n" + "\n".join("  " + x for x in SUMS.splitlines()) + "\n" + U
    kept = planned(text, first=True)
    plan = planned(
        text, elsewhere, states=frozenset(s.name for s in kept.states), settings=PlannerSettings(prefer="delta")
    )
    assert {s.name for s in plan.states} == {s.name for s in kept.states}
    assert not [s for s in plan.steps if s.target == "state"]
    assert states


def test_keys_of_the_view() -> None:
    assert planned(SUMS).keys == ("c9",)
    assert planned("project [#1]\n" + T).keys is None


def test_a_column_given_out_twice() -> None:
    query = normal_query(parse_query(SOURCES + "output [#0 := x, #0 := y]\nscan 0 [#0 := a, #1 := b]"))
    assert [n for _, n in query.output] == ["x", "y"]
    assert len({c for c, _ in query.output}) == 2


def test_the_plan_says_why_its_search_stopped() -> None:
    plan = planned(SUMS)
    assert document(plan, {})["search"]["stopped"] == "saturated"
    assert "saturated" in explained(plan, "PLAN")
    query = normal_query(parse_query(SOURCES + SUMS))
    found = explore_space(SpaceRequest(query, [{0: change()}], 1, Kept(None)), [], MODEL, Budget(seconds=-1.0))
    assert found.explored.stopped == "time limit"


def test_what_is_kept_is_followed_however_little_time_there_is() -> None:
    """States that only rules ask for are recognised, and the change is computed, by a search without time."""
    text = "aggregate keys=[#9 := #3] calls=[#12 := sum(#1)]\n  join inner [(#0 = #2)]\n" + indent(T + U, "  ")
    filled = planned(text, first=True)
    query, changes = normal_query(parse_query(SOURCES + text)), [{0: change(), 1: change()}]
    every = {
        c.name
        for c in explore_space(SpaceRequest(query, changes, 1, Kept(None)), load_rules(), MODEL, Budget()).candidates
    }
    own = {c.name for c in explore_space(SpaceRequest(query, changes, 1, Kept(None)), [], MODEL, Budget()).candidates}
    assert own < every
    hurried = PlannerSettings(time_limit=0.0)
    plan = planned(text, states=frozenset(every), chosen=filled.chosen, settings=hurried)
    assert (plan.kind, plan.reason) == ("INCREMENTAL", None)
    assert {s.name for s in plan.states} == every
    assert planned(text, states=frozenset(own), settings=hurried).kind == "INCREMENTAL"


def anti_joins(node: Mapping[str, Any]) -> int:
    own = int(node["op"] == "join" and node["kind"] == "anti")
    return own + sum(map(anti_joins, node.get("inputs", ())))


@pytest.mark.parametrize(("segment", "apart"), [(10_000, True), (600_000, False)])
def test_rows_of_a_state_that_nothing_came_to_are_not_grouped_again(segment: int, apart: bool) -> None:
    """Where few rows came since its base; an equality would ask for a few of its rows only."""
    text = "join inner [(#9 < #2)]\n" + "\n".join(f"  {line}" for line in SUMS.splitlines()) + "\n" + U
    kept = planned(text, first=True, settings=PlannerSettings(prefer="delta")).states
    assert "attribute" in {s.form for s in kept}
    pieces = {s.name: [Piece(1, 1_000_000, 1_000_000, 0), Piece(1, segment, segment, 1)] for s in kept}
    alone = {0: change(changed=False), 1: change()}
    plan = planned(text, alone, states=frozenset(pieces), pieces=pieces, settings=PlannerSettings(prefer="delta"))
    assert "state" in [x for s in plan.steps for x in operators(s.plan)]
    assert (sum(anti_joins(s.plan) for s in plan.steps) > 0) == apart


def test_a_plan_is_estimated_as_it_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where parts of it are written for several readers."""
    found: list[Shared] = []

    def noted(*args: Any) -> Shared:
        found.append(sharing.cheapest(*args))
        return found[-1]

    monkeypatch.setattr(task, "cheapest", noted)
    plan = planned("join full [(#0 = #2)]\n" + T + U, policy="STRICT")
    assert "shared" in {step.target for step in plan.steps}
    beside = sum(job.cost for job in plan.explanation.jobs)
    handled = sum(found[0].extractor.handled(found[0].plan).values())  # before it is known where rows lie that leave
    assert 0 < handled < found[0].cost[0]
    assert plan.estimated == pytest.approx(found[0].cost[0] - handled + beside)
