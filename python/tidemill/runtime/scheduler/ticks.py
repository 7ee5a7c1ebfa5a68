"""One tick: finds what is due, and runs it at one pin of the base sources, upstream views first.

What is dealt with stands in the log entries of the runs. Runs that commit nothing, and failures, stand in the notes on
the views. A view that fails waits, twice as long each time, and is suspended when it has failed too often.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeAlias

from tidemill.bridge.jvm import Jvm, JvmFailure
from tidemill.errors import TidemillError
from tidemill.monitor.observer import OBSERVERS
from tidemill.runtime.before.graph import ViewNode
from tidemill.runtime.run import failing, together
from tidemill.runtime.run.failing import condition, message
from tidemill.runtime.run.occasion import Occasion
from tidemill.runtime.run.perform import RunOptions
from tidemill.runtime.run.together import Manner, says_cancelled
from tidemill.runtime.scheduler import agendas
from tidemill.runtime.scheduler.clock import Clock
from tidemill.runtime.scheduler.due import CHANGE, SCHEDULE, Firing, due, next_after
from tidemill.runtime.scheduler.holder import holding
from tidemill.runtime.scheduler.lag import lag_seconds
from tidemill.runtime.scheduler.roster import Roster, Seen
from tidemill.runtime.view import catalog, notes, views
from tidemill.runtime.view.fired import NOTHING_FIRED, REAL
from tidemill.runtime.view.history import RunRow
from tidemill.runtime.view.notes import Failing, Note
from tidemill.sql.statements import OnChange, Suspend

LONGEST_WAIT = 3600.0
"""Most seconds between two attempts to run a view that fails."""
WRITE_SECONDS = 60.0
"""A service writes what runs without data have dealt with at most so often; if it dies, a point is fired once more."""
FIRST_COME = "TIDEMILL_CONCURRENT_REFRESH"
"""The error of a run that another one was faster than."""
WAITING = ("TIDEMILL_NOT_FILLED", "TIDEMILL_UPSTREAM_FAILED", "TIDEMILL_SOURCE_MOVED", "OPERATION_CANCELED")
"""Errors that end without the view's doing; it stays due."""
WAIT_SECONDS = 30.0
"""Seconds by the scheduler's clock after which a view is looked at again that waits for another one."""
_LOG = logging.getLogger("tidemill.scheduler")


@dataclass(frozen=True, slots=True)
class Patience:
    """`first`: seconds before a view that failed is tried again; twice as many each time. `most`: failures, one after
    the other, with which it is suspended."""

    first: float = 60.0
    most: int = 10

    def wait(self, failures: int) -> float:
        """Returns the seconds to wait after so many failures.

        >>> [Patience(60.0).wait(n) for n in (1, 2, 3, 99)]
        [60.0, 120.0, 240.0, 3600.0]
        """
        return min(self.first * 2.0 ** min(failures - 1, 30), max(LONGEST_WAIT, self.first))


LAG_SECONDS = 15.0
"""Seconds for which observers are told the same lag of a view, if nothing is run."""

Fires: TypeAlias = Mapping[str, tuple[Seen, Firing]]
"""By location, a view that is due."""
Located: TypeAlias = tuple[str, RunRow]
"""The location of a view, and a row of it."""


