"""CREATE INCREMENTAL VIEW: check, fill, commit, publish; the catalog entry comes last.

Whatever fails on the way, nothing is left: no file, no folder that was not there before, no catalog entry.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tidemill.bridge.jvm import Jvm
from tidemill.errors import TidemillError
from tidemill.runtime import analysis, catalog, planning, running, sessions
from tidemill.runtime.definition import VIEW_FILE, Definition, ViewColumn
from tidemill.runtime.files import Files, child
from tidemill.runtime.running import Occasion
from tidemill.runtime.views import View
from tidemill.sql.not_yet import not_in_effect
from tidemill.sql.statements import Create, to_json


@dataclass(frozen=True, slots=True)
class Place:
    """Where the view will lie, qualified; `owned`: chosen by Tidemill, so that DROP removes it."""

    location: str
    owned: bool


def create(jvm: Jvm, statement: Create, sql: str, warnings: list[str]) -> list[list[Any]]:
    """Creates the view, and fills it unless INITIALIZE DEFERRED.

    Raises TIDEMILL_CATALOG_UNSUPPORTED, TIDEMILL_ALREADY_EXISTS, TIDEMILL_LOCATION_NOT_EMPTY,
    TIDEMILL_LOCATION_MISMATCH, TIDEMILL_COLUMN_MISMATCH, TIDEMILL_TEMPORARY_OBJECT, TIDEMILL_NON_DETERMINISTIC,
    TIDEMILL_NOT_INCREMENTAL, TIDEMILL_SOURCE_WITHOUT_CHANGES, and whatever Spark says about the query.
    """
    name = catalog.qualify(jvm, statement.name)
    if (found := catalog.lookup(jvm, name)) is not None:
        if statement.if_not_exists and found.is_view:
            return []
        raise TidemillError("TIDEMILL_ALREADY_EXISTS", {"view": ".".join(name), "object": found.what})
    files = Files(jvm)
    place = _place(jvm, files, name, statement.location)
    captured = jvm.invoke("settings", {})
    working = sessions.working(jvm, captured["confs"])
    assert isinstance(statement.query, str), "the iterative form is refused by the parser"
    with analysis.analysed(working, statement.query, captured["catalog"], captured["namespace"]) as analysed:
        analysis.check_findings(analysed, statement.policy)
        columns = _columns(statement, analysed, name)
        document = {**analysed, "output": [[c, v.name] for (c, _), v in zip(analysed["output"], columns, strict=True)]}
        definition = Definition(
            id=uuid.uuid4().hex,
            name=name,
            statement=to_json(statement),
            text=sql,
            query=statement.query,
            settings=captured["confs"],
            catalog=captured["catalog"],
            namespace=tuple(captured["namespace"]),
            columns=columns,
            query_columns=tuple(n for _, n in analysed["output"]),
            sources=tuple(analysed["sources"]),
            functions=analysis.functions(analysed),
            order_dropped=bool(analysed.get("order_dropped")),
            time_dependent=bool(analysed["findings"].get("time_dependent")),
            owns_files=place.owned,
            created_at=time.time_ns() // 1000,
            location=place.location,
        )
        warnings += _warnings(statement, definition)
        _make(jvm, working, files, definition, document)
    return []


def _make(jvm: Jvm, working: Jvm, files: Files, definition: Definition, document: Mapping[str, Any]) -> None:
    view = View(definition, files)
    create = definition.create
    situation = planning.survey(working, document, None, create.policy, sessions.planner_settings(jvm))
    plan = planning.plan(situation, "FIRST")
    planning.check_policy(situation, plan)
    with _nothing_left(files, definition.location):
        if not files.write_new(child(definition.location, VIEW_FILE), definition.to_json()):
            # Another CREATE of this name came first; its files are not ours to remove.
            raise _TakenError(definition)
        if not create.deferred:
            occasion = Occasion.now(len(create.schedule), "CREATE")
            view.publish(running.run_with_output(working, view, situation, plan, occasion))
        schema = {"type": "struct", "fields": [_field(c) for c in definition.columns]}
        catalog.create_entry(
            jvm, definition.name, definition.location, schema, definition.id, dict(create.properties), create.comment
        )


class _TakenError(TidemillError):
    """The location was taken while this statement ran."""

    def __init__(self, definition: Definition) -> None:
        super().__init__("TIDEMILL_LOCATION_NOT_EMPTY", {"view": definition.qualified, "location": definition.location})


@contextmanager
def _nothing_left(files: Files, location: str) -> Iterator[None]:
    """Removes what the statement made below `location`, and the folders above that it had to make, if it fails."""
    root = _first_missing(files, location)
    try:
        yield
    except _TakenError:
        raise
    except BaseException as error:
        try:
            files.delete([root] if root is not None else [s.path for s in files.list(location)])
        except Exception as failure:
            error.add_note(f"the files at {location} could not be removed: {failure}")
        raise


def _first_missing(files: Files, location: str) -> str | None:
    """The topmost folder on the way to `location` that does not exist yet; None if all do."""
    missing = None
    path = location.rstrip("/")
    while path.count("/") > 2 and not files.exists(path):
        missing, path = path, path.rsplit("/", 1)[0]
    return missing


def _place(jvm: Jvm, files: Files, name: Sequence[str], wanted: str | None) -> Place:
    location = files.qualify(wanted if wanted is not None else catalog.default_location(jvm, name))
    if files.list(location) or (files.exists(location) and not _is_folder(files, location)):
        if files.exists(child(location, VIEW_FILE)):
            raise TidemillError(
                "TIDEMILL_NOT_YET",
                {
                    "clause": "LOCATION of an existing view",
                    "detail": f"{location} holds an incremental view; attaching it again comes later.",
                },
            )
        raise TidemillError("TIDEMILL_LOCATION_NOT_EMPTY", {"view": ".".join(name), "location": location})
    return Place(location, owned=wanted is None)


def _is_folder(files: Files, location: str) -> bool:
    parent, _, last = location.rstrip("/").rpartition("/")
    return any(s.folder for s in files.list(parent) if s.name == last)


def _columns(statement: Create, document: analysis.Document, name: Sequence[str]) -> tuple[ViewColumn, ...]:
    types = analysis.column_types(document)
    output = document["output"]
    if statement.columns and len(statement.columns) != len(output):
        raise TidemillError(
            "TIDEMILL_COLUMN_MISMATCH",
            {"view": ".".join(name), "expected": len(statement.columns), "actual": len(output)},
        )
    given = statement.columns or [None] * len(output)
    columns = tuple(
        ViewColumn(c.name if c else n, types[i], c.comment if c else None)
        for (i, n), c in zip(output, given, strict=True)
    )
    seen: set[str] = set()
    for column in columns:
        # Parquet files of a view are read in sessions of either case sensitivity.
        if column.name.lower() in seen:
            raise TidemillError("COLUMN_ALREADY_EXISTS", {"columnName": f"`{column.name}`"})
        seen.add(column.name.lower())
    return columns


def _field(column: ViewColumn) -> dict[str, Any]:
    metadata = {"comment": column.comment} if column.comment is not None else {}
    # A refresh may bring the first NULL: a stored column is always nullable.
    return {"name": column.name, "type": column.type, "nullable": True, "metadata": metadata}


def _warnings(statement: Create, definition: Definition) -> Iterator[str]:
    for clause, text in not_in_effect(statement):
        yield f"{definition.qualified}: {clause} is not in effect. {text}"
    for function in definition.functions:
        yield (
            f"{definition.qualified} uses the function {function}, which exists in this session only: a refresh in a"
            " session without it will fail."
        )
    if definition.order_dropped:
        yield f"{definition.qualified}: a stored view has no order; the ORDER BY at its end is left out."
