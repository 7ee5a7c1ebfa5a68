"""kill -9 of the driver at random moments under load: the next one finds everything as it was acknowledged.

What is done and checked is in `kill_worker`. A life takes as long as a JVM needs to start, so TIDEMILL_KILLS says how
many there are, and TIDEMILL_MOMENTS how often a driver is halted to see what a kill would leave.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from pathlib import Path

import pytest

from tests.faults import kill_worker
from tests.faults.checks import wait_for
from tests.faults.processes import Process, started

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("TIDEMILL_KILLS", "2"))
MOMENTS = int(os.environ.get("TIDEMILL_MOMENTS", "4"))
SEED = int(os.environ.get("TIDEMILL_SEED", "1"))
WORKER = kill_worker.__name__
A_LIFE = 300.0
"""Seconds within which a life comes to its moment, on a busy machine."""


def test_kill_the_driver_at_random_moments(tmp_path: Path) -> None:
    for number in range(KILLS):
        chance = random.Random(f"{SEED} {number}")
        with started(tmp_path, f"life{number}", WORKER, str(tmp_path), str(SEED * 1000 + number)) as process:
            # in one of five lives while it checks what it found
            come_to_a_moment(tmp_path, process, chance, of_load=chance.random() < 0.8)
        shutil.rmtree(tmp_path / "scratch", ignore_errors=True)
    with started(tmp_path, "last", WORKER, str(tmp_path), "0", "check") as process:
        process.ended_well(A_LIFE)


def test_what_a_kill_would_leave_at_many_moments(tmp_path: Path) -> None:
    """A driver is halted at random moments and what lies on disk is copied; then it is killed, and each copy checked.

    One JVM checks all of them, so there can be many.
    """
    images = tmp_path / "images"
    chance = random.Random(SEED)
    with started(tmp_path, "life", WORKER, str(tmp_path), str(SEED)) as process:
        for number in range(MOMENTS):
            come_to_a_moment(tmp_path, process, chance, of_load=True, within=4)
            with process.halted():
                kill_worker.copy_world(tmp_path, images / f"{number:04d}")
    with started(tmp_path, "images", WORKER, str(tmp_path), "0", "images") as process:
        process.ended_well(A_LIFE + 60 * MOMENTS)


def come_to_a_moment(folder: Path, process: Process, chance: random.Random, *, of_load: bool, within: int = 20) -> None:
    """Waits for the moment: so many statements after the start, or of the load, and then a fraction of a second."""

    def lines() -> int:
        assert process.status is None, process.errors
        return len(kill_worker.read(folder))

    def loaded() -> bool:
        assert process.status is None, process.errors
        return "load" in process.lines

    if of_load:
        wait_for(loaded, "the checks", A_LIFE)
    first = lines()
    statements = chance.randrange(within)
    wait_for(lambda: lines() > first + statements, "a moment", A_LIFE)
    time.sleep(chance.random() / 2)
    assert process.status is None, process.errors
