"""SHOW INCREMENTAL VIEWS, SHOW REFRESHES, SHOW CREATE INCREMENTAL VIEW."""

from __future__ import annotations

import logging
from dataclasses import replace
from itertools import islice
from typing import Any

from tidemill.bridge.jvm import Jvm
from tidemill.runtime.scheduler import agendas
from tidemill.runtime.scheduler.clock import RealClock
from tidemill.runtime.scheduler.due import next_after
from tidemill.runtime.scheduler.lag import lag_seconds
from tidemill.runtime.view import catalog, failures, notes, views
from tidemill.runtime.view.catalog import CatalogEntry
from tidemill.runtime.view.history import RunRow
from tidemill.sql.render import create_text
from tidemill.sql.statements import ColumnClause, ShowCreate, ShowRefreshes, ShowViews

_LOG = logging.getLogger("tidemill")
UNREADABLE = "UNREADABLE"
"""Status of a view whose files are gone, damaged, or out of reach."""


def show_views(jvm: Jvm, statement: ShowViews) -> list[list[Any]]:
    """Returns rows namespace, viewName, status, policy, lastRun, lastOutputAt, lastKind, lastReason, nextPointAt,
    lagSeconds, by name."""
    found = catalog.views_in(jvm, statement.database, statement.pattern)
    return [[*entry.name[-2:], *_state_of(jvm, entry)] for entry in found]


def _state_of(jvm: Jvm, entry: CatalogEntry) -> list[Any]:
    """Returns the columns from status on; UNREADABLE for a view whose files cannot be read."""
    try:
        view = views.open_entry(jvm, entry)
        policy = view.definition.create.policy
        note = notes.read(view)
    except Exception:  # the others are shown whatever is wrong with this one
        return [UNREADABLE, *[None] * 8]
    head, clock = view.head, RealClock()
    kind, reason = (head.row.kind, head.row.reason) if head else (None, None)
    if (failing := note.failing_at(head.run if head else -1)) is not None:
        kind, reason = "FAILED", failing.reason
    following = next_after(agendas.by_clock(view, note, clock), clock.now())
    try:
        lag = lag_seconds(jvm, view, clock.now())
    except Exception:  # a source is gone, or an entry of the log of a view that is read
        lag = None
    last = [head.run, head.output_at] if head else [None, None]
    return [view.status, policy, *last, kind, reason, None if following is None else round(following * 1e6), lag]


def show_refreshes(jvm: Jvm, statement: ShowRefreshes) -> list[list[Any]]:
    """Returns the history of a view, or that of all views of the current catalog, newest first.

    Of all views, those whose history cannot be read are left out.
    """
    if statement.name is not None:
        return [row.cells() for row in failures.history(views.find(jvm, statement.name), statement.limit)]
    histories = [_readable_history(jvm, entry, statement.limit) for entry in catalog.all_views(jvm)]
    return [row.cells() for row in islice(failures.newest_first(histories), statement.limit)]


def _readable_history(jvm: Jvm, entry: CatalogEntry, limit: int | None) -> list[RunRow]:
    try:
        return failures.history(views.open_entry(jvm, entry), limit)
    except Exception as error:
        _LOG.warning("Tidemill: the history of %s is not shown: %s", ".".join(entry.name), error)
        return []


def show_create(jvm: Jvm, statement: ShowCreate) -> list[list[Any]]:
    """Returns one row: a CREATE statement that creates the view again, wherever it is run."""
    view = views.find(jvm, statement.name)
    create = view.definition.create
    columns = tuple(ColumnClause(c.name, c.comment) for c in view.definition.columns) if create.columns else ()
    named = replace(create, name=view.definition.name, columns=columns)
    text = create_text(replace(named, if_not_exists=False, or_replace=False))
    return [[text]]
