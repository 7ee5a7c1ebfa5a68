"""The JVM as the planner sees it: methods of `org.apache.spark.sql.tidemill.bridge.Bridge`, one JSON text each way."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from py4j.clientserver import JavaClient
from py4j.java_gateway import GatewayClient, JavaClass, JavaMember, JavaObject
from py4j.protocol import STATIC_PREFIX

from tidemill.bridge.walls import Walls
from tidemill.errors import TidemillError
from tidemill.version import __version__

BRIDGE = "org.apache.spark.sql.tidemill.bridge.Bridge"
FAILURES = "org.apache.spark.sql.tidemill.bridge.Failures"


@dataclass(slots=True)
class JobCost:
    """The cost of Spark jobs: their number, executor CPU milliseconds, those of the steps of runs alone, and the rows
    that these steps read from files. `walls`: wall time by part, jobs or not; it is never taken."""

    jobs: int = 0
    cpu_ms: float = 0.0
    steps_ms: float = 0.0
    rows_read: int = 0
    walls: Walls = field(default_factory=Walls)

    def add(self, other: JobCost) -> None:
        """Adds the cost of other jobs."""
        self.jobs += other.jobs
        self.cpu_ms += other.cpu_ms
        self.steps_ms += other.steps_ms
        self.rows_read += other.rows_read

    def take(self) -> JobCost:
        """Returns the cost so far, and begins anew."""
        taken = JobCost(self.jobs, self.cpu_ms, self.steps_ms, self.rows_read)
        self.jobs, self.cpu_ms, self.steps_ms, self.rows_read = 0, 0.0, 0.0, 0
        return taken


class JvmFailure(Exception):  # noqa: N818  # a Throwable of the JVM, under its name in the contract
    """A Throwable that the JVM keeps under `number`. An answer with that number makes the JVM throw it again."""

    def __init__(
        self,
        number: int,
        class_name: str,
        condition: str | None,
        message: str,
        causes: Sequence[str] = (),
    ) -> None:
        """`causes`: the messages of its causes, outermost first."""
        super().__init__(number, class_name, condition, message)
        self.causes = tuple(causes)
        self.number = number
        self.class_name = class_name
        self.condition = condition
        self.message = message

    def __str__(self) -> str:
        return f"{self.class_name}: {self.message}"


class Jvm:
    """One session of the JVM, for one call of the planner. It is cheap to make."""

    def __init__(
        self,
        client: GatewayClient,
        session: JavaObject,
        interrupted: Callable[[], bool] = lambda: False,
        statement: str = "",
        spent: JobCost | None = None,
    ) -> None:
        """`interrupted`: returns True once the user has interrupted the call. `statement`: the text executed. `spent`:
        gets the cost of all jobs that the call causes, in clones of its session too."""
        self.spent = JobCost() if spent is None else spent
        self._client = client
        self._session = session
        self._interrupted = interrupted
        self.statement = statement

    @cached_property
    def cores(self) -> int:
        """The number of tasks that run at once."""
        return int(self._session.sparkContext().defaultParallelism())

    @property
    def walls(self) -> Walls:
        """The wall time of the call by part, that of clones of its session too."""
        return self.spent.walls

    @property
    def session(self) -> JavaObject:
        """The session: an `org.apache.spark.sql.classic.SparkSession`."""
        return self._session

    def invoke(self, method: str, request: Mapping[str, Any] | None = None) -> Any:
        """Calls a method of Bridge with this session and returns its answer. Raises JvmFailure if the method throws.

        Once the user has interrupted the call, a job or a commit raises OPERATION_CANCELED instead of beginning. The
        work after a commit goes on, and so does cleaning up.
        """
        begins = method in {"run", "cut", "judge"} or (method == "files" and (request or {}).get("do") == "write_new")
        if begins and self._interrupted():
            raise TidemillError("OPERATION_CANCELED")
        answer = json.loads(self._call(method, json.dumps(request or {})))
        self.spent.jobs += answer.get("jobs", 0)
        self.spent.cpu_ms += answer.get("cpu_ms", 0.0)
        self.spent.rows_read += answer.get("rows_read", 0)
        if method in {"run", "cut"}:
            self.spent.steps_ms += answer.get("cpu_ms", 0.0)
        if "failure" in answer:
            raise JvmFailure(
                answer["failure"],
                answer["class"],
                answer.get("condition"),
                answer["message"],
                answer.get("causes", ()),
            )
        return answer["ok"]

    def _call(self, method: str, request: str) -> Any:
        """Calls a method of Bridge. A `JavaClass` would make two calls of each: it asks what the name is."""
        member = JavaMember(method, None, f"{STATIC_PREFIX}{BRIDGE}", self._client)
        return member(self._session, request)

    def clone(self, confs: Mapping[str, str | None]) -> Jvm:
        """Returns a clone of the session with these settings (None: unset). This session stays as it is."""
        session = self._call("cloneSession", json.dumps(dict(confs)))
        return Jvm(self._client, session, self._interrupted, self.statement, self.spent)

    def apart(self, interrupted: Callable[[], bool]) -> Jvm:
        """Returns the same session for a part of the call, whose jobs are counted apart.

        `interrupted`: returns True once this part must begin nothing more, though the user did not interrupt the call.
        """
        return Jvm(self._client, self._session, lambda: self._interrupted() or interrupted(), self.statement)

    @property
    def cancelled(self) -> bool:
        """True if the call must begin nothing more: the user interrupted it, or Spark the thread that executes it."""
        if self._interrupted():
            return True
        return bool(JavaClass("java.lang.Thread", self._client).currentThread().isInterrupted())

    @contextmanager
    def uninterrupted(self) -> Iterator[None]:
        """Lets the block do its work though Spark has interrupted the thread that executes the call.

        Files could not be written otherwise. Afterwards the thread is interrupted as before.
        """
        thread = JavaClass("java.lang.Thread", self._client)
        was = bool(thread.interrupted())
        try:
            yield
        finally:
            if was:
                thread.currentThread().interrupt()

    @property
    def has_threads(self) -> bool:
        """True if each thread of this process has a thread of its own in the JVM (not with PYSPARK_PIN_THREAD=false).

        Only then may several threads use the session at once: job groups and tags belong to a thread of the JVM.
        """
        return isinstance(self._client, JavaClient)

    def thread_properties(self) -> JavaObject:
        """Returns a copy of the local properties of this thread in the JVM: job group, tags, pool, description."""
        return self._session.sparkContext().getLocalProperties().clone()

    @contextmanager
    def in_thread(self, properties: JavaObject, tag: str | None = None) -> Iterator[None]:
        """Lets a new thread work for the thread that `properties` are of, so that whoever cancels that one's jobs
        cancels this one's too. Its jobs carry `tag` as well. At the end of the block the thread's connection to the JVM
        is closed."""
        context = self._session.sparkContext()
        context.setLocalProperties(properties.clone())
        if tag is not None:
            context.addJobTag(tag)
        try:
            yield
        finally:
            connection = self._client.get_thread_connection()
            if connection is not None:
                with suppress(ValueError):  # py4j closes those that it still has in its list
                    self._client.deque.remove(connection)
                connection.close()

    @property
    def gone(self) -> bool:
        """True if the session's Spark has been stopped, or the JVM does not answer any more."""
        try:
            return bool(self._session.sparkContext().isStopped())
        except Exception:
            return True

    def cancel(self, tag: str) -> None:
        """Cancels the jobs that carry a tag."""
        self._session.sparkContext().cancelJobsWithTag(tag)


def keep(client: GatewayClient, throwable: JavaObject) -> int:
    """Has the JVM keep a Throwable that came to Python as a py4j error; returns its number."""
    return int(JavaClass(FAILURES, client).keep(throwable))


def check_version(client: GatewayClient) -> None:
    """Raises RuntimeError unless the jar in the JVM and this package are of one version."""
    jar = JavaClass(BRIDGE, client).version()
    if jar != __version__:
        raise RuntimeError(
            f"the jar in Spark is Tidemill {jar}, but the Python package is Tidemill {__version__}:"
            " install one version of both"
        )
