"""DESCRIBE INCREMENTAL VIEW: columns, and with EXTENDED the sections that users know from Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tidemill.bridge.jvm import Jvm
from tidemill.runtime.before.analysis import type_text
from tidemill.runtime.scheduler.progress import progress
from tidemill.runtime.scheduler.watch import WATCHED
from tidemill.runtime.view import notes, views
from tidemill.runtime.view.views import View
from tidemill.sources.adapters import describe_position
from tidemill.sql.clauses import byte_string
from tidemill.sql.render import expect_text, schedule_text
from tidemill.sql.statements import AtProgress, Describe

DescribeRow = tuple[str, str, str | None]


def describe(jvm: Jvm, statement: Describe) -> list[list[Any]]:
    """Returns rows col_name, data_type, comment. Raises TIDEMILL_NOT_FOUND, TIDEMILL_NOT_AN_INCREMENTAL_VIEW."""
    view = views.find(jvm, statement.name)
    lines: list[DescribeRow] = [(c.name, type_text(c.type), c.comment) for c in view.definition.columns]
    ignored = list(_never_reached(view))
    lines += _partitions(view)
    if statement.extended:
        lines += _extended(view)
    if ignored:
        lines += [("", "", None), ("# Clauses", "", None)]
        lines += [(clause, "not in effect", text) for clause, text in ignored]
    lines += _troubles(view)
    return [list(line) for line in lines]


def _never_reached(view: View) -> Iterator[tuple[str, str]]:
    """Yields AT PROGRESS if nobody knows yet what a cycle brings."""
    definition = view.definition
    if any(isinstance(point.trigger, AtProgress) for point in definition.create.schedule):
        names = [str(s["name"]) for s in definition.sources if s["kind"] in WATCHED]
        if progress(view.outlook(), names) is None:
            yield "AT PROGRESS", "It fires once EXPECT tells the rows of all tables, or one cycle has ended."


def _troubles(view: View) -> Iterator[DescribeRow]:
    """Yields what has gone wrong lately."""
    note = notes.read(view)
    failing = note.failing_at(view.head.run if view.head is not None else -1)
    because = view.definition.suspended_because
    if failing is None and note.early is None and because is None:
        return
    yield "", "", None
    yield "# Failures", "", None
    if because is not None:
        yield "Suspended", because, "ALTER INCREMENTAL VIEW ... RESUME has it tried again"
    elif failing is not None:
        yield (
            "Failing",
            failing.reason,
            f"{failing.count} times; it is tried again {_utc(round(failing.retry_at * 1e6))}",
        )
    if note.early is not None:
        yield "Nothing Done Early", note.early, None


def _partitions(view: View) -> Iterator[DescribeRow]:
    columns = {c.name: c for c in view.definition.columns}
    parts = [columns[name] for name in view.definition.create.partitioned_by]
    if parts:
        yield "# Partition Information", "", None
        yield "# col_name", "data_type", "comment"
    for c in parts:
        yield c.name, type_text(c.type), c.comment


def _extended(view: View) -> Iterator[DescribeRow]:
    definition, head = view.definition, view.head
    create = definition.create
    yield "", "", None
    yield "# Detailed Incremental View Information", "", None
    yield "Catalog", definition.name[0], None
    yield "Database", definition.name[1], None
    yield "View", definition.name[2], None
    if create.comment is not None:
        yield "Comment", create.comment, None
    yield "Status", view.status, None
    yield "Schedule", schedule_text(create.schedule), None
    if create.expect:
        over = any(e.rows is None for e in create.expect) and view.outlook().over
        yield "Expect", expect_text(create.expect), "COMPLETE was said of an earlier cycle" if over else None
    yield "Refresh Policy", create.policy, None
    if create.state_budget is not None:
        used = "" if head is None else f"{head.state_bytes} of {byte_string(create.state_budget)} bytes are used"
        yield "State Budget", create.state_budget, used or None
    yield "Format", definition.format, None
    yield "Location", definition.location, None
    yield "Created Time", _utc(definition.created_at), None
    properties = ", ".join(f"{k}={v}" for k, v in create.properties)
    yield "Properties", f"[{properties}]", None
    yield "Query", definition.query, None
    yield "Query Catalog and Namespace", ".".join((definition.catalog, *definition.namespace)), None
    if head is not None:
        yield "", "", None
        yield "# Last Run", "", None
        yield "Run", str(head.run), None
        yield "Kind", head.row.kind, None
        if head.row.reason:
            yield "Reason", head.row.reason, None
        yield "Methods", ", ".join(head.row.methods), None
        yield "Started", _utc(head.row.started_at), None
        yield "Key", ", ".join(head.keys) if head.keys else "none: a bag", None
        if marked := [f["dv"] for f in head.files if "dv" in f]:
            rows = sum(int(vector["rows"]) for vector in marked)
            yield "Marked Rows", f"{rows} in {len(marked)} of {len(head.files)} files", None
        for name, state in head.states.items():
            pieces = f"{state.rows} rows in {len(state.pieces)} pieces"
            compacted = ", compacted" if name in head.compacted else ""
            yield f"State {name}", f"{state.bytes} bytes, {pieces}{compacted}", state.text
        for name, why in head.dropped.items():
            yield "Given Up", name, why
    for path in view.lost_amendments:
        yield "Damaged", path, "what an ALTER said is lost; say it again, and VACUUM"
    yield "", "", None
    yield "# Sources", "", None
    for source in definition.sources:
        name = str(source["name"])
        at = head.row.positions.get(name) if head else None
        if head is not None and source["kind"] == "clock" and (shown := head.position_of(name)) is not None:
            at = describe_position(shown)  # SHOW REFRESHES has tables only
        yield name, str(source["kind"]), at


def _utc(micros: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(micros / 1_000_000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
