"""One of several drivers that refresh one view: python -m tests.faults.writer FOLDER NAME.

Waits for FOLDER/go, creates the view, or attaches what another one has created, and refreshes it until there is
FOLDER/stop. A writer whose name begins with `vacuum` removes what it can after each refresh; the one whose name is
`alter` gives the view another query after each, once there is FOLDER/all, and the first one again at the end. Who has
committed pauses, so that others commit too. Prints at the end which runs it committed, how often it changed the query,
and how many runs it lost to others.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from random import Random
from time import sleep

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.faults.checks import wait_for
from tests.faults.processes import session


def query(folder: Path) -> str:
    return f"SELECT k, sum(v) AS s, count(*) AS n FROM parquet.`{folder}/events` GROUP BY k"


def other_query(folder: Path) -> str:
    """Other columns, over the same groups."""
    return f"SELECT n, k, s + n AS m FROM ({query(folder)})"


def create(folder: Path) -> str:
    """The statement by which every process takes up the view."""
    clauses = f"LOCATION '{folder}/v' SCHEDULE (ON DEMAND) REFRESH POLICY INCREMENTAL"
    return f"CREATE INCREMENTAL VIEW v {clauses} AS {query(folder)}"


def done(spark: SparkSession, statement: str, unless: str) -> bool:
    """Whether the statement succeeds; it may fail with the condition `unless` only."""
    try:
        spark.sql(statement).collect()
    except PySparkException as failure:
        if failure.getCondition() != unless:
            raise
        return False
    return True


def main(folder: Path, name: str) -> None:
    spark = session(folder, {"spark.master": "local[1]"})
    print("ready", flush=True)
    wait_for((folder / "go").exists, "the others", 600)
    refused = 0
    while not done(spark, create(folder), "TIDEMILL_LOCATION_NOT_EMPTY"):
        refused += 1
    print("attached", flush=True)
    runs, lost, altered, chance = [], 0, 0, Random(name)

    def alter() -> None:
        nonlocal altered
        to = query(folder) if altered % 2 else other_query(folder)
        if done(spark, f"ALTER INCREMENTAL VIEW v AS {to}", "TIDEMILL_CONCURRENT_REFRESH"):
            print("altered", flush=True)
            altered += 1

    while not (folder / "stop").exists():
        try:
            row = spark.sql("REFRESH INCREMENTAL VIEW v").collect()[0]
        except PySparkException as failure:
            if failure.getCondition() != "TIDEMILL_CONCURRENT_REFRESH":
                raise
            print("lost", flush=True)
            lost += 1
        else:
            if row.kind != "NO_DATA":
                print("committed", flush=True)
                runs.append(row.run)
                sleep(chance.random())  # else the one whose code is warm sees each new file first
        if name.startswith("vacuum"):
            spark.sql("VACUUM INCREMENTAL VIEW v RETAIN 0 HOURS")
        if name == "alter" and (folder / "all").exists():
            alter()
    while altered % 2:
        alter()
    print(json.dumps({"runs": runs, "altered": altered, "lost": lost, "refused": refused}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
