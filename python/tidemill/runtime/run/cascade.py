"""REFRESH ... CASCADE: refreshes the upstream views of a view first, all at one pin of the base sources.

So a view that reads one table in several ways sees one position of it, however much is written meanwhile. Each view
has a run and a commit of its own. A failure leaves earlier commits in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, nullcontext

from tidemill.bridge.jvm import Jvm
from tidemill.errors import TidemillError
from tidemill.runtime.before import graph, sessions
from tidemill.runtime.before.graph import UpstreamFailedError, ViewNode
from tidemill.runtime.run import failing, perform, pins
from tidemill.runtime.run.occasion import Occasion
from tidemill.runtime.run.perform import RunOptions, RunOutcome
from tidemill.runtime.run.pins import ATTEMPTS, Pins
from tidemill.runtime.view.history import RunRow
from tidemill.runtime.view.views import View
from tidemill.settings import PlannerSettings


def cascade(jvm: Jvm, view: View, wanted: RunOptions) -> RunRow:
    """Refreshes the upstream views with output, then `view` as wanted. Returns the row of `view`.

    A view with nothing to do costs no job and gets no run. A suspended view is refreshed like any other, because the
    user asks for it. FULL and the point count for `view` alone. A dry run writes nothing: it plans the runs of upstream
    views, whose changes count as unknown.

    Raises RECURSIVE_VIEW; TIDEMILL_UPSTREAM_FAILED, naming the upstream view that fails; TIDEMILL_SOURCE_MOVED if the
    sources cannot be pinned together; for `view` itself the errors of REFRESH.
    """
    settings = sessions.planner_settings(jvm)
    for _ in range(ATTEMPTS):
        with ExitStack() as analyses:
            nodes = _opened(jvm, view, wanted, analyses)
            positions, moved = pins.pinned(jvm, nodes)
            if moved is None:
                return _refreshed(jvm, nodes, positions, settings, wanted)
    raise TidemillError("TIDEMILL_SOURCE_MOVED", {"view": view.definition.qualified, "source": moved})


def _opened(jvm: Jvm, view: View, wanted: RunOptions, analyses: ExitStack) -> Sequence[ViewNode]:
    """Returns the views as `graph.opened` yields them, until `analyses` are left. Notes an upstream view that fails."""
    try:
        return analyses.enter_context(graph.opened(jvm, view))
    except UpstreamFailedError as error:
        if not wanted.dry and error.failed is not None and isinstance(error.__cause__, Exception):
            failing.note(jvm, error.failed, _upstream_wants(jvm, error.failed, dry=False).occasion, error.__cause__)
        raise


def _refreshed(
    jvm: Jvm, nodes: Sequence[ViewNode], positions: Pins, settings: PlannerSettings, wanted: RunOptions
) -> RunRow:
    named = nodes[-1].view
    done: dict[str, RunOutcome] = {}
    for node in nodes:
        if not wanted.dry:
            with jvm.walls.part("opening"):
                node.view.publish_if_behind()
        own = wanted if node.view is named else _upstream_wants(jvm, node.view, wanted.dry)
        noted = own is not wanted and not wanted.dry  # `view` itself is noted by REFRESH
        failures = failing.refreshing(jvm, node.view, own.occasion) if noted else nullcontext()
        with graph.naming(node.view, named), failures:
            situation = pins.surveyed(node, positions, done, settings, wanted.dry)
            done[node.view.location] = perform.perform(jvm, node.working, node.view, situation, own)
    return done[named.location].row


def _upstream_wants(jvm: Jvm, view: View, dry: bool) -> RunOptions:
    return RunOptions(Occasion.now(jvm, len(view.definition.create.schedule), "MANUAL"), dry=dry)
