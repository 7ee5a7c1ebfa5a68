"""Observers of runs and of the scheduler's ticks. They get plain values, and nothing that they do harms a run."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, Protocol, TypeAlias

_LOG = logging.getLogger("tidemill")
FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class RunReport:
    """A run that ended, or a refresh that failed: kind FAILED, without a run. None: not known.

    `view`: its qualified name. `point`, `trigger`, `kind`, `reason`: as in SHOW REFRESHES. `started_at`: epoch seconds.
    `wall_ms`, `cpu_ms`: milliseconds. `inserted` and `deleted`: rows of the view. `read` and `written`: rows that the
    run's jobs read from files, and that its steps wrote. `regret_ms`: CPU milliseconds above the likely cost of the
    best other plan. `message`: of the error.
    """

    view: str
    run: int | None
    point: int | None
    trigger: str
    kind: str
    reason: str | None = None
    started_at: float = 0.0
    wall_ms: int | None = None
    cpu_ms: int | None = None
    jobs: int | None = None
    read: int | None = None
    written: int | None = None
    inserted: int | None = None
    deleted: int | None = None
    state_bytes: int | None = None
    regret_ms: float | None = None
    message: str | None = None

    @property
    def code(self) -> str:
        """The reason without the text that follows its colon; empty without a reason."""
        return (self.reason or "").partition(":")[0]

    def told(self) -> dict[str, Any]:
        """Returns what is known, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}


Lags: TypeAlias = Callable[[], Mapping[str, float | None]]
"""Tells lagSeconds of views, by qualified name (None: not known)."""


class Observer(Protocol):
    """Whoever wants to know what happens. The calls come from several threads.

    Times are epoch seconds. A run without changes (NO_DATA) is a run that ended, too.
    """

    def run_begun(self, view: str, point: int | None, trigger: str, at: float) -> None: ...

    def run_ended(self, run: RunReport) -> None: ...

    def run_failed(self, run: RunReport) -> None: ...

    def run_left(self, view: str) -> None:
        """A refresh that was begun has ended without a run, for what passes by itself: another one was first."""

    def view_gone(self, view: str) -> None:
        """The view was dropped, or has another name now."""

    def tick_begun(self, at: float) -> None: ...

    def tick_ended(self, at: float, lags: Lags) -> None:
        """`lags`: tells them for all views that the tick looked after; to call it costs a look at their sources."""


class Observers:
    """Passes on what it is told to all observers that are attached to it. It is an observer itself."""

    def __init__(self, *observers: Observer) -> None:
        self._lock = threading.Lock()
        self._observers = observers

    def attach(self, observer: Observer) -> None:
        """Adds an observer, unless it is there."""
        with self._lock:
            if observer not in self._observers:
                self._observers = (*self._observers, observer)

    def detach(self, observer: Observer) -> None:
        """Removes an observer, if it is there."""
        with self._lock:
            self._observers = tuple(one for one in self._observers if one is not observer)

    def run_begun(self, view: str, point: int | None, trigger: str, at: float) -> None:
        self._each(lambda one: one.run_begun(view, point, trigger, at))

    def run_ended(self, run: RunReport) -> None:
        self._each(lambda one: one.run_ended(run))

    def run_failed(self, run: RunReport) -> None:
        self._each(lambda one: one.run_failed(run))

    def run_left(self, view: str) -> None:
        self._each(lambda one: one.run_left(view))

    def view_gone(self, view: str) -> None:
        self._each(lambda one: one.view_gone(view))

    def tick_begun(self, at: float) -> None:
        self._each(lambda one: one.tick_begun(at))

    def tick_ended(self, at: float, lags: Lags) -> None:
        once = cache(lags)
        self._each(lambda one: one.tick_ended(at, once))

    def _each(self, tell: Callable[[Observer], None]) -> None:
        for one in self._observers:
            try:
                tell(one)
            except Exception:
                _LOG.warning("Tidemill: an observer of runs failed", exc_info=True)


OBSERVERS = Observers()
"""Those of all runs of this process."""
