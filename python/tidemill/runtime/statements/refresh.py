"""REFRESH INCREMENTAL VIEW: runs one point now; with CASCADE, runs its upstream views first."""

from __future__ import annotations

from typing import Any

from tidemill.bridge.jvm import Jvm
from tidemill.errors import TidemillError
from tidemill.runtime.before import analysis, sessions
from tidemill.runtime.before.situation import survey
from tidemill.runtime.run import cascade, perform
from tidemill.runtime.run.attempt import Occasion
from tidemill.runtime.run.perform import RunOptions
from tidemill.runtime.view import views
from tidemill.runtime.view.history import RunRow
from tidemill.runtime.view.views import View
from tidemill.sql.statements import Refresh


def refresh(jvm: Jvm, statement: Refresh) -> list[list[Any]]:
    """Runs a point by hand. Returns the row of the run.

    Raises TIDEMILL_NOT_FOUND, TIDEMILL_NO_SUCH_POINT, TIDEMILL_SCHEMA_CHANGED, TIDEMILL_FUNCTION_MISSING,
    TIDEMILL_NOT_INCREMENTAL (STRICT), TIDEMILL_CONCURRENT_REFRESH; with CASCADE also the errors of `cascade.cascade`.
    After any error nothing of the run is left.
    """
    view = views.find(jvm, statement.name)
    points = view.definition.create.schedule
    point = len(points) if statement.point is None else statement.point
    if not 1 <= point <= len(points):
        raise TidemillError(
            "TIDEMILL_NO_SUCH_POINT",
            {"view": view.definition.qualified, "point": statement.point, "points": len(points)},
        )
    wanted = RunOptions(
        occasion=Occasion.now(point, "MANUAL"),
        full=statement.full,
        output=statement.full or points[point - 1].output,
        dry=statement.dry_run,
    )
    run = cascade.cascade if statement.cascade else _alone
    return [run(jvm, view, wanted).cells()]


def _alone(jvm: Jvm, view: View, wanted: RunOptions) -> RunRow:
    """Runs `view` in a working session, over its sources as they are now."""
    view.publish_if_behind()
    working = sessions.working(jvm, view.definition.settings)
    with analysis.analysed_again(working, view.definition, view.head) as document:
        situation = survey(working, document, view.head, view.definition.terms, sessions.planner_settings(jvm))
        return perform.perform(jvm, working, view, situation, wanted).row
