"""One line of the log for each run, as text or as JSON."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from tidemill.monitor.observer import Lags, RunReport

VARIABLE = "TIDEMILL_LOG"
"""The environment variable that asks for the lines: `text` or `json`. Without it, they are text at the level INFO for a
program that shows this level of the logger."""
LOGGER = "tidemill"
Format: TypeAlias = Literal["text", "json"]
_LOG = logging.getLogger(LOGGER)


@dataclass(frozen=True, slots=True)
class RunLog:
    """An observer that writes a line for each run to the logger `tidemill`: at the level INFO, or DEBUG for NO_DATA.

    Each record has the values as `tidemill` too, for handlers that make lines of their own.
    """

    format: Format = "text"

    def run_begun(self, view: str, point: int | None, trigger: str, at: float) -> None:
        pass

    def run_ended(self, run: RunReport) -> None:
        self._write(logging.DEBUG if run.kind == "NO_DATA" else logging.INFO, run)

    def run_failed(self, run: RunReport) -> None:
        self._write(logging.INFO, run)  # the statement's own error is the warning

    def run_left(self, view: str) -> None:
        pass

    def view_gone(self, view: str) -> None:
        pass

    def tick_begun(self, at: float) -> None:
        pass

    def tick_ended(self, at: float, lags: Lags) -> None:
        pass

    def _write(self, level: int, run: RunReport) -> None:
        if _LOG.isEnabledFor(level):
            values = run.told()
            _LOG.log(level, "%s", line(values, self.format), extra={LOGGER: values})


def line(values: Mapping[str, Any], format: Format) -> str:  # noqa: A002  # as above
    """Returns values as one line.

    >>> line({"view": "v", "run": 3, "reason": "COST: full 6 ms"}, "text")
    'run of view=v run=3 reason="COST: full 6 ms"'
    >>> line({"view": "v", "run": 3}, "json")
    '{"view": "v", "run": 3}'
    """
    if format == "json":
        return json.dumps(values, ensure_ascii=False)
    return "run of " + " ".join(f"{name}={_quoted(value)}" for name, value in values.items())


def _quoted(value: object) -> str:
    text = str(value)
    return text if text and text.isprintable() and not set(text) & set(' "=') else json.dumps(text, ensure_ascii=False)


def asked_for() -> RunLog:
    """Returns the log that the environment asks for, and has its lines shown if it asks for any."""
    wanted = os.environ.get(VARIABLE, "")
    if wanted not in ("text", "json"):
        if wanted:
            _LOG.warning("Tidemill: %s=%s counts for nothing: it is text or json", VARIABLE, wanted)
        return RunLog()
    if _LOG.level == logging.NOTSET or _LOG.level > logging.INFO:
        _LOG.setLevel(logging.INFO)
    if not _LOG.hasHandlers():
        _LOG.addHandler(logging.StreamHandler())
    return RunLog("json" if wanted == "json" else "text")


def show(format: str) -> None:  # noqa: A002  # as above
    """Shows the log of a program whose log it is, on the standard error: records from INFO on, each as `format` says.

    Where the environment asks for JSON, lines of runs are the bare documents.
    """
    logging.basicConfig(format=format)
    _LOG.setLevel(logging.INFO)
    if os.environ.get(VARIABLE) == "json":
        for handler in logging.getLogger().handlers:
            handler.addFilter(lambda record: not _of_run(record))
        bare = logging.StreamHandler()
        bare.addFilter(_of_run)
        _LOG.addHandler(bare)


def _of_run(record: logging.LogRecord) -> bool:
    return hasattr(record, LOGGER)
