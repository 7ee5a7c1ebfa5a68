"""The positions of many views' sources, taken once; and the situation of each view at these positions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tidemill.bridge.jvm import Jvm
from tidemill.plan.change import SourceChange
from tidemill.runtime.before.graph import Source, ViewNode
from tidemill.runtime.before.situation import Situation, survey
from tidemill.runtime.run.perform import RunOutcome
from tidemill.runtime.view.history import RunRow
from tidemill.settings import PlannerSettings
from tidemill.sources.adapters import pin

ATTEMPTS = 3
"""Most analyses of the views, if tables are replaced before their positions are taken."""

Pins = Mapping[str, Any]
"""Positions by `_place`."""


def pinned(jvm: Jvm, nodes: Sequence[ViewNode]) -> tuple[Pins, str | None]:
    """Takes the positions of all base sources of `nodes` in one call. Returns them, and the name of a source that is
    not the table or view that was analysed (None: all are).

    Views that are not among `nodes` are base sources, too. The views' last runs were read before, so no pin is older
    than the positions of a run.
    """
    ids = {node.view.location: node.view.definition.id for node in nodes}
    for node in nodes:
        for number, location in node.upstream.items():
            read = next(s for s in node.document["sources"] if s["source"] == number)
            if location in ids and read["id"] != ids[location]:
                return {}, read["name"]
    entries: dict[str, Source] = {}
    for source in (s for node in nodes for s in node.document["sources"] if _is_base(node, s)):
        known = entries.setdefault(_place(source), source)
        if known["fields"] != source["fields"]:
            return {}, source["name"]
    positions = [p.position for p in pin(jvm, list(entries.values()))]
    for source, position in zip(entries.values(), positions, strict=True):
        if position is not None and position.get("id", source["id"]) != source["id"]:
            return {}, source["name"]
    return dict(zip(entries, positions, strict=True)), None


def _is_base(node: ViewNode, source: Source) -> bool:
    """Returns True if the source has a position of its own: it is not constant, and not refreshed along with `node`."""
    return source["kind"] != "static" and source["source"] not in node.upstream


def _place(source: Source) -> str:
    """Returns a text that identifies a table, whichever view reads it; for the clock also what is read of it."""
    read = [source["kind"], source["id"], source["location"].get("options"), source.get("reads")]
    return json.dumps(read, sort_keys=True)


def surveyed(
    node: ViewNode, pins: Pins, done: Mapping[str, RunOutcome], settings: PlannerSettings, dry: bool
) -> Situation:
    """Returns the situation of a view of the graph: base sources at the pins, upstream views at their newest runs."""
    upstream = {n: done[location] for n, location in node.upstream.items()}
    at = {s["source"]: pins[_place(s)] for s in node.document["sources"] if _is_base(node, s)}
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
