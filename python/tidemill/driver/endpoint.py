"""The planner's end of the bridge, which the JVM calls for each of Tidemill's statements."""

from __future__ import annotations

import json
import logging
from typing import Any

from py4j.java_gateway import GatewayClient, JavaObject
from py4j.protocol import Py4JJavaError

from tidemill.bridge.jvm import Jvm, JvmFailure, keep
from tidemill.driver.interrupts import Interrupts
from tidemill.errors import TidemillError

_LOG = logging.getLogger("tidemill")


class Endpoint:
    """Implements the Scala trait `tidemill.spark.PlannerEndpoint`. py4j calls it from several threads at once.

    `log` tells readers of an error where tracebacks go.
    """

    def __init__(self, client: GatewayClient, log: str) -> None:
        self._client = client
        self._log = log
        self.interrupts = Interrupts()

    def call(self, session: JavaObject, method: str, request: str) -> str:
        """Answers one call of the JVM. An exception becomes an answer, since py4j would carry only its text."""
        with self.interrupts.during(lambda: session.sparkContext().cancelAllJobs()) as interrupted:
            jvm = Jvm(self._client, session, interrupted)
            return json.dumps(self._answer(jvm, method, json.loads(request)))

    def _answer(self, jvm: Jvm, method: str, request: dict[str, Any]) -> dict[str, Any]:
        sql = request["sql"]
        try:
            return {"ok": self._parse(sql) if method == "parse" else self._execute(jvm, request["statement"], sql)}
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

        return execute(jvm, statement, sql)

    class Java:
        """Tells py4j the interface that this class implements."""

        implements = ("tidemill.spark.PlannerEndpoint",)
