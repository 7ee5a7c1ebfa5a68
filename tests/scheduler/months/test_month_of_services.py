"""A month of services over views in Spark, by a simulated clock: they are killed between and inside ticks, there are
two at once, their clock jumps forwards and back, and views, tables and files fail and come back.

What must be in the histories then is told by the almanac and by the list of what happened, not by the scheduler.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from tests.conftest import Oracle, location_of
from tests.faults.checks import check, wait_for
from tests.scheduler.months import mortal
from tests.scheduler.months.almanac import DAY, Due
from tests.scheduler.months.happenings import START, World, views
from tests.scheduler.months.verdict import FIRST_WAIT, Kept, Standing, Step, judge, waits
from tidemill.runtime.scheduler import holder

pytestmark = [pytest.mark.slow]
SEED = int(os.environ.get("TIDEMILL_SEED", "1"))
DAYS = 31
CLOCKED = 12
"""Views by the clock alone."""
END = START + DAYS * DAY
LATER = END + 12 * DAY
"""By then each schedule was due once more."""
PATIENCE = 300.0
"""Seconds of a busy machine for one tick."""


@dataclass
class Running:
    """A service. `wakes`: when it wants to look again; None: it has not looked yet."""

    process: ForkServerProcess
    pipe: Connection
    wakes: float | None = None
    last: str = ""

    def hears(self) -> bool:
        """Waits until it has done all. Returns False if it is dead."""
        try:
            while True:
                assert self.pipe.poll(PATIENCE), "a service says nothing"
                what, told = self.pipe.recv()
                if what == "waits":
                    self.wakes = told
                    return True
                assert what == "dies", told
                self.last = told
        except (EOFError, ConnectionResetError):
            self.process.join()
            return False

    def kill(self) -> None:
        """As `kill -9`."""
        self.process.kill()
        self.process.join()

    def end(self) -> None:
        """As SIGTERM."""
        self.pipe.send(None)
        assert self.pipe.poll(PATIENCE)
        assert self.pipe.recv() == ("ended", None)
        self.process.join()


class Services:
    """The services that are alive, and what was killed inside a tick: the calls at which."""

    def __init__(self, spark: SparkSession, names: Sequence[tuple[str, ...]]) -> None:
        gateway = SparkContext._gateway
        assert gateway is not None
        at = gateway.gateway_parameters
        self._life = mortal.Life(at.port, at.auth_token, names, START, LATER + DAY)
        self._spark = spark
        self._context = get_context("forkserver")
        self._context.set_forkserver_preload(["pytest", "tests.scheduler.months.mortal"])
        self.alive: list[Running] = []
        self.killed_at: list[str] = []

    def begin(self) -> None:
        """Another one begins. It looks when the clock is set next."""
        ours, its = self._context.Pipe()
        process = self._context.Process(target=mortal.serve, args=(self._life, its), daemon=True)
        process.start()
        its.close()
        running = Running(process, ours)
        assert running.hears()
        running.wakes = None
        self.alive.append(running)

    def look(self, at: float, calls: int) -> bool:
        """Sets the clock and waits until all have done what is due. `calls`: of the first one, until it is killed (0:
        it is not). Returns whether it was."""
        for number, running in enumerate(self.alive):
            running.pipe.send((at, calls if number == 0 else 0))
        dead = [running for running in self.alive if not running.hears()]
        self.alive = [running for running in self.alive if running not in dead]
        for running in dead:
            self.killed_at.append(running.last)
        if dead:
            # The JVM of a service would have died with it.
            if not self.alive:
                self._spark.sparkContext.cancelAllJobs()
            wait_for(lambda: not self._spark.sparkContext.statusTracker().getActiveJobsIds(), "the last jobs")
        return bool(dead)


@contextmanager
def services(spark: SparkSession, names: Sequence[tuple[str, ...]]) -> Iterator[Services]:
    """None of them outlives the block."""
    found = Services(spark, names)
    try:
        yield found
    finally:
        for running in found.alive:
            running.kill()


@pytest.mark.parametrize("variant", range(4))
def test_a_month(spark: SparkSession, db: str, variant: int, oracle: Oracle) -> None:
    choose = random.Random(f"{SEED} {variant}")
    world = World(spark, views(choose, CLOCKED), choose)
    world.create()
    names = [("spark_catalog", db, view.name) for view in world.kept]
    with services(spark, names) as running:
        steps = live(world, running, choose)
    judged: dict[str, Standing] = {}
    for view in world.kept:
        points = Due.of(view.schedule, view.zone, START, LATER + DAY)
        history = spark.sql(f"SHOW REFRESHES IN {view.name}").collect()[::-1]
        below = judged[view.above] if view.above is not None else None
        judged[view.name] = judge(view, points, steps, history, below)
        failures = [row for row in history if row.kind == "FAILED"]
        assert bool(failures) == (view.name in {"quotients", "again"}), failures
        if view.name == "quotients":
            assert {row.reason.partition(":")[0] for row in failures} == {"DIVIDE_BY_ZERO"}
            assert min(waits(failures), default=FIRST_WAIT) >= FIRST_WAIT
        settled(spark, view, oracle)
    assert [*world.happened] == [event for _, event in sorted(world.events.items())]
    inside = [at for at in running.killed_at if at.split()[1] in ("run", "files", "pin", "analyze")]
    assert len(inside) >= 2, running.killed_at


def settled(spark: SparkSession, view: Kept, oracle: Oracle) -> None:
    """The view is what its query gives, whatever happened, and nothing is left of what was killed."""
    oracle(view.name, view.query)
    root = location_of(spark, view.name)
    assert not (root / holder.FILE).exists()
    check(spark, view.name, view.name)


def live(world: World, running: Services, choose: random.Random) -> list[Step]:
    """Goes through the month. Returns the moments at which services looked."""
    steps: list[Step] = []
    right = float(START)
    while right < END:
        _people(running, choose)
        at, right = _moment(running, choose, right, len(steps))
        came = world.change() | world.happen(right)
        by_hand = {"v2"} if choose.random() < 0.05 else set()
        for view in by_hand:
            world.spark.sql(f"REFRESH INCREMENTAL VIEW {view}")
        services = len(running.alive)
        killed = running.look(at, choose.randrange(1, 150) if choose.random() < 0.25 else 0)
        steps.append(
            Step(at, services, killed, came, frozenset(world.broken), frozenset(world.resting), frozenset(by_hand))
        )
    for at in (float(END + DAY), float(LATER)):
        while len(running.alive) != 1:
            running.alive.pop().end() if running.alive else running.begin()
        came = world.enough() if at == LATER else {}
        steps.append(Step(at, 1, running.look(at, 0), came))
    running.alive.pop().end()
    return steps


def _people(running: Services, choose: random.Random) -> None:
    """Somebody stops a service, kills one while it waits, or begins a second one."""
    if running.alive and choose.random() < 0.1:
        running.alive.pop(0).kill()
    if len(running.alive) == 2 and choose.random() < 0.3:
        running.alive.pop().end()
    if not running.alive or (len(running.alive) == 1 and choose.random() < 0.3):
        running.begin()


def _moment(running: Services, choose: random.Random, right: float, number: int) -> tuple[float, float]:
    """What the clock shows next, and the right time: exactly when the next point is due, or later since the machine
    slept, or what a clock shows that is wrong."""
    wakes = [one.wakes for one in running.alive if one.wakes is not None]
    how = choose.random()
    if how < 0.4 and wakes and min(wakes) < right + 2 * DAY:
        right = max(right, min(wakes))
        at = min(wakes)
    else:
        right += choose.uniform(60, 3 * DAY)
        at = right + (0 if how < 0.85 else choose.choice([-6 * 3600, -600, DAY]))
    return int(at) + round(number / 1000 + 0.001, 3), right
