"""The events that the scheduler tells of, for logs and monitors."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol

from tidemill.runtime.view.history import RunRow

_LOG = logging.getLogger("tidemill.scheduler")


class Observer(Protocol):
    """Is told of each event, from several threads. Times are epoch seconds by the scheduler's clock, names qualified.

    What a method raises is logged and changes nothing.
    """

    def tick_begun(self, at: float, views: Sequence[str]) -> None:
        """These views are due."""
        ...

    def tick_ended(self, at: float, rows: Sequence[RunRow]) -> None:
        """All of them have ended; one row for each that was not left to another scheduler."""
        ...

    def run_begun(self, view: str, point: int, trigger: str) -> None: ...

    def run_ended(self, row: RunRow) -> None:
        """A run has ended without an error; its kind may be NO_DATA."""
        ...

    def run_failed(
        self, view: str, point: int, trigger: str, condition: str, message: str, retry_at: float | None, suspended: bool
    ) -> None:
        """`retry_at`: when the view is tried again; None: at its next point, or when it is resumed if `suspended`."""
        ...

    def unreadable(self, view: str, message: str) -> None:
        """A view of the catalog cannot be opened; told once for each message."""
        ...


class LogObserver:
    """Writes runs and failures to the log `tidemill.scheduler`."""

    def tick_begun(self, at: float, views: Sequence[str]) -> None:
        _LOG.debug("due: %s", ", ".join(views))

    def tick_ended(self, at: float, rows: Sequence[RunRow]) -> None:
        pass

    def run_begun(self, view: str, point: int, trigger: str) -> None:
        _LOG.debug("%s: point %d begins (%s)", view, point, trigger)

    def run_ended(self, row: RunRow) -> None:
        level = logging.DEBUG if row.kind == "NO_DATA" else logging.INFO
        _LOG.log(level, "%s: point %s, run %s, %s, %s ms", row.view, row.point, row.run, row.kind, row.duration_ms)

    def run_failed(
        self, view: str, point: int, trigger: str, condition: str, message: str, retry_at: float | None, suspended: bool
    ) -> None:
        after = "it is suspended" if suspended else "it is tried again later" if retry_at else "nothing was done early"
        _LOG.warning("%s: point %d failed, %s: %s", view, point, after, message)

    def unreadable(self, view: str, message: str) -> None:
        _LOG.warning("%s cannot be opened, and is not refreshed: %s", view, message)
