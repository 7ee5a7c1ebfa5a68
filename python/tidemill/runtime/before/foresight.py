"""Warnings by CREATE, OR REPLACE and ALTER about the sources of a view."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidemill.bridge.jvm import Jvm, JvmFailure
from tidemill.errors import TidemillError
from tidemill.runtime.before import analysis, graph, sessions
from tidemill.runtime.before.graph import Source
from tidemill.runtime.view.definition import amended
from tidemill.runtime.view.views import View
from tidemill.sources import adapters
from tidemill.sql.schedule import longest_gap
from tidemill.sql.statements import Action, Create, SetPolicy, SetSchedule


def foreseen(jvm: Jvm, create: Create, sources: Iterable[Source]) -> Iterator[str]:
    """Yields a warning for each source that will make runs of a view with these clauses full, or fail."""
    if create.policy == "FULL":
        return
    period, tells = longest_gap(create.schedule), sessions.planner_settings(jvm).tell_changes
    for source in sources:
        yield from adapters.warnings(source, period)
        upstream = graph.view_of(jvm, source) if source["kind"] == "view" else None
        if tells or upstream is None:
            continue
        if upstream.definition.create.policy == "FULL":
            what = "fails" if create.policy == "STRICT" else "is full"
            yield (
                f"{source['name']} has REFRESH POLICY FULL and is not to tell what a run of it has changed: the run of"
                f" this view that follows {what}, with the reason SOURCE_REWRITTEN. Give it another policy, or set"
                " spark.tidemill.fullRuns.tellChanges to true."
            )


def foreseen_of(jvm: Jvm, view: View, action: Action) -> list[str]:
    """Returns the warnings that an action of ALTER adds."""
    before = view.definition.create
    after = amended(before, action)
    if not isinstance(action, SetSchedule | SetPolicy) or after.policy == "FULL":
        return []
    sources = _sources(jvm, view)
    known = {*foreseen(jvm, before, sources)}
    return [f"{view.definition.qualified}: {text}" for text in foreseen(jvm, after, sources) if text not in known]


def _sources(jvm: Jvm, view: View) -> list[Source]:
    """Returns the view's sources as they are now; those that cannot be read now, as they were."""
    working = sessions.working(jvm, view.definition.settings)
    try:
        with analysis.analysed_again(working, view.definition, view.head) as document:
            return list(document["sources"])
    except (TidemillError, JvmFailure):
        return list(view.definition.sources)
