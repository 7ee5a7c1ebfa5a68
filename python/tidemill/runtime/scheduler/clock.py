"""The clocks of the scheduler: the real one, and a simulated one for rehearsals. Times are epoch seconds."""

from __future__ import annotations

import time
from threading import Event
from typing import Protocol

from tidemill.runtime.scheduler.due import Origin
from tidemill.runtime.view.fired import REAL
from tidemill.sql.schedule import DAY


class Clock(Protocol):
    """`name`: under which instants are kept (see `Fired`). `jumps`: it stands still except for `wait`."""

    name: str
    jumps: bool

    def now(self) -> float:
        """Returns the present time."""
        ...

    def origin(self, since: float) -> Origin:
        """Returns where the time of a point begins that has been in the schedule `since` then, by the real clock."""
        ...

    def counts(self, instant: float) -> bool:
        """Returns True if an instant that was dealt with by a clock of this name counts for this one."""
        ...

    def wait(self, until: float, stop: Event) -> None:
        """Returns when the clock shows `until`, or once `stop` is set."""
        ...


class RealClock:
    """The clock of the machine."""

    name = REAL
    jumps = False

    def now(self) -> float:
        return time.time()

    def origin(self, since: float) -> Origin:
        return Origin(since, since)

    def counts(self, instant: float) -> bool:
        return True

    def wait(self, until: float, stop: Event) -> None:
        if (left := until - self.now()) > 0:
            stop.wait(left)


class SimulatedClock:
    """A clock that begins at `start` and shows `speed` seconds in one; without a speed it jumps from point to point.

    Points count from `start` on, whenever views were created, and a rehearsal from the same time goes on where it was.
    With `once`, points count from the time at which the view was created, as by the real clock; of a view that is newer
    than `start`, from a day before it.
    """

    def __init__(self, start: float, speed: float | None = None, *, once: bool = False) -> None:
        self.name = "simulated" if once else f"simulated from {start:.0f}"
        self.jumps = speed is None
        self._start, self._speed, self._once = start, speed, once
        self._at = start
        self._began = time.monotonic()

    def now(self) -> float:
        if self._speed is None:
            return self._at
        return self._start + (time.monotonic() - self._began) * self._speed

    def origin(self, since: float) -> Origin:
        if not self._once:
            return Origin(self._start, self._start)
        return Origin(since, since) if since <= self._start else Origin(0.0, self._start - DAY)

    def counts(self, instant: float) -> bool:
        return not self._once or instant <= self._start

    def wait(self, until: float, stop: Event) -> None:
        if self._speed is None:
            self._at = max(self._at, until)
        elif (left := until - self.now()) > 0:
            stop.wait(left / self._speed)
