"""EXPLAIN INCREMENTAL: what the planner does for a view, for a CREATE statement, or for a bare query."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tidemill.bridge.jvm import Jvm
from tidemill.runtime import analysis, planning, sessions, views
from tidemill.runtime.planning import Situation
from tidemill.search.run_plan import RunPlan
from tidemill.sql.statements import Create, Explain, OnDemand, Point


def explain(jvm: Jvm, statement: Explain, sql: str, warnings: list[str]) -> list[list[Any]]:
    """One row, one column: the plan as text, or the JSON document of sql.md.  Nothing is written, no Spark job runs."""
    if statement.view is not None:
        plan = _of_view(jvm, statement.view)
    elif statement.create is not None:
        plan = _of_create(jvm, statement.create)
    else:
        assert statement.query is not None
        plan = _of_create(jvm, Create(("query",), (Point(OnDemand()),), statement.query))
    return [[json.dumps(plan.explain, ensure_ascii=False) if statement.mode == "JSON" else plan.text]]


def _of_view(jvm: Jvm, name: tuple[str, ...]) -> RunPlan:
    """The plan of the next run at the present positions; with nothing new, of a run after a small change."""
    view = views.find(jvm, name)
    working = sessions.working(jvm, view.definition.settings)
    with analysis.analysed_again(working, view.definition) as document:
        policy = view.definition.create.policy
        situation = planning.survey(working, document, view.head, policy, sessions.planner_settings(jvm))
        if situation.idle:
            assert view.head is not None
            situation = planning.steady(situation, frozenset(view.head.states))
        return planning.plan(situation, planning.forced(situation, requested=False))


def _of_create(jvm: Jvm, create: Create) -> RunPlan:
    """The plan of a run after a small change, right after the filling."""
    with _analysed(jvm, create) as situation:
        filling = planning.plan(situation, "FIRST")
        planning.check_policy(situation, filling)
        after = planning.steady(situation, frozenset(s.name for s in filling.states))
        return planning.plan(after, planning.forced(after, requested=False))


@contextmanager
def _analysed(jvm: Jvm, create: Create) -> Iterator[Situation]:
    captured: Mapping[str, Any] = jvm.invoke("settings", {})
    working = sessions.working(jvm, captured["confs"])
    assert isinstance(create.query, str), "the iterative form is refused by the parser"
    with analysis.analysed(working, create.query, captured["catalog"], captured["namespace"]) as document:
        analysis.check_findings(document, create.policy)
        yield planning.survey(working, document, None, create.policy, sessions.planner_settings(jvm))
