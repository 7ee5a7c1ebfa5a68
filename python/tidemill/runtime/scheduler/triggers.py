"""Tells when the triggers of a schedule fire by the clock. Times are epoch seconds; nothing here reads a clock.

AT fires once on each day of its time zone. A time of day that does not exist on a day (clocks go forward) fires at the
next instant that does; one that exists twice (clocks go back) fires at the first. CRON does as Debian's cron: an
expression with a fixed hour fires once on such days, too. EVERY counts from the time at which its point came into the
schedule, so that neither runs by hand nor restarts shift it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, tzinfo

from cronsim import CronSim

from tidemill.runtime.view.arrivals import zone_of
from tidemill.sql.schedule import DAY, seconds_of
from tidemill.sql.statements import AtProgress, AtTime, Cron, Every, OnChange, OnDemand, Trigger

_WINDOWS = (3600.0, 2.0 * DAY, 70.0 * DAY, 3000.0 * DAY)
"""Seconds before now in which the newest instant of a CRON trigger is looked for, one after the other."""
_ZONES_REACH = timedelta(days=2)
"""No local day differs by more from the day of an instant elsewhere."""


def by_clock(trigger: Trigger) -> bool:
    """Returns True if the clock alone fires the trigger."""
    return isinstance(trigger, AtTime | Every | Cron)


def next_instant(trigger: Trigger, after: float, zone: tzinfo, anchor: float) -> float | None:
    """Returns the first instant later than `after` at which the trigger fires; None if the clock does not fire it.

    `zone`: of the view. `anchor`: when the point came into the schedule.

    >>> next_instant(Every(5, "MINUTES"), 1000.0, UTC, 900.0)
    1200.0
    >>> next_instant(AtTime(3600), 3600.0, UTC, 0.0)
    90000.0
    """
    match trigger:
        case AtTime(second):
            day = _day(after, zone) - _ZONES_REACH
            while (found := instant_of(day, second, zone)) <= after:
                day += timedelta(days=1)
            return found
        case Every(count, unit):
            step = seconds_of(count, unit)
            return anchor + step * max(1, (after - anchor) // step + 1)
        case Cron():
            return next(_cron(trigger, after, zone), None)
        case OnDemand() | OnChange() | AtProgress():
            return None


def last_instant(trigger: Trigger, after: float, now: float, zone: tzinfo, anchor: float) -> float | None:
    """Returns the last instant later than `after` and not later than `now`; None if there is none. As `next_instant`.

    >>> last_instant(Every(5, "MINUTES"), 900.0, 1900.0, UTC, 900.0)
    1800.0
    >>> last_instant(AtTime(3600), 4000.0, 90001.0, UTC, 0.0), last_instant(AtTime(3600), 4000.0, 89999.0, UTC, 0.0)
    (90000.0, None)
    """
    if now <= after:
        return None
    match trigger:
        case AtTime(second):
            day = _day(now, zone) + _ZONES_REACH
            while (found := instant_of(day, second, zone)) > now:
                day -= timedelta(days=1)
        case Every(count, unit):
            step = seconds_of(count, unit)
            passed = (now - anchor) // step
            if passed < 1:
                return None
            found = anchor + step * passed
        case Cron():
            return _last_cron(trigger, after, now, zone)
        case OnDemand() | OnChange() | AtProgress():
            return None
    return found if found > after else None


def instant_of(day: date, second: int, zone: tzinfo) -> float:
    """Returns when the clock of a zone shows a second of a day: the first time, or the next instant if it never does.

    >>> from zoneinfo import ZoneInfo
    >>> forward, back = date(2026, 3, 29), date(2026, 10, 25)
    >>> for day in (forward, back):
    ...     at = instant_of(day, 9000, ZoneInfo("Europe/Berlin"))
    ...     print(datetime.fromtimestamp(at, ZoneInfo("Europe/Berlin")).isoformat())
    2026-03-29T03:00:00+02:00
    2026-10-25T02:30:00+02:00
    """
    local = datetime.combine(day, time()) + timedelta(seconds=second)
    before, after = local.replace(tzinfo=zone, fold=0), local.replace(tzinfo=zone, fold=1)
    late, early = before.timestamp(), after.timestamp()
    if early >= late:  # it exists, once or twice
        return late
    offset = after.utcoffset()
    while late - early > 1e-3:  # the clock goes forward in between
        middle = (early + late) / 2
        if datetime.fromtimestamp(middle, zone).utcoffset() == offset:
            late = middle
        else:
            early = middle
    return float(round(late))


def _cron(trigger: Cron, after: float, zone: tzinfo) -> Iterator[float]:
    """Yields the instants later than `after`, in order."""
    own = zone_of(trigger.zone) if trigger.zone is not None else zone
    newest = after
    # In full seconds: the library's times are of microseconds, and one that is rounded up would pass an instant by.
    for found in CronSim(trigger.expression, datetime.fromtimestamp(math.floor(after), own)):
        # Where a time exists twice, the library may begin with the first one again.
        if (at := found.timestamp()) > newest:
            newest = at
            yield at


def _last_cron(trigger: Cron, after: float, now: float, zone: tzinfo) -> float | None:
    for window in (*_WINDOWS, now - after):
        last = None
        for at in _cron(trigger, max(after, now - window), zone):
            if at > now:
                break
            last = at
        if last is not None or now - window <= after:
            return last
    return None


def _day(at: float, zone: tzinfo) -> date:
    return datetime.fromtimestamp(at, UTC).astimezone(zone).date()
