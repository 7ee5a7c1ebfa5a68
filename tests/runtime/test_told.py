"""What runs tell while they run and when they end: descriptions of jobs, the log, observers, the monitor's setting."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.request import urlopen

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.conftest import confs
from tests.runtime.conftest import SUMMARY
from tidemill.driver.endpoint import Endpoint
from tidemill.monitor.observer import OBSERVERS, Lags, RunReport

Fails = Callable[[str, str], PySparkException]


class Notes:
    """An observer that writes down what it is told."""

    def __init__(self) -> None:
        self.begun: list[tuple[str, int | None, str]] = []
        self.ended: list[RunReport] = []
        self.failed: list[RunReport] = []
        self.gone: list[str] = []
        self.running: set[str] = set()
        """Views with a refresh that was begun and has not ended."""

    def run_begun(self, view: str, point: int | None, trigger: str, at: float) -> None:
        self.begun.append((view.rpartition(".")[2], point, trigger))
        self.running.add(view)

    def run_ended(self, run: RunReport) -> None:
        self.ended.append(run)
        self.running.discard(run.view)

    def run_failed(self, run: RunReport) -> None:
        self.failed.append(run)
        self.running.discard(run.view)

    def run_left(self, view: str) -> None:
        raise AssertionError

    def view_gone(self, view: str) -> None:
        self.gone.append(view.rpartition(".")[2])

    def tick_begun(self, at: float) -> None:
        raise AssertionError

    def tick_ended(self, at: float, lags: Lags) -> None:
        raise AssertionError


@pytest.fixture
def notes() -> Iterator[Notes]:
    found = Notes()
    OBSERVERS.attach(found)
    yield found
    OBSERVERS.detach(found)
    assert not found.running, "each refresh that begins ends"


def jobs_since(spark: SparkSession, first: int) -> list[tuple[str | None, str | None, set[str]]]:
    """Description, group and names of stages of the jobs that are not older than `first`."""
    context = spark.sparkContext._jsc.sc()
    context.listenerBus().waitUntilEmpty()
    found, store = context.statusStore().jobsList(None), context.statusStore()
    told = []
    for place in range(found.size()):
        job = found.apply(place)
        if job.jobId() >= first:
            stages = [store.lastStageAttempt(job.stageIds().apply(n)) for n in range(job.stageIds().size())]
            group = job.jobGroup()
            description = job.description()
            told.append(
                (
                    description.get() if description.isDefined() else None,
                    group.get() if group.isDefined() else None,
                    {stage.name() for stage in stages},
                )
            )
    return told


def test_jobs_say_which_step_they_are_of(spark: SparkSession, sales: str) -> None:
    """In the user's own job group, whose description comes back."""
    spark.sql(f"CREATE INCREMENTAL VIEW summary REFRESH POLICY INCREMENTAL AS {SUMMARY}")
    spark.sql("INSERT INTO sales SELECT CAST(id AS STRING), 'c9', id FROM range(20000)")
    context = spark.sparkContext
    first = int(context._jsc.sc().dagScheduler().numTotalJobs())
    context.setJobGroup("mine", "my jobs")
    try:
        spark.sql("REFRESH INCREMENTAL VIEW summary")
        assert context.getLocalProperty("spark.job.description") == "my jobs"
    finally:
        for name in ("spark.job.description", "spark.jobGroup.id", "spark.job.interruptOnCancel"):
            context.setLocalProperty(name, None)  # type: ignore[arg-type]  # unsets it
    jobs = [job for job in jobs_since(spark, first) if job[0] is not None and job[0].startswith("tidemill: ")]
    assert jobs
    assert {group for _, group, _ in jobs} == {"mine"}
    view = f"spark_catalog.{sales}.summary"
    steps = [re.fullmatch(rf"tidemill: step (\d+) of (\d+), {view}: (.+) \(run 1\)", text or "") for text, *_ in jobs]
    numbered = {(int(m[1]), int(m[2])) for m in steps if m is not None}
    assert numbered
    assert len({n for _, n in numbered}) == 1
    assert all(1 <= m <= n for m, n in numbered)
    plain = [text for (text, *_), match in zip(jobs, steps, strict=True) if match is None]
    assert all(re.fullmatch(rf"tidemill: {view}: .+ \(run 1\)", text or "") for text in plain)
    assert all(text in names for text, _, names in jobs)


