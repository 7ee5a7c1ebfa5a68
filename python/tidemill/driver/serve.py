"""`tidemill run`: fires schedules as a service, or once, in a session of its own with the Hive metastore.

The service may serve sessions of other programs, too.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from tidemill.driver.doors import Doors, without_variables
from tidemill.errors import TidemillError
from tidemill.monitor import run_log
from tidemill.points import name_parts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidemill.bridge.jvm import Jvm
    from tidemill.runtime.scheduler.clock import Clock

GRACE = 20.0
"""Seconds in which runs that are under way may end once the service is told to stop."""
BOOTED = "XSDB6"
"""The state of Derby's error for a database that another process has opened."""
HELD = """the metastore in the working directory (metastore_db) is open in another process, and its database, the
embedded Derby, takes one process at a time. Either end that process (a `tidemill sql`, a notebook or another
`tidemill run`), or have it fire the schedules itself with --conf spark.tidemill.scheduler.enabled=true, or have
`tidemill run` serve the sessions with --thrift PORT or --connect PORT, or use a metastore that several processes can
open: see docs/schedules.md, "Several processes\""""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The options of `tidemill run`. `views`: names as SQL writes them; none: all. Times are as they were given.
    `doors`: servers for other programs; None: none."""

    formats: Sequence[str] = ()
    settings: Mapping[str, str] | None = None
    views: Sequence[str] = ()
    once: bool = False
    clock: str | None = None
    speed: float | None = None
    until: str | None = None
    doors: Doors | None = None


def serve(wanted: Wanted) -> int:
    """Runs the command. Returns its exit status: 0, 1 if a run failed or the service did, 2 for wrong options."""
    if (reason := _contradiction(wanted)) is not None:
        return _told(reason, 2)
    run_log.show("%(asctime)s %(levelname)s %(name)s: %(message)s")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        spark = _session(wanted)
    except Exception as error:
        return _told(_reason(error), 1)
    try:
        signal.signal(signal.SIGINT, lambda *_: stop.set())  # PySpark has put its own in place
        return _served(spark, wanted, stop)
    except Exception as error:
        return _told(_reason(error), 1)
    finally:
        with suppress(Exception):  # the JVM may be gone
            spark.stop()


def _contradiction(wanted: Wanted) -> str | None:
    if wanted.clock is None and (wanted.speed is not None or wanted.until is not None):
        return "--speed and --until are for a simulated clock, which --clock starts"
    if wanted.clock is not None and wanted.speed is None and wanted.until is None and not wanted.once:
        return "a clock without --speed jumps from point to point: say --until when it ends"
    if wanted.once and (wanted.speed is not None or wanted.until is not None):
        return "--once looks at one moment: --speed and --until have no meaning"
    if wanted.once and wanted.doors is not None:
        return "--once ends with the last run: --thrift and --connect have no meaning"
    for text in filter(None, (wanted.clock, wanted.until)):
        try:
            datetime.fromisoformat(text)
        except ValueError:
            return f"{text} is no time of the form 2026-03-28T22:00"
    return None


def _session(wanted: Wanted) -> SparkSession:
    from pyspark.sql import SparkSession

    from tidemill.driver.attach import SCHEDULER, own_session

    builder = SparkSession.Builder().appName("tidemill run").enableHiveSupport()
    given = {"spark.ui.showConsoleProgress": "false", **(wanted.settings or {})}
    if wanted.doors is not None:
        without_variables()
        given |= wanted.doors.settings(given)
    spark = own_session(builder, {**given, SCHEDULER: "false"}, wanted.formats)
    spark.sql("SHOW DATABASES").collect()  # opens the metastore
    return spark


def _served(spark: SparkSession, wanted: Wanted, stop: threading.Event) -> int:
    from tidemill.driver.attach import jvm_of, watch

    jvm = jvm_of(spark)
    watch(spark)
    names = [name_parts(name) for name in wanted.views] or None
    clock = _clock(spark, wanted)
    if wanted.once:
        return _once(spark, jvm, names, clock, stop)
    from tidemill.runtime.scheduler.service import Service, Span

    until = None if wanted.until is None else _time(spark, wanted.until)
    service = Service(jvm, Span(clock, names, until))
    with (wanted.doors or Doors()).opened(spark) as told:
        service.start()
        print("tidemill run:", ", ".join(("firing schedules", *told)), flush=True)
        while not (service.ended.wait(0.2) or stop.is_set()):
            pass
        service.stop(GRACE)
    return 0 if service.failure is None else _told(_reason(service.failure), 1)


def _once(
    spark: SparkSession, jvm: Jvm, names: Sequence[tuple[str, ...]] | None, clock: Clock, stop: threading.Event
) -> int:
    """Fires what is due. After a signal no run begins. Those under way have `GRACE` seconds to end, then they are
    cancelled, which leaves nothing behind."""
    from tidemill.runtime.scheduler.service import run_once
    from tidemill.sql import readable

    ended, now = threading.Event(), threading.Event()

    def cancel() -> None:
        while not ended.wait(0.1):
            if stop.is_set() and not ended.wait(GRACE):
                now.set()
                spark.sparkContext.cancelAllJobs()
                return

    threading.Thread(target=cancel, name="tidemill-stop", daemon=True).start()
    try:
        rows = run_once(jvm.apart(now.is_set), names, clock, stop.is_set)
    finally:
        ended.set()
    zone = str(spark.conf.get("spark.sql.session.timeZone"))
    lines = (
        readable.of_views([row.cells() for row in rows], zone) if rows else ["nothing was due, or there was no data"]
    )
    print("\n".join(lines))
    return 1 if any(row.kind == "FAILED" for row in rows) else 0


def _clock(spark: SparkSession, wanted: Wanted) -> Clock:
    from tidemill.runtime.scheduler.clock import RealClock, SimulatedClock

    if wanted.clock is None:
        return RealClock()
    return SimulatedClock(_time(spark, wanted.clock), wanted.speed, once=wanted.once)


def _time(spark: SparkSession, text: str) -> float:
    """Returns the epoch seconds of a time, in the session's time zone unless it has an offset of its own."""
    from tidemill.runtime.view.arrivals import zone_of

    at = datetime.fromisoformat(text)
    zone = zone_of(str(spark.conf.get("spark.sql.session.timeZone")))
    return (at if at.tzinfo is not None else at.replace(tzinfo=zone)).timestamp()


def _reason(error: BaseException) -> str:
    text = error.message if isinstance(error, TidemillError) else str(error) or type(error).__name__
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    while java is not None:
        text, java = f"{text}\n{java}", java.getCause()
    return HELD if BOOTED in text or "metastore_db" in text else text.strip().partition("\n")[0]


def _told(reason: str, status: int) -> int:
    print(f"tidemill run: {reason}", file=sys.stderr)
    return status
