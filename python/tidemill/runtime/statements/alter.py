"""ALTER INCREMENTAL VIEW: amendments of a definition, another query, another name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tidemill.bridge.jvm import Jvm
from tidemill.errors import TidemillError
from tidemill.monitor.observer import OBSERVERS
from tidemill.runtime.before import analysis, graph, planning, sessions
from tidemill.runtime.before.foresight import foreseen_of
from tidemill.runtime.load.replace import alter_query
from tidemill.runtime.scheduler import watch
from tidemill.runtime.view import arrivals, catalog, notes, views
from tidemill.runtime.view.views import View
from tidemill.search.contract.run_kinds import GRADUAL, Policy
from tidemill.sql.statements import (
    Action,
    Alter,
    RenameTo,
    Resume,
    SetComment,
    SetExpect,
    SetPolicy,
    SetProperties,
    SetQuery,
    SetSchedule,
    SetStateBudget,
    UnsetProperties,
)


def alter(jvm: Jvm, statement: Alter, sql: str, warnings: list[str]) -> list[list[Any]]:
    """Executes an action of ALTER. Returns no rows.

    Raises TIDEMILL_NOT_FOUND, TIDEMILL_NOT_AN_INCREMENTAL_VIEW; TIDEMILL_ALREADY_EXISTS for a new name that is taken,
    RECURSIVE_VIEW for one that the query reads; TIDEMILL_INVALID_CLAUSE for EXPECT; UNSET_NONEXISTENT_PROPERTIES;
    TIDEMILL_NOT_INCREMENTAL, TIDEMILL_SOURCE_WITHOUT_CHANGES for a policy that the query cannot have, or not within a
    budget;
    TIDEMILL_CONCURRENT_REFRESH if another ALTER came first; for AS, the errors of CREATE.
    """
    view = views.find(jvm, statement.name)
    match statement.action:
        case RenameTo(name):
            _rename(jvm, view, name)
        case SetQuery(query):
            assert isinstance(query, str), "the iterative form is refused by the parser"
            alter_query(jvm, view, query, sql, warnings)
        case action:
            _check(jvm, view, action)
            warnings += foreseen_of(jvm, view, action)
            views.amend(view, _dated(view, action))
            _tell_readers(view, action)
            if isinstance(action, Resume):
                notes.forgive(view)
    return []


def _rename(jvm: Jvm, view: View, name: tuple[str, ...]) -> None:
    """Renames the view within its database, as Spark does with tables. No file moves."""
    old = view.definition.name
    qualified = catalog.qualify(jvm, name if len(name) > 1 else (*old[:-1], *name))
    if qualified[:-1] != old[:-1]:
        raise TidemillError(
            "TIDEMILL_INVALID_CLAUSE",
            {"clause": "RENAME TO", "reason": f"a view stays in its database, {'.'.join(old[:-1])}"},
        )
    catalog.check_name(jvm, qualified)
    if (taken := catalog.lookup(jvm, qualified)) is not None:
        raise TidemillError("TIDEMILL_ALREADY_EXISTS", {"view": ".".join(qualified), "object": taken.what})
    graph.refuse_cycle(jvm, qualified, view.definition.sources)
    catalog.rename_entry(jvm, old, qualified)
    OBSERVERS.view_gone(view.definition.qualified)


def _check(jvm: Jvm, view: View, action: Action) -> None:
    match action:
        case SetPolicy(policy) if policy in GRADUAL:
            _check_gradual(jvm, view, action, policy)
        case SetStateBudget() if view.definition.create.policy in GRADUAL:
            _check_gradual(jvm, view, action, view.definition.create.policy)
        case SetPolicy("AUTO") if view.definition.create.policy == "FULL":
            working = sessions.working(jvm, view.definition.settings)
            with analysis.analysed_again(working, view.definition) as document:
                analysis.check_findings(document, "AUTO")
        case SetExpect(expect):
            arrivals.expectations(expect, view.definition.namespace, (s["name"] for s in view.definition.sources))
        case SetSchedule(schedule, _):
            watch.check_triggers(schedule, view.definition.sources, view.definition.namespace)
        case SetProperties():
            view.amended(action).result.check()
        case UnsetProperties(keys, if_exists) if not if_exists:
            known = dict(view.definition.create.properties)
            unknown = [k for k in keys if k not in known]
            if unknown:
                raise TidemillError(
                    "UNSET_NONEXISTENT_PROPERTIES",
                    {
                        "properties": ", ".join(f"`{k}`" for k in unknown),
                        "table": ".".join(f"`{part}`" for part in view.definition.name),
                    },
                )
        case _:
            pass


def _check_gradual(jvm: Jvm, view: View, action: Action, policy: Policy) -> None:
    """Checks that the amended view may have a policy under which no run is full by choice."""
    working = sessions.working(jvm, view.definition.settings)
    with analysis.analysed_again(working, view.definition) as document:
        analysis.check_findings(document, policy)
        terms = view.amended(action).definition.terms
        planning.initial_load(working, document, terms, sessions.planner_settings(jvm))


def _dated(view: View, action: Action) -> Action:
    """Returns the action; SET EXPECT gets the number of the last run."""
    return replace(action, run=view.head.run if view.head else None) if isinstance(action, SetExpect) else action


def _tell_readers(view: View, action: Action) -> None:
    """Writes a new comment or new properties to the catalog entry too, and to a Delta table."""
    if isinstance(action, SetComment | SetProperties | UnsetProperties):
        view.amended(action).describe()
