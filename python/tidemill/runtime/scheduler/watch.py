"""Tells what has come at the sources of a view, for ON CHANGE and AT PROGRESS: by positions alone, without a job."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

from tidemill.bridge.jvm import Jvm
from tidemill.errors import TidemillError
from tidemill.runtime.scheduler.progress import progress
from tidemill.runtime.view.arrivals import Arrived, ArrivedRows, ObservedRun, Outlook, source_named
from tidemill.runtime.view.notes import Note
from tidemill.runtime.view.record import RunRecord
from tidemill.runtime.view.views import View
from tidemill.sources.adapters import Pinned, adapter, mark, pin
from tidemill.sql.render import name_text, trigger_text
from tidemill.sql.statements import AtProgress, Name, OnChange, Point

WATCHED = ("files", "delta", "view")
"""Kinds of sources that can change."""
Source: TypeAlias = Mapping[str, Any]
Marks: TypeAlias = Mapping[str, str]
"""By table, the mark of its position."""
_READ = frozenset({"source", "fields", "bytes", "rows"})
"""Parts of a source's entry that may differ between the views that read one table."""


@dataclass(frozen=True, slots=True)
class Watched:
    """A source of a view: its name, whether it has changed since the content, and what no run of any kind has seen.

    `new`: it stands elsewhere than at the last run. `rows`, `files`: what came since the content; None: unknown.
    """

    name: str
    changed: bool
    new: bool
    rows: ArrivedRows | None
    files: float | None
    position: str


def needs_positions(schedule: Sequence[Point]) -> bool:
    """Returns True if points of a schedule wait for what comes at sources."""
    return any(isinstance(point.trigger, OnChange | AtProgress) for point in schedule)


def present_marks(jvm: Jvm, views: Iterable[View]) -> Marks:
    """Returns the marks of the tables of views as they are now: each table is looked at once, and all in one call.

    One that cannot be looked at is left out: the views that read it find out why.
    """
    tables = {_table(source): source for view in views for source in _sources(view)}
    try:
        found = pin(jvm, list(tables.values())) if tables else []
        return {table: mark(pinned.position) for table, pinned in zip(tables, found, strict=True)}
    except Exception:  # no table stops the others
        return _marks_of_each(jvm, tables)


def _marks_of_each(jvm: Jvm, tables: Mapping[str, Source]) -> Marks:
    marks = {}
    for table, source in tables.items():
        with suppress(Exception):
            marks[table] = mark(pin(jvm, [source])[0].position)
    return marks


def sources_of(view: View) -> list[Source]:
    """Returns the entries of a view's sources: the tables that its last run has read."""
    later = view.head.fired.entries if view.head is not None else ()
    return list(later or view.definition.sources)


def _sources(view: View) -> list[Source]:
    return [s for s in sources_of(view) if s["kind"] in WATCHED]


def _table(source: Source) -> str:
    """Returns a text that identifies a table, whatever is read of it."""
    return json.dumps({name: value for name, value in source.items() if name not in _READ}, sort_keys=True)


def look(jvm: Jvm, view: View, note: Note, marks: Marks = MappingProxyType({})) -> list[Watched]:
    """Returns the sources of a view that can change, as they are now: without a call if `marks` says that all of them
    are where they were at the content, else in one call."""
    sources = _sources(view)
    head = view.head
    since = [head.position_of(str(s["name"])) if head is not None else None for s in sources]
    if all(
        before is not None and marks.get(_table(s)) == mark(before) for s, before in zip(sources, since, strict=True)
    ):
        unmoved = [(str(s["name"]), mark(before)) for s, before in zip(sources, since, strict=True)]
        return [Watched(name, False, False, (0.0, 0.0), 0.0, at) for name, at in unmoved]
    found = []
    for source, before, pinned in zip(sources, since, pin(jvm, sources, since), strict=True):
        name, at = str(source["name"]), mark(pinned.position)
        known = {note.fired.seen.get(name), head.fired.seen.get(name) if head is not None else None}
        found.append(Watched(name, pinned.change.changed, at not in known, *_counted(before, pinned), at))
    return found


