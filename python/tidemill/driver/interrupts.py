"""Handles Ctrl-C during one of Tidemill's statements: in a PySpark driver, or in a shell with a planner process.

Such a shell cancels its jobs itself, and the planner only has to begin no other job. In a driver, PySpark's own handler
cancels all jobs over the main thread's connection to the JVM, and raises KeyboardInterrupt in that thread. While that
connection waits for a statement, the handler's call would wait too, and read the statement's answer as its own. The
exception would leave answers that nobody reads. So another thread cancels the jobs. The cancelled job, or the refusal
to begin another, then ends the statement with Spark's error.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from py4j.clientserver import ClientServerConnection


class Interrupts:
    """The calls under way, each with a function that cancels its jobs. Handles Ctrl-C once it is installed.

    `grace`: seconds by which the end of an interrupted call is delayed. A shell handles the same Ctrl-C by itself, and
    would exit if its statement had ended by then.
    """

    def __init__(self) -> None:
        self.grace = 0.0
        self._calls: dict[threading.Event, Callable[[], object]] = {}
        self._before: Callable[[int, FrameType | None], object] | None = None

    @contextmanager
    def during(self, cancel: Callable[[], object]) -> Iterator[Callable[[], bool]]:
        """Registers a call for the length of the block; yields a function that is True once Ctrl-C was pressed."""
        pressed = threading.Event()
        self._calls[pressed] = cancel
        try:
            yield pressed.is_set
        finally:
            del self._calls[pressed]
            if pressed.is_set():
                time.sleep(self.grace)

    def press(self) -> None:
        """Interrupts the calls under way."""
        for pressed in dict(self._calls):
            pressed.set()

    def install(self) -> None:
        """Handles Ctrl-C before the present handler does; only in the main thread, and only if it is not ignored."""
        before = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is threading.main_thread() and callable(before) and before != self._pressed:
            self._before = before
            signal.signal(signal.SIGINT, self._pressed)

    def _pressed(self, number: int, frame: FrameType | None) -> None:
        calls = dict(self._calls)
        self.press()
        if calls and _waits_for_the_jvm(frame):
            for cancel in calls.values():
                threading.Thread(target=cancel, daemon=True).start()
        elif self._before is not None:
            self._before(number, frame)


def _waits_for_the_jvm(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code is ClientServerConnection.send_command.__code__:
            return True
        frame = frame.f_back
    return False
