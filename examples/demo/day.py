"""A day of schedules, as fast as it goes: what fires when, as data comes.

The day is simulated, the runs are real. `tidemill run --clock ... --until ...` does the same as a service.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, tzinfo

from pyspark.sql import SparkSession
from rich.console import Console

from examples.demo import report
from tidemill.driver.attach import jvm_of
from tidemill.monitor.observer import OBSERVERS, Lags, RunReport
from tidemill.runtime.scheduler.clock import SimulatedClock
from tidemill.runtime.scheduler.service import Service, Span
from tidemill.runtime.view.arrivals import zone_of

DAY = "2026-03-30"  # a Monday
VIEWS = {
    "board": ("EVERY 3 HOURS", "SELECT cat, count(*) AS n FROM sales GROUP BY cat"),
    "alerts": ("ON CHANGE", "SELECT * FROM sales WHERE price > 1000"),
    "daily": ("AT '14:00' COST 0.3 NO OUTPUT, AT '24:00'", "SELECT cat, sum(price) AS gross FROM sales GROUP BY cat"),
    "morning": ("CRON '0 9 * * MON-FRI'", "SELECT max(price) AS most FROM sales"),
}
ARRIVALS = {
    "07:30": "INSERT INTO sales VALUES ('p1', 'c1', 90), ('p2', 'c3', 2500)",
    "12:40": "INSERT INTO sales VALUES ('p3', 'c2', 310), ('p4', 'c2', 45), ('p5', 'c3', 120)",
    "19:10": "INSERT INTO sales VALUES ('p6', 'c1', 1900)",
}


class Diary:
    """Prints what happens, with the time that the day's clock shows."""

    def __init__(self, out: Console, zone: tzinfo) -> None:
        self._out, self._zone = out, zone
        self.failed = False

    def line(self, at: float, who: str, what: str, style: str = "") -> None:
        self._out.print(f"{datetime.fromtimestamp(at, self._zone):%H:%M}  {who:9}{what}", style=style, markup=False)

    def run_ended(self, run: RunReport) -> None:
        name = run.view.rsplit(".", 1)[1]
        point = VIEWS[name][0].split(", ")[(run.point or 1) - 1]
        rows = "nothing came" if run.kind == "NO_DATA" else f"{run.kind}, {run.jobs} jobs"
        if run.inserted or run.deleted:
            rows += f", rows +{run.inserted or 0} -{run.deleted or 0}"
        self.line(run.started_at, name, f"{point}: {rows}", "dim" if run.kind == "NO_DATA" else "")

    def run_failed(self, run: RunReport) -> None:
        self.failed = True
        self.line(run.started_at, run.view, f"failed: {run.message}", "bold red")

    def run_begun(self, view: str, point: int | None, trigger: str, at: float) -> None: ...

    def run_left(self, view: str) -> None: ...

    def view_gone(self, view: str) -> None: ...

    def tick_begun(self, at: float) -> None: ...

    def tick_ended(self, at: float, lags: Lags) -> None: ...


@contextmanager
def observed(diary: Diary) -> Iterator[None]:
    OBSERVERS.attach(diary)
    try:
        yield
    finally:
        OBSERVERS.detach(diary)


def run(spark: SparkSession, out: Console) -> bool:
    """Creates the views, lets the day go by, and verifies; whether all is right."""
    zone = zone_of(str(spark.conf.get("spark.sql.session.timeZone")))
    report.heading(out, "Schedules", "A simulated day, as fast as it goes; the runs are real.")
    for name, (schedule, query) in VIEWS.items():
        statement = f"CREATE INCREMENTAL VIEW {name} SCHEDULE ({schedule}) AS {query}"
        report.statement(out, statement)
        spark.sql(statement)
    midnight = datetime.fromisoformat(DAY).replace(tzinfo=zone)
    tomorrow = midnight + timedelta(days=1)
    report.statement(out, f"tidemill run --clock {midnight:%Y-%m-%dT%H:%M} --until {tomorrow:%Y-%m-%dT%H:%M}")
    clock, diary = SimulatedClock(midnight.timestamp()), Diary(out, zone)
    right = True
    with observed(diary):
        for at, statement in ARRIVALS.items():
            right = _until(spark, clock, datetime.fromisoformat(f"{DAY}T{at}").replace(tzinfo=zone)) and right
            diary.line(clock.now(), "sales", statement, "cyan")
            spark.sql(statement)
        right = _until(spark, clock, tomorrow) and right
    verified = [spark.sql(f"VERIFY INCREMENTAL VIEW {name}").collect()[0].matches for name in VIEWS]
    return right and all(verified) and not diary.failed


def _until(spark: SparkSession, clock: SimulatedClock, time: datetime) -> bool:
    """Fires what is due until then; whether that went well."""
    service = Service(jvm_of(spark), Span(clock, [(name,) for name in VIEWS], time.timestamp()))
    service.start()
    service.ended.wait()
    return service.failure is None
