"""`tidemill run --thrift PORT --connect PORT`: one process fires schedules and serves sessions."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from tests.front.servers import Connection, Refused, free_port
from tests.scheduler.conftest import until
from tidemill import cli
from tidemill.driver.doors import CONNECT_HOST, HTTP_PORT, LOOPBACK, THRIFT_HOST, THRIFT_PORT, Doors

PROGRAM = Path(sys.executable).with_name("tidemill")
CONFS = ("--conf", "spark.ui.enabled=false", "--conf", "spark.sql.shuffle.partitions=2", "--master", "local[2]")


class Served(NamedTuple):
    """A service that serves; its working directory and its ports."""

    process: subprocess.Popen[bytes]
    folder: Path
    thrift: int
    connect: int

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()


def begun(folder: Path, *options: str) -> subprocess.Popen[bytes]:
    """`tidemill run` in a folder, whose file `log` has what it prints."""
    with (folder / "log").open("wb") as log:
        command = [str(PROGRAM), "run", *CONFS, *options]
        return subprocess.Popen(command, cwd=folder, stdout=log, stderr=subprocess.STDOUT)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder, thrift, connect = tmp_path_factory.mktemp("served"), free_port(), free_port()
    process = begun(folder, "--formats", "delta", "--thrift", str(thrift), "--connect", str(connect))
    found = Served(process, folder, thrift, connect)
    try:
        until(lambda: "firing schedules" in found.log or process.poll() is not None)
        assert process.poll() is None, found.log
        yield found
    finally:
        process.kill()
        process.wait(60)


@pytest.mark.jvm
@pytest.mark.slow
def test_statements_and_schedules(spark: SparkSession, served: Served) -> None:
    """A view that one session creates is refreshed by its schedule, and seen by the other one."""
    from pyspark.sql.connect.session import SparkSession as RemoteSession  # the public builder refuses a second session

    jdbc = Connection(spark, f"jdbc:hive2://{LOOPBACK}:{served.thrift}/default")
    remote: Any = RemoteSession.builder.remote(f"sc://{LOOPBACK}:{served.connect}").create()
    try:
        jdbc.sql("CREATE TABLE t (k INT) USING delta")
        jdbc.sql("CREATE INCREMENTAL VIEW v USING delta SCHEDULE (EVERY 1 SECONDS) AS SELECT count(*) AS n FROM t")
        remote.sql("INSERT INTO t VALUES (7)")
        until(lambda: len(jdbc.sql("SHOW REFRESHES IN v")) == 2)
        until(lambda: jdbc.sql("SELECT * FROM v") != [{"n": "0"}])  # a Delta table is published after the commit
        assert [row["trigger"] for row in jdbc.sql("SHOW REFRESHES IN v")] == ["SCHEDULE", "CREATE"]
        assert jdbc.sql("SELECT * FROM v") == [{"n": "1"}]
        assert [(row.viewName, row.lastRun) for row in remote.sql("SHOW INCREMENTAL VIEWS").collect()] == [("v", 1)]
        assert remote.sql("VERIFY INCREMENTAL VIEW v").first().matches
        jdbc.sql("SET spark.sql.session.timeZone=Asia/Tokyo")
        assert remote.conf.get("spark.sql.session.timeZone") != "Asia/Tokyo"
        with pytest.raises(Refused, match="TIDEMILL_NOT_FOUND"):
            jdbc.sql("REFRESH INCREMENTAL VIEW w")
    finally:
        remote.stop()
        jdbc.close()


@pytest.mark.jvm
@pytest.mark.slow
def test_only_this_machine_is_served(served: Served) -> None:
    for port in (served.thrift, served.connect):
        socket.create_connection((LOOPBACK, port), 10).close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", port), 10)  # as any other address of the machine
    assert f"JDBC at jdbc:hive2://127.0.0.1:{served.thrift}" in served.log
    assert f"Spark Connect at sc://127.0.0.1:{served.connect}" in served.log


@pytest.mark.jvm
@pytest.mark.slow
@pytest.mark.parametrize("taken", ["thrift", "connect"])
def test_a_port_that_is_taken(served: Served, tmp_path: Path, taken: str) -> None:
    port = {"thrift": served.thrift, "connect": served.connect}[taken]
    process = begun(tmp_path, f"--{taken}", str(port))
    assert process.wait(120) == 1
    server = {"thrift": "the Thrift server", "connect": "Spark Connect"}[taken]
    assert f"tidemill run: {server} could not be opened at 127.0.0.1:{port}: " in (tmp_path / "log").read_text()


@pytest.mark.jvm
@pytest.mark.slow
def test_it_ends_though_clients_are_there(spark: SparkSession, served: Served) -> None:
    """The last test of the file."""
    jdbc = Connection(spark, f"jdbc:hive2://{LOOPBACK}:{served.thrift}/default")
    assert jdbc.sql("SELECT 1 AS one") == [{"one": "1"}]
    served.process.send_signal(signal.SIGTERM)
    assert served.process.wait(60) == 0, served.log


def test_settings_of_the_servers() -> None:
    ports = {THRIFT_PORT: "10", HTTP_PORT: "10"}
    assert Doors(thrift=10).settings({}) == {THRIFT_HOST: "127.0.0.1", **ports}
    assert Doors(thrift=10).settings({THRIFT_HOST: "0.0.0.0", THRIFT_PORT: "9"}) == {THRIFT_HOST: "0.0.0.0", **ports}
    assert Doors(connect=9).settings({CONNECT_HOST: "::1"})[CONNECT_HOST] == "::1"


@pytest.mark.parametrize(
    ("options", "status", "said"),
    [
        (["--thrift", "0"], 2, "0 is no port"),
        (["--connect", "70000"], 2, "70000 is no port"),
        (["--connect", "x"], 2, "x is no port"),
        (["--once", "--thrift", "10000"], 2, "--thrift and --connect have no meaning"),
    ],
)
def test_options_that_are_wrong(
    options: Sequence[str], status: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        found = cli.main(["run", *options])
    except SystemExit as end:
        found = int(str(end.code))
    assert found == status
    assert said in capsys.readouterr().err
