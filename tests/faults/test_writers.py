"""Several drivers refresh one view at once, each a process of its own, while its source grows: no row is lost, none
counts twice, the runs are numbered without gaps, and who comes second is told so. Two of them vacuum as well; where
there are many, one does, and another one gives the view another query all the time.

TIDEMILL_WRITERS says how many there are.
"""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.conftest import difference
from tests.faults import writer
from tests.faults.checks import check, wait_for
from tests.faults.processes import Process, started

pytestmark = pytest.mark.slow

WRITERS = [int(number) for number in os.environ.get("TIDEMILL_WRITERS", "2,4").split(",")]
COMMITS = int(os.environ.get("TIDEMILL_COMMITS", "4"))
ROWS = 40
"""In each file of the source."""


def grow(folder: Path, number: int) -> None:
    """Adds a file to the source, complete at once."""
    values = range(number * ROWS, (number + 1) * ROWS)
    table = pa.table({"k": pa.array([v % 7 for v in values], pa.int32()), "v": pa.array(values, pa.int64())})
    pq.write_table(table, folder / "file")
    (folder / "events").mkdir(exist_ok=True)
    (folder / "file").rename(folder / "events" / f"{number}.parquet")


def all_said(processes: list[Process], line: str) -> None:
    def said() -> bool:
        for process in processes:
            assert process.status is None, process.errors
        return all(line in process.lines for process in processes)

    wait_for(said, line, 600)


def they_met(processes: list[Process]) -> bool:
    """Whether one lost a run to another, and more than one committed."""
    said = [process.lines for process in processes]
    return any("lost" in lines for lines in said) and sum("committed" in lines for lines in said) > 1


def altered(processes: list[Process]) -> int:
    """How often the query was changed."""
    return sum(process.lines.count("altered") for process in processes)


@pytest.mark.parametrize("writers", WRITERS)
def test_writers_in_processes_of_their_own(spark: SparkSession, db: str, tmp_path: Path, writers: int) -> None:
    log = tmp_path / "v" / "_tidemill" / "log"
    grow(tmp_path, 0)
    with ExitStack() as stack:
        names = (
            ["vacuum", "vacuum2"] if writers == 2 else ["vacuum", "alter", *(f"writer{n}" for n in range(2, writers))]
        )
        module = writer.__name__
        processes = [stack.enter_context(started(tmp_path, n, module, str(tmp_path), n)) for n in names]
        all_said(processes, "ready")
        (tmp_path / "go").touch()
        all_said(processes, "attached")
        (tmp_path / "all").touch()
        files = 1
        while files <= COMMITS or not they_met(processes):
            before, changed = len([*log.glob("0*.json")]), altered(processes)
            grow(tmp_path, files)
            files += 1
            wait_for(lambda n=before: len([*log.glob("0*.json")]) > n, "a commit", 300)  # type: ignore[misc]
            # A change of the query takes longer than a refresh. It would lose to each, if files came all the time.
            if "alter" in names and not files % 2:
                wait_for(lambda n=changed: altered(processes) > n, "a changed query", 300)  # type: ignore[misc]
            assert files < 20 * COMMITS, "nobody meets another"
        (tmp_path / "stop").touch()
        for process in processes:
            process.ended_well(300)
        told = [json.loads(process.lines[-1]) for process in processes]
    spark.sql(writer.create(tmp_path))
    try:
        committed = {run for one in told for run in one["runs"]}
        assert len(committed) == sum(len(one["runs"]) for one in told), told
        history = spark.sql("SHOW REFRESHES IN v").where("kind <> 'FAILED'").collect()
        switches = {row.run for row in history if row.trigger == "CREATE"}
        assert sorted(committed | switches) == [*range(len(history))], told
        assert len(switches) == 1 + sum(one["altered"] for one in told), "run 0 is that of CREATE"
        check(spark, "v", str(told))
        spark.sql("REFRESH INCREMENTAL VIEW v")
        assert difference(spark, "v", writer.query(tmp_path)) == (0, 0), told
        rows = ROWS * files
        assert spark.sql("SELECT sum(n) AS n FROM v").collect()[0].n == rows
        read = [r.rows_in for r in spark.sql("SHOW REFRESHES IN v").collect()]  # none where nothing had come
        assert sum(r.inserts for r in read if r is not None) == rows, told
    finally:
        spark.sql("DROP INCREMENTAL VIEW v")
