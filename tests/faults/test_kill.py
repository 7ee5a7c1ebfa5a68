"""kill -9 of the driver at random moments under load: the next one finds everything as it was acknowledged.

What is done and checked is in `kill_worker`. A life takes as long as a JVM needs to start, so TIDEMILL_KILLS says how
many there are. A moment is so many statements, and a fraction of a second, after the start or after the checks.
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

KILLS = int(os.environ.get("TIDEMILL_KILLS", "4"))
SEED = int(os.environ.get("TIDEMILL_SEED", "1"))
WORKER = kill_worker.__name__
A_LIFE = 300.0
"""Seconds within which a life comes to its moment, on a busy machine."""


def test_kill_the_driver_at_random_moments(tmp_path: Path) -> None:
    for number in range(KILLS):
        chance = random.Random(f"{SEED} {number}")
        with started(tmp_path, f"life{number}", WORKER, str(tmp_path), str(SEED * 1000 + number)) as process:
            come_to_a_moment(tmp_path, process, chance)
        shutil.rmtree(tmp_path / "scratch", ignore_errors=True)
    with started(tmp_path, "last", WORKER, str(tmp_path), "0", "check") as process:
        process.ended_well(A_LIFE)


def come_to_a_moment(folder: Path, process: Process, chance: random.Random) -> None:
    """Waits for the moment at which the process is to die: in one of five cases while it checks what it found."""

    def lines() -> int:
        assert process.status is None, process.errors
        return len(kill_worker.read(folder))

    def loaded() -> bool:
        assert process.status is None, process.errors
        return "load" in process.lines

    first = lines()
    if chance.random() < 0.8:
        wait_for(loaded, "the checks", A_LIFE)
        first = lines()
    statements = chance.randrange(20)
    wait_for(lambda: lines() > first + statements, "a moment", A_LIFE)
    time.sleep(chance.random() / 2)
    assert process.status is None, process.errors
