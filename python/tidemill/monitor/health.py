"""Health of the views, as one JSON document."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from tidemill.monitor.observer import FAILED, Lags, RunReport


class Health:
    """An observer that remembers the last refresh of each view, and the last tick.

    A view that is gone is forgotten: one that was dropped here, or that the scheduler looked after in one tick and not
    in the next one.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: dict[str, RunReport] = {}
        self._running: dict[str, float] = {}
        self._lags: Mapping[str, float | None] = {}
        self._tick: dict[str, float | None] = {"begun": None, "ended": None}

    def told(self) -> dict[str, Any]:
        """Returns the document.

        `ok`: no view's last refresh failed. `views`: what is known of each by name. `last_tick`: when the scheduler's
        last tick began and when one last ended (None: none has). `failing`: the views whose last refresh failed, with
        the condition. Times are texts of ISO 8601.
        """
        with self._lock:
            names = sorted({*self._last, *self._running, *self._lags})
            views = {name: self._view(name) for name in names}
            failing = {name: run.code for name, run in sorted(self._last.items()) if run.kind == FAILED}
            tick = {name: _time(at) for name, at in self._tick.items()}
        return {"ok": not failing, "views": views, "last_tick": tick, "failing": failing}

    def _view(self, name: str) -> dict[str, Any]:
        last = self._last.get(name)
        found: dict[str, Any] = {} if last is None else {"run": last.run, "kind": last.kind, "reason": last.reason}
        if last is not None:
            found["ended_at"] = _time(last.started_at + (last.wall_ms or 0) / 1000)
            if last.message is not None:
                found["message"] = last.message
        return {**found, "lag_seconds": self._lags.get(name), "running_since": _time(self._running.get(name))}

    def run_begun(self, view: str, point: int | None, trigger: str, at: float) -> None:
        with self._lock:
            self._running[view] = at

    def run_ended(self, run: RunReport) -> None:
        self._ended(run)

    def run_failed(self, run: RunReport) -> None:
        self._ended(run)

    def _ended(self, run: RunReport) -> None:
        with self._lock:
            self._running.pop(run.view, None)
            self._last[run.view] = run

    def run_left(self, view: str) -> None:
        with self._lock:
            self._running.pop(view, None)

    def view_gone(self, view: str) -> None:
        with self._lock:
            for known in (self._running, self._last):
                known.pop(view, None)
            self._lags = {name: lag for name, lag in self._lags.items() if name != view}

    def tick_begun(self, at: float) -> None:
        with self._lock:
            self._tick["begun"] = at

    def tick_ended(self, at: float, lags: Lags) -> None:
        known = dict(lags())
        with self._lock:
            for view in self._lags.keys() - known.keys():
                self._last.pop(view, None)
            self._tick["ended"], self._lags = at, known


def _time(at: float | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
