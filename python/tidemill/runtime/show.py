"""SHOW INCREMENTAL VIEWS, SHOW REFRESHES, SHOW CREATE INCREMENTAL VIEW."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tidemill.bridge.jvm import Jvm
from tidemill.errors import TidemillError
from tidemill.runtime import catalog, views
from tidemill.sql.render import create_text
from tidemill.sql.statements import Column, ShowCreate, ShowRefreshes, ShowViews


def show_views(jvm: Jvm, statement: ShowViews, sql: str, warnings: list[str]) -> list[list[Any]]:
    """Rows namespace, viewName, status, policy, lastRun, lastOutputAt, by name."""
    database = None
    if statement.database is not None:
        *qualifier, database = statement.database
        if qualifier and qualifier != [catalog.SESSION_CATALOG]:
            raise TidemillError(
                "TIDEMILL_CATALOG_UNSUPPORTED",
                {"catalog": ".".join(qualifier), "reason": "only spark_catalog can for now"},
            )
    rows = []
    for entry in sorted(catalog.views_in(jvm, database, statement.pattern), key=lambda e: e.name):
        view = views.open_entry(jvm, entry)
        head = view.head
        rows.append(
            [
                entry.name[-2],
                entry.name[-1],
                view.status,
                view.definition.create.policy,
                head.run if head else None,
                head.output_at if head else None,
            ]
        )
    return rows


def show_refreshes(jvm: Jvm, statement: ShowRefreshes, sql: str, warnings: list[str]) -> list[list[Any]]:
    """The history, newest first."""
    view = views.find(jvm, statement.name)
    return [record.row.cells() for record in view.history(statement.limit)]


def show_create(jvm: Jvm, statement: ShowCreate, sql: str, warnings: list[str]) -> list[list[Any]]:
    """One row: a CREATE statement that makes the view again, wherever it is run."""
    view = views.find(jvm, statement.name)
    create = view.definition.create
    columns = tuple(Column(c.name, c.comment) for c in view.definition.columns) if create.columns else ()
    named = replace(create, name=view.definition.name, columns=columns)
    text = create_text(replace(named, if_not_exists=False, or_replace=False))
    return [[text]]
