"""REFRESH INCREMENTAL VIEW: one run of one point, now."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tidemill.bridge.jvm import Jvm
from tidemill.errors import TidemillError
from tidemill.runtime import analysis, planning, running, sessions, views
from tidemill.runtime.history import RunRow
from tidemill.runtime.planning import Situation
from tidemill.runtime.running import Occasion
from tidemill.runtime.views import Lost, View
from tidemill.sql.statements import Refresh


def refresh(jvm: Jvm, statement: Refresh, sql: str, warnings: list[str]) -> list[list[Any]]:
    """Runs a point by hand; answers its row.

    Raises TIDEMILL_NOT_FOUND, TIDEMILL_NO_SUCH_POINT, TIDEMILL_SCHEMA_CHANGED, TIDEMILL_FUNCTION_MISSING,
    TIDEMILL_NOT_INCREMENTAL (STRICT), TIDEMILL_CONCURRENT_REFRESH; whatever is raised, nothing of the run is left.
    """
    view = views.find(jvm, statement.name)
    points = view.definition.create.schedule
    point = len(points) if statement.point is None else statement.point
    if not 1 <= point <= len(points):
        raise TidemillError(
            "TIDEMILL_NO_SUCH_POINT",
            {"view": view.definition.qualified, "point": statement.point, "points": len(points)},
        )
    view.publish_if_behind()
    occasion = Occasion.now(point, "MANUAL")
    with_output = statement.full or points[point - 1].output
    return [run(jvm, view, occasion, statement.full, with_output, statement.dry_run).cells()]


def run(jvm: Jvm, view: View, occasion: Occasion, full: bool, with_output: bool, dry: bool) -> RunRow:
    """One run of `view` in a session of its own; `jvm` is the caller's, which only learns of the new content."""
    definition = view.definition
    working = sessions.working(jvm, definition.settings)
    with analysis.analysed_again(working, definition) as document:
        situation = planning.survey(
            working, document, view.head, definition.create.policy, sessions.planner_settings(jvm)
        )
        lost = view.lost() if situation.head is not None else Lost(None, {})
        if situation.idle and not (full or lost.content or lost.states):
            return _no_data(view, situation, occasion)
        if not with_output:
            if dry:
                return running.row_of(view, occasion, "PARTIAL", situation)
            record = running.run_without_output(view, situation, occasion)
            view.publish(record)
            return record.row
        refill = f"STATE_LOST: {lost.content} is gone" if lost.content is not None else None
        plan = planning.plan(situation, planning.forced(situation, full), lost.states, refill)
        if dry:
            row = running.row_of(view, occasion, plan.kind, situation)
            return replace(row, reason=plan.reason, methods=tuple(plan.methods), estimated_cost=float(plan.estimated))
        record = running.run_with_output(working, view, situation, plan, occasion)
    view.publish(record)
    view.refresh_readers(jvm)
    return record.row


def _no_data(view: View, situation: Situation, occasion: Occasion) -> RunRow:
    """The answer of a run that had nothing to do: no file, no number, no job."""
    head = view.head
    assert head is not None, "a view that was never run always has something to do"
    return replace(
        running.row_of(view, occasion, "NO_DATA", situation),
        run=head.run,
        duration_ms=occasion.elapsed_ms(),
        cpu_ms=0,
        jobs=0,
        estimated_cost=0.0,
        measured_cost=0.0,
        state_bytes=head.state_bytes,
    )