def _counted(before: Any, pinned: Pinned) -> tuple[ArrivedRows | None, float | None]:
    change = pinned.change
    if not change.changed:
        return (0.0, 0.0), 0.0
    if before is None:
        return (None if change.rows is None else (change.rows, 0.0)), change.files
    rows = None if change.inserts is None or change.deletes is None else (change.inserts, change.deletes)
    return rows, pinned.new_files


def arrived(view: View, found: Sequence[Watched], outlook: Outlook | None, cycles: Mapping[int, bool]) -> set[int]:
    """Returns the numbers of the points whose sources have what they wait for.

    `outlook`: of the view with the arrivals up to now; None: it has no AT PROGRESS points. `cycles`: of AT PROGRESS
    points by number, whether they have fired in this cycle.
    """
    numbers = set()
    share = progress(outlook, [w.name for w in found]) if outlook is not None else None
    for number, point in enumerate(view.definition.create.schedule, 1):
        match point.trigger:
            case OnChange(tables, count, unit):
                named = _named(view, tables)
                watched = [w for w in found if named is None or w.name in named]
                if _enough(watched, count, unit, view.head, point.output):
                    numbers.add(number)
            case AtProgress(percent):
                if share is not None and share * 100 >= percent and not cycles.get(number, False):
                    numbers.add(number)
    return numbers


def _enough(
    watched: Sequence[Watched], count: int | None, unit: str | None, head: RunRecord | None, output: bool
) -> bool:
    """Returns True if so much has come at a point's sources that no run has seen."""
    if not any(w.changed and w.new for w in watched):
        return False
    if count is None:
        return True
    told = [w.files if unit == "FILES" else None if w.rows is None else sum(w.rows) for w in watched]
    if any(n is None for n in told):
        return True  # nobody can tell: better too early than never
    came = sum(n for n in told if n is not None)
    if not output and unit == "ROWS":  # the content stays where it is, so what it has not read was counted before
        came -= _counted_before(head, [w.name for w in watched])
    return came >= count


def _counted_before(head: RunRecord | None, names: Sequence[str]) -> float:
    """Returns the rows since the content that the last run without output has seen."""
    if head is None or head.arrived is None or head.row.kind != "PARTIAL":
        return 0.0
    known = [head.arrived.rows.get(name) for name in names]
    return sum(sum(rows) for rows in known if rows is not None)


def _named(view: View, tables: Sequence[Name]) -> set[str] | None:
    """Returns the names of the sources that ON CHANGE OF names; None without OF: all."""
    if not tables:
        return None
    known = [str(s["name"]) for s in sources_of(view)]
    return {name for t in tables if (name := source_named(t, view.definition.namespace, known)) is not None}


def present(view: View, found: Sequence[Watched], now: float) -> ObservedRun:
    """Returns what has arrived by `now` (epoch seconds) in the form of a run that has not ended."""
    head = view.head
    since = None
    if head is not None:
        since = head.output_run if head.filled else min(head.moments, default=None)
    rows = {w.name: w.rows for w in found} if since is not None else {}
    return ObservedRun(None, now, Arrived("", False, since, rows))


def check_triggers(schedule: Sequence[Point], sources: Sequence[Source], namespace: Sequence[str]) -> None:
    """Checks that the sources of a query have what ON CHANGE points wait for.

    Raises TIDEMILL_INVALID_SCHEDULE for a table that the query does not read, and for a unit that a table cannot count.
    """
    known = {str(s["name"]): s for s in sources}
    for point in schedule:
        if not isinstance(point.trigger, OnChange):
            continue
        trigger = point.trigger
        watched = []
        for table in trigger.tables:
            name = source_named(table, namespace, known)
            if name is None:
                others = ", ".join(known)
                raise _invalid(f"the view does not read {name_text(table)}, which ON CHANGE names; it reads {others}")
            watched.append(known[name])
        for source in watched or sources:
            counts = adapter(source).counts
            if trigger.unit is not None and trigger.unit not in counts:
                other = trigger_text(OnChange(trigger.tables, trigger.count, *counts))
                what = "rows" if trigger.unit == "ROWS" else "files"
                raise _invalid(
                    f"{source['name']} does not count the {what} of its changes, which AFTER needs; write {other}"
                )


def _invalid(reason: str) -> TidemillError:
    return TidemillError("TIDEMILL_INVALID_SCHEDULE", {"reason": reason})
