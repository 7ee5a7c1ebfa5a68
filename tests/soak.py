"""./build.sh soak --hours N [--only search,random,faults]

Runs the random and fault suites over and over, each time with another seed, until the time is up or a test fails; then
it prints the command that repeats the failure.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUITES = {
    "search": ("tests/search/test_algebra.py",),
    "random": ("-m", "slow", "tests/system/test_random.py"),
    "faults": ("tests/faults",),
}
EXAMPLES = {"search": 2000, "random": 60, "faults": 0}


def main() -> int:
    parser = argparse.ArgumentParser(prog="./build.sh soak", description="Random and fault suites without end.")
    parser.add_argument("--hours", type=float, required=True, help="stop after this long, at the end of a suite")
    parser.add_argument("--only", default=",".join(SUITES), help="suites, separated by commas")
    arguments = parser.parse_args()
    chosen = arguments.only.split(",")
    if unknown := set(chosen) - set(SUITES):
        parser.error(f"unknown suites: {', '.join(sorted(unknown))}")
    end = time.monotonic() + arguments.hours * 3600
    passed = 0
    while True:
        for suite in chosen:
            seed = random.SystemRandom().randrange(1 << 31)
            print(f"soak: {suite}, seed {seed}", flush=True)
            environment = {"TIDEMILL_SEED": str(seed), "TIDEMILL_EXAMPLES": str(EXAMPLES[suite])}
            options = ["-q", "-p", "no:cacheprovider", f"--hypothesis-seed={seed}", *SUITES[suite]]
            command = [sys.executable, "-m", "pytest", *options]
            status = subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, check=False).returncode
            if status:
                settings = " ".join(f"{name}={value}" for name, value in environment.items())
                print(f"soak: failed; repeat with {settings} pytest {' '.join(options)}", flush=True)
                return status
            passed += 1
            if time.monotonic() > end:
                print(f"soak: {passed} suites passed", flush=True)
                return 0


if __name__ == "__main__":
    sys.exit(main())
