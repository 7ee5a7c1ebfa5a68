"""VERIFY INCREMENTAL VIEW: recomputes the query at the recorded positions and compares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidemill.bridge.jvm import Jvm
from tidemill.errors import TidemillError
from tidemill.plan.datatype import type_to_text
from tidemill.runtime.before import analysis, sessions
from tidemill.runtime.judge.compare import Case, compare
from tidemill.runtime.judge.free_answers import compare_cut
from tidemill.runtime.view import views
from tidemill.runtime.view.definition import Definition
from tidemill.runtime.view.record import RunRecord
from tidemill.sources.adapters import describe_position, pin
from tidemill.sql.statements import Verify


def verify(jvm: Jvm, statement: Verify) -> list[list[Any]]:
    """Returns one row: matches, missing, unexpected.

    Raises TIDEMILL_NOT_FILLED, and TIDEMILL_HISTORY_GONE if a source no longer has the position of the view's content.
    """
    view = views.find(jvm, statement.name)
    definition, head = view.definition, view.head
    if head is None or not head.filled:
        raise TidemillError("TIDEMILL_NOT_FILLED", {"view": definition.qualified})
    working = sessions.working(jvm, definition.settings)
    with analysis.analysed_again(working, definition, head, anew=True) as document:
        at = _positions(working, document, definition.qualified, head)
        for name, value in sessions.fit(working, None).items():
            working.session.conf().set(name, value)
        case = _case(working, document, at, definition, head)
        verdict = compare(case)
        if not verdict.matches:
            verdict = compare_cut(case) or verdict
    return [[verdict.matches, verdict.missing, verdict.unexpected]]


def _case(
    jvm: Jvm, document: analysis.Document, at: Mapping[int, Any], definition: Definition, head: RunRecord
) -> Case:
    partitions = set(definition.create.partitioned_by)
    folded = {c.name: analysis.FOLDED for c in definition.columns if c.name in partitions and c.type == "string"}
    return Case(
        jvm=jvm,
        query=document["query"],
        view=definition.qualified,
        positions=at,
        output=definition.query_columns,
        columns=[(c.name, type_to_text(c.type)) for c in definition.columns],
        folded=folded,
        files=head.files,
    )


def _positions(jvm: Jvm, document: analysis.Document, view: str, head: RunRecord) -> dict[int, Any]:
    """Returns the recorded positions by number of source. Checks that all of them are readable."""
    sources = document["sources"]
    recorded = [head.position_of(s["name"]) for s in sources]
    now = pin(jvm, sources, recorded)
    for source, position, pinned in zip(sources, recorded, now, strict=True):
        if position is not None and not pinned.change.old_readable:
            raise TidemillError(
                "TIDEMILL_HISTORY_GONE",
                {"source": source["name"], "position": describe_position(position), "view": view},
            )
    return {s["source"]: p for s, p in zip(sources, recorded, strict=True)}
