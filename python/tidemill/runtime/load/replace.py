"""CREATE OR REPLACE of a view that exists, and ALTER ... AS: one run and one commit switch the view to the new query.

Readers see the old content until the commit; a failure leaves the old view. States of the old query that the new query
can use, which their names tell, are brought up to date instead of being made again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace

from tidemill.bridge.jvm import Jvm
from tidemill.errors import TidemillError
from tidemill.plan.change import SourceChange
from tidemill.runtime.before import planning, sessions
from tidemill.runtime.before.planning import PlanInputs
from tidemill.runtime.before.situation import Situation, survey
from tidemill.runtime.load.draft import Draft, drafted
from tidemill.runtime.run import attempt
from tidemill.runtime.run.occasion import publish, tells_readers
from tidemill.runtime.storage import writers
from tidemill.runtime.storage.files import UndecidedError, child
from tidemill.runtime.view import leases, views
from tidemill.runtime.view.arrivals import moved, places
from tidemill.runtime.view.catalog import CatalogEntry
from tidemill.runtime.view.definition import DEFINITIONS, Definition
from tidemill.runtime.view.record import RunRecord
from tidemill.runtime.view.views import Lost, View
from tidemill.search.contract.run_plan import RunPlan
from tidemill.sql.statements import Create


def replace_view(jvm: Jvm, entry: CatalogEntry, statement: Create, sql: str, warnings: list[str]) -> None:
    """Executes CREATE OR REPLACE: location and history stay, everything else is as in the statement.

    Raises as CREATE does, and TIDEMILL_LOCATION_MISMATCH if the statement names another location.
    """
    view = views.open_entry(jvm, entry)
    if statement.location is not None and view.files.qualify(statement.location) != view.location:
        raise TidemillError(
            "TIDEMILL_LOCATION_MISMATCH",
            {"location": statement.location, "reason": f"{'.'.join(entry.name)} lies at {view.location}"},
        )
    if statement.format is None:
        statement = replace(statement, format=view.definition.create.format)
    elif statement.format != view.definition.format:
        raise TidemillError(
            "TIDEMILL_LOCATION_MISMATCH",
            {"location": view.location, "reason": f"its format is {view.definition.format}"},
        )
    with drafted(jvm, statement, entry.name) as draft:
        warnings += draft.warnings(jvm)
        _switch(jvm, view, draft, sql)


def alter_query(jvm: Jvm, view: View, query: str, sql: str, warnings: list[str]) -> None:
    """Executes ALTER ... AS: query and columns are new, all other clauses stay. Raises as CREATE does."""
    old = view.definition
    expect = moved(old.create.expect, old.namespace, jvm.invoke("settings", {})["namespace"])
    statement = replace(old.create, query=query, expect=expect, columns=(), or_replace=False, if_not_exists=False)
    with drafted(jvm, statement, view.definition.name) as draft:
        warnings += draft.warnings(jvm)
        _switch(jvm, view, draft, sql)


def _switch(jvm: Jvm, view: View, draft: Draft, sql: str) -> None:
    # Readers whose catalog entry has the old columns read the run before this one, so that run must be published.
    view.publish_if_behind()
    old, now = view.definition, draft.occasion.started_at
    definition = Definition(
        id=old.id,
        name=old.name,
        text=sql,
        owns_files=old.owns_files,
        created_at=old.created_at,
        location=old.location,
        number=_next_number(view),
        takes_in=views.newest_amendment(view),
        deletion_vectors=old.deletion_vectors,
        point_times={name: old.points_since.get(name, now) for name in places(draft.statement.schedule)},
        **draft.fields(),
    )
    settings = sessions.planner_settings(jvm)
    situation = survey(draft.working, draft.document, view.head, definition.terms, settings)
    situation = _new_sources_told_apart(situation)
    lost = view.lost()

    switched = View(definition, view.files, view.head, view.entry)

    def planned(lost: Lost) -> RunPlan:
        reason, tells = "FIRST" if situation.first else None, tells_readers(switched, situation, lost)
        return planning.plan(situation, PlanInputs(reason, lost.states, refill="FIRST", tells=tells))

    planning.check_policy(situation, planned(lost))
    switched.result.check()
    with writers.writing(view.files, view.location):
        record = _filled(draft, switched, situation, planned, lost)
    leases.give_up(view, kept=definition.sources)
    publish(jvm, switched, record, draft.occasion)
    switched.describe_entry()
    switched.refresh_readers(jvm)


def _filled(
    draft: Draft, switched: View, situation: Situation, planned: Callable[[Lost], RunPlan], lost: Lost
) -> RunRecord:
    """Writes the definition, then commits the run that puts it in force. If the run fails, neither stays."""
    definition = switched.definition
    file = child(switched.location, definition.file)
    if not switched.files.write_new(file, definition.to_json()):
        raise TidemillError("TIDEMILL_CONCURRENT_REFRESH", {"view": definition.qualified})
    try:
        return attempt.run(draft.working, switched, situation, planned, draft.occasion, lost)
    except UndecidedError:
        raise
    except BaseException as error:
        if isinstance(error, TidemillError) and error.condition == "TIDEMILL_RUN_GIVEN_UP":
            raise  # the number may be another statement's by now
        with suppress(Exception):
            switched.files.delete([file])
        raise


def _next_number(view: View) -> int:
    """Returns a number that no definition has had, not even one whose run never committed."""
    return max([view.definition.number, *view.files.numbers(child(view.location, DEFINITIONS))]) + 1


def _new_sources_told_apart(situation: Situation) -> Situation:
    """Returns the situation with unknown changes (FIRST) for sources that the old query did not read."""

    def told_apart(changes: Mapping[int, SourceChange]) -> dict[int, SourceChange]:
        return {
            number: replace(change, reason="FIRST", old_readable=False)
            if change.changed and change.reason is None and situation.old[number] is None
            else change
            for number, change in changes.items()
        }

    between = tuple(map(told_apart, situation.between))
    return replace(situation, changes=told_apart(situation.changes), between=between)
