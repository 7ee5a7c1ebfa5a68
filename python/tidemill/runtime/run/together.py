"""REFRESH INCREMENTAL VIEWS: refreshes many views at one pin of their base sources, upstream views first.

Views that do not read each other are refreshed side by side, each in a thread and a working session of its own. One
that fails does not stop those that do not read it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias, TypeVar

from tidemill.bridge.jvm import Jvm, JvmFailure
from tidemill.errors import TidemillError
from tidemill.runtime.before import graph, sessions
from tidemill.runtime.before.graph import Failed, UpstreamFailedError, ViewNode
from tidemill.runtime.run import failing, perform, pins
from tidemill.runtime.run.occasion import Occasion
from tidemill.runtime.run.perform import RunOptions, RunOutcome
from tidemill.runtime.run.pins import ATTEMPTS, Pins
from tidemill.runtime.view.catalog import CatalogEntry
from tidemill.runtime.view.history import RunRow
from tidemill.runtime.view.views import View
from tidemill.settings import PlannerSettings

T = TypeVar("T")
R = TypeVar("R")
_LOG = logging.getLogger("tidemill")
PATIENCE = 0.2
"""Seconds after which the statement looks if it was cancelled, while runs are under way."""


Wants: TypeAlias = Callable[[ViewNode], RunOptions | None]
"""Tells how a view is to be run, right before it is; None: it is left as it is, and has no row."""


def _any(error: Exception) -> bool:
    return True


def _last_point(node: ViewNode) -> RunOptions | None:
    return RunOptions(Occasion.now(node.jvm, len(node.view.definition.create.schedule), "MANUAL"))


@dataclass(frozen=True, slots=True)
class Manner:
    """The manner in which views are refreshed together.

    `on_old`: a view that reads one that failed is run all the same, over the last output of that one. `blames`: tells
    whether an error is a failure of its view, which the history then has. `occasions`: by location, the occasion of a
    view that fails before its run begins; of others, it is that of the statement.
    """

    wants: Wants = _last_point
    on_old: bool = False
    blames: Callable[[Exception], bool] = _any
    occasions: Mapping[str, Occasion] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """By location, the row of each view, each after those that it reads; and of those that failed, the error."""

    by_view: Mapping[str, RunRow]
    failed: Mapping[str, Failed]

    @property
    def rows(self) -> Sequence[RunRow]:
        return list(self.by_view.values())

    @property
    def failures(self) -> Mapping[str, str]:
        """The messages of those that failed, by qualified name."""
        return {_text(failure.name): failing.message(failure.error) for failure in self.failed.values()}


def refreshed(jvm: Jvm, entries: Sequence[CatalogEntry], manner: Manner = Manner()) -> Answer:  # frozen
    """Refreshes the views of catalog entries, by default each at its last point because the user asks for it.

    A view that reads one that failed is not run; its reason names that one. Views that are read but are not among the
    entries stay as they are. Suspended views are refreshed, too.

    Raises TIDEMILL_SOURCE_MOVED if the sources cannot be pinned together, and the error of a cancelled job, or
    OPERATION_CANCELED, if the statement was cancelled: runs that are under way then end, and no other begins.
    """
    occasion = Occasion.now(jvm, 0, "MANUAL")
    settings, stop = sessions.planner_settings(jvm), threading.Event()
    most = settings.side_by_side if jvm.has_threads else 1
    each = map if most == 1 else partial(_in_threads, jvm, most)
    for _ in range(ATTEMPTS):
        with graph.opened_each(jvm, entries, stop.is_set, each) as (opened, failed):
            nodes = [_without(node, failed) for node in opened] if manner.on_old else opened
            positions, moved = _pinned_each(jvm, nodes, failed)
            if moved is None:
                sound = [node for node in nodes if node.view.location not in failed]
                return _Together(jvm, sound, positions, settings, occasion, dict(failed), stop, most, manner).run()
    raise TidemillError("TIDEMILL_SOURCE_MOVED", {"view": ", ".join(_text(e.name) for e in entries), "source": moved})


def _without(node: ViewNode, failed: Mapping[str, Failed]) -> ViewNode:
    """Returns the node with those of its upstream views that are refreshed with it; others stay as they are."""
    return replace(node, upstream={n: location for n, location in node.upstream.items() if location not in failed})


def _pinned_each(jvm: Jvm, nodes: Sequence[ViewNode], failed: dict[str, Failed]) -> tuple[Pins, str | None]:
    """As `pinned`. Adds the views to `failed` one of whose sources has no position."""
    try:
        return pins.pinned(jvm, nodes)
    except Exception:  # no view stops the others
        for node in nodes:
            try:
                pins.pinned(node.jvm, [node])
            except Exception as failure:
                _log_unexpected(node.view.definition.qualified, failure)
                failed[node.view.location] = Failed(node.view.definition.name, failure, node.view, node.jvm)
        return pins.pinned(jvm, [node for node in nodes if node.view.location not in failed])


@dataclass
class _Together:
    """The runs of one statement, which `occasion` is of. `failed`, `done`, `begun`: by location of the view."""

    jvm: Jvm
    nodes: Sequence[ViewNode]
    positions: Pins
    settings: PlannerSettings
    occasion: Occasion
    failed: dict[str, Failed]
    stop: threading.Event
    most: int
    manner: Manner
    done: dict[str, RunOutcome] = field(default_factory=dict)
    begun: dict[str, Occasion] = field(default_factory=dict)
    rows: dict[str, RunRow] = field(default_factory=dict)

    def run(self) -> Answer:
        # What it took to pin the sources is no view's own: the first one has it, so that the sum is right.
        own = (*(node.jvm for node in self.nodes), *(f.jvm for f in self.failed.values() if f.jvm is not None))
        if own:
            own[0].spent.add(self.jvm.spent.take())
        for location, failure in self.failed.items():
            self.rows[location] = self._row_of(location, failure)
        if self.nodes:
            self._run_all(_heights(self.nodes))
        return Answer({location: self.rows[location] for location in self._order()}, self.failed)

    def _run_all(self, heights: Mapping[str, int]) -> None:
        waiting = sorted(self.nodes, key=lambda node: -heights[node.view.location])
        running: dict[Future[RunOutcome | None], ViewNode] = {}
        cancelled: Exception | None = None
        with ThreadPoolExecutor(self.most) as pool:
            submit: Callable[[ViewNode], Future[RunOutcome | None]] = partial(_here, self._refresh)
            if self.most > 1:
                work = _in_thread(self.jvm, self._refresh)
                submit = lambda node: pool.submit(work, node)  # noqa: E731
            while running or (waiting and not self.stop.is_set()):
                waiting = self._begin(waiting, running, submit)
                if not running:
                    break
                for future in wait(running, PATIENCE, FIRST_COMPLETED).done:
                    error = self._ended(running.pop(future), future)
                    cancelled = cancelled or error
                if self.jvm.cancelled or cancelled is not None:
                    self.stop.set()
        if self.stop.is_set():
            raise cancelled or TidemillError("OPERATION_CANCELED")
        for node in waiting:  # only views that read each other in a circle are left
            self._fail(node, TidemillError("RECURSIVE_VIEW", _circle(node)))

    def _begin(
        self,
        waiting: Sequence[ViewNode],
        running: dict[Future[RunOutcome | None], ViewNode],
        submit: Callable[[ViewNode], Future[RunOutcome | None]],
    ) -> list[ViewNode]:
        """Begins the runs of views whose upstream views are done. Returns those that still wait."""
        left: list[ViewNode] = []
        for node in waiting:
            below = list(node.upstream.values())  # the first of these that failed is named
            if broken := next((self.failed[u] for u in below if u in self.failed and u not in self.done), None):
                names = (_text(broken.name), node.view.definition.qualified)
                self._fail(node, UpstreamFailedError(*names, failing.message(broken.error)))
            elif self.done.keys() >= set(below) and len(running) < self.most and not self.stop.is_set():
                running[submit(node)] = node
            else:
                left.append(node)
        # A view above one that was found to be broken just now may stand before it.
        return left if len(left) == len(waiting) or running else self._begin(left, running, submit)

    def _refresh(self, node: ViewNode) -> RunOutcome | None:
        view = node.view
        wanted = self.manner.wants(node)
        if wanted is None:
            return None
        self.begun[view.location] = wanted.occasion
        failing.begins(view, wanted.occasion)
        with node.jvm.walls.part("opening"):
            view.publish_if_behind()
        situation = pins.surveyed(node, self.positions, self.done, self.settings, dry=False)
        return perform.perform(node.jvm, node.working, view, situation, wanted)

    def _ended(self, node: ViewNode, future: Future[RunOutcome | None]) -> Exception | None:
        """Takes down how a run ended. Returns its error if that says that the statement was cancelled."""
        error = future.exception()
        if error is None:
            outcome = future.result()
            self.done[node.view.location] = outcome or _as_it_was(node)
            if outcome is not None:
                self.rows[node.view.location] = outcome.row
            return None
        if not isinstance(error, Exception):
            raise error
        if says_cancelled(error):
            self._note(node, error)
            return error
        _log_unexpected(node.view.definition.qualified, error)
        self._fail(node, error)
        return None

    def _fail(self, node: ViewNode, error: Exception) -> None:
        location = node.view.location
        self.failed[location] = Failed(node.view.definition.name, error, node.view)
        if self.manner.on_old and node.view.head is not None and node.view.head.filled:
            self.done[location] = _as_it_was(node)
        self.rows[location] = self._note(node, error)

    def _note(self, node: ViewNode, error: Exception) -> RunRow:
        take_down = failing.note if self.manner.blames(error) else failing.passed
        return take_down(node.jvm, node.view, self._occasion_of(node.view), error)

    def _row_of(self, location: str, failure: Failed) -> RunRow:
        """Returns the row of a view that failed before any run began, and notes it."""
        jvm = failure.jvm or self.jvm
        if failure.view is None:
            known = self.manner.occasions.get(location)
            row = failing.row_of(failure.name, known or self.occasion, failure.error, jvm.spent.take())
            return row if known is not None else replace(row, point=None)
        take_down = failing.note if self.manner.blames(failure.error) else failing.passed
        return take_down(jvm, failure.view, self._occasion_of(failure.view), failure.error)

    def _occasion_of(self, view: View) -> Occasion:
        """Returns the occasion of a view's run; of one that has not begun, the one that it would have had."""
        known = self.begun.get(view.location) or self.manner.occasions.get(view.location)
        return known or replace(self.occasion, point=len(view.definition.create.schedule))

    def _order(self) -> list[str]:
        """Returns all views, each after those that it reads, and by name otherwise."""
        heights = _depths(self.nodes)
        return sorted(self.rows, key=lambda location: (heights.get(location, 0), self.rows[location].view))