class Ticks:
    """Carries out ticks in the session of `jvm`. One thread at a time may call it."""

    def __init__(
        self,
        jvm: Jvm,
        roster: Roster,
        clock: Clock,
        patience: Patience = Patience(),  # frozen
        *,
        lasting: bool,
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        """`lasting`: the process goes on after a tick, and need not write each note at once. `stop`: returns True once
        no more runs are to begin."""
        self._jvm, self._roster, self._clock = jvm, roster, clock
        self._patience, self._lasting, self._stop = patience, lasting, stop
        self._waiting: dict[str, float] = {}
        self._behind: tuple[float, Mapping[str, float | None]] = (float("-inf"), {})

    def tick(self, without: Collection[str] = ()) -> Sequence[Located]:
        """Runs what is due now. Returns the rows, by location; none if nothing was due, and then no Spark job ran.

        `without`: locations of views that are left alone. A failure of one view is in its row (kind FAILED). Raises if
        the session is gone, or the tick was cancelled; if the process does not go on afterwards, also if sources cannot
        be pinned together.
        """
        if self._stop():
            return ()
        OBSERVERS.tick_begun(self._clock.now())
        rows = self._tick(without)
        OBSERVERS.tick_ended(self._clock.now(), lambda: self._lags(again=bool(rows)))
        return rows

    def _tick(self, without: Collection[str]) -> Sequence[Located]:
        fires, rows = self._due(self._clock.now(), without)
        if not fires:
            return rows
        _LOG.debug("due: %s", ", ".join(_name(seen) for seen, _ in fires.values()))
        with holding(self._jvm, fires) as mine:
            rows += self._run({location: fires[location] for location in fires if location in mine})
        if any(row.kind not in ("NO_DATA", "FAILED") for _, row in rows):
            self._waiting.clear()
        return rows

    def _lags(self, *, again: bool) -> Mapping[str, float | None]:
        """Returns by how much each view is behind its sources; looks at these if `again`, or some time has passed."""
        looked, known = self._behind
        if again or time.monotonic() - looked > LAG_SECONDS:
            known = {_name(seen): self._lag(seen) for seen in self._roster.look()}
            self._behind = time.monotonic(), known
        return known

    def _lag(self, seen: Seen) -> float | None:
        try:
            return lag_seconds(self._jvm, seen.view, self._clock.now())
        except Exception:  # whether it can be read at all, a tick finds out
            return None

    def next_after(self, now: float) -> float | None:
        """Returns the first instant later than `now` at which the clock makes a view due; None if there is none."""
        found = (self._next_of(seen, now) for seen in self._roster.last)
        return min((at for at in found if at is not None), default=None)

    def _next_of(self, seen: Seen, now: float) -> float | None:
        try:
            return next_after(agendas.by_clock(seen.view, seen.note, self._clock), now)
        except Exception:  # a tick takes it down
            return None

    def settle(self) -> None:
        """Writes what is noted only in this process."""
        for seen in self._roster.look():
            if seen.unwritten:
                self._write(seen, seen.note)

    def _due(self, now: float, without: Collection[str]) -> tuple[dict[str, tuple[Seen, Firing]], list[Located]]:
        """Returns the views that are due, and the rows of those of which that cannot be told."""
        fires: dict[str, tuple[Seen, Firing]] = {}
        rows: list[Located] = []
        for seen in self._roster.look():
            if seen.location in without or self._waiting.get(seen.location, now) > now:
                continue
            try:
                looked = agendas.of(self._jvm, seen, self._clock)
                firing = due(looked.agenda, now)
            except Exception as failure:  # no view stops the others
                if self._jvm.gone:
                    raise
                rows += self._not_looked_at(seen, failure)
                continue
            if firing is not None:
                fires[seen.location] = seen, replace(firing, deals=replace(firing.deals, seen=looked.marks))
        return fires, rows

    def _not_looked_at(self, seen: Seen, error: Exception) -> list[Located]:
        """Takes down that it cannot be told if a view is due, as a failure of its last point. Returns its row, if the
        failure is the view's."""
        if not isinstance(error, (TidemillError, JvmFailure)):
            _LOG.error("%s could not be looked at", _name(seen), exc_info=error)
        points = seen.view.definition.create.schedule
        trigger = CHANGE if any(isinstance(point.trigger, OnChange) for point in points) else SCHEDULE
        firing = Firing(len(points), trigger, NOTHING_FIRED)
        if not self._failed(seen, firing, error):
            return []
        return [(seen.location, failing.note(self._jvm, seen.view, self._occasion(self._jvm, firing), error))]

    def _run(self, fires: Fires) -> list[Located]:
        """Runs these views. Returns the rows of those that were not left to others."""
        if not fires:
            return []
        occasions = {location: self._occasion(self._jvm, firing) for location, (_, firing) in fires.items()}
        manner = Manner(lambda node: self._wanted(node, fires), on_old=True, blames=self._blames, occasions=occasions)
        try:
            answer = together.refreshed(self._jvm, [seen.entry for seen, _ in fires.values()], manner)
        except (TidemillError, JvmFailure) as failure:
            if not self._lasting or (says_cancelled(failure) and self._jvm.cancelled):
                raise
            # The user has cancelled all jobs, or the sources moved: next time.
            _LOG.info("nothing of what was due was run: %s", message(failure))
            return []
        rows = []
        for location, row in answer.by_view.items():
            seen, firing = fires[location]
            if (failed := answer.failed.get(location)) is not None:
                if self._failed(seen, firing, failed.error):
                    rows.append((location, row))
                continue
            self._ended(seen, firing, row)
            rows.append((location, row))
        return rows

    def _wanted(self, node: ViewNode, fires: Fires) -> RunOptions | None:
        """Returns how a view is to be run; None if another scheduler has run it since it was found due, and if no more
        runs are to begin."""
        if self._stop():
            return None
        seen, firing = fires[node.view.location]
        if (node.view.head.run if node.view.head is not None else -1) != seen.run:
            return None
        points = node.view.definition.create.schedule
        if points != seen.view.definition.create.schedule or node.view.definition.suspended:
            return None  # an ALTER came in between
        return RunOptions(self._occasion(node.jvm, firing), output=points[firing.point - 1].output)

    def _occasion(self, jvm: Jvm, firing: Firing) -> Occasion:
        """Returns the occasion of a run that begins now; by a simulated clock, at its time."""
        occasion = replace(Occasion.now(jvm, firing.point, firing.trigger), deals=replace(firing.deals, seen={}))
        if self._clock.name == REAL:
            return occasion
        return replace(occasion, started_at=round(self._clock.now() * 1e6))

    def _blames(self, error: Exception) -> bool:
        """Returns False for an error that is none of its view's."""
        return _of_the_view(error) and not self._jvm.gone

    def _ended(self, seen: Seen, firing: Firing, row: RunRow) -> None:
        fired = seen.note.fired.then(firing.deals) if row.kind == "NO_DATA" else seen.note.fired
        note = replace(seen.note.failed(self._clock.name, None), fired=fired, early=None)
        if note != seen.note:
            self._note(seen, note)

    def _failed(self, seen: Seen, firing: Firing, error: Exception) -> bool:
        """Takes down a failure. Returns False if it is none of the view's."""
        if self._jvm.gone:
            return False
        what, text = condition(error), message(error)
        gone = what == "TIDEMILL_NOT_FOUND" and catalog.lookup(self._jvm, seen.entry.name) is None
        if gone or what == FIRST_COME:
            _LOG.debug("%s was run by another one first, or is gone: %s", _name(seen), text)
            return False
        if what in WAITING or says_cancelled(error):
            self._waiting[seen.location] = self._clock.now() + WAIT_SECONDS
            _LOG.info("%s waits: %s", _name(seen), text)
            return False
        points = seen.view.definition.create.schedule
        if not points[firing.point - 1].output:
            # Nobody has asked for this data yet, and what fails at these positions may do at later ones.
            early = f"{what}: {_first_line(text)}"
            self._note(seen, replace(seen.note, fired=seen.note.fired.then(firing.deals), early=early))
            _LOG.warning("%s: point %d failed, nothing was done early: %s", _name(seen), firing.point, text)
            return True
        before = seen.note.failing_at(seen.run, self._clock.name)
        count = 1 + (before.count if before is not None else 0)
        retry_at = self._clock.now() + self._patience.wait(count)
        found = Failing(count, retry_at, what, _first_line(text), seen.run, self._clock.name)
        # A rehearsal suspends nothing: the real schedule goes on.
        suspended = self._clock.name == REAL and count >= self._patience.most and self._suspended(seen, found)
        self._note(seen, seen.note.failed(self._clock.name, found))
        after = "it is suspended" if suspended else f"it is tried again in {retry_at - self._clock.now():.0f} s"
        _LOG.warning("%s: point %d failed, %s: %s", _name(seen), firing.point, after, text)
        return True

    def _suspended(self, seen: Seen, found: Failing) -> bool:
        """Suspends a view. Returns False if that fails: next time."""
        reason = f"it failed {found.count} times, at last with {found.reason}"
        try:
            if (now := views.at_location(seen.view.files, seen.location, seen.entry.name)) is not None:
                views.amend(now, Suspend(reason))
        except Exception as failure:
            _LOG.info("%s could not be suspended: %s", _name(seen), message(failure))
            return False
        return True

    def _note(self, seen: Seen, note: Note) -> None:
        """Notes something. It is written at once if it tells of failures, or if there is no later."""
        only_dealt = replace(note, fired=seen.note.fired) == seen.note
        if only_dealt and self._lasting and time.monotonic() - seen.written < WRITE_SECONDS:
            seen.note, seen.unwritten = note, True
        else:
            self._write(seen, note)

    def _write(self, seen: Seen, note: Note) -> None:
        seen.note, seen.written, seen.unwritten = note, time.monotonic(), False
        with suppress(Exception):  # the view may be gone; a note that is lost costs a run
            notes.write(seen.view, note)


def _of_the_view(error: Exception) -> bool:
    """Returns False for what passes by itself: another one was first, a view that is read has no content yet, or the
    run was cancelled."""
    return condition(error) not in {FIRST_COME, *WAITING} and not says_cancelled(error)


def _name(seen: Seen) -> str:
    return ".".join(seen.entry.name)


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]
