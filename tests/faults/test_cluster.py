"""An executor of a real standalone cluster is killed during a refresh, with speculation on; see `cluster_driver`."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

import pyspark
import pytest

from tests.faults import cluster_driver
from tests.faults.checks import wait_for
from tests.faults.processes import running, started
from tests.front.servers import free_port

pytestmark = pytest.mark.slow

ROUNDS = os.environ.get("TIDEMILL_ROUNDS", "2")
SEED = os.environ.get("TIDEMILL_SEED", "1")
HOME = Path(pyspark.__file__).parent
DEPLOY = "org.apache.spark.deploy"


def test_an_executor_is_killed_during_a_refresh(tmp_path: Path) -> None:
    port = free_port()
    master = f"spark://127.0.0.1:{port}"
    with ExitStack() as stack:

        def start(name: str, host: str, *arguments: str) -> int:
            command = [str(HOME / "bin" / "spark-class"), *arguments, "--host", host, "--webui-port", "0"]
            environment = {"SPARK_HOME": str(HOME), "SPARK_DAEMON_MEMORY": "256m", "SPARK_LOCAL_IP": host}
            environment["SPARK_LOCAL_DIRS"] = str(tmp_path / "local")
            process = stack.enter_context(running(tmp_path, name, command, environment))

            def ready() -> bool:
                assert process.status is None, process.errors
                return "registered with master" in process.errors or "have been elected leader" in process.errors

            wait_for(ready, name, 240)
            return process.pid

        start("master", "127.0.0.1", f"{DEPLOY}.master.Master", "--port", str(port))
        words = [f"{DEPLOY}.worker.Worker", master, "--cores", "1", "--memory", "1g", "--work-dir", f"{tmp_path}/work"]
        # of two names: Spark begins the copy of a task on another host only
        workers = [start(f"worker{n}", f"127.0.0.{n}", *words) for n in (1, 2)]
        arguments = [str(tmp_path), master, SEED, ROUNDS, *map(str, workers)]
        driver = stack.enter_context(started(tmp_path, "driver", cluster_driver.__name__, *arguments))
        driver.ended_well(560)
