"""./build.sh soak --hours N [--only search,faults] [--seed N]

Runs the suites below over and over, in rounds of a random order, each time with another seed, until the time is up.
A failure does not end it: the commands that repeat the failures are printed at the end. A suite that takes longer than
LIMIT has failed, whatever it was doing; it is ended with all that it has started. The sizes are such that a round of
all suites takes some three hours on 2 cores. A new suite is one line.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT = int(os.environ.get("TIDEMILL_LIMIT", "3600"))
"""Seconds for one suite: several times what the longest takes."""
# name -> what pytest is told, and the settings beside the seed
SUITES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "search": ("tests/search/test_algebra.py", {"TIDEMILL_EXAMPLES": "1000"}),
    "cases": ("tests/search/test_cases.py", {"TIDEMILL_CASES": "all"}),
    "random": ("-m slow tests/system/test_random.py", {"TIDEMILL_EXAMPLES": "6"}),
    "faults": ("tests/faults/test_faults.py tests/faults/test_faults_of_upkeep.py", {"TIDEMILL_ALL_POINTS": "true"}),
    "kill": ("tests/faults/test_kill.py", {"TIDEMILL_KILLS": "12", "TIDEMILL_MOMENTS": "80"}),
    "writers": ("tests/faults/test_writers.py", {"TIDEMILL_WRITERS": "8", "TIDEMILL_COMMITS": "20"}),
    "cluster": ("tests/faults/test_cluster.py", {"TIDEMILL_ROUNDS": "8"}),
    "readers": ("tests/faults/test_readers.py", {"TIDEMILL_COMMITS": "60"}),
    "cancel": ("tests/faults/test_cancel.py tests/front/test_prompt.py", {}),
    "disk": ("tests/faults/test_disk.py", {}),
    "views": ("tests/runtime/test_views_over_views.py", {}),
    "graphs": ("tests/system/test_view_graphs.py", {}),
    "operators": ("tests/system/test_operators.py", {}),
    "codec": ("tests/bridge/test_codec.py", {"TIDEMILL_QUERIES": "all"}),
    "schedules": ("tests/scheduler/months", {}),
    "sources": ("tests/system/test_sources.py tests/system/test_file_sources.py", {}),
    "delta sources": ("tests/system/test_delta_sources.py tests/system/test_schema_changes.py", {}),
    "hostile": ("tests/system/test_hostile_names.py", {}),
    "tpcds": ("tests/system/test_tpcds.py", {"TIDEMILL_QUERIES": "any 12", "TIDEMILL_MODES": "all"}),
    "tpcds whole": ("tests/system/test_tpcds.py", {"TIDEMILL_QUERIES": "all"}),
    "stacked": ("tests/front/test_stacked_extensions.py", {}),
    "pitfalls": ("tests/system/test_pitfalls.py", {}),
    "planner process": ("tests/front/test_planner_process.py", {}),
    "sessions": ("tests/runtime/test_sessions.py tests/front/test_sessions.py", {}),
    "damage": ("tests/runtime/test_damage.py tests/runtime/test_drop.py", {}),
    "states": ("tests/runtime/test_states.py tests/runtime/test_state_identity.py", {}),
    "cascade": ("tests/runtime/test_cascade.py tests/runtime/test_expect.py", {}),
    "refresh": ("tests/runtime/test_refresh.py tests/runtime/test_sharing.py tests/store/test_delta_changes.py", {}),
    "alter": ("tests/runtime/test_alter.py", {}),
    "early": ("tests/runtime/test_early.py", {}),
    "security": ("tests/front/test_security.py", {}),
    "delta results": ("tests/runtime/test_delta_results.py", {}),
    "connect": ("tests/front/test_connect.py", {}),
    "thrift server": ("tests/front/test_thrift_server.py", {}),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="./build.sh soak", description="Random and fault suites without end.")
    parser.add_argument("--hours", type=float, required=True, help="stop after this long, at the end of a suite")
    parser.add_argument("--only", default=",".join(SUITES), help="suites, separated by commas")
    parser.add_argument("--seed", type=int, help="of the order and of all suites' seeds")
    arguments = parser.parse_args()
    chosen = arguments.only.split(",")
    if unknown := set(chosen) - set(SUITES):
        parser.error(f"unknown suites: {', '.join(sorted(unknown))}; there are: {', '.join(SUITES)}")
    first = random.SystemRandom().randrange(1 << 31) if arguments.seed is None else arguments.seed
    print(f"soak: --seed {first}", flush=True)
    chance = random.Random(first)
    end = time.monotonic() + arguments.hours * 3600
    ended, failures = 0, list[str]()
    while time.monotonic() < end:
        for suite in chance.sample(chosen, len(chosen)):
            failures += run(suite, chance.randrange(1 << 31))
            ended += 1
            if time.monotonic() > end:
                break
    print(f"soak: {ended} suites, {len(failures)} failed", *failures, sep="\n", flush=True)
    return 1 if failures else 0


def run(suite: str, seed: int) -> list[str]:
    """Carries out one suite with a seed; the command that repeats it, if it fails."""
    print(f"soak: {suite}, seed {seed}", flush=True)
    told, settings = SUITES[suite]
    environment = {"TIDEMILL_SEED": str(seed), **settings}
    options = ["-q", "-p", "no:cacheprovider", f"--hypothesis-seed={seed}", *told.split()]
    command = [sys.executable, "-m", "pytest", *options]
    process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, **environment}, start_new_session=True)
    try:
        if process.wait(LIMIT) == 0:
            return []
        how = "failed"
    except subprocess.TimeoutExpired:
        how = f"has not ended within {LIMIT} seconds"
    finally:
        if process.returncode is None:
            end(process)
    words = " ".join(f"{name}='{value}'" for name, value in environment.items())
    print(f"soak: {suite} {how}", flush=True)
    return [f"{words} pytest {' '.join(options)}"]


def end(process: subprocess.Popen[bytes]) -> None:
    """Kills a process and all that it has started, which may be in process groups of their own."""
    found = family(process.pid)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for pid in found:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def family(pid: int) -> list[int]:
    """The numbers of all processes below one."""
    found: list[int] = []
    with suppress(OSError):
        for file in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in map(int, file.read_text().split()):
                found += [child, *family(child)]
    return found


if __name__ == "__main__":
    sys.exit(main())
