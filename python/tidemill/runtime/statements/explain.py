"""EXPLAIN INCREMENTAL: shows the plan for a view, for a CREATE statement, or for a bare query."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from tidemill.bridge.jvm import Jvm
from tidemill.cost.guesses import CHANGED_SHARE
from tidemill.explain import explained
from tidemill.runtime.before import analysis, planning, sessions
from tidemill.runtime.before.planning import PlanInputs
from tidemill.runtime.before.situation import Situation, survey
from tidemill.runtime.view import views
from tidemill.runtime.view.arrivals import ObservedRun, Outlook, expectations
from tidemill.runtime.view.definition import Terms
from tidemill.runtime.view.split import Split, after, steps_to_json
from tidemill.runtime.view.views import View
from tidemill.search.contract.learned import NOTHING_LEARNED, Learned
from tidemill.search.contract.lessons import likely_cost
from tidemill.search.contract.past import NOTHING_PAST, Past
from tidemill.search.runs.explanation import ExplainedPlan
from tidemill.sql.statements import Create, Explain, OnDemand, Point

SHARE = f"{CHANGED_SHARE * 100:.0f} %"
NOT_THERE = f"The view does not exist: shown for a change of {SHARE} right after the initial load."
IDLE = f"This is what a refresh would do: nothing is pending; shown for a change of {SHARE}."
COLD = (
    "Estimates are for code that is compiled: the first refreshes in a session may take several times as much, because"
    " Spark compiles their code."
)
WARM_RUNS = 2
"""Runs of a view from which on its estimates do not warn of code that is not compiled."""
NOTED_DIFFERENCE = 0.1
"""Smallest difference between the estimate of a plan and what it is likely to take, as a share of the estimate, that
EXPLAIN INCREMENTAL COST and JSON note."""
RUNS_SHOWN = 5
"""Number of earlier runs that EXPLAIN INCREMENTAL COST and JSON show beside the plan."""


def explain(jvm: Jvm, statement: Explain) -> list[list[Any]]:
    """Returns one row of one column: the plan in the statement's mode. Nothing is written, no Spark job runs."""
    if statement.view is not None:
        return [[_with_what_was(views.find(jvm, statement.view), jvm, statement.mode)]]
    create = statement.create
    if create is None:
        assert statement.query is not None
        create = Create(("query",), (Point(OnDemand()),), statement.query)
    return [[explained(_of_create(jvm, create), statement.mode, notes=[NOT_THERE, COLD])]]


def _with_what_was(view: View, jvm: Jvm, mode: str) -> str:
    """Returns the plan of a view's next run, with the sizes of its states; in some modes also of earlier runs."""
    stored = {name: state.bytes for name, state in view.head.states.items()} if view.head is not None else {}
    run, notes = _of_view(jvm, view)
    if view.head is None or view.head.run < WARM_RUNS:
        notes = [*notes, COLD]
    dropped = view.head.dropped if view.head is not None else {}
    ran: list[dict[str, Any]] = []
    if mode in ("COST", "JSON"):
        likely = likely_cost(view.learned(sessions.planner_settings(jvm)), run)
        if abs(likely - run.estimated) > NOTED_DIFFERENCE * run.estimated:
            notes = [*notes, f"Steps like these took more or less than is estimated here: {likely:.0f} ms are likely."]
        ran = list(_ran(view))
    return explained(run, mode, stored, notes, ran, dropped)


def _ran(view: View) -> Iterator[dict[str, Any]]:
    """Yields what the last runs took, newest first; of the last one the steps, too."""
    head = view.head
    if head is None:
        return
    later: Split | None = None
    for row, told in view.splits(RUNS_SHOWN):
        steps = {"steps": steps_to_json(head.steps)} if row.run == head.run else {}
        names = ("run", "kind", "duration_ms", "cpu_ms", "jobs", "rows_read", "estimated_cost", "measured_cost")
        yield {
            **{name: getattr(row, name) for name in names},
            "wall_ms": None if told is None else dict(told.wall_ms),
            "after_ms": None if row.run is None else after(view.location, row.run, later),
            **steps,
        }
        later = told


def _of_view(jvm: Jvm, view: View) -> tuple[ExplainedPlan, list[str]]:
    """Returns the plan of the next run at the present positions, or without changes, of a run after a small change; and
    sentences that say so."""
    working = sessions.working(jvm, view.definition.settings)
    with analysis.analysed_again(working, view.definition) as document:
        situation = survey(working, document, view.head, view.definition.terms, sessions.planner_settings(jvm))
        idle, notes = situation.idle, list[str]()
        if idle:
            assert view.head is not None
            notes = [IDLE, *(f"The size of {name} is not known." for name in planning.unsized(situation))]
            situation = planning.steady(situation, frozenset(view.head.states))
        schedule = view.definition.create.schedule
        last = (view.head.row.point if view.head is not None else None) or len(schedule)
        number = last + 1 if last < len(schedule) else 1
        arrived = situation.arrived(schedule, number)
        present = ObservedRun(None, time.time(), replace(arrived, rows={}) if idle else arrived)
        return _of_cycle(situation, number, view.outlook(present), view.past(), view.learned(situation.settings)), notes


def _of_create(jvm: Jvm, create: Create) -> ExplainedPlan:
    """Returns the plan of a run after a small change, right after the initial load."""
    with _analysed(jvm, create) as (situation, outlook):
        loaded = planning.plan(situation, PlanInputs("FIRST"))
        planning.check_policy(situation, loaded)
        after = planning.steady(situation, frozenset(s.name for s in loaded.states), loaded.chosen)
        return _of_cycle(after, 1, outlook)


def _of_cycle(
    situation: Situation,
    number: int,
    outlook: Outlook,
    past: Past = NOTHING_PAST,
    learned: Learned = NOTHING_LEARNED,
) -> ExplainedPlan:
    """Returns the plan of a point and all later ones up to the next with output, which are planned together."""
    forced, point = planning.forced(situation, requested=False), outlook.schedule[number - 1]
    if not point.output and (forced is None or planning.may_work_early(situation)):
        return planning.explained_early(situation, number, outlook)
    return planning.explained(situation, PlanInputs(forced, point=(number, point.cost), past=past, learned=learned))


@contextmanager
def _analysed(jvm: Jvm, create: Create) -> Iterator[tuple[Situation, Outlook]]:
    captured = sessions.captured(jvm)
    working = sessions.working(jvm, captured["confs"])
    assert isinstance(create.query, str), "the iterative form is refused by the parser"
    with analysis.analysed(working, create.query, captured["catalog"], captured["namespace"]) as document:
        analysis.check_findings(document, create.policy)
        names = (str(s["name"]) for s in document["sources"])
        expected = expectations(create.expect, captured["namespace"], names)
        terms = Terms.of(create, captured["confs"], expected)
        settings = sessions.planner_settings(jvm)
        yield survey(working, document, None, terms, settings), Outlook(create.schedule, expected)