def test_each_run_is_told_once(
    spark: SparkSession, sales: str, notes: Notes, fails: Fails, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "tidemill")
    spark.sql("CREATE INCREMENTAL VIEW v AS SELECT o_id, 100 / price AS q FROM sales")
    spark.sql("CREATE INCREMENTAL VIEW above INITIALIZE DEFERRED AS SELECT count(*) AS n FROM v")
    spark.sql("INSERT INTO sales VALUES ('o5', 'c2', 300)")
    spark.sql("REFRESH INCREMENTAL VIEW above DRY RUN CASCADE")
    assert (notes.begun, [run.view for run in notes.ended]) == ([], [f"spark_catalog.{sales}.v"])
    spark.sql("REFRESH INCREMENTAL VIEW above CASCADE")
    spark.sql("REFRESH INCREMENTAL VIEW v")
    spark.sql("CREATE OR REPLACE INCREMENTAL VIEW v AS SELECT o_id, 10 / price AS q FROM sales")
    told = [(run.view.rpartition(".")[2], run.run, run.trigger, run.kind) for run in notes.ended]
    assert [(v, n, t) for v, n, t, _ in told] == [
        *(("v", 0, "CREATE"), ("v", 1, "MANUAL"), ("above", 0, "MANUAL")),
        *(("v", 1, "MANUAL"), ("v", 2, "CREATE")),
    ]
    assert told[3][3] == "NO_DATA"
    assert sorted(notes.begun) == [("above", 1, "MANUAL"), ("v", 1, "MANUAL"), ("v", 1, "MANUAL")]
    row = spark.sql("SHOW REFRESHES IN above").collect()[0]
    report = notes.ended[2]
    assert (report.wall_ms, report.cpu_ms, report.jobs) == (row.duration_ms, row.cpu_ms, row.jobs)
    assert (report.read, report.inserted, report.state_bytes) == (row.rows_read, 1, row.state_bytes)
    assert report.started_at == row.started_at.timestamp()
    assert report.written is not None
    assert report.written >= 1
    assert notes.failed == []
    spark.sql("INSERT INTO sales VALUES ('o6', 'c2', 0)")
    fails("REFRESH INCREMENTAL VIEW above CASCADE", "TIDEMILL_UPSTREAM_FAILED")
    fails("REFRESH INCREMENTAL VIEWS", "TIDEMILL_REFRESHES_FAILED")
    failed = [(run.view.rpartition(".")[2], run.code) for run in notes.failed]
    assert failed == [("v", "DIVIDE_BY_ZERO"), ("above", "TIDEMILL_UPSTREAM_FAILED")] * 2
    assert "DIVIDE_BY_ZERO" in (notes.failed[0].message or "")
    lines = [vars(record)["tidemill"] for record in caplog.records if hasattr(record, "tidemill")]
    assert [(one["view"], one.get("run")) for one in lines] == [
        *((run.view, run.run) for run in notes.ended),
        *((run.view, None) for run in notes.failed),
    ]
    assert [text for record in caplog.records if (text := record.getMessage()).startswith("tidemill: step 1 of ")]


def test_the_setting_of_the_monitor(spark: SparkSession, sales: str, caplog: pytest.LogCaptureFixture) -> None:
    """A running session has begun without: as an endpoint that has not looked yet."""
    caplog.set_level(logging.INFO, "tidemill")
    endpoint = endpoint_of(spark)
    with pytest.raises(PySparkException) as caught:
        spark.conf.set("spark.tidemill.monitor.port", "0")
    assert caught.value.getCondition() == "CANNOT_MODIFY_STATIC_CONFIG"
    spark.sql("CREATE INCREMENTAL VIEW v AS SELECT o_id FROM sales")

    class Session:
        """Has the setting."""

        def conf(self) -> Any:
            return self

        def get(self, name: str, default: str) -> str:
            return {"spark.tidemill.monitor.port": "0"}.get(name, default)

    class Caller:
        session = Session()

    endpoint._watched = False
    endpoint.watch(Caller())  # type: ignore[arg-type]  # all that it needs
    try:
        (address,) = [record.args for record in caplog.records if "health and metrics are at" in record.msg]
        assert isinstance(address, tuple)
        spark.sql("REFRESH INCREMENTAL VIEW v FULL")
        with urlopen(f"{address[0]}/health") as answer:
            view = json.load(answer)["views"][f"spark_catalog.{sales}.v"]
        assert (view["run"], view["kind"], view["reason"]) == (1, "FULL", "REQUESTED")
    finally:
        assert endpoint.monitor is not None
        endpoint.monitor.close()
        endpoint.monitor = None


def endpoint_of(spark: SparkSession) -> Endpoint:
    found = spark.sparkContext._gateway.__dict__["_tidemill_endpoint"]
    assert isinstance(found, Endpoint)
    return found


def test_answers_as_text_name_the_views(spark: SparkSession, sales: str, fails: Fails) -> None:
    spark.sql("CREATE INCREMENTAL VIEW v AS SELECT o_id, 100 / price AS q FROM sales")
    spark.sql("INSERT INTO sales VALUES ('o6', 'c2', 0)")
    fails("REFRESH INCREMENTAL VIEW v", "DIVIDE_BY_ZERO")
    with confs(spark, {"spark.tidemill.answers": "text"}):
        head, newest, *_ = [r.refreshes for r in spark.sql("SHOW REFRESHES LIMIT 2").collect()]
        create = "CREATE INCREMENTAL VIEW IF NOT EXISTS v AS SELECT o_id, 100 / price AS q FROM sales"
        (made,) = spark.sql(create).collect()
    assert head.split()[:4] == ["view", "run", "kind", "reason"]
    assert newest.split()[:4] == [f"spark_catalog.{sales}.v", "-", "FAILED", "DIVIDE_BY_ZERO"]
    assert made.created == f"spark_catalog.{sales}.v was there already, with its run 0; nothing was loaded"


def test_who_watches_hears_of_views_that_are_gone(spark: SparkSession, sales: str, notes: Notes) -> None:
    spark.sql("CREATE INCREMENTAL VIEW v AS SELECT o_id FROM sales")
    spark.sql("ALTER INCREMENTAL VIEW v RENAME TO w")
    spark.sql("DROP INCREMENTAL VIEW w")
    spark.sql("DROP INCREMENTAL VIEW IF EXISTS w")
    assert notes.gone == ["v", "w"]
