"""REFRESH ... CASCADE: refreshes the upstream views of a view first, all at one pin of the base sources.

So a view that reads one table in several ways sees one position of it, however much is written meanwhile. Each view
has a run and a commit of its own. A failure leaves earlier commits in place.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tidemill.bridge.jvm import Jvm
from tidemill.errors import TidemillError
from tidemill.plan.change import SourceChange
from tidemill.runtime.before import graph, sessions
from tidemill.runtime.before.graph import Source, ViewNode
from tidemill.runtime.before.situation import Situation, survey
from tidemill.runtime.run import perform
from tidemill.runtime.run.attempt import Occasion
from tidemill.runtime.run.perform import RunOptions, RunOutcome
from tidemill.runtime.view.history import RunRow
from tidemill.runtime.view.views import View
from tidemill.settings import PlannerSettings
from tidemill.sources.adapters import pin

ATTEMPTS = 3
"""Most analyses of the views, if tables are replaced before their positions are taken."""


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
        with graph.opened(jvm, view) as nodes:
            pins, moved = _pinned(jvm, nodes)
            if moved is None:
                return _refreshed(jvm, nodes, pins, settings, wanted)
    raise TidemillError("TIDEMILL_SOURCE_MOVED", {"view": view.definition.qualified, "source": moved})


def _refreshed(
    jvm: Jvm, nodes: Sequence[ViewNode], pins: Mapping[str, Any], settings: PlannerSettings, wanted: RunOptions
) -> RunRow:
    named = nodes[-1].view
    done: dict[str, RunOutcome] = {}
    for node in nodes:
        if not wanted.dry:
            node.view.publish_if_behind()
        own = wanted if node.view is named else _upstream_wants(node.view, wanted.dry)
        with graph.naming(node.view, named):
            situation = _surveyed(node, pins, done, settings, wanted.dry)
            done[node.view.location] = perform.perform(jvm, node.working, node.view, situation, own)
    return done[named.location].row


def _upstream_wants(view: View, dry: bool) -> RunOptions:
    return RunOptions(Occasion.now(len(view.definition.create.schedule), "MANUAL"), dry=dry)


# -- pins -------------------------------------------------------------------------------------------------------------


def _pinned(jvm: Jvm, nodes: Sequence[ViewNode]) -> tuple[Mapping[str, Any], str | None]:
    """Takes the positions of all base sources in one call. Returns them by `_place`, and the name of a source that is
    not the table or view that was analysed (None: all are).

    The views' last runs were read before, so no pin is older than the positions of a run.
    """
    ids = {node.view.location: node.view.definition.id for node in nodes}
    for node in nodes:
        for number, location in node.upstream.items():
            read = next(s for s in node.document["sources"] if s["source"] == number)
            if read["id"] != ids[location]:
                return {}, read["name"]
    entries: dict[str, Source] = {}
    for source in (s for node in nodes for s in node.document["sources"] if _is_base(s)):
        known = entries.setdefault(_place(source), source)
        if known["fields"] != source["fields"]:
            return {}, source["name"]
    positions = [p.position for p in pin(jvm, list(entries.values()))]
    for source, position in zip(entries.values(), positions, strict=True):
        if position is not None and position.get("id", source["id"]) != source["id"]:
            return {}, source["name"]
    return dict(zip(entries, positions, strict=True)), None


def _is_base(source: Source) -> bool:
    """Returns True if the source has a position and is no view."""
    return source["kind"] not in ("view", "static")


def _place(source: Source) -> str:
    """Returns a text that identifies a table, whichever view reads it; for the clock also what is read of it."""
    read = [source["kind"], source["id"], source["location"].get("options"), source.get("reads")]
    return json.dumps(read, sort_keys=True)


# -- situations -------------------------------------------------------------------------------------------------------


def _surveyed(
    node: ViewNode, pins: Mapping[str, Any], done: Mapping[str, RunOutcome], settings: PlannerSettings, dry: bool
) -> Situation:
    """Returns the situation of a view of the graph: base sources at the pins, upstream views at their newest runs."""
    upstream = {n: done[location] for n, location in node.upstream.items()}
    at = {s["source"]: pins[_place(s)] for s in node.document["sources"] if _is_base(s)}
    sources = []
    for source in node.document["sources"]:
        below = upstream.get(source["source"])
        if below is not None and below.head is not None:
            at[source["source"]] = {"run": below.head.output_run, "id": source["id"], "rows": below.head.rows}
            # the view has grown since the query was analysed
            source = {**source, "bytes": sum(int(f["bytes"]) for f in below.head.files)}
        sources.append(source)
    document = {**node.document, "sources": sources}
    definition, head = node.view.definition, node.view.head
    situation = survey(node.working, document, head, definition.terms, settings, at)
    for number, below in upstream.items():
        if dry and below.row.kind != "NO_DATA":
            situation = _expecting(situation, number, below.row)
    return situation


def _expecting(situation: Situation, number: int, row: RunRow) -> Situation:
    """Returns `situation` with an unknown change of a source, to an unknown position, by another run."""
    untold = row.kind == "FULL" and not situation.settings.tell_changes
    reason = f"SOURCE_REWRITTEN: the next run of {row.view} would be full" if untold else None

    def changing(changes: Mapping[int, SourceChange]) -> dict[int, SourceChange]:
        known = changes[number]
        change = replace(known, changed=True, inserts=None, deletes=None, reason=known.reason or reason)
        return {**changes, number: change}

    return replace(
        situation,
        changes=changing(situation.changes),
        between=(*situation.between[:-1], *map(changing, situation.between[-1:])),
        positions=(*situation.positions[:-1], {**situation.new, number: None}),
    )
