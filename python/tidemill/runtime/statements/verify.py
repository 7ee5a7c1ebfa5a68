"""VERIFY INCREMENTAL VIEW: recomputes the query at the recorded positions and compares."""

from __future__ import annotations

from typing import Any

from tidemill.bridge.jvm import Jvm
from tidemill.errors import TidemillError
from tidemill.plan.datatype import type_to_text
from tidemill.plan.ops import Named
from tidemill.runtime.before import analysis, sessions
from tidemill.runtime.judge.compare import Verdict, compare
from tidemill.runtime.judge.free_answers import compare_cut, find_cut
from tidemill.runtime.run.binder import Binder
from tidemill.runtime.run.jobs import SparkJobs
from tidemill.runtime.view import views
from tidemill.runtime.view.record import RunRecord
from tidemill.sources.adapters import describe_position, pin
from tidemill.sql.statements import Verify
from tidemill.wire.query_document import read_query


def verify(jvm: Jvm, statement: Verify) -> list[list[Any]]:
    """Returns one row: matches, missing, unexpected.

    Raises TIDEMILL_NOT_FILLED, and TIDEMILL_HISTORY_GONE if a source no longer has the position of the view's content.
    """
    view = views.find(jvm, statement.name)
    definition, head = view.definition, view.head
    if head is None or not head.filled:
        raise TidemillError("TIDEMILL_NOT_FILLED", {"view": definition.qualified})
    working = sessions.working(jvm, definition.settings)
    with analysis.analysed_again(working, definition, head) as document:
        at = _positions(working, document, definition.qualified, head)
        sessions.fit(working, None)
        execution = SparkJobs(working, document["query"], definition.qualified, head.run)
        columns = [(c.name, type_to_text(c.type)) for c in definition.columns]
        verdict = _verdict(execution, document, at, head, columns)
    return [[verdict.matches, verdict.missing, verdict.unexpected]]


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


def _verdict(
    execution: SparkJobs,
    document: analysis.Document,
    at: dict[int, Any],
    head: RunRecord,
    columns: list[tuple[str, str]],
) -> Verdict:
    binder = Binder(positions=[at], states={}, result=head.files)
    output = [column for column, _ in document["output"]]
    root = binder.bind(document["root"])
    verdict = compare(execution, root, output, columns, head.files)
    cut = None if verdict.matches else find_cut(root)
    if cut is None:
        return verdict
    needed = _needed(document, cut.projections[-1] if cut.projections else None, output)
    return compare_cut(execution, cut, needed, output, columns, head.files)


def _needed(document: analysis.Document, above: Named | None, output: list[int]) -> frozenset[int]:
    """Returns the columns of a limit's input that the projection right above the limit, or the output, reads."""
    if above is None:
        return frozenset(output)
    query = read_query(document)
    return frozenset().union(*(query.columns_of(e) for _, e in above))
