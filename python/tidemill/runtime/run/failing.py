"""Refreshes that end with an error: each leaves a row in the history of its view, and observers are told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from pyspark.errors import PySparkException

from tidemill.bridge.jvm import JobCost, Jvm, JvmFailure
from tidemill.errors import TidemillError
from tidemill.monitor.observer import OBSERVERS
from tidemill.runtime.before.graph import UpstreamFailedError
from tidemill.runtime.run import reports
from tidemill.runtime.run.occasion import Occasion
from tidemill.runtime.view import failures
from tidemill.runtime.view.history import RunRow
from tidemill.runtime.view.views import View

INTERRUPTED = {
    "java.lang.InterruptedException",
    "java.io.InterruptedIOException",
    "java.nio.channels.ClosedByInterruptException",
}
"""The errors of a thread that was interrupted."""


@contextmanager
def refreshing(jvm: Jvm, view: View, occasion: Occasion) -> Iterator[None]:
    """Tells observers that a refresh of `view` begins, and notes it as failed if the block raises an error.

    The error stays as it is. `jvm`: the session whose jobs the refresh runs.
    """
    begins(view, occasion)
    try:
        yield
    except Exception as error:
        note(jvm, view, occasion, error)
        raise


def begins(view: View, occasion: Occasion) -> None:
    """Tells observers that a refresh of `view` begins."""
    OBSERVERS.run_begun(view.definition.qualified, occasion.point, occasion.trigger, occasion.started_at / 1e6)


def note(jvm: Jvm, view: View, occasion: Occasion, error: Exception) -> RunRow:
    """Notes a refresh that failed, in the history of its view as far as that can be written. Returns its row."""
    row = row_of(view.definition.name, occasion, error, jvm.spent.take())
    with suppress(Exception), jvm.uninterrupted():
        failures.note(view, row)
    reports.tell(row, message=message(error))
    return row


def passed(jvm: Jvm, view: View, occasion: Occasion, error: Exception) -> RunRow:
    """Tells observers that a refresh has ended without a run, for a reason that is none of its view's. Returns a row of
    it, which the history does not get."""
    OBSERVERS.run_left(view.definition.qualified)
    return row_of(view.definition.name, occasion, error, jvm.spent.take())


def row_of(name: Sequence[str], occasion: Occasion, error: Exception, spent: JobCost) -> RunRow:
    """Returns the row of a refresh that failed. `spent`: what its jobs took."""
    return RunRow(
        run=None,
        view=".".join(name),
        point=occasion.point,
        trigger=occasion.trigger,
        kind="FAILED",
        reason=reason(error),
        started_at=occasion.started_at,
        duration_ms=occasion.elapsed_ms(),
        cpu_ms=round(spent.cpu_ms),
        jobs=spent.jobs,
    )


def reason(error: Exception) -> str:
    """Returns the condition of an error, with the name of the upstream view that failed, if one did."""
    told = condition(error)
    return f"{told}: {error.parameters['upstream']}" if isinstance(error, UpstreamFailedError) else told


def condition(error: Exception) -> str:
    """Returns the condition of an error; for an error of Spark's without one, the name of its class.

    Servers cancel a statement by interrupting its thread, and tell their clients OPERATION_CANCELED.
    """
    match error:
        case TidemillError():
            return error.condition
        case JvmFailure(class_name=name) if name in INTERRUPTED:
            return "OPERATION_CANCELED"
        case JvmFailure():
            return error.condition or error.class_name
        case PySparkException():
            return error.getCondition() or type(error).__name__
        case _:
            return "TIDEMILL_PLANNER_FAILED"


def message(error: Exception) -> str:
    """Returns what an error says."""
    return (
        error.message.strip() if isinstance(error, (TidemillError, JvmFailure)) else f"{type(error).__name__}: {error}"
    )
