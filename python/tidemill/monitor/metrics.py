"""Runs as metrics of Prometheus."""

from __future__ import annotations

import threading
from contextlib import suppress

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from tidemill.monitor.observer import Lags, RunReport

_OF_RUNS = ("view", "kind", "reason")
_SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200)
"""Upper bounds of the buckets of wall time."""


class Metrics:
    """An observer that counts. `reason` is a code, without the text that follows it in SHOW REFRESHES."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"tidemill_{name}", text, labels, registry=self._registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"tidemill_{name}", text, labels, registry=self._registry)

        self._runs = counter("runs", "Runs that ended, with those that had nothing to do", *_OF_RUNS)
        self._failures = counter("failures", "Refreshes that failed, by the condition of their error", *_OF_RUNS)
        self._cpu = counter("cpu_seconds", "CPU time of the jobs of runs and of failed refreshes", *_OF_RUNS)
        self._rows = counter("rows", "Rows by flow: read, written, inserted, deleted", *_OF_RUNS, "flow")
        self._regret = counter("regret_seconds", "CPU time above the likely cost of the best other plan", *_OF_RUNS)
        self._wall = Histogram(
            "tidemill_wall_seconds", "Wall time of runs", _OF_RUNS, buckets=_SECONDS, registry=self._registry
        )
        self._state = gauge("state_bytes", "Bytes of the states that a view keeps", "view")
        self._lag = gauge("lag_seconds", "Age of the oldest change that no run with output has read", "view")
        self._ended = gauge("last_refresh_timestamp_seconds", "When a view was last up to date with a run", "view")
        self._tick = gauge("last_tick_timestamp_seconds", "When the scheduler's last tick ended")
        self._lock = threading.Lock()
        self._ticked: frozenset[str] = frozenset()

    def text(self) -> bytes:
        """Returns all metrics in the text format of Prometheus."""
        return bytes(generate_latest(self._registry))

    def run_begun(self, view: str, point: int | None, trigger: str, at: float) -> None:
        pass

    def run_ended(self, run: RunReport) -> None:
        labels = (run.view, run.kind, run.code)
        self._runs.labels(*labels).inc()
        self._took(run, labels)
        flows = {"read": run.read, "written": run.written, "inserted": run.inserted, "deleted": run.deleted}
        for flow, rows in flows.items():
            if rows is not None:
                self._rows.labels(*labels, flow).inc(rows)
        if run.regret_ms is not None:
            self._regret.labels(*labels).inc(run.regret_ms / 1000)
        if run.state_bytes is not None:
            self._state.labels(run.view).set(run.state_bytes)
        self._ended.labels(run.view).set(run.started_at + (run.wall_ms or 0) / 1000)

    def run_failed(self, run: RunReport) -> None:
        labels = (run.view, run.kind, run.code)
        self._failures.labels(*labels).inc()
        self._took(run, labels)

    def run_left(self, view: str) -> None:
        pass

    def view_gone(self, view: str) -> None:
        for of_view in (self._state, self._lag, self._ended):
            with suppress(KeyError):  # no run has told of it
                of_view.remove(view)

    def tick_begun(self, at: float) -> None:
        pass

    def tick_ended(self, at: float, lags: Lags) -> None:
        self._tick.set(at)
        known = lags()
        with self._lock:
            gone, self._ticked = self._ticked - known.keys(), frozenset(known)
        for view in gone:
            self.view_gone(view)
        for view, lag in known.items():
            self._lag.labels(view).set(float("nan") if lag is None else lag)

    def _took(self, run: RunReport, labels: tuple[str, str, str]) -> None:
        if run.cpu_ms is not None:
            self._cpu.labels(*labels).inc(run.cpu_ms / 1000)
        if run.wall_ms is not None:
            self._wall.labels(*labels).observe(run.wall_ms / 1000)
