"""Two services and another application over one catalog: a Hive metastore in PostgreSQL.

PostgreSQL is the machine's, or Debian's package, which root gets installed. Its JDBC driver comes from Maven.
"""

from __future__ import annotations

import json
import os
import pwd
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.front.servers import free_port

pytestmark = [pytest.mark.jvm, pytest.mark.slow]
DRIVER = ("org.postgresql", "postgresql", "42.7.7")
PROGRAM = Path(sys.executable).with_name("tidemill")
ROUNDS = 3
INSTALL_SECONDS = 120

WRITER = """
import json, sys, time
import tidemill
from pyspark.sql import SparkSession

builder = SparkSession.Builder().master("local[2]").enableHiveSupport().config(map=json.loads(sys.argv[1]))
spark = tidemill.configure(builder).getOrCreate()
spark.sql("CREATE TABLE t (k INT, x BIGINT) USING parquet")
spark.sql("CREATE INCREMENTAL VIEW v SCHEDULE (EVERY 1 SECONDS) AS SELECT k, sum(x) AS s FROM t GROUP BY k")
spark.sql("CREATE INCREMENTAL VIEW above SCHEDULE (ON CHANGE) AS SELECT sum(s) AS s FROM v")
print("ready", flush=True)
sys.stdin.readline()
runs = lambda view: [row.run for row in spark.sql(f"SHOW REFRESHES IN {view}").collect()][::-1]
for k in range(int(sys.argv[2])):
    known, limit = runs("above"), time.monotonic() + 60
    spark.sql(f"INSERT INTO t VALUES ({k % 2}, {k + 1})")
    while runs("above") == known and time.monotonic() < limit:
        time.sleep(0.1)
for view in ("v", "above"):
    verified = spark.sql(f"VERIFY INCREMENTAL VIEW {view}").first()
    print(json.dumps({"view": view, "runs": runs(view), "matches": verified.matches}))
spark.stop()
"""


def binaries() -> Path:
    """The folder of PostgreSQL's programs. Skips the test if there are none, and none can be had."""
    if (found := _binaries()) is not None:
        return found
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        pytest.skip("PostgreSQL is not installed, and only root on a Debian can install it")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    said = ""
    for command in ("update", "install --yes --no-install-recommends postgresql"):
        try:
            done = subprocess.run(
                ["apt-get", *command.split()],
                env=environment,
                capture_output=True,
                text=True,
                check=False,
                timeout=INSTALL_SECONDS,
            )
            said = done.stderr.strip()[-200:]
        except subprocess.TimeoutExpired:
            said = f"{command.split()[0]} took more than {INSTALL_SECONDS} s"
            break
    if (found := _binaries()) is None:
        pytest.skip(f"PostgreSQL is not installed, and its package could not be: {said}")
    return found


def _binaries() -> Path | None:
    on_path = shutil.which("initdb")
    folders = [Path(on_path).resolve().parent] if on_path else sorted(Path("/usr/lib/postgresql").glob("*/bin"))[::-1]
    return next((folder for folder in folders if (folder / "initdb").exists()), None)


def _other_user() -> str | None:
    """The user that the server runs as, which refuses root; None: the present one."""
    names = {entry.pw_name for entry in pwd.getpwall()}
    return None if os.geteuid() != 0 else "postgres" if "postgres" in names else "nobody"


@pytest.fixture
def metastore() -> Iterator[dict[str, str]]:
    """The settings of applications with an empty metastore in a PostgreSQL of its own."""
    programs, user, port = binaries(), _other_user(), free_port()
    jars = runpy.run_path(str(ROOT / "jvm-bridge" / "dependencies.py"))["jars_of"](DRIVER)
    with ExitStack() as closing:
        folder = Path(tempfile.mkdtemp(prefix="tidemill-postgres-"))
        closing.callback(shutil.rmtree, folder, ignore_errors=True)
        if user is not None:
            shutil.chown(folder, user)
        data = str(folder / "data")
        make = [str(programs / "initdb"), "--pgdata", data, "--username", "hive", "--auth", "trust", "--no-sync"]
        subprocess.run(make, user=user, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        serve = [str(programs / "postgres"), "-D", data, "-p", str(port), "-h", "127.0.0.1", "-k", "", "-F"]
        server = subprocess.Popen(serve, user=user, cwd=folder, stderr=subprocess.DEVNULL)
        closing.callback(server.wait, 30)
        closing.callback(server.send_signal, signal.SIGINT)
        limit = time.monotonic() + 60
        while subprocess.run(
            [str(programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port)], check=False
        ).returncode:
            assert server.poll() is None
            assert time.monotonic() < limit
            time.sleep(0.1)
        jdo = "spark.hadoop.javax.jdo.option"
        yield {
            f"{jdo}.ConnectionURL": f"jdbc:postgresql://127.0.0.1:{port}/postgres",
            f"{jdo}.ConnectionDriverName": "org.postgresql.Driver",
            f"{jdo}.ConnectionUserName": "hive",
            f"{jdo}.ConnectionPassword": "hive",
            # Tables come when they are first needed. A constraint would wait for the transaction that needs them.
            "spark.hadoop.datanucleus.schema.autoCreateTables": "true",
            "spark.hadoop.datanucleus.schema.autoCreateColumns": "true",
            "spark.hadoop.hive.metastore.schema.verification": "false",
            "spark.driver.extraClassPath": os.pathsep.join(map(str, jars)),
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.memory": "1g",
        }


def test_two_services_beside_an_application(metastore: dict[str, str], tmp_path: Path) -> None:
    """They make as many runs as one would, none fails, and the views are right."""
    options = [word for pair in metastore.items() for word in ("--conf", "=".join(pair))]
    with ExitStack() as closing:
        command = [sys.executable, "-c", WRITER, json.dumps(metastore), str(ROUNDS)]
        writer = closing.enter_context(
            subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        )
        closing.callback(writer.kill)
        assert writer.stdout is not None
        assert "ready" in writer.stdout.readline(), "the writer has ended"
        services, logs = [], [tmp_path / "first.log", tmp_path / "second.log"]
        for log in logs:
            told = closing.enter_context(log.open("w"))
            run = [str(PROGRAM), "run", "--master", "local[2]", *options]
            services.append(subprocess.Popen(run, cwd=tmp_path, stdout=told, stderr=subprocess.STDOUT))
            closing.callback(services[-1].kill)
        limit = time.monotonic() + 120
        while not all("firing schedules" in log.read_text() for log in logs):
            assert all(service.poll() is None for service in services), [log.read_text() for log in logs]
            assert time.monotonic() < limit
            time.sleep(0.2)
        answer, _ = writer.communicate("\n", timeout=240)
        for service in services:
            service.send_signal(signal.SIGTERM)
        assert [service.wait(60) for service in services] == [0, 0]
    found = {row["view"]: row for row in map(json.loads, answer.splitlines())}
    assert {view: row["matches"] for view, row in found.items()} == {"v": True, "above": True}
    # One for each change, whoever has made it.
    assert {view: row["runs"] for view, row in found.items()} == {v: [*range(ROUNDS + 1)] for v in found}
    lines = [line for log in logs for line in log.read_text().splitlines()]
    assert sum("run of view=" in line for line in lines) == 2 * ROUNDS
    assert [line for line in lines if " WARNING tidemill" in line or " ERROR tidemill" in line] == []
