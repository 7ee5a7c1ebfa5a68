"""The planner's end of the bridge, which the JVM calls for each of Tidemill's statements."""

from __future__ import annotations

import json
import logging
import threading
import time
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import GatewayClient, JavaObject
from py4j.protocol import Py4JJavaError

from tidemill.bridge.jvm import Jvm, JvmFailure, keep
from tidemill.driver.interrupts import Interrupts
from tidemill.errors import TidemillError
from tidemill.monitor.observer import OBSERVERS
from tidemill.monitor.run_log import asked_for
from tidemill.settings import MONITOR_PORT, PREFIX, monitor_port
from tidemill.sql import readable

if TYPE_CHECKING:
    from tidemill.monitor.server import Monitor
    from tidemill.runtime.scheduler.service import Service

ANSWERS = f"{PREFIX}answers"
READABLE = "readable"
"""Key of a statement whose answer is text; the statement itself stands under it."""
_LOG = logging.getLogger("tidemill")


class Endpoint:
    """Implements the Scala trait `tidemill.spark.PlannerEndpoint`. py4j calls it from several threads at once.

    `log` tells readers of an error where tracebacks go.
    """

    def __init__(self, client: GatewayClient, log: str) -> None:
        self._client = client
        self._log = log
        self.interrupts = Interrupts()
        self._watched = False
        self.monitor: Monitor | None = None
        OBSERVERS.attach(asked_for())
        self._service: Service | None = None
        self._guard = threading.RLock()

    def schedule(self, session: JavaObject) -> bool:
        """Fires the schedules of the session's application from now on, if it is to; returns whether it does.

        They are fired until the application ends. Further calls change nothing, unless the service has ended, or its
        Spark has: another application of the same process has a service of its own. Serves health and metrics, too.
        """
        from tidemill.runtime.before.sessions import planner_settings
        from tidemill.runtime.scheduler.clock import RealClock
        from tidemill.runtime.scheduler.service import Service, Span

        jvm = Jvm(self._client, session)
        with self._guard:
            if not planner_settings(jvm).scheduler_enabled:
                return False
            self.watch(jvm)
            if self._service is None or self._service.ended.is_set() or self._service.gone:
                self._service = Service(jvm, Span(RealClock()))
                self._service.start()
            return True

    def call(self, session: JavaObject, method: str, request: str) -> str:
        """Answers one call of the JVM. An exception becomes an answer, since py4j would carry only its text."""
        with self.interrupts.during(lambda: session.sparkContext().cancelAllJobs()) as interrupted:
            arguments = json.loads(request)
            jvm = Jvm(self._client, session, interrupted, arguments["sql"])
            return json.dumps(self._answer(jvm, method, arguments))

    def _answer(self, jvm: Jvm, method: str, request: dict[str, Any]) -> dict[str, Any]:
        sql = request["sql"]
        try:
            if method == "schedule":
                return {"ok": self.schedule(jvm.session)}
            if method == "parse":
                return {"ok": _as_text(jvm, self._parse(sql))}
            if READABLE in (statement := request["statement"]):
                return {"ok": self._execute_readable(jvm, statement[READABLE], sql)}
            return {"ok": self._execute(jvm, statement, sql)}
        except TidemillError as error:
            return error.envelope(sql)
        except JvmFailure as failure:
            return {"failure": failure.number}
        except Py4JJavaError as error:
            return {"failure": keep(self._client, error.java_exception)}
        except Exception as error:
            throwable = getattr(error, "_origin", None)  # PySpark turns the JVM's exceptions into its own
            if isinstance(throwable, JavaObject):
                return {"failure": keep(self._client, throwable)}
            _LOG.exception("Tidemill: %s failed: %s", method, sql)
            reason = f"{type(error).__name__}: {error}".rstrip(": ")
            return TidemillError("TIDEMILL_PLANNER_FAILED", {"reason": reason, "log": self._log}).envelope(sql)

    def _parse(self, sql: str) -> dict[str, Any]:
        from tidemill.sql.parse import parse

        return parse(sql).to_json(sql)

    def _execute(self, jvm: Jvm, statement: dict[str, Any], sql: str) -> dict[str, Any]:
        # Imported at the first statement, not with the session: planner and rules take a while to load.
        from tidemill.runtime.statements.dispatch import execute

        if not self._watched:
            self.watch(jvm)
        return execute(jvm, statement, sql)

    def watch(self, jvm: Jvm) -> None:
        """Serves health and metrics from now on if the settings ask for that. Further calls change nothing.

        Raises TIDEMILL_INVALID_SETTING.
        """
        with self._guard:
            if self._watched:
                return
            port = monitor_port(str(jvm.session.conf().get(MONITOR_PORT, "")))
            self._watched = True
            if port is None or self.monitor is not None:
                return
            from tidemill.monitor.server import Monitor  # with the library of metrics, which others need not load

            try:
                self.monitor = Monitor(port)
                _LOG.info("Tidemill: health and metrics are at %s", self.monitor.address)
            except OSError as error:
                _LOG.warning("Tidemill: health and metrics are not served at port %d: %s", port, error)

    def _execute_readable(self, jvm: Jvm, statement: dict[str, Any], sql: str) -> dict[str, Any]:
        """As `_execute`, with the rows as lines for people."""
        began = time.time_ns() // 1000
        answer = self._execute(jvm, statement, sql)
        zone = str(jvm.session.conf().get("spark.sql.session.timeZone"))
        match statement["kind"]:
            case "create":
                history = {"kind": "show_refreshes", "name": statement["name"], "limit": None}
                newest = readable.newest_run(self._execute(jvm, history, sql)["rows"])
                lines = [readable.of_create(".".join(statement["name"]), newest, began)]
            case "refresh":
                lines = [line for row in answer["rows"] for line in readable.of_run(row, zone)]
            case "refresh_views":
                lines = readable.of_views(answer["rows"], zone)
            case _:
                lines = readable.of_history(answer["rows"], zone, of_all=statement["name"] is None)
        return {**answer, "rows": [[line] for line in lines]}

    class Java:
        """Tells py4j the interface that this class implements."""

        implements = ("tidemill.spark.PlannerEndpoint",)


def _as_text(jvm: Jvm, parsed: dict[str, Any]) -> dict[str, Any]:
    """Returns the answer to `parse`, for an answer as text where the session wants it and the statement has one."""
    kind = parsed["statement"]["kind"]
    if kind not in readable.KINDS or jvm.session.conf().get(ANSWERS, "columns") != "text":
        return parsed
    return {**parsed, "statement": {READABLE: parsed["statement"]}, "columns": readable.columns(kind)}
