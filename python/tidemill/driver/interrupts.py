"""Ctrl-C while one of Tidemill's statements runs, in a PySpark driver or in a shell whose planner is another process.

Such a shell cancels its jobs itself, and the planner only has to begin no other one. In a driver, PySpark's own handler
cancels all jobs over the main thread's connection to the JVM, and raises KeyboardInterrupt there. While that connection
waits for a statement, the handler's call would wait too, and read the statement's answer as its own; the exception
would leave answers that nobody reads. So the jobs are cancelled from another thread, and the cancelled job, or the
refusal to begin another, ends the statement in good order with Spark's error.
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
    """The calls under way, each with what ends its jobs; hears Ctrl-C once it is installed.

    `grace`: seconds by which the end of a call is put off in which Ctrl-C was pressed. A shell hears it by itself, and
    ends if its statement has ended by then.
    """

    def __init__(self) -> None:
        self.grace = 0.0
        self._calls: dict[threading.Event, Callable[[], object]] = {}
        self._before: Callable[[int, FrameType | None], object] | None = None

    @contextmanager
    def during(self, cancel: Callable[[], object]) -> Iterator[Callable[[], bool]]:
        """For the length of a call: gives whether Ctrl-C was pressed since it began."""
        pressed = threading.Event()
        self._calls[pressed] = cancel
        try:
            yield pressed.is_set
        finally:
            del self._calls[pressed]
            if pressed.is_set():
                time.sleep(self.grace)

    def press(self) -> None:
        """Tells the calls under way."""
        for pressed in dict(self._calls):
            pressed.set()

    def install(self) -> None:
        """Hears Ctrl-C before whoever hears it now; only in the main thread, and only where it is not ignored."""
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
