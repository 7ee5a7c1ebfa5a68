"""Does the tasks of a run, of which some wait for others. Those that do not wait work side by side.

While the job of one task is planned, scheduled or listed, the cores would idle; the jobs of others fill these gaps.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf
from typing import Generic, TypeVar

from tidemill.bridge.jvm import Jvm
from tidemill.bridge.walls import NANOSECONDS, Part
from tidemill.errors import TidemillError

T = TypeVar("T")
PATIENCE = 0.2
"""Seconds after which a run looks if it was cancelled, while its tasks work in other threads."""


@dataclass(frozen=True, slots=True)
class Task(Generic[T]):
    """A part of a run.

    `waits_for`: the numbers of earlier tasks, which end before it begins. `begin` returns its work, `end` gets what the
    work returned; both are called in the thread of the run. The work gets a session that no other task has meanwhile.
    """

    waits_for: frozenset[int]
    begin: Callable[[], Callable[[Jvm], T]]
    end: Callable[[T], None]


def carry_out(jvm: Jvm, tasks: Sequence[Task[T]], most: int) -> None:
    """Does all tasks. At most `most` work at a time, counting those of all runs of this process; one of each run may.

    `jvm`: the working session of the run. Its counts get what the tasks cost. The wall time of tasks side by side is
    shared out among their parts, so that these add up to the time that went by.

    If a task fails, the jobs of the others are cancelled, and its error is raised. If the statement is cancelled, the
    error of a cancelled job is raised, or OPERATION_CANCELED if there was none.
    """
    waiting, done = dict(enumerate(tasks)), set[int]()
    with ThreadPoolExecutor(max(1, most)) as pool:
        beside = _Beside[T](jvm, pool)
        with beside.ended():
            while waiting or beside.running:
                ready = [number for number, task in waiting.items() if task.waits_for <= done]
                if most > 1 and jvm.has_threads and (beside.running or len(ready) > 1):
                    for number in ready:
                        if _SLOTS.take(most):
                            beside.begin(number, waiting.pop(number))
                if beside.running:
                    done |= beside.some_ended()
                else:
                    task = waiting.pop(ready[0])
                    work = task.begin()
                    with _SLOTS.taken():
                        found = work(jvm)
                    task.end(found)
                    done.add(ready[0])


class _Slots:
    """Counts the tasks that work in this process, whichever run they are of."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken = 0

    def take(self, most: float) -> bool:
        """Takes a slot, unless `most` are taken."""
        with self._lock:
            free = self._taken < most
            self._taken += free
        return free

    def give(self) -> None:
        """Gives a slot back."""
        with self._lock:
            self._taken -= 1

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Takes a slot for the length of the block, whatever is taken."""
        self.take(inf)
        try:
            yield
        finally:
            self.give()


_SLOTS = _Slots()


@dataclass(frozen=True, slots=True)
class _Working(Generic[T]):
    """A task that works in a thread of its own. `counted`: its `session` with the counts of this task."""

    number: int
    task: Task[T]
    session: Jvm
    counted: Jvm


@dataclass
class _Beside(Generic[T]):
    """The tasks of a run that work in threads of their own."""

    jvm: Jvm
    pool: ThreadPoolExecutor
    running: dict[Future[T], _Working[T]] = field(default_factory=dict)
    _free: list[Jvm] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _tag: str = field(default_factory=lambda: f"tidemill-beside-{uuid.uuid4()}")
    _parts: Counter[Part] = field(default_factory=Counter)
    _since: int = 0

    def __post_init__(self) -> None:
        self._free.append(self.jvm)

    def begin(self, number: int, task: Task[T]) -> None:
        """Begins a task, which has a slot and gives it back."""
        try:
            work, properties = task.begin(), self.jvm.thread_properties()
            session = self._free.pop() if self._free else self.jvm.clone({})
            counted = session.apart(self._stop.is_set)

            def working() -> T:
                try:
                    with counted.in_thread(properties, self._tag):
                        return work(counted)
                finally:
                    _SLOTS.give()

            if not self.running:
                self._since = time.perf_counter_ns()
            future = self.pool.submit(working)
        except BaseException:
            _SLOTS.give()
            raise
        self.running[future] = _Working(number, task, session, counted)

    def some_ended(self) -> set[int]:
        """Waits until a task ends. Returns the numbers of those that did."""
        while not (ended := wait(self.running, PATIENCE, FIRST_COMPLETED).done):
            if self.jvm.cancelled:
                raise TidemillError("OPERATION_CANCELED")
        return {self._end(future) for future in ended}

    def _end(self, future: Future[T]) -> int:
        one = self._taken_down(future)
        one.task.end(future.result())
        return one.number

    def _taken_down(self, future: Future[T]) -> _Working[T]:
        """Takes down what a task has cost that has ended, with or without an error."""
        one = self.running.pop(future)
        self._free.append(one.session)
        self._parts.update(one.counted.walls.totals())
        self.jvm.spent.add(one.counted.spent.take())
        if not self.running:
            told = self._parts.total()
            share = min(1.0, (time.perf_counter_ns() - self._since) / told) if told else 1.0
            self.jvm.walls.told({part: ns * share / NANOSECONDS for part, ns in self._parts.items()})
            self._parts.clear()
        return one

    @contextmanager
    def ended(self) -> Iterator[None]:
        """After an error in the block no task works any more, and no job of one runs."""
        try:
            yield
        except BaseException as error:
            self._stop.set()
            others = [future for future in self._all_ended() if future.exception() is not None]
            if others and isinstance(error, TidemillError) and error.condition == "OPERATION_CANCELED":
                others[0].result()
            raise

    def _all_ended(self) -> list[Future[T]]:
        """Ends the tasks that still work. A job that begins while others are cancelled is met by the next attempt."""
        left = [*self.running]
        while pending := wait(left, 0).not_done:
            self.jvm.cancel(self._tag)
            wait(pending, PATIENCE)
        for future in left:
            self._taken_down(future)
        return left
