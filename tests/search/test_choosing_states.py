"""States that a run keeps: chosen among packs, chosen anew, given up."""

from __future__ import annotations

import re
from dataclasses import replace
from unittest import mock

import pytest

from tests.search.test_planner import EXTREMA, SUMS, WINDOW, change, planned
from tidemill.explain.document import document
from tidemill.search.contract import past as past_of_runs
from tidemill.search.contract.choice import Choice, Circumstances
from tidemill.search.contract.past import TRUSTED, Past, PastRun
from tidemill.search.contract.run_plan import RunPlan
from tidemill.settings import PlannerSettings


def _packs(plan: RunPlan) -> frozenset[str]:
    return (plan.chosen or Choice()).packs


def test_states_are_chosen_anew_after_runs_that_might_not_use_every_pack() -> None:
    few = PlannerSettings(packs=frozenset({"affected", "recompute"}))
    first = planned(SUMS, first=True, settings=few)
    assert (first.states, _packs(first)) == ((), few.packs)
    again = planned(SUMS, settings=few, chosen=first.chosen)
    assert again.reason is not None
    assert (again.reason.partition(":")[0], again.states, _packs(again)) == ("NOT_INCREMENTAL", (), few.packs)
    after = planned(SUMS, policy="INCREMENTAL", chosen=again.chosen)
    (made,) = after.states
    assert (after.kind, after.reason) == ("INCREMENTAL", f"STATE_LOST: {made.name}")
    assert _packs(after) == PlannerSettings().packs
    last = planned(SUMS, chosen=after.chosen, states=frozenset({made.name}))
    assert (last.reason, last.states, last.chosen) == (None, after.states, after.chosen)
    # Nobody waits for states that nobody would read.
    assert planned(EXTREMA, chosen=Choice()).reason is None


def test_states_that_do_not_pay_are_given_up() -> None:
    """By what incremental runs took, beside what a full run without states would."""
    first = planned(SUMS, first=True)
    states = frozenset(s.name for s in first.states)
    bare = planned(SUMS, policy="FULL", full_reason="POLICY").estimated
    kept = planned(SUMS, states=states, chosen=first.chosen)
    assert kept.kind == "INCREMENTAL"
    assert kept.stateless == pytest.approx(bare)
    for took, given_up in ((1.5, False), (2.5, True)):
        past = Past([PastRun("INCREMENTAL", kept.estimated, took * bare)] * 3)
        plan = planned(SUMS, states=states, chosen=first.chosen, past=past)
        assert ((plan.kind, plan.states) == ("FULL", ())) == given_up
    assert re.fullmatch(r"COST: full \d+ ms, incremental \d+ ms", plan.reason or "")
    others = Past([PastRun("INCREMENTAL", 5.0 * kept.estimated, 10.0 * bare)] * 3)
    assert planned(SUMS, states=states, chosen=first.chosen, past=others).kind == "INCREMENTAL"
    # They are not made again as long as nothing else changes.
    after = planned(SUMS, chosen=plan.chosen, past=past)
    assert after.states == ()
    assert planned(SUMS, policy="INCREMENTAL", states=states, chosen=first.chosen, past=past).states == first.states


def test_full_runs_are_tried_where_they_would_be_cheaper_without_states() -> None:
    """Small incremental runs alone give nothing up: two full runs tell what these take, and then the states go."""
    many = {0: change(share=0.1)} | {n: change(changed=False) for n in (1, 2)}
    first = planned(SUMS, first=True)
    states = frozenset(s.name for s in first.states)

    def after(*runs: PastRun) -> RunPlan:
        return planned(SUMS, many, states=states, chosen=first.chosen, past=Past(runs))

    kept = after()
    assert (kept.kind, kept.stateless is None) == ("INCREMENTAL", False)
    bare = kept.stateless or 0.0
    slow = [PastRun("INCREMENTAL", kept.estimated, 5.0 * bare)] * TRUSTED
    runs: list[PastRun] = []
    with mock.patch.object(past_of_runs, "LEAST", 100.0 * bare):
        assert after(*slow[1:]).kind == "INCREMENTAL"
        for _ in range(2):
            plan = after(*runs, *slow)
            assert (plan.kind, plan.states) == ("FULL", kept.states)
            assert re.fullmatch(r"COST: full \d+ ms, incremental \d+ ms", plan.reason or "")
            runs.append(PastRun("FULL", plan.estimated, 3.0 * bare))
        plan = after(*runs, *slow)
        assert (plan.kind, plan.states) == ("FULL", ())
        made_for = (plan.chosen or Choice()).made_for
        assert made_for.unpaid == pytest.approx(5.0 * bare)
        for times, holds in ((1.9, True), (2.1, False)):
            now = replace(made_for, unpaid=None, rows={name: times * rows for name, rows in made_for.rows.items()})
            assert (now.like(made_for), now.like(replace(made_for, unpaid=None))) == (holds, True)
        plan = after(*(replace(run, measured=9.0 * run.estimated) for run in runs), *slow)
        assert (plan.kind, plan.states) == ("INCREMENTAL", kept.states)