def _log_unexpected(view: str, error: Exception) -> None:
    """Logs where an error was raised that is none of the conditions of Tidemill and Spark."""
    if not isinstance(error, (TidemillError, JvmFailure)):
        _LOG.error("Tidemill: the refresh of %s failed", view, exc_info=error)


def _as_it_was(node: ViewNode) -> RunOutcome:
    """Returns the outcome of a view without a run, for those that read it."""
    row = RunRow(None, node.view.definition.qualified, None, "", "NO_DATA")
    return RunOutcome(row, node.view.head)


def _in_thread(jvm: Jvm, work: Callable[[T], R]) -> Callable[[T], R]:
    """Returns `work` for threads of a pool, whose jobs then are the caller's."""
    properties = jvm.thread_properties()

    def working(item: T) -> R:
        with jvm.in_thread(properties):
            return work(item)

    return working


def _in_threads(jvm: Jvm, most: int, work: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Calls `work` for each item, so many at a time. Returns what it returned, in their order."""
    with ThreadPoolExecutor(most) as pool:
        return list(pool.map(_in_thread(jvm, work), items))


def _here(work: Callable[[ViewNode], RunOutcome | None], node: ViewNode) -> Future[RunOutcome | None]:
    """Does the work at once, in the calling thread."""
    future: Future[RunOutcome | None] = Future()
    try:
        future.set_result(work(node))
    except Exception as error:
        future.set_exception(error)
    return future


def _depths(nodes: Sequence[ViewNode]) -> dict[str, int]:
    """Returns for each view the length of the longest way down through upstream views."""
    below = {node.view.location: frozenset(node.upstream.values()) for node in nodes}
    return _longest(below)


def _heights(nodes: Sequence[ViewNode]) -> dict[str, int]:
    """Returns for each view the length of the longest way up through views that read it: those come first that hold
    up most."""
    above: dict[str, frozenset[str]] = {node.view.location: frozenset() for node in nodes}
    for node in nodes:
        for location in node.upstream.values():
            above[location] = above.get(location, frozenset()) | {node.view.location}
    return _longest(above)


def _longest(following: Mapping[str, frozenset[str]]) -> dict[str, int]:
    lengths = dict.fromkeys(following, 0)
    for _ in following:  # a circle would have no longest way
        longer = {place: max((lengths.get(n, 0) + 1 for n in after), default=0) for place, after in following.items()}
        if longer == lengths:
            break
        lengths = longer
    return lengths


def _circle(node: ViewNode) -> dict[str, object]:
    name = "`" + "`.`".join(node.view.definition.name) + "`"
    return {"viewIdent": name, "newPath": name}


def says_cancelled(error: Exception) -> bool:
    """Returns True if an error says that the work was cancelled."""
    match error:
        case TidemillError():
            return error.condition == "OPERATION_CANCELED"
        case JvmFailure():
            return "SPARK_JOB_CANCELLED" in "\n".join((error.condition or "", error.message, *error.causes))
        case _:
            return False


def _text(name: Sequence[str]) -> str:
    return ".".join(name)
