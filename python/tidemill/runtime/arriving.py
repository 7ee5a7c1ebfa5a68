"""What a view's statement and its log tell of what will arrive."""

from __future__ import annotations

from tidemill.runtime.arrivals import Outlook, Run, expectations, zone_of
from tidemill.runtime.views import View

TIME_ZONE = "spark.sql.session.timeZone"


def outlook(view: View, present: Run | None = None) -> Outlook:
    """What is known of arrivals; `present`: a run that is planned, with what it found."""
    definition, runs = view.definition, view.arrivals()
    create = definition.create
    return Outlook(
        schedule=create.schedule,
        expect=expectations(create.expect, definition.namespace, (str(s["name"]) for s in definition.sources)),
        runs=runs if present is None else [*runs, present],
        said=definition.expect_said,
        zone=zone_of(definition.settings.get(TIME_ZONE, "UTC")),
    )
