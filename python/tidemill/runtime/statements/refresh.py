"""REFRESH INCREMENTAL VIEW: runs one point now; with CASCADE, its upstream views first; of VIEWS, all of a database."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from tidemill.bridge.jvm import Jvm
from tidemill.errors import TidemillError
from tidemill.runtime.before import analysis, sessions
from tidemill.runtime.before.situation import survey
from tidemill.runtime.run import cascade, failing, perform, together
from tidemill.runtime.run.occasion import Occasion
from tidemill.runtime.run.perform import RunOptions
from tidemill.runtime.view import catalog, views
from tidemill.runtime.view.history import RunRow
from tidemill.runtime.view.views import View
from tidemill.sql import readable
from tidemill.sql.statements import Refresh, RefreshViews


def refresh(jvm: Jvm, statement: Refresh) -> list[list[Any]]:
    """Runs a point by hand. Returns the row of the run.

    Raises TIDEMILL_NOT_FOUND, TIDEMILL_NO_SUCH_POINT, TIDEMILL_SCHEMA_CHANGED, TIDEMILL_FUNCTION_MISSING,
    TIDEMILL_NOT_INCREMENTAL (STRICT), TIDEMILL_CONCURRENT_REFRESH; with CASCADE also the errors of `cascade.cascade`.
    After any error nothing of the run is left but its row of kind FAILED.
    """
    occasion = Occasion.now(jvm, 0, "MANUAL")
    with jvm.walls.part("opening"):
        view = views.find(jvm, statement.name)
    points = view.definition.create.schedule
    point = len(points) if statement.point is None else statement.point
    if not 1 <= point <= len(points):
        raise TidemillError(
            "TIDEMILL_NO_SUCH_POINT",
            {"view": view.definition.qualified, "point": statement.point, "points": len(points)},
        )
    wanted = RunOptions(
        occasion=replace(occasion, point=point),
        full=statement.full,
        output=statement.full or points[point - 1].output,
        dry=statement.dry_run,
    )
    run = cascade.cascade if statement.cascade else _alone
    with nullcontext() if wanted.dry else failing.refreshing(jvm, view, wanted.occasion):
        return [run(jvm, view, wanted).cells()]


def _alone(jvm: Jvm, view: View, wanted: RunOptions) -> RunRow:
    """Runs `view` in a working session, over its sources as they are now."""
    with jvm.walls.part("opening"):
        view.publish_if_behind()
        working = sessions.working(jvm, view.definition.settings)
        settings = sessions.planner_settings(jvm)
    with analysis.analysed_again(working, view.definition, view.head) as document:
        situation = survey(working, document, view.head, view.definition.terms, settings)
        return perform.perform(jvm, working, view, situation, wanted).row


def refresh_views(jvm: Jvm, statement: RefreshViews) -> list[list[Any]]:
    """Refreshes all views of a database that match. Returns one row per view.

    Raises TIDEMILL_REFRESHES_FAILED, with these rows as text, if a view failed; the errors of `together.refreshed`.
    """
    answer = together.refreshed(jvm, catalog.views_in(jvm, statement.database, statement.pattern))
    rows = [row.cells() for row in answer.rows]
    if not answer.failures:
        return rows
    zone = str(jvm.session.conf().get("spark.sql.session.timeZone"))
    told = [*readable.of_views(rows, zone), *(f"{view}: {message}" for view, message in answer.failures.items())]
    raise TidemillError(
        "TIDEMILL_REFRESHES_FAILED",
        {
            "failed": len(answer.failures),
            "all": len(rows),
            "views": ", ".join(answer.failures),
            "rows": "\n".join(told),
        },
    )
