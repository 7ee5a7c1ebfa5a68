"""Tells the observers of this process how runs ended."""

from __future__ import annotations

from collections.abc import Iterable

from tidemill.monitor.observer import OBSERVERS, RunReport
from tidemill.runtime.view.history import RunRow
from tidemill.runtime.view.split import StepSpent


def tell(row: RunRow, steps: Iterable[StepSpent] = (), message: str | None = None) -> None:
    """Tells the observers of a run by its row and what its steps took, or of a failed refresh with the error's message.

    Costs are told only where they are CPU milliseconds.
    """
    written = [step.rows for step in steps if step.rows is not None]
    out = row.rows_out
    report = RunReport(
        view=row.view,
        run=row.run,
        point=row.point,
        trigger=row.trigger,
        kind=row.kind,
        reason=row.reason,
        started_at=row.started_at / 1e6,
        wall_ms=row.duration_ms,
        cpu_ms=row.cpu_ms,
        jobs=row.jobs,
        read=row.rows_read,
        written=sum(written) if row.kind != "FAILED" else None,
        inserted=None if out is None else out.inserts,
        deleted=None if out is None else out.deletes,
        state_bytes=row.state_bytes,
        regret_ms=row.regret,
        message=message,
    )
    if row.kind == "FAILED":
        OBSERVERS.run_failed(report)
    else:
        OBSERVERS.run_ended(report)
