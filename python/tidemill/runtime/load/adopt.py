"""CREATE at a location that has a view already: makes its catalog entry, and computes nothing again.

Such a view's entry was dropped, or its catalog is gone, or its CREATE died before it made the entry.
"""

from __future__ import annotations

from tidemill.bridge.jvm import Jvm
from tidemill.errors import TidemillError
from tidemill.runtime.before import analysis, planning, sessions
from tidemill.runtime.load.draft import Draft, drafted
from tidemill.runtime.run import attempt
from tidemill.runtime.run.occasion import publish
from tidemill.runtime.storage import writers
from tidemill.runtime.storage.files import Files, child
from tidemill.runtime.view import catalog, leases, removal, views
from tidemill.runtime.view.arrivals import moved
from tidemill.runtime.view.definition import DROPPING
from tidemill.runtime.view.views import View
from tidemill.sql.statements import (
    Action,
    Attached,
    Create,
    SetComment,
    SetExpect,
    SetPolicy,
    SetProperties,
    SetSchedule,
)


def attach(
    jvm: Jvm, files: Files, location: str, name: tuple[str, ...], statement: Create, warnings: list[str]
) -> bool:
    """Makes the catalog entry of the view at the location. No Spark job runs, except for an initial load that is due.

    Clauses about how and when to refresh count as the statement has them. Files that an unfinished CREATE of another
    view, or an unfinished DROP, has left are removed, and False is returned. Raises TIDEMILL_LOCATION_MISMATCH if query
    (as analysed), settings, columns or format are not those of the view.
    """
    view = views.at_location(files, location, name)
    if view is not None and files.read(child(location, DROPPING)) == str(view.next_run):
        removal.remove(files, location)
        return False
    if view is not None and view.head is None:
        if writers.live_since(files, location) is not None:  # a CREATE that is under way
            raise TidemillError("TIDEMILL_LOCATION_NOT_EMPTY", {"view": ".".join(name), "location": location})
        view = views.at_location(files, location, name)  # it may have ended since it was looked at
    if view is None:
        return False
    with drafted(jvm, statement, name) as draft:
        reason = _difference(view, draft)
        if reason is not None:
            if view.head is None and not view.definition.create.deferred:
                removal.remove(files, location)
                return False
            raise TidemillError("TIDEMILL_LOCATION_MISMATCH", {"location": location, "reason": reason})
        warnings += draft.warnings(jvm)
        view = _amended(jvm, view, draft)
        if view.head is None and not statement.deferred:
            _fill(jvm, view, draft)
        create = view.definition.create
        kept = {catalog.KEEP_FILES: "true"} if statement.location is not None else {}
        catalog.create_entry(
            jvm,
            name,
            location,
            view.definition.schema,
            view.definition.id,
            view.definition.format,
            {**dict(create.properties), **kept},
            create.comment,
        )
        view.publish_if_behind()
        if view.head is not None:
            leases.take(view, draft.document["sources"], view.head)
    return True


def _amended(jvm: Jvm, view: View, draft: Draft) -> View:
    """Amends the view as the statement has it, and returns it. The catalog entry comes later: with it, the statement
    could not be run again.

    Raises the errors of clauses that the view cannot have; nothing is changed then.
    """
    actions = _amendments(view, draft)
    wanted = view.amended(*actions)
    wanted.result.check()
    if any(isinstance(action, SetPolicy) for action in actions):
        planning.initial_load(draft.working, draft.document, wanted.definition.terms, sessions.planner_settings(jvm))
    for action in actions:
        views.amend(view, action)
    now = views.at_location(view.files, view.location, view.definition.name)
    assert now is not None, view.location
    return now


def _fill(jvm: Jvm, view: View, draft: Draft) -> None:
    settings = sessions.planner_settings(jvm)
    situation, plan = planning.initial_load(draft.working, draft.document, view.definition.terms, settings)
    record = attempt.run(draft.working, view, situation, lambda _: plan, draft.occasion)
    publish(jvm, view, record, draft.occasion)


def _difference(view: View, draft: Draft) -> str | None:
    """Returns how the statement defines another view than this one; None if it does not."""
    old = view.definition
    if old.format != (draft.statement.format or "parquet"):
        return f"its format is {old.format}"
    if old.create.partitioned_by != draft.statement.partitioned_by:
        parts = ", ".join(old.create.partitioned_by)
        return f"it is partitioned by {parts}" if parts else "it is not partitioned"
    known, wanted = ([(c.name, c.type) for c in columns] for columns in (old.columns, draft.columns))
    if [n for n, _ in known] != [n for n, _ in wanted]:
        return f"its columns are {', '.join(n for n, _ in known)}"
    for (column, type_), (_, other) in zip(known, wanted, strict=True):
        if not analysis.same_type(type_, other):
            return f"its column {column} is of type {analysis.type_text(type_)}"
    for setting, value in old.settings.items():
        if setting in sessions.PHYSICAL:  # an earlier version captured these too
            continue
        now = draft.captured["confs"].get(setting)
        if now != value:
            return f"it was made with {setting}={value}, which is {now} now"
    if view.head is not None and view.head.fingerprint:
        return None if view.head.fingerprint == analysis.fingerprint(draft.document) else "its query is another one"
    return None if old.query.split() == str(draft.statement.query).split() else "its query is another one"


def _amendments(view: View, draft: Draft) -> list[Action]:
    """Returns the actions of ALTER that turn the view's clauses into the statement's."""
    definition, old, new = view.definition, view.definition.create, draft.statement
    current, namespace = draft.captured["catalog"], tuple(draft.captured["namespace"])
    expect = moved(old.expect, definition.namespace, namespace)
    found: list[Action] = []
    attached = Attached(str(new.query), draft.query_columns, current, namespace, expect)
    known = (definition.query.split(), definition.query_columns, definition.catalog, definition.namespace)
    if known != (attached.query.split(), attached.query_columns, attached.catalog, attached.namespace):
        found.append(attached)  # the catalog and namespace of CREATE may not exist any more
    if old.schedule != new.schedule:
        found.append(SetSchedule(new.schedule))
    if expect != new.expect:
        found.append(SetExpect(new.expect, view.head.run if view.head is not None else None))
    if old.policy != new.policy:
        found.append(SetPolicy(new.policy))
    if new.comment is not None and old.comment != new.comment:
        found.append(SetComment(new.comment))
    if new.properties and dict(old.properties) != dict(new.properties):
        found.append(SetProperties(new.properties))
    return found
