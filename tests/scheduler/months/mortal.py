"""A service of the simulated month: a forked process over the test's JVM, so that it can be killed at any call.

The test sets its clock: whenever the service would wait, it says until when, and goes on once it is told what the clock
shows now, which may be later or earlier.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, TypeAlias
from unittest import mock

from py4j.clientserver import ClientServer, JavaParameters, PythonParameters
from py4j.java_gateway import JavaClass

from tidemill.bridge.jvm import Jvm
from tidemill.runtime.scheduler import ticks
from tidemill.runtime.scheduler.clock import SimulatedClock
from tidemill.runtime.scheduler.service import Service, Span

SESSION = "org.apache.spark.sql.classic.SparkSession"
Message: TypeAlias = tuple[str, Any]
"""`waits` until a time; `dies` at a call; `ended` with an error, or None."""


@dataclass(frozen=True)
class Life:
    """The JVM's `port` and `token`, the qualified names of the views, the `start` of the month and its end."""

    port: int
    token: str
    views: Sequence[tuple[str, ...]]
    start: float
    until: float


class Fate:
    """Kills this process at one of its next calls of the JVM: before an odd one, and after an even one, whose answer is
    lost."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._invoke = Jvm.invoke
        self._guard = threading.Lock()
        self.left = 0
        """Calls until it dies; 0: it does not."""
        self._odd = False

    def invoke(self, jvm: Jvm, method: str, request: Mapping[str, Any] | None = None) -> Any:
        with self._guard:
            self.left -= 1
            dies = self.left == 0
            before = dies and self._odd
        if not before:
            answer = self._invoke(jvm, method, request)
        if dies:
            what = (request or {}).get("do", "")
            self._pipe.send(("dies", f"{'before' if before else 'after'} {method} {what}".strip()))
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    def after(self, calls: int) -> None:
        with self._guard:
            self.left, self._odd = calls, bool(calls % 2)


class Lockstep(SimulatedClock):
    """A clock that stands still until the test sets it, forwards or back."""

    def __init__(self, start: float, pipe: Connection, fate: Fate) -> None:
        super().__init__(start)
        self._pipe, self._fate = pipe, fate

    def wait(self, until: float, stop: threading.Event) -> None:
        self._pipe.send(("waits", until))
        told: tuple[float, int] | None = self._pipe.recv()
        if told is None:
            stop.set()
        else:
            self._at, calls = told
            self._fate.after(calls)


def serve(life: Life, pipe: Connection) -> None:
    """Fires the schedules of the month until it is told to stop, or killed."""
    gateway = ClientServer(
        java_parameters=JavaParameters(port=life.port, auth_token=life.token, auto_convert=True),
        python_parameters=PythonParameters(port=0, auth_token=life.token, eager_load=False),
    )
    client = gateway._gateway_client
    jvm = Jvm(client, JavaClass(SESSION, client).getDefaultSession().get())
    fate = Fate(pipe)
    clock = Lockstep(life.start, pipe, fate)
    # Seconds of the machine, while days of the month go by; and what is noted is noted at once.
    with (
        mock.patch.object(ticks, "WAIT_SECONDS", 0.0),
        mock.patch.object(ticks, "WRITE_SECONDS", 0.0),
        mock.patch.object(Jvm, "invoke", lambda jvm, method, request=None: fate.invoke(jvm, method, request)),
    ):
        service = Service(jvm, Span(clock, life.views, life.until))
        clock.wait(life.start, threading.Event())
        service.start()
        service.ended.wait()
    pipe.send(("ended", None if service.failure is None else repr(service.failure)))
    os._exit(0)  # py4j's connections need no farewell
