"""The graph of views that read views: finds all upstream views of a view, and refuses cycles."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from tidemill.bridge.jvm import Jvm, JvmFailure
from tidemill.errors import TidemillError
from tidemill.runtime.before import analysis, sessions
from tidemill.runtime.storage.files import Files
from tidemill.runtime.view import catalog, views
from tidemill.runtime.view.catalog import SESSION_CATALOG, CatalogEntry
from tidemill.runtime.view.views import View

_LOG = logging.getLogger("tidemill")
Source = Mapping[str, Any]
"""A source entry of a query document, or of a definition."""


@dataclass(frozen=True, slots=True)
class ViewNode:
    """A view as analysed now in its working session `working`, a clone of the caller's session `jvm`.

    `upstream`: the locations of the views that it reads, by source number; only of those that are refreshed with it.
    """

    view: View
    jvm: Jvm
    working: Jvm
    document: analysis.Document
    upstream: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class Failed:
    """A view by its qualified name, and why it could not be refreshed. `view`: None if it could not be opened. `jvm`:
    its session handle, which has what its jobs took; None: it has none of its own."""

    name: tuple[str, ...]
    error: Exception
    view: View | None = None
    jvm: Jvm | None = None


class UpstreamFailedError(TidemillError):
    """TIDEMILL_UPSTREAM_FAILED: the view of the name `upstream` failed, so that the one of the name `view` was not run.

    `failed`: the view that failed, where it is at hand.
    """

    def __init__(self, upstream: str, view: str, reason: str, failed: View | None = None) -> None:
        super().__init__("TIDEMILL_UPSTREAM_FAILED", {"upstream": upstream, "view": view, "reason": reason})
        self.failed = failed


Each: TypeAlias = Callable[
    [Callable[[CatalogEntry], ViewNode | Failed], Iterable[CatalogEntry]], Iterable[ViewNode | Failed]
]
"""Calls a function for each entry. Returns what it returned, in their order."""


@contextmanager
def opened(jvm: Jvm, view: View) -> Iterator[list[ViewNode]]:
    """Yields `view` and all its upstream views, each after its own upstream views; `view` is the last.

    The analyses last as long as the block. Raises RECURSIVE_VIEW, TIDEMILL_UPSTREAM_FAILED, and for `view` itself the
    errors of `analysis.analysed_again`.
    """
    with ExitStack() as stack:
        found: dict[str, ViewNode] = {}

        def visit(one: View, path: tuple[View, ...]) -> None:
            if any(one.location == above.location for above in path):
                raise _recursive([v.definition.name for v in (*path, one)])
            if one.location in found:
                return
            working = sessions.working(jvm, one.definition.settings)
            with naming(one, view):
                document = stack.enter_context(analysis.analysed_again(working, one.definition, one.head))
            upstream = {s["source"]: _upstream(jvm, s) for s in document["sources"] if s["kind"] == "view"}
            for below in upstream.values():
                visit(below, (*path, one))
            found[one.location] = ViewNode(one, jvm, working, document, {n: v.location for n, v in upstream.items()})

        visit(view, ())
        yield list(found.values())


@contextmanager
def opened_each(
    jvm: Jvm, entries: Iterable[CatalogEntry], interrupted: Callable[[], bool], each: Each
) -> Iterator[tuple[list[ViewNode], dict[str, Failed]]]:
    """Yields the views of catalog entries, and by location those that cannot be opened or analysed, with the error.

    Each view has a session handle of its own (`Jvm.apart` with `interrupted`). What is not among the entries counts as
    no upstream view. `each`: `map`, or what does the same in several threads.
    """
    files, cloning = Files(jvm), threading.Lock()
    # An entry without a location is none of a view that can be opened.
    locations = {files.qualify(entry.location) if entry.location else ".".join(entry.name): entry for entry in entries}
    with ExitStack() as stack:

        def opened_one(entry: CatalogEntry) -> ViewNode | Failed:
            own, view = jvm.apart(interrupted), None
            try:
                view = views.open_entry(own, entry)
                with cloning:  # they are clones of one session
                    working = sessions.working(own, view.definition.settings)
                document = stack.enter_context(analysis.analysed_again(working, view.definition, view.head))
                read = {s["source"]: _location(own, files, s) for s in document["sources"] if s["kind"] == "view"}
            except Exception as failure:  # no view stops the others
                if not isinstance(failure, (TidemillError, JvmFailure)):
                    _LOG.error("Tidemill: %s could not be opened", ".".join(entry.name), exc_info=failure)
                return Failed(entry.name, failure, view, own)
            upstream = {n: found for n, found in read.items() if found in locations}
            return ViewNode(view, own, working, document, upstream)

        found = dict(zip(locations, each(opened_one, locations.values()), strict=True))
        nodes = [one for one in found.values() if isinstance(one, ViewNode)]
        yield nodes, {location: one for location, one in found.items() if isinstance(one, Failed)}


def _location(jvm: Jvm, files: Files, source: Source) -> str | None:
    """Returns the location of the view of a source entry; None if it is gone."""
    table = source["location"]["table"]
    if table is None:
        return files.qualify(source["location"]["root"])
    entry = catalog.lookup(jvm, (SESSION_CATALOG, *table))
    return files.qualify(entry.location) if entry is not None and entry.location is not None else None


@contextmanager
def naming(upstream: View, view: View) -> Iterator[None]:
    """Turns an error of the block into TIDEMILL_UPSTREAM_FAILED, which names the view that failed.

    Errors of `view` itself stay as they are.
    """
    try:
        yield
    except (TidemillError, JvmFailure) as failure:
        if upstream.location == view.location:
            raise
        names = (upstream.definition.qualified, view.definition.qualified)
        raise UpstreamFailedError(*names, failure.message.strip(), upstream) from failure


def refuse_cycle(jvm: Jvm, name: tuple[str, ...], sources: Iterable[Source]) -> None:
    """Checks that a view of that name may read `sources`: by their definitions, none of them reads that view.

    Raises RECURSIVE_VIEW.
    """
    entry = catalog.lookup(jvm, name)
    location = Files(jvm).qualify(entry.location) if entry is not None and entry.location is not None else None
    seen: set[str] = set()

    def visit(read: Iterable[Source], path: tuple[tuple[str, ...], ...]) -> None:
        for source in read:
            if source["kind"] != "view":
                continue
            table = source["location"]["table"]
            if table is not None and (SESSION_CATALOG, *table) == name:
                raise _recursive([*path, name])
            below = view_of(jvm, source)
            if below is None or below.location in seen:
                continue
            if below.location == location:
                raise _recursive([*path, name])
            seen.add(below.location)
            visit(below.definition.sources, (*path, below.definition.name))

    visit(sources, (name,))


def _upstream(jvm: Jvm, source: Source) -> View:
    """Returns the view of a source entry that was analysed just now."""
    found = view_of(jvm, source)
    if found is None:
        raise catalog.not_found(jvm, source["name"])
    return found


def view_of(jvm: Jvm, source: Source) -> View | None:
    """Returns the view at the name, or the path, of a source entry; None if it is gone."""
    files = Files(jvm)
    table = source["location"]["table"]
    if table is None:
        return views.at_location(files, source["location"]["root"])
    entry = catalog.lookup(jvm, (SESSION_CATALOG, *table))
    if entry is None or entry.location is None or not entry.is_view:
        return None
    return views.at_location(files, entry.location, entry.name)


def _recursive(path: Iterable[tuple[str, ...]]) -> TidemillError:
    names = ["`" + "`.`".join(name) + "`" for name in path]
    return TidemillError("RECURSIVE_VIEW", {"viewIdent": names[-1], "newPath": " -> ".join(names)})
