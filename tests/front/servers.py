"""A server process with both of Spark's remote front doors, Thrift and Connect, and clients for them."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyspark
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from tests.conftest import files_under
from tidemill.cli import PYTHON
from tidemill.driver.attach import DELTA_CATALOG, DELTA_EXTENSION, EXTENSION
from tidemill.driver.jar import jar_path

THRIFT = "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2"
CONNECT = "org.apache.spark.sql.connect.SparkConnectPlugin"
UMASK = 0o077
LONG = (
    "SELECT b.id % 7 AS x, count(*) AS n FROM t, range(10000) b, range(20000) c"
    " WHERE hash(b.id, c.id) % 3 <> t.a GROUP BY 1"
)
"""A query of some seconds in one stage, unless its table `t`, of a number `a`, is empty."""


class Refused(Exception):  # noqa: N818  # what the server answered, not a failure of the client
    """An error that came through JDBC."""

    def __init__(self, state: str | None, message: str) -> None:
        super().__init__(state, message)
        self.state = state
        self.message = message


class Connection:
    """A JDBC connection, by Hive's driver, which PySpark ships; it works in the JVM of the tests' own session."""

    def __init__(self, spark: SparkSession, url: str) -> None:
        jvm: Any = spark._jvm
        jvm.java.lang.Class.forName("org.apache.hive.jdbc.HiveDriver")
        self._connection = jvm.java.sql.DriverManager.getConnection(url, "tests", "")
        self._running: Any = None

    def sql(self, text: str) -> list[dict[str, str | None]]:
        """The rows that a statement answers, values as text.  Raises Refused."""
        statement = self._running = self._connection.createStatement()
        try:
            if not statement.execute(text):
                return []
            result = statement.getResultSet()
            meta = result.getMetaData()
            names = [meta.getColumnName(i + 1) for i in range(meta.getColumnCount())]
            rows = []
            while result.next():
                rows.append({name: result.getString(i + 1) for i, name in enumerate(names)})
            return rows
        except Py4JJavaError as error:
            thrown = error.java_exception
            raise Refused(thrown.getSQLState(), thrown.getMessage()) from None
        finally:
            statement.close()

    def cancel(self) -> None:
        """Ends the statement that runs in another thread."""
        self._running.cancel()

    def close(self) -> None:
        self._connection.close()


class Server(NamedTuple):
    """A running server; its log and its event log lie in `folder`."""

    process: subprocess.Popen[bytes]
    folder: Path
    thrift_port: int
    connect_port: int

    def connection(self, spark: SparkSession, tail: str = "default") -> Connection:
        """`tail`: of the JDBC URL, a database and settings."""
        return Connection(spark, f"jdbc:hive2://127.0.0.1:{self.thrift_port}/{tail}")

    @property
    def remote(self) -> str:
        """The URL of Spark Connect."""
        return f"sc://127.0.0.1:{self.connect_port}"

    def location(self, database: str, view: str) -> Path:
        """Where a view lies that says nothing of it."""
        return self.folder / "warehouse" / f"{database}.db" / view

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(encoding="utf-8", errors="replace")

    def planners(self) -> list[int]:
        """Numbers of the planner's processes that live."""
        return [pid for pid in children(self.process.pid) if b"tidemill.driver.process" in command_line(pid)]


def children(pid: int) -> list[int]:
    """Numbers of the processes that a process has started."""
    files = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for file in files for child in file.read_text().split()]


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def await_writer(location: Path, running: Future[Any]) -> None:
    """Waits until the statement has left its mark at a view's location, and its job has begun."""
    marks = location / "_tidemill" / "writers"
    while not (marks.is_dir() and any(marks.glob("*.json"))):
        assert not running.done(), running.result()
        time.sleep(0.02)
    time.sleep(0.3)


def about_to_work_long(sql: Callable[[str], Any], location: Path) -> list[str]:
    """A view `v` of LONG, at that location, whose next refresh takes seconds; the files that lie there."""
    sql("TRUNCATE TABLE t")
    sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS {LONG}")
    kept = files_under(location)
    sql("INSERT INTO t (a) VALUES (1)")
    return kept


@contextmanager
def started(folder: Path, python: str, jars: list[Path]) -> Iterator[Server]:
    """A Thrift server: Connect as its plugin, a Hive metastore, Tidemill's extension before Delta's, `UMASK`."""
    thrift, connect = free_port(), free_port()
    settings = {
        "spark.master": "local[2]",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": f'"-Dderby.system.home={folder}"',
        # Threads of the Thrift server find catalogs on the class path only, not in jars added later.
        "spark.driver.extraClassPath": os.pathsep.join(map(str, [jar_path(), *jars])),
        "spark.sql.extensions": f"{EXTENSION},{DELTA_EXTENSION}",
        "spark.sql.catalog.spark_catalog": DELTA_CATALOG,
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",  # VACUUM of Delta lists in so many tasks
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": str(folder),
        "spark.eventLog.compress": "false",
        "spark.ui.enabled": "false",
        "spark.hadoop.fs.permissions.umask-mode": f"{UMASK:03o}",
        "spark.plugins": CONNECT,
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(connect),
        "spark.hadoop.hive.server2.thrift.bind.host": "127.0.0.1",
        "spark.hadoop.hive.server2.thrift.port": str(thrift),
        PYTHON: python,
    }
    home = Path(pyspark.__file__).parent
    command = [str(home / "bin" / "spark-submit"), "--class", THRIFT]
    command += [word for pair in settings.items() for word in ("--conf", "=".join(pair))]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "spark-internal"],
            cwd=folder,
            env={**environment, "SPARK_HOME": str(home)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            umask=UMASK,
        )
    server = Server(process, folder, thrift, connect)
    try:
        for port in (connect, thrift):
            _await(server, port)
        yield server
    finally:
        process.terminate()
        process.wait(60)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _await(server: Server, port: int) -> None:
    deadline = time.monotonic() + 240
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            assert server.process.poll() is None, server.log[-4000:]
            assert time.monotonic() < deadline, server.log[-4000:]
            time.sleep(0.2)
