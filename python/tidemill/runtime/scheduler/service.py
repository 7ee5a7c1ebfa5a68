"""Fires schedules: all that is due once, or for as long as a session or a service lasts."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from tidemill.bridge.jvm import Jvm, JvmFailure
from tidemill.errors import TidemillError
from tidemill.runtime.before import sessions
from tidemill.runtime.run.failing import message
from tidemill.runtime.scheduler.clock import Clock, RealClock
from tidemill.runtime.scheduler.roster import Roster
from tidemill.runtime.scheduler.ticks import Ticks
from tidemill.runtime.view import views
from tidemill.runtime.view.history import RunRow

AGAIN_SECONDS = 30.0
"""Seconds after which a service looks again that could not even look."""
LOOK_SHARE = 10.0
"""A service pauses for at least so many times the time that a look took."""
_LOG = logging.getLogger("tidemill.scheduler")


def run_once(
    jvm: Jvm,
    only: Collection[Sequence[str]] | None = None,
    clock: Clock | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> list[RunRow]:
    """Fires what is due now, of all views of the catalog or of those named, each at most once. Returns the rows of the
    runs, failed ones included, and of none that had nothing to do.

    A view that is due because one that it reads was run just now is run, too. `stop`: returns True once no more runs
    are to begin. Raises TIDEMILL_NOT_FOUND and TIDEMILL_NOT_AN_INCREMENTAL_VIEW for names, and what keeps all views
    from being run.
    """
    ticks = _ticks(jvm, only, clock or RealClock(), stop, lasting=False)
    found = _until_nothing_is_due(ticks)
    return [row for row in found if row.kind != "NO_DATA"]


def _until_nothing_is_due(ticks: Ticks) -> list[RunRow]:
    """Ticks until nothing is due any more; each view is fired once. Returns the rows."""
    found: list[RunRow] = []
    done: set[str] = set()
    while rows := ticks.tick(done):
        done.update(location for location, _ in rows)
        found += [row for _, row in rows]
    return found


def _ticks(
    jvm: Jvm, only: Collection[Sequence[str]] | None, clock: Clock, stop: Callable[[], bool], *, lasting: bool
) -> Ticks:
    names = None if only is None else {views.entry(jvm, name).name for name in only}
    return Ticks(jvm, Roster(jvm, names), clock, lasting=lasting, stop=stop)


@dataclass(frozen=True, slots=True)
class Span:
    """The task of a service: `only` some views (None: all), by a `clock`, `until` a time of it (None: until it is
    stopped)."""

    clock: Clock
    only: Collection[Sequence[str]] | None = None
    until: float | None = None


class Service:
    """Fires schedules in a thread of its own, in a session of its own, until it is stopped or Spark is.

    `ended`: set once the thread has ended. `failure`: the error that it ended with; None: none.
    """

    def __init__(self, jvm: Jvm, span: Span) -> None:
        """`jvm`: a session with the settings that count for all runs. Raises as `run_once` for names."""
        self._stop, self._now = threading.Event(), threading.Event()
        self._tag = f"tidemill-scheduler-{uuid.uuid4().hex[:8]}"
        self._jvm = jvm.clone({}).apart(self._now.is_set)
        self._span = span
        self._interval = sessions.planner_settings(jvm).scheduler_interval
        self._ticks = _ticks(self._jvm, span.only, span.clock, self._stop.is_set, lasting=True)
        self._properties = jvm.thread_properties()
        self._thread = threading.Thread(target=self._run, name="tidemill-scheduler", daemon=True)
        self.ended = threading.Event()
        self.failure: Exception | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self, grace: float) -> None:
        """Begins no more runs. Those under way have `grace` seconds to end, then they are cancelled; what a cancelled
        run has done is undone. Returns when the thread has ended."""
        self._stop.set()
        if not self.ended.wait(grace):
            self._now.set()
            self._jvm.cancel(self._tag)
            self.ended.wait(grace + 10.0)

    @property
    def gone(self) -> bool:
        """True if its Spark has been stopped: it fires nothing more, though it may not have noticed yet."""
        return self._jvm.gone

    def _run(self) -> None:
        try:
            with self._jvm.in_thread(self._properties, self._tag):
                while not self._stop.is_set() and self._once_more():
                    pass
                self._ticks.settle()
        except Exception as failure:
            if not (self._stop.is_set() or self.gone):
                self.failure = failure
                _LOG.exception("the scheduler has ended")
        finally:
            self.ended.set()

    def _once_more(self) -> bool:
        """Runs what is due and waits for what comes next. Returns False at the end."""
        clock, until = self._span.clock, self._span.until
        began = clock.now()
        if self.gone:  # nothing of what is due must count as failed
            return False
        try:
            rows = _until_nothing_is_due(self._ticks) if clock.jumps else [row for _, row in self._ticks.tick()]
            following = self._ticks.next_after(clock.now())
        except Exception as failure:
            if self._stop.is_set() or self.gone:
                return False
            if clock.jumps:  # there is no later at which it may be otherwise
                raise
            where = None if isinstance(failure, (TidemillError, JvmFailure)) else failure
            text = "the views could not be looked at; next time in %g s: %s"
            _LOG.warning(text, AGAIN_SECONDS, message(failure), exc_info=where)
            clock.wait(clock.now() + AGAIN_SECONDS, self._stop)
            return True
        now = clock.now()
        if until is not None and now >= until:
            return False
        if clock.jumps:
            if following is None and until is None:
                return False
            wake = until if following is None else following
        elif rows:
            return True
        else:
            pause = max(self._interval, LOOK_SHARE * (now - began))
            wake = now + pause if following is None else min(following, now + pause)
        assert wake is not None, "a clock that jumps has an end or a next instant"
        clock.wait(wake if until is None else min(wake, until), self._stop)
        return True
