"""Forecasts arrivals: rows inserted into and deleted from each source between a point and the next one.

Each run records the arrivals at each source since the positions of the content (`Arrived`). Two such records give the
arrivals between the runs (`ArrivalInterval`): the difference of both if the content stayed, and all of the later one if
the earlier run made the content. If the rows of a source were not counted at a run, its interval is longer, or none.

`Outlook.ahead` forecasts the arrivals at one source from point k to point k + 1, the stretch, by the first of these:

1. **EXPECT.**
   - `0 ROWS` and `COMPLETE`: nothing. COMPLETE counts until the first run of the last point after it was said.
   - `n ROWS PER DAY`: n * length / 86,400. The length of the stretch is the time between the clock times of both
     points; else its median length in past cycles; else a day divided by the number of points.
   - `n ROWS PER CYCLE`: the rest of n that has not arrived in this cycle, divided among the stretches to come, in
     proportion to the forecasts of 2; else to their lengths by the clock; else evenly.
   - `WITH d PERCENT DELETES` splits each into n (1 - d / 100) inserts and n d / 100 deletes.
2. **The same stretch of past cycles.** The medians of inserts and of deletes over the last `CYCLES` intervals from a
   run of point k to a run of point k + 1. For AT points that is the same time of day. The median ignores a day with a
   gap, a restart or an unusual load. Points are identified by their text, so another schedule inherits the stretches
   that it has in common with the one before.
3. **The time of day**, if both points are AT points and no past cycle has the stretch. This is the sum, over the hours
   of the day, of the seconds that the stretch has in the hour times the rate of the hour. An hour that was never seen
   has the mean rate. Rates are rows by seconds over all intervals, each spread evenly. If the time seen is shorter than
   the stretch, there is no forecast.
4. No forecast: the caller assumes the same change as in the transition before.

States are chosen for a whole cycle (`per_cycle`), by EXPECT alone. COMPLETE does not count for later cycles.

If a point is run by hand, its clock time counts as the time of the run. Summer time is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import cached_property
from itertools import pairwise
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
"""Number of past intervals of a stretch that count: a week of days."""
TIME_ZONE = "spark.sql.session.timeZone"
RUNS_READ = 64
"""Number of runs of the log that are read."""
_HOUR = 3600
_OFFSET = re.compile(r"(?:UTC|GMT|Z)?(?:([+-])(\d{1,2})(?::?(\d{2}))?)?")


@dataclass(frozen=True, slots=True)
class Arrived:
    """The arrivals that a run records.

    `place`: of its point (see the function `place`). `last`: the point is the schedule's last. `rows`: by the name of a
    source, the rows since the positions of run `since`; None if they were not counted. `since` None: there is no run.
    """

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
    """A run: its number (None: it has not ended yet), its start (epoch seconds), and its record of arrivals."""

    run: int | None
    at: float
    arrived: Arrived
    created: bool = False


@dataclass(frozen=True, slots=True)
class ArrivalInterval:
    """The arrivals at one source between two runs: the places of their points, the times (epoch seconds), the rows."""

    first: str
    last: str
    start: float
    stop: float
    rows: ArrivedRows


def place(schedule: Sequence[Point], number: int) -> str:
    """Returns the text that identifies a point across schedules: its trigger, and which one it is if several have that.

    >>> from tidemill.sql.statements import OnDemand
    >>> schedule = (Point(OnDemand()), Point(AtTime(3600)), Point(OnDemand()))
    >>> [place(schedule, number) for number in (1, 2, 3)]
    ['ON DEMAND, 1 of 2', "AT '01:00'", 'ON DEMAND, 2 of 2']
    """
    trigger = schedule[number - 1].trigger
    same = [n for n, point in enumerate(schedule, 1) if point.trigger == trigger]
    text = trigger_text(trigger)
    return text if len(same) == 1 else f"{text}, {same.index(number) + 1} of {len(same)}"


def places(schedule: Sequence[Point]) -> list[str]:
    """Returns the place of each point."""
    return [place(schedule, number) for number in range(1, len(schedule) + 1)]


def source_named(table: Name, namespace: Sequence[str], sources: Iterable[str]) -> str | None:
    """Returns the source of the query that a table's name stands for; None if the query does not read it.

    >>> source_named(("T",), ("db",), ["spark_catalog.db.t", "spark_catalog.other.t"])
    'spark_catalog.db.t'
    >>> source_named(("parquet", "/a/b"), ("db",), ["parquet.`file:/a/b`"])
    'parquet.`file:/a/b`'
    >>> source_named(("other", "u"), ("db",), ["spark_catalog.other.t"])
    """
    wanted = _spelled(".".join(table if len(table) > 1 else (*namespace, *table)))
    return next((name for name in sources if _spelled(name) == wanted), None)


def moved(clause: Sequence[Expectation], old: Sequence[str], new: Sequence[str]) -> tuple[Expectation, ...]:
    """Returns EXPECT for another namespace: with the same tables.

    >>> [e.table for e in moved([Expectation(("t",)), Expectation(("a", "b"))], ["db"], ["other"])]
    [('db', 't'), ('a', 'b')]
    """
    if [*old] == [*new]:
        return tuple(clause)
    return tuple(replace(e, table=(*old, *e.table)) if len(e.table) == 1 else e for e in clause)


def expectations(
    clause: Sequence[Expectation], namespace: Sequence[str], sources: Iterable[str]
) -> dict[str, Expectation]:
    """Returns EXPECT by the names of the query's sources.

    Raises TIDEMILL_INVALID_CLAUSE for a table that is given twice, or that the view does not read: Spark leaves out
    tables that make no difference to the result.
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
    """Returns the arrivals at each source in a cycle, where EXPECT tells. With PER DAY, a cycle counts as one day.

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
    """Returns the arrivals at a source between runs, in order. `runs`: the oldest first.

    >>> def run(number, point, since, rows):
    ...     return ObservedRun(number, 100.0 * number, Arrived(point, point == "b", since, {"t": rows}))
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
    """Returns the time zone of a name as Spark takes it; UTC for one that only Java knows.

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
    """Returns the second of the day of a time in epoch seconds."""
    local = datetime.fromtimestamp(at, zone)
    return local.hour * 3600.0 + local.minute * 60 + local.second + local.microsecond / 1e6


def hours(start: float, length: float) -> Iterator[tuple[int, float]]:
    """Yields each hour of the day with the seconds in it, of `length` seconds from the second of the day `start` on.

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
        """Returns the profile of past intervals, whose rows are taken to have arrived evenly.

        >>> past = [ArrivalInterval("a", "b", 0, 7200, (200, 0)), ArrivalInterval("b", "a", 7200, 10800, (0, 0))]
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
        """Returns the rows in `length` seconds from the second of the day `start` on; None if less time was seen."""
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
    """Everything that is known about future arrivals.

    `expect`: by the name of a source. `said`: the run after which ALTER gave it; None if the statement that created or
    replaced the view gave it. `runs`: the oldest first, the present one last. `zone`: time zone of AT points.
    """

    schedule: Sequence[Point]
    expect: Mapping[str, Expectation]
    runs: Sequence[ObservedRun] = ()
    said: int | None = None
    zone: tzinfo = UTC

    @cached_property
    def over(self) -> bool:
        """True if the cycle in which EXPECT was said has ended."""
        said = self.said
        if said is None:
            said = max((r.run for r in self.runs if r.created and r.run is not None), default=-1)
        return any(r.arrived.last and r.run > said for r in self.runs if r.run is not None)

    def ahead(self, source: str, number: int) -> list[ArrivedRows | None]:
        """Returns the arrivals from point `number` to the next, and so on to the last; None: unknown."""
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
            left = max(0.0, expected.rows - sum(sum(i.rows) for i in intervals(self.present_cycle, source)))
            weights = self._weights(past, steps)
            rows = [left * weight / sum(weights) for weight in weights]
        return [(n * (1 - share), n * share) for n in rows]

    @property
    def cycles(self) -> Sequence[Sequence[ObservedRun]]:
        """The runs of each cycle that has ended, from the one that ended the cycle before; the oldest cycle first."""
        ends = [i for i, r in enumerate(self.runs) if r.arrived.last and r.run is not None]
        return [self.runs[first : last + 1] for first, last in pairwise(ends)]

    @property
    def present_cycle(self) -> Sequence[ObservedRun]:
        """The runs of the present cycle, from the one that ended the cycle before."""
        return self.runs[max((i for i, r in enumerate(self.runs) if r.run == self.cycle), default=0) :]

    @property
    def cycle(self) -> int:
        """The run that ended the last cycle; -1 if none did."""
        return max((r.run for r in self.runs if r.arrived.last and r.run is not None), default=-1)

    def _weights(self, past: Sequence[ArrivalInterval], steps: Sequence[int]) -> list[float]:
        """Returns the weights by which the arrivals in the rest of the cycle are divided among its stretches."""
        foreseen = [self._foreseen(past, k, steps[0]) for k in steps]
        known = [sum(rows) for rows in foreseen if rows is not None]
        if len(known) == len(steps) and sum(known) > 0:
            return known
        lengths = [found[1] for k in steps if (found := self._clock(k, steps[0])) is not None]
        return lengths if len(lengths) == len(steps) else [1.0 for _ in steps]

    def _foreseen(self, past: Sequence[ArrivalInterval], k: int, number: int) -> ArrivedRows | None:
        """Returns the forecast by the past for the stretch from point k to the next one; None if it tells nothing."""
        same = self._same(past, k)
        if same:
            return median(i.rows[0] for i in same), median(i.rows[1] for i in same)
        clock = self._clock(k, number)
        return None if clock is None else Profile.of(past, self.zone).between(*clock)

    def _same(self, past: Sequence[ArrivalInterval], k: int) -> list[ArrivalInterval]:
        """Returns the past intervals of the stretch from point k to the next one."""
        ends = place(self.schedule, k), place(self.schedule, k + 1)
        return [i for i in past if (i.first, i.last) == ends][-CYCLES:]

    def _length(self, past: Sequence[ArrivalInterval], k: int, number: int) -> float:
        """Returns the seconds from point k to the next one."""
        clock, same = self._clock(k, number), self._same(past, k)
        if clock is not None:
            return clock[1]
        return median(i.stop - i.start for i in same) if same else DAY / len(self.schedule)

    def _clock(self, k: int, number: int) -> tuple[float, float] | None:
        """Returns the second of the day at which the stretch from point k to the next begins, and its length; None if
        the clock does not tell. `number`: the present point.
        """
        here, there = self.schedule[k - 1].trigger, self.schedule[k].trigger
        if isinstance(here, AtTime):
            start = float(here.second % DAY)
        elif k == number and self.runs:
            start = _second(self.runs[-1].at, self.zone)
        else:
            return None
        return (start, (there.second - start) % DAY or DAY) if isinstance(there, AtTime) else None
