"""What is expected to arrive: rows inserted into and deleted from each source between a point and the next one.

Each run records what came into each source since the positions that the content stands at (`Arrived`). Out of two such
records comes what arrived in between (`ArrivalInterval`): the difference of both where the content stood still, all of
the later one where the earlier run made the content. A source whose rows nobody counted at one of the runs has a longer
interval instead, or none.

Until point k + 1, from point k, of one source (`Outlook.ahead`):

1. **EXPECT.** `0 ROWS` and `COMPLETE`: nothing; COMPLETE counts until the first run of the last point after it was
   said. `n ROWS PER DAY`: n * length / 86,400, the length of the stretch being what lies between the clock times of
   both points; else the median of what it was in past cycles; else a day's share, one by the number of points.
   `n ROWS PER CYCLE`: what of n has not arrived in this cycle, shared out over its stretches to come in proportion to
   what 2 foresees for them; else to their lengths by the clock; else evenly. `WITH d PERCENT DELETES` splits each
   into n (1 - d / 100) inserts and n d / 100 deletes.
2. **The same stretch of past cycles.** The median, of inserts and of deletes, over the last `CYCLES` intervals that
   began with a run of point k and ended with one of point k + 1. For AT points that is the same time of day; the median
   passes over a day with a gap, a restart or a load out of turn. Points are known by their text: another schedule
   inherits the stretches that it has in common with the one before.
3. **The time of day**, where both points are AT points and no cycle has had that stretch: the sum over the hours of
   the day of the seconds that the stretch has in it, times the rate of that hour; the rate of an hour that was never
   seen is that of all. Rates are rows by seconds over all intervals, each spread evenly. A rate is believed no longer
   than it was measured: with less time seen than the stretch takes, there is no answer.
4. No answer: the caller takes it that the next step is like the one before.

What states are chosen for is a whole cycle (`per_cycle`): what EXPECT says of it. COMPLETE says nothing of the cycles
to come.

Where a point is run by hand, its clock time stands for the time of the run. Summer time is not looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import cached_property
from statistics import median
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

from tidemill.errors import TidemillError
from tidemill.sql.render import name_text, trigger_text
from tidemill.sql.schedule import DAY
from tidemill.sql.statements import AtTime, Expectation, Name, Point

ArrivedRows: TypeAlias = tuple[float, float]
"""Inserts and deletes."""

CYCLES = 7
"""Past intervals of a stretch that count: a week of days."""
TIME_ZONE = "spark.sql.session.timeZone"
RUNS_READ = 64
"""Runs of the log that are looked at."""
_HOUR = 3600
_OFFSET = re.compile(r"(?:UTC|GMT|Z)?(?:([+-])(\d{1,2})(?::?(\d{2}))?)?")


@dataclass(frozen=True, slots=True)
class Arrived:
    """What a run says of arrivals: its point (see `place`), whether that is the schedule's last, and by the name of a
    source the rows since the positions of run `since`, None where nobody counted them (`since` None: no run)."""

    place: str
    last: bool
    since: int | None
    rows: Mapping[str, ArrivedRows | None]

    def to_json(self) -> dict[str, Any]:
        rows = {name: None if known is None else list(known) for name, known in self.rows.items()}
        return {"place": self.place, "last": self.last, "since": self.since, "rows": rows}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Arrived:
        rows = {name: None if known is None else (known[0], known[1]) for name, known in data["rows"].items()}
        return Arrived(data["place"], data["last"], data["since"], rows)


@dataclass(frozen=True, slots=True)
class ObservedRun:
    """A run: its number (None: it has not ended yet), when it began (epoch seconds), and what it says of arrivals."""

    run: int | None
    at: float
    arrived: Arrived
    created: bool = False


@dataclass(frozen=True, slots=True)
class ArrivalInterval:
    """What arrived at one source between two runs: of which points, when (epoch seconds), and how many rows."""

    first: str
    last: str
    start: float
    stop: float
    rows: ArrivedRows


def place(schedule: Sequence[Point], number: int) -> str:
    """What a point is known by from one schedule to another: its clock time, or its number if it has none.

    >>> from tidemill.sql.statements import OnDemand
    >>> schedule = (Point(AtTime(3600)), Point(OnDemand()))
    >>> place(schedule, 1), place(schedule, 2)
    ("AT '01:00'", 'ON DEMAND, 2 of 2')
    """
    trigger = schedule[number - 1].trigger
    text = trigger_text(trigger)
    return text if isinstance(trigger, AtTime) else f"{text}, {number} of {len(schedule)}"


def source_named(table: Name, namespace: Sequence[str], sources: Iterable[str]) -> str | None:
    """The name among those of the query's sources that a table's stands for; None if the query does not read it.

    >>> source_named(("T",), ("db",), ["spark_catalog.db.t", "spark_catalog.other.t"])
    'spark_catalog.db.t'
    >>> source_named(("parquet", "/a/b"), ("db",), ["parquet.`file:/a/b`"])
    'parquet.`file:/a/b`'
    >>> source_named(("other", "u"), ("db",), ["spark_catalog.other.t"])
    """
    wanted = _spelled(".".join(table if len(table) > 1 else (*namespace, *table)))
    return next((name for name in sources if _spelled(name) == wanted), None)


def moved(clause: Sequence[Expectation], old: Sequence[str], new: Sequence[str]) -> tuple[Expectation, ...]:
    """EXPECT as it is said where names are looked up in another namespace.

    >>> [e.table for e in moved([Expectation(("t",)), Expectation(("a", "b"))], ["db"], ["other"])]
    [('db', 't'), ('a', 'b')]
    """
    if [*old] == [*new]:
        return tuple(clause)
    return tuple(replace(e, table=(*old, *e.table)) if len(e.table) == 1 else e for e in clause)


def expectations(
    clause: Sequence[Expectation], namespace: Sequence[str], sources: Iterable[str]
) -> dict[str, Expectation]:
    """EXPECT by the names of the query's sources.

    Raises TIDEMILL_INVALID_CLAUSE for a table that is given twice, or that the view does not read: Spark leaves out
    what makes no difference to the result.
    """
    known = list(dict.fromkeys(sources))
    found: dict[str, Expectation] = {}
    for expectation in clause:
        name = source_named(expectation.table, namespace, known)
        if name is None:
            raise _invalid(f"the view does not read {name_text(expectation.table)}; it reads {', '.join(known)}")
        if name in found:
            raise _invalid(f"the table {name} is given twice")
        found[name] = expectation
    return found


def per_cycle(expected: Mapping[str, Expectation]) -> dict[str, ArrivedRows]:
    """What comes into each source in a cycle, where EXPECT says so; one that is told per day is taken to be a day.

    >>> per_cycle({"t": Expectation(("t",), 200, "CYCLE", 10.0), "done": Expectation(("done",))})
    {'t': (180.0, 20.0)}
    """
    told = {name: (e.rows, e.deletes / 100) for name, e in expected.items() if e.rows is not None}
    return {name: (rows * (1 - share), rows * share) for name, (rows, share) in told.items()}


def _invalid(reason: str) -> TidemillError:
    return TidemillError("TIDEMILL_INVALID_CLAUSE", {"clause": "EXPECT", "reason": reason})


def _spelled(name: str) -> str:
    plain = name.replace("`", "").lower().removeprefix("spark_catalog.")
    return re.sub(r"\bfile:/+", "/", plain)


def intervals(runs: Sequence[ObservedRun], source: str) -> list[ArrivalInterval]:
    """What arrived between runs, in order; `runs`: the oldest first.

    >>> def run(number, point, since, rows):
    ...     return Run(number, 100.0 * number, Arrived(point, point == "b", since, {"t": rows}))
    >>> runs = [run(0, "b", None, None), run(1, "a", 0, (5, 0)), run(2, "b", 0, (7, 1)), run(3, "a", 2, (4, 0))]
    >>> [(i.first, i.last, i.rows) for i in intervals(runs, "t")]
    [('b', 'a', (5, 0)), ('a', 'b', (2, 1)), ('b', 'a', (4, 0))]
    """
    found = []
    for i, later in enumerate(runs):
        rows, since = later.arrived.rows.get(source), later.arrived.since
        if rows is None or since is None:
            continue
        for earlier in reversed(runs[:i]):
            before: ArrivedRows | None = (0, 0)
            if earlier.run != since:
                before = earlier.arrived.rows.get(source) if earlier.arrived.since == since else None
            if before is not None:
                came = (max(0, rows[0] - before[0]), max(0, rows[1] - before[1]))
                ends = (earlier.arrived.place, later.arrived.place)
                found.append(ArrivalInterval(*ends, earlier.at, max(earlier.at, later.at), came))
                break
    return found


def zone_of(name: str) -> tzinfo:
    """The time zone of a name as Spark takes it; UTC for one that only Java knows.

    >>> zone_of("+05:30").utcoffset(None), zone_of("Europe/Paris"), zone_of("nowhere")
    (datetime.timedelta(seconds=19800), zoneinfo.ZoneInfo(key='Europe/Paris'), datetime.timezone.utc)
    """
    match = _OFFSET.fullmatch(name)
    try:
        if match is None:
            return ZoneInfo(name)
        offset = timedelta(hours=int(match[2] or 0), minutes=int(match[3] or 0))
        return timezone(-offset if match[1] == "-" else offset)
    except (KeyError, ValueError, OSError):
        return UTC


def _second(at: float, zone: tzinfo) -> float:
    """The second of the day of an instant."""
    local = datetime.fromtimestamp(at, zone)
    return local.hour * 3600.0 + local.minute * 60 + local.second + local.microsecond / 1e6


def hours(start: float, length: float) -> Iterator[tuple[int, float]]:
    """The hours of the day that `length` seconds from a second of the day on fall into, and how many do.

    >>> list(hours(3000, 1200))
    [(0, 600.0), (1, 600.0)]
    >>> sum(seconds for _, seconds in hours(80000, 3 * 86400 + 5))
    259205.0
    """
    days, rest = divmod(float(length), DAY)
    if days:
        yield from ((hour, days * _HOUR) for hour in range(24))
    while rest > 1e-6:
        hour, within = divmod(start % DAY, _HOUR)
        taken = min(rest, _HOUR - within)
        yield int(hour), float(taken)
        start, rest = start + taken, rest - taken


@dataclass(frozen=True)
class Profile:
    """Rows by time of day: of each hour, the seconds seen and the rows that came in them."""

    seconds: Sequence[float]
    inserts: Sequence[float]
    deletes: Sequence[float]

    @staticmethod
    def of(past: Iterable[ArrivalInterval], zone: tzinfo) -> Profile:
        """Every interval is taken to have brought its rows evenly.

        >>> past = [Interval("a", "b", 0, 7200, (200, 0)), Interval("b", "a", 7200, 10800, (0, 0))]
        >>> Profile.of(past, UTC).inserts[:3], Profile.of(past, UTC).between(1800, 7200)
        ([100.0, 100.0, 0.0], (150.0, 0.0))
        """
        seconds, inserts, deletes = [0.0] * 24, [0.0] * 24, [0.0] * 24
        for interval in past:
            length = interval.stop - interval.start
            for hour, part in hours(_second(interval.start, zone), length):
                seconds[hour] += part
                inserts[hour] += interval.rows[0] * part / length
                deletes[hour] += interval.rows[1] * part / length
        return Profile(seconds, inserts, deletes)

    def between(self, start: float, length: float) -> ArrivedRows | None:
        """Rows in `length` seconds from a second of the day on; None if no time as long as that was seen."""
        seen = sum(self.seconds)
        if seen < length or not seen:
            return None
        found = [0.0, 0.0]
        for hour, part in hours(start, length):
            for i, counted in enumerate((self.inserts, self.deletes)):
                known = self.seconds[hour]
                found[i] += part * (counted[hour] / known if known else sum(counted) / seen)
        return found[0], found[1]


@dataclass(frozen=True)
class Outlook:
    """All that is known of what will arrive.

    `expect`: by the name of a source. `said`: the run after which it was said, None if by the statement that created
    the view, or replaced it. `runs`: the oldest first, the present one last. `zone`: that of AT points.
    """

    schedule: Sequence[Point]
    expect: Mapping[str, Expectation]
    runs: Sequence[ObservedRun] = ()
    said: int | None = None
    zone: tzinfo = UTC

    @cached_property
    def over(self) -> bool:
        """The cycle in which EXPECT was said has ended."""
        said = self.said
        if said is None:
            said = max((r.run for r in self.runs if r.created and r.run is not None), default=-1)
        return any(r.arrived.last and r.run > said for r in self.runs if r.run is not None)

    def ahead(self, source: str, number: int) -> list[ArrivedRows | None]:
        """What arrives from point `number` to the next, and so on to the last; None: nobody knows."""
        expected = self.expect.get(source)
        past = intervals(self.runs, source)
        steps = range(number, len(self.schedule))
        if expected is None or (expected.rows is None and self.over):
            return [self._foreseen(past, k, number) for k in steps]
        share = expected.deletes / 100
        if not expected.rows:
            rows = [0.0 for _ in steps]
        elif expected.per == "DAY":
            rows = [expected.rows * self._length(past, k, number) / DAY for k in steps]
        else:
            left = max(0.0, expected.rows - sum(sum(i.rows) for i in past if i.start >= self._began))
            weights = self._weights(past, steps)
            rows = [left * weight / sum(weights) for weight in weights]
        return [(n * (1 - share), n * share) for n in rows]

    @property
    def _began(self) -> float:
        """When the present cycle did."""
        return max((r.at for r in self.runs if r.arrived.last and r.run is not None), default=0.0)

    def _weights(self, past: Sequence[ArrivalInterval], steps: Sequence[int]) -> list[float]:
        """How what arrives in the rest of the cycle is shared out over its stretches."""
        foreseen = [self._foreseen(past, k, steps[0]) for k in steps]
        known = [sum(rows) for rows in foreseen if rows is not None]
        if len(known) == len(steps) and sum(known) > 0:
            return known
        lengths = [found[1] for k in steps if (found := self._clock(k, steps[0])) is not None]
        return lengths if len(lengths) == len(steps) else [1.0 for _ in steps]

    def _foreseen(self, past: Sequence[ArrivalInterval], k: int, number: int) -> ArrivedRows | None:
        """What the past says about the stretch from point k to the next one."""
        same = self._same(past, k)
        if same:
            return median(i.rows[0] for i in same), median(i.rows[1] for i in same)
        clock = self._clock(k, number)
        return None if clock is None else Profile.of(past, self.zone).between(*clock)

    def _same(self, past: Sequence[ArrivalInterval], k: int) -> list[ArrivalInterval]:
        """The stretch from point k to the next one in past cycles."""
        ends = place(self.schedule, k), place(self.schedule, k + 1)
        return [i for i in past if (i.first, i.last) == ends][-CYCLES:]

    def _length(self, past: Sequence[ArrivalInterval], k: int, number: int) -> float:
        """Seconds from point k to the next one."""
        clock, same = self._clock(k, number), self._same(past, k)
        if clock is not None:
            return clock[1]
        return median(i.stop - i.start for i in same) if same else DAY / len(self.schedule)

    def _clock(self, k: int, number: int) -> tuple[float, float] | None:
        """The second of the day at which the stretch from point k to the next begins, and its length, if the clock
        tells; `number`: the present point."""
        here, there = self.schedule[k - 1].trigger, self.schedule[k].trigger
        if isinstance(here, AtTime):
            start = float(here.second % DAY)
        elif k == number and self.runs:
            start = _second(self.runs[-1].at, self.zone)
        else:
            return None
        return (start, (there.second - start) % DAY or DAY) if isinstance(there, AtTime) else None
