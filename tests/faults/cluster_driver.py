"""A driver on a standalone cluster that kills its executors: python -m tests.faults.cluster_driver FOLDER MASTER SEED
ROUNDS WORKER...

WORKER: numbers of the workers' processes on this machine. In each round rows come to the source, one task of the
refresh has most of them, so that Spark begins a copy of it, and an executor is killed at a random moment of the
refresh. The run succeeds or fails, and nothing shows of what died with the executor. There are so many rounds, and more
until both have happened: a task had a copy, and one died.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.conftest import delta_jars, difference
from tests.faults.checks import SLOW, Statement, check, everything_under, jobs_so_far, slow_job_runs, wait_for
from tests.faults.processes import session
from tests.front.servers import children, command_line

FILES = (8, 1, 1, 1, 1)
"""Rows of each file that comes."""


def grow(folder: Path, first: int) -> None:
    """Adds files to the source, each row with a key of its own, from `first` on."""
    (folder / "events").mkdir(exist_ok=True)
    for rows in FILES:
        keys = range(first, first + rows)
        table = pa.table({"k": pa.array(keys, pa.int64()), "v": pa.array(keys, pa.int64())})
        pq.write_table(table, folder / "file")
        (folder / "file").rename(folder / "events" / f"{first}.parquet")
        first += rows


def executors(workers: Sequence[int]) -> list[int]:
    """Numbers of the executors' processes that live."""
    found = [pid for worker in workers for pid in children(worker)]
    return [pid for pid in found if b"CoarseGrainedExecutorBackend" in command_line(pid)]


def copies_and_losses(spark: SparkSession) -> tuple[int, int]:
    """How many tasks Spark has begun a second time to be quicker, and how many attempts have died."""
    tracker, store = spark.sparkContext.statusTracker(), spark.sparkContext._jsc.sc().statusStore()
    jobs = [tracker.getJobInfo(job) for job in range(jobs_so_far(spark))]
    stages = {stage for job in jobs if job is not None for stage in job.stageIds}
    summaries = [store.speculationSummary(stage, 0) for stage in stages]
    infos = [tracker.getStageInfo(stage) for stage in stages]
    copies = sum(int(one.get().numTasks()) for one in summaries if one.isDefined())
    return copies, sum(one.numFailedTasks for one in infos if one is not None)


def main(folder: Path, master: str, seed: int, rounds: int, workers: Sequence[int]) -> dict[str, int]:
    settings = {
        "spark.master": master,
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.executor.extraClassPath": os.pathsep.join(map(str, delta_jars())),
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.sql.files.maxPartitionBytes": str(4 << 20),  # a task for each file
        "spark.speculation": "true",
        "spark.speculation.interval": "50ms",
        "spark.speculation.quantile": "0.1",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.efficiency.enabled": "false",
    }
    spark = session(folder, settings)
    chance = random.Random(seed)
    query = f"SELECT k, sum({SLOW}) AS s, count(*) AS n FROM parquet.`{folder}/events` GROUP BY k"
    root = folder / "v"
    grow(folder, 0)
    spark.sql(f"CREATE INCREMENTAL VIEW v LOCATION '{root}' SCHEDULE (ON DEMAND) REFRESH POLICY INCREMENTAL AS {query}")
    killed = failed = number = copies = losses = 0
    while killed < rounds or not (copies and losses):
        number += 1
        assert number < 10 * rounds, (killed, copies, losses)
        wait_for(lambda: len(executors(workers)) == len(workers), "the executors", 120)
        grow(folder, number * sum(FILES))
        before, first = everything_under(root), jobs_so_far(spark)
        running = Statement(lambda: spark.sql("REFRESH INCREMENTAL VIEW v").collect())
        wait_for(lambda n=first: slow_job_runs(spark, n), "a job")  # type: ignore[misc]
        time.sleep(chance.random() * 2)
        os.kill(chance.choice(executors(workers)), signal.SIGKILL)
        killed += running.thread.is_alive()
        error = running.ended()
        if error is not None:
            assert isinstance(error, PySparkException), error
            assert everything_under(root) == before, error
            failed += 1
            spark.sql("REFRESH INCREMENTAL VIEW v")
        check(spark, "v", f"round {number}")
        assert difference(spark, "v", query) == (0, 0), number
        row = spark.sql("SHOW REFRESHES IN v LIMIT 1").collect()[0]
        assert (row.run, row.kind) == (number, "INCREMENTAL"), row
        assert row.rows_in.asDict() == {"inserts": sum(FILES), "deletes": 0}, row
        assert row.rows_out.asDict() == {"inserts": sum(FILES), "deletes": 0}, row
        copies, losses = copies_and_losses(spark)
    spark.stop()
    return {"rounds": number, "killed": killed, "failed": failed, "copies": copies, "losses": losses}


if __name__ == "__main__":
    print(
        json.dumps(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), [*map(int, sys.argv[5:])]))
    )
