"""Points of a schedule and expectations, as the Python API writes them."""

from __future__ import annotations

from tidemill.plan.kinds import one_of
from tidemill.sql.cursor import Cursor
from tidemill.sql.schedule import UNITS, second_of_day
from tidemill.sql.statements import AtProgress, AtTime, Cron, Every, Expectation, OnChange, OnDemand, Point


def at(time: str, cost: float = 1.0, output: bool = True) -> Point:
    """Returns a point every day at `time` ('HH:MM[:SS]'; '24:00' ends the day). `cost`: price of a unit of work."""
    return Point(AtTime(second_of_day(time)), float(cost), output)


def on_demand(cost: float = 1.0, output: bool = True) -> Point:
    """Returns a point that only REFRESH fires."""
    return Point(OnDemand(), float(cost), output)


def every(count: int, unit: str = "MINUTES", cost: float = 1.0, output: bool = True) -> Point:
    """Returns a point at an interval of `count` 'SECONDS', 'MINUTES', 'HOURS' or 'DAYS'."""
    return Point(Every(count, one_of(UNITS, unit.upper(), "unit")), float(cost), output)


def cron(expression: str, zone: str | None = None, cost: float = 1.0, output: bool = True) -> Point:
    """Returns a point at the times of five fields of Unix cron. `zone`: a time zone, the session's by default."""
    return Point(Cron(expression, zone), float(cost), output)


def on_change(
    *tables: str, rows: int | None = None, files: int | None = None, cost: float = 1.0, output: bool = True
) -> Point:
    """Returns a point that fires when one of `tables` (none: any source) has changed.

    `rows`, `files`: once so many have come; one of both at most.
    """
    if rows is not None and files is not None:
        raise ValueError("a change is counted in rows or in files, not in both")
    count, unit = (rows, "ROWS") if rows is not None else (files, "FILES") if files is not None else (None, None)
    return Point(OnChange(tuple(map(name_parts, tables)), count, unit), float(cost), output)


def at_progress(percent: float, cost: float = 1.0, output: bool = True) -> Point:
    """Returns a point that fires when so many per cent of the cycle's expected rows have arrived."""
    return Point(AtProgress(float(percent)), float(cost), output)


def expected(table: str, rows: int, *, per: str = "CYCLE", deletes: float = 0.0) -> Expectation:
    """Returns the expectation of `rows` changed rows of `table` per 'CYCLE' or 'DAY'; 0: none at all.

    `deletes`: how many per cent of them are deletes.
    """
    if rows < 0 or rows >= 10**18:
        raise ValueError(f"rows must be a number from 0 on, of at most 18 digits, not {rows}")
    if per.upper() not in ("CYCLE", "DAY"):
        raise ValueError(f"per must be CYCLE or DAY, not {per!r}")
    if not 0 <= deletes <= 100:
        raise ValueError(f"deletes is a percentage from 0 to 100, not {deletes}")
    return Expectation(name_parts(table), int(rows), per.upper(), float(deletes))


def complete(table: str) -> Expectation:
    """Returns the expectation that `table` gets no more data in this cycle."""
    return Expectation(name_parts(table))


def name_parts(name: str) -> tuple[str, ...]:
    """Returns the parts of a name as SQL writes it."""
    cursor = Cursor(name)
    parts = cursor.names()
    cursor.end()
    return parts
