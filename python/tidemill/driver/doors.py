"""Spark's own servers in the JVM of `tidemill run`: the Thrift server, for JDBC and ODBC, and Spark Connect.

Their sessions are new ones of the same application, so they have its catalog, its settings and Tidemill's statements.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOPBACK = "127.0.0.1"
THRIFT_HOST = "spark.hadoop.hive.server2.thrift.bind.host"
THRIFT_PORT = "spark.hadoop.hive.server2.thrift.port"
HTTP_PORT = "spark.hadoop.hive.server2.thrift.http.port"
"""The port where `hive.server2.transport.mode` is `http`."""
VARIABLES = ("HIVE_SERVER2_THRIFT_BIND_HOST", "HIVE_SERVER2_THRIFT_PORT", "HIVE_SERVER2_THRIFT_HTTP_PORT")
"""Variables of the environment that the Thrift server would obey instead of these settings."""
CONNECT_HOST = "spark.connect.grpc.binding.address"
CONNECT_PORT = "spark.connect.grpc.binding.port"


@dataclass(frozen=True, slots=True)
class Doors:
    """The servers to open, by their ports; None: not this one."""

    thrift: int | None = None
    connect: int | None = None

    def settings(self, given: Mapping[str, str]) -> dict[str, str]:
        """Returns the settings that the application needs for them. They listen at the loopback interface, unless
        `given` names another address."""
        found: dict[str, str] = {}
        if self.thrift is not None:
            found |= {THRIFT_HOST: given.get(THRIFT_HOST, LOOPBACK)}
            found |= dict.fromkeys((THRIFT_PORT, HTTP_PORT), str(self.thrift))
        if self.connect is not None:
            found |= {CONNECT_HOST: given.get(CONNECT_HOST, LOOPBACK), CONNECT_PORT: str(self.connect)}
        return found

    @contextmanager
    def opened(self, spark: SparkSession) -> Iterator[list[str]]:
        """Keeps the servers open for the length of the block; yields a line about each.

        `spark`: a session of an application that was started with `settings`. Raises RuntimeError if one does not
        start.
        """
        conf, jvm = spark.sparkContext.getConf(), _jvm(spark)
        told = []
        with ExitStack() as closing:
            if self.thrift is not None:
                where = f"{conf.get(THRIFT_HOST)}:{self.thrift}"
                server = _started("the Thrift server", where, lambda: _thrift(jvm, spark))
                closing.callback(_closed, server.stop)
                told.append(f"JDBC at jdbc:hive2://{where}")
            if self.connect is not None:
                where = f"{conf.get(CONNECT_HOST)}:{self.connect}"
                service = jvm.org.apache.spark.sql.connect.service.SparkConnectService
                _started("Spark Connect", where, lambda: service.start(spark._jsc.sc()))
                closing.callback(_closed, lambda: service.stop(jvm.scala.Option.empty(), jvm.scala.Option.empty()))
                told.append(f"Spark Connect at sc://{where}")
            yield told


def without_variables() -> None:
    """Removes what this process would tell the Thrift server besides its settings."""
    for name in VARIABLES:
        os.environ.pop(name, None)


def _jvm(spark: SparkSession) -> Any:
    return spark._jvm


def _thrift(jvm: Any, spark: SparkSession) -> Any:
    servers = jvm.org.apache.spark.sql.hive.thriftserver.HiveThriftServer2
    return servers.startWithSparkSession(spark._jsparkSession, False)  # it shall not end the JVM if it cannot start


def _started(server: str, where: str, start: Callable[[], Any]) -> Any:
    try:
        return start()
    except Exception as error:
        reason: Any = getattr(error, "java_exception", None) or error
        while not isinstance(reason, BaseException) and reason.getCause() is not None:
            reason = reason.getCause()
        text = str(reason if isinstance(reason, BaseException) else reason.getMessage() or reason)
        raise RuntimeError(f"{server} could not be opened at {where}: {text.strip().partition(chr(10))[0]}") from error


def _closed(close: Callable[[], Any]) -> None:
    with suppress(Exception):  # the JVM may be gone
        close()
