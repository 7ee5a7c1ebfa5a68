"""States that a run keeps: chosen among packs, chosen anew, given up."""

from __future__ import annotations

import re

import pytest

from tests.search.test_planner import EXTREMA, SUMS, planned
from tidemill.search.contract.choice import Choice, Circumstances
from tidemill.search.contract.past import Past, PastRun
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
        past = Past([PastRun("INCREMENTAL", took * bare, took * bare)] * 3)
        plan = planned(SUMS, states=states, chosen=first.chosen, past=past)
        assert ((plan.kind, plan.states) == ("FULL", ())) == given_up
    assert re.fullmatch(r"COST: full \d+ ms, incremental \d+ ms", plan.reason or "")
    # They are not made again as long as nothing else changes.
    after = planned(SUMS, chosen=plan.chosen, past=past)
    assert after.states == ()
    assert planned(SUMS, policy="INCREMENTAL", states=states, chosen=first.chosen, past=past).states == first.states


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
