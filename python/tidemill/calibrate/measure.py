"""Measures CPU time (as `cpu_ms` in SHOW REFRESHES), jobs and wall time of plain Spark statements.

A refresh reports its own figures; this module measures what they are compared with. The figures come from the status
store that the driver keeps for its UI (also with the UI off), after the listener bus has delivered all events. Only one
measurement can be under way at a time.
"""

import time
from dataclasses import dataclass
from types import TracebackType

from pyspark.sql import SparkSession

NANOSECONDS = 1_000_000  # of a millisecond


@dataclass(slots=True)
class Measured:
    """`cpu_ms`: executor CPU of all tasks, to run and to deserialise, with retries. `wall_ms`: the caller's time.

    `rows_read`: rows that the tasks read from files.
    """

    cpu_ms: float = 0.0
    jobs: int = 0
    wall_ms: float = 0.0
    rows_read: int = 0


class Measure:
    """`with Measure(spark) as measured: ...` fills `measured` when the block ends."""

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext._jsc.sc()
        self._measured = Measured()

    def __enter__(self) -> Measured:
        self._before = set(self._jobs())
        self._started = time.perf_counter()
        return self._measured

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._measured.wall_ms = (time.perf_counter() - self._started) * 1000
        jobs = {number: stages for number, stages in self._jobs().items() if number not in self._before}
        self._measured.jobs = len(jobs)
        stages = {stage for of_job in jobs.values() for stage in of_job}
        spent = [self._stage(stage) for stage in stages]
        self._measured.cpu_ms = sum(nanoseconds for nanoseconds, _ in spent) / NANOSECONDS
        self._measured.rows_read = sum(rows for _, rows in spent)

    def _jobs(self) -> dict[int, list[int]]:
        """Returns the stage ids of each job that the store still holds (the last 1,000)."""
        self._context.listenerBus().waitUntilEmpty()
        jobs = self._context.statusStore().jobsList(None)
        found = (jobs.apply(i) for i in range(jobs.size()))
        return {job.jobId(): [int(n) for n in job.stageIds().mkString(" ").split()] for job in found}

    def _stage(self, stage: int) -> tuple[int, int]:
        """Returns CPU nanoseconds and rows read of all attempts: 0 if the shuffle files were there already."""
        attempts = self._context.statusStore().stageData(stage, False, None, False, None)
        found = (attempts.apply(i) for i in range(attempts.size()))
        spent = [(data.executorCpuTime() + data.executorDeserializeCpuTime(), data.inputRecords()) for data in found]
        return sum(nanoseconds for nanoseconds, _ in spent), sum(rows for _, rows in spent)