def test_a_full_run_by_cost_keeps_the_choice_of_states() -> None:
    """A choice that holds is not made again because one run is full: what was compared is what is run."""
    many = {0: change(share=3.0)} | {n: change(changed=False) for n in (1, 2)}
    chosen = planned(SUMS, many, chosen=Choice()).chosen
    assert chosen is not None
    for states in (frozenset[str](), frozenset(s.name for s in planned(SUMS, first=True).states)):
        plan = planned(SUMS, many, states=states, chosen=chosen)
        assert (plan.kind, frozenset(s.name for s in plan.states), plan.chosen) == ("FULL", states, chosen)
        assert (plan.compared or (0.0, 0.0))[0] == plan.estimated


def test_full_runs_make_no_states_that_were_given_up() -> None:
    """Neither where nothing else computes the change without them, nor where a user asks for one."""
    chosen = planned(SUMS, chosen=Choice()).chosen
    assert chosen is not None
    given_up = Choice(replace(chosen.made_for, unpaid=1234.0))
    seen = [PastRun("FULL", 1.0, 1.0)] * 2
    for text, more in ((SUMS, {"full_reason": "REQUESTED"}), (WINDOW, {"past": Past(seen)})):
        plan = planned(text, chosen=given_up, **more)
        assert (plan.kind, plan.states, plan.chosen) == ("FULL", (), given_up)
        told = [state["reason"] for state in document(plan, {})["states"]]
        why = "given up: an incremental run took 1234 ms with the states of then, and a full run less"
        assert told == ([why] if text == SUMS else [])
    assert re.fullmatch(r"COST: full \d+ ms, incremental 1234 ms", plan.reason or "")
    must = planned(SUMS, policy="INCREMENTAL", chosen=given_up)
    assert (must.kind, len(must.states)) == ("INCREMENTAL", 1)


def test_a_preferred_pack_and_the_policy_full_choose_for_themselves() -> None:
    (kept,) = planned(SUMS, first=True).states
    prefer = PlannerSettings(prefer="recompute")
    assert _packs(planned(SUMS, first=True, settings=prefer)) == {"recompute"}
    assert _packs(planned(SUMS, first=True, policy="FULL")) == frozenset()
    # A state that such a run can follow stays chosen as it was.
    every = Choice(Circumstances(PlannerSettings().packs))
    plan = planned(SUMS, states=frozenset({kept.name}), chosen=every, settings=PlannerSettings(prefer="affected"))
    assert (plan.reason, plan.states, plan.chosen) == (None, (kept,), every)


def test_a_state_that_the_allowed_packs_cannot_make_is_given_up() -> None:
    """Parts of an aggregate are made by `delta` alone. A full run weighed beside does without them too."""
    first = planned(SUMS, first=True)
    names = frozenset(s.name for s in first.states)
    few = PlannerSettings(packs=frozenset({"recompute"}), prefer="recompute")
    known = Past([PastRun("FULL", planned(SUMS, policy="FULL", full_reason="POLICY", settings=few).estimated, 1e6)])
    kept = planned(SUMS, states=names, chosen=first.chosen, settings=few, past=known)
    assert kept.rejected is not None
    lost = planned(SUMS, lost=names, chosen=first.chosen, settings=few, past=known)
    assert lost.reason == f"STATE_LOST: {', '.join(names)}"
    for plan in (kept, lost):
        assert (plan.kind, plan.states, _packs(plan)) == ("INCREMENTAL", (), frozenset())
    after = planned(SUMS, policy="INCREMENTAL", chosen=lost.chosen)
    assert [s.name for s in after.states] == list(names)
