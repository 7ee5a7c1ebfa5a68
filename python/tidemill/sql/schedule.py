"""Reads `SCHEDULE ( trigger [, ...] )`, and checks the rules that hold between its points."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from tidemill.errors import TidemillError
from tidemill.sql.cursor import Cursor, TextRange
from tidemill.sql.statements import AtProgress, AtTime, Cron, Every, OnChange, OnDemand, Point, Trigger

DAY = 86400
_CLOCK = re.compile(r"([0-9]{2}):([0-9]{2})(?::([0-9]{2}))?")
_UNITS = {"SECOND": "SECONDS", "MINUTE": "MINUTES", "HOUR": "HOURS", "DAY": "DAYS"}
UNITS = tuple(_UNITS.values())
_SECONDS = {"SECONDS": 1, "MINUTES": 60, "HOURS": 3600, "DAYS": DAY}
_LONGEST = 3650 * DAY
_OFFSET = re.compile(r"[+-](0?[0-9]|1[0-8]):[0-5][0-9]")

_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
# Name, least and greatest value, names of values from the least on.
_CRON_FIELDS: tuple[tuple[str, int, int, tuple[str, ...]], ...] = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of the month", 1, 31, ()),
    ("month", 1, 12, _MONTHS),
    ("day of the week", 0, 7, _WEEKDAYS),
)


def read_schedule(cursor: Cursor) -> tuple[Point, ...]:
    """Reads the points between the parentheses behind SCHEDULE, and checks them."""
    spans: list[TextRange] = []

    def read() -> Point:
        start = cursor.peek().start
        point = _read_point(cursor)
        spans.append(cursor.since(start))
        return point

    if not cursor.at("("):
        raise cursor.error("the points of a schedule stand in parentheses: SCHEDULE (ON DEMAND)")
    points = cursor.listed(read)
    check_schedule(points, spans)
    return points


def check_schedule(points: Sequence[Point], spans: Sequence[TextRange] = ()) -> None:
    """Raises TIDEMILL_INVALID_SCHEDULE for points that do not make a schedule. `spans`: their ranges in the text."""

    def refuse(index: int, reason: str) -> None:
        raise _invalid(reason, spans[index] if index < len(spans) else None)

    if not points:
        refuse(0, "it has no point")
    latest = -1
    for index, point in enumerate(points):
        if not 0 <= point.cost < float("inf"):
            refuse(index, f"the price of point {index + 1} is not a number from 0 on")
        reason = _wrong(point.trigger)
        if reason:
            refuse(index, reason)
        if isinstance(point.trigger, AtTime):
            now = point.trigger.second
            if now == latest:
                refuse(index, f"the time '{clock(now)}' is given twice")
            if now < latest:
                order = "AT points are written in ascending order"
                refuse(index, f"'{clock(now)}' comes after '{clock(latest)}', but {order}")
            latest = now
    if not points[-1].output:
        refuse(len(points) - 1, "the last point must have output")


def clock(second: int) -> str:
    """Returns the text of a time of day as AT takes it.

    >>> clock(50400), clock(86400), clock(3661)
    ('14:00', '24:00', '01:01:01')
    """
    hours, minutes, seconds = second // 3600, second // 60 % 60, second % 60
    return f"{hours:02}:{minutes:02}" + (f":{seconds:02}" if seconds else "")


def second_of_day(text: str) -> int:
    """Returns the second of the day of 'HH:MM[:SS]'. Raises ValueError with the reason for other text.

    >>> second_of_day("24:00")
    86400
    """
    match = _CLOCK.fullmatch(text)
    if match is None:
        raise ValueError(f"'{text}' is not a time of the form HH:MM or HH:MM:SS")
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    total = hours * 3600 + minutes * 60 + seconds
    if minutes > 59 or seconds > 59 or total > DAY:
        raise ValueError(f"'{text}' is not a time of day from 00:00 to 24:00")
    return total


def seconds_of(count: int, unit: str) -> int:
    """Returns the seconds of an interval as EVERY gives it.

    >>> seconds_of(2, "HOURS")
    7200
    """
    return count * _SECONDS[unit]


def _read_point(cursor: Cursor) -> Point:
    start = cursor.peek().start
    trigger = _read_trigger(cursor)
    reason = _wrong(trigger)
    if reason:
        raise _invalid(reason, cursor.since(start))
    cost, output = 1.0, True
    if cursor.take("COST"):
        place = cursor.peek().start
        cost = cursor.number()
        if cost < 0:
            raise _invalid("a price must not be negative", cursor.since(place))
    if cursor.take("NO", "OUTPUT"):
        output = False
    else:
        cursor.take("OUTPUT")
    if cursor.at("COST"):
        raise cursor.error("COST stands before OUTPUT")
    if not (cursor.at(",") or cursor.at(")")):
        raise cursor.error("expected [COST price] [OUTPUT | NO OUTPUT], then ',' or ')'")
    return Point(trigger, abs(cost), output)


def _read_trigger(cursor: Cursor) -> Trigger:
    if cursor.take("AT", "PROGRESS"):
        percent = cursor.number()
        cursor.expect("PERCENT")
        return AtProgress(percent)
    if cursor.take("AT"):
        return _at_time(cursor)
    if cursor.take("EVERY"):
        count = cursor.integer()
        return Every(count, _read_unit(cursor))
    if cursor.take("CRON"):
        expression = cursor.string()
        return Cron(expression, cursor.string() if cursor.take("AT", "TIME", "ZONE") else None)
    words = cursor.choice((("ON", "DEMAND"), ("ON", "CHANGE")), "ON DEMAND, ON CHANGE, AT, EVERY or CRON")
    return OnDemand() if words == ("ON", "DEMAND") else _on_change(cursor)


def _read_unit(cursor: Cursor) -> str:
    for singular, plural in _UNITS.items():
        if cursor.take(singular) or cursor.take(plural):
            return plural
    raise cursor.error("expected SECONDS, MINUTES, HOURS or DAYS")


def _at_time(cursor: Cursor) -> AtTime:
    place = cursor.peek().start
    text = cursor.string()
    try:
        return AtTime(second_of_day(text))
    except ValueError as error:
        raise _invalid(str(error), cursor.since(place)) from None


def _on_change(cursor: Cursor) -> OnChange:
    tables = []
    if cursor.take("OF"):
        if cursor.at("AFTER") and cursor.peek(1).kind == "number":
            raise cursor.error("expected a table")
        tables.append(cursor.names())
        # A comma also separates the points of the schedule.
        while cursor.at(",") and not trigger_follows(cursor, 1):
            cursor.skip()
            tables.append(cursor.names())
    if not cursor.take("AFTER"):
        return OnChange(tuple(tables))
    count = cursor.integer()
    return OnChange(tuple(tables), count, cursor.choose("ROWS", "FILES"))


def trigger_follows(cursor: Cursor, ahead: int) -> bool:
    """Returns True if a point of a schedule begins `ahead` places behind the next token."""
    behind = cursor.peek(ahead + 1).kind
    return (
        cursor.at("ON", "DEMAND", ahead=ahead)
        or cursor.at("ON", "CHANGE", ahead=ahead)
        or (cursor.at("AT", ahead=ahead) and (behind == "string" or cursor.at("PROGRESS", ahead=ahead + 1)))
        or (cursor.at("EVERY", ahead=ahead) and behind == "number")
        or (cursor.at("CRON", ahead=ahead) and behind == "string")
    )


def longest_gap(points: Sequence[Point]) -> float | None:
    """Returns the longest time in seconds between two runs with output that the clock fires; None if it fires none."""
    due = [point.trigger for point in points if point.output]
    times = sorted({t.second % DAY for t in due if isinstance(t, AtTime)})
    gaps = [max(b - a for a, b in pairwise([*times, times[0] + DAY]))] if times else []
    gaps += [seconds_of(t.count, t.unit) for t in due if isinstance(t, Every)]
    return min(gaps, default=None)


def _wrong(trigger: Trigger) -> str | None:
    """Returns why a trigger can never fire as written; None if it can."""
    match trigger:
        case AtTime(second) if not 0 <= second <= DAY:
            return f"second {second} is not within a day"
        case Every(count) if count <= 0:
            return "EVERY needs a number greater than 0"
        case Every(count, unit) if seconds_of(count, unit) > _LONGEST:
            return "EVERY takes at most 3650 days"
        case OnChange(_, int(count)) if count <= 0:
            return "AFTER needs a number greater than 0"
        case AtProgress(percent) if not 0 < percent <= 100:
            return "AT PROGRESS needs a percentage above 0 and up to 100"
        case Cron(expression, zone):
            return _wrong_cron(expression) or _wrong_zone(zone)
    return None


def _wrong_cron(expression: str) -> str | None:
    parts = expression.split()
    if len(parts) != len(_CRON_FIELDS):
        return f"the cron expression '{expression}' has {len(parts)} fields instead of 5"
    for text, (name, least, greatest, names) in zip(parts, _CRON_FIELDS, strict=True):
        if not all(_cron_item(item, least, greatest, names) for item in text.split(",")):
            return f"'{text}' is not valid for the {name} of a cron expression"
    try:
        CronSim(expression, datetime(2000, 1, 1))
    except CronSimError:
        return f"the cron expression '{expression}' names days that no month has"
    return None


def _cron_item(item: str, least: int, greatest: int, names: tuple[str, ...]) -> bool:
    body, slash, step = item.partition("/")
    if slash and not (re.fullmatch(r"[0-9]{1,4}", step) and int(step) > 0):
        return False
    if body == "*":
        return True
    first, dash, last = body.partition("-")
    values = [_cron_value(part, least, greatest, names) for part in ((first, last) if dash else (first,))]
    if any(value is None for value in values):
        return False
    return len(values) == 1 or (values[0] or 0) <= (values[1] or 0)


def _cron_value(text: str, least: int, greatest: int, names: tuple[str, ...]) -> int | None:
    if text.upper() in names:
        return least + names.index(text.upper())
    if re.fullmatch(r"[0-9]{1,2}", text) and least <= int(text) <= greatest:
        return int(text)
    return None


def _wrong_zone(zone: str | None) -> str | None:
    if zone is None or zone in ("Z", "UTC", "GMT") or _OFFSET.fullmatch(zone):
        return None
    try:
        ZoneInfo(zone)
    except (OSError, ValueError, LookupError):
        return f"the time zone '{zone}' is not known"
    return None


def _invalid(reason: str, span: TextRange | None) -> TidemillError:
    return TidemillError("TIDEMILL_INVALID_SCHEDULE", {"reason": reason}, span)
