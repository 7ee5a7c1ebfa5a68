"""How long tests take: recorded by every run, and what is done with it.

Every run of pytest adds the seconds of its tests (set-up and tear-down included) to `build/durations.json`. The file
`tests/durations.json` keeps the seconds of whole files: those that take longest are run first.

    python -m tests.durations [--least SECONDS]   what takes longest, by test and by file
    python -m tests.durations --keep              take what was recorded over into tests/durations.json
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
EVERY = 60.0
"""Seconds between two writes of what was recorded."""
RECORDED, KEPT = ROOT / "build" / "durations.json", ROOT / "tests" / "durations.json"


def read(path: Path) -> dict[str, float]:
    """Returns seconds by test, or by file; nothing if there is no such file."""
    found: dict[str, float] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def of_files(path: Path) -> dict[str, float]:
    """Returns the seconds of each file of tests, from seconds of tests or of files.

    >>> of_files(Path("nowhere"))
    {}
    """
    found: dict[str, float] = defaultdict(float)
    for name, seconds in read(path).items():
        found[name.partition("::")[0]] += seconds
    return dict(found)


def write(path: Path, seconds: Mapping[str, float]) -> None:
    """Writes them one a line, sorted by name, to a tenth of a second."""
    path.parent.mkdir(exist_ok=True)
    text = json.dumps({name: round(s, 1) for name, s in sorted(seconds.items())}, indent=0)
    path.write_text(text + "\n", encoding="utf-8")


class Recorder:
    """Records what each test of a run takes; a plugin of the process that reports."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = defaultdict(float)
        self._written = time.monotonic()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid] += report.duration
        if time.monotonic() > self._written + EVERY:  # a run that is stopped has recorded something, too
            self.pytest_sessionfinish()

    def pytest_sessionfinish(self) -> None:
        self._written = time.monotonic()
        if self._seconds:
            write(RECORDED, {**read(RECORDED), **self._seconds})


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.durations", description="How long tests take.")
    parser.add_argument("--keep", action="store_true", help="take them over into tests/durations.json")
    parser.add_argument("--least", type=float, default=5.0, help="seconds of a test that is listed")
    arguments = parser.parse_args()
    files = of_files(RECORDED)
    if arguments.keep:
        write(KEPT, {name: s for name, s in files.items() if s >= 1 and (ROOT / name).exists()})
        return 0
    for found in (read(RECORDED), files):
        for name, seconds in sorted(found.items(), key=lambda item: -item[1]):
            if seconds >= arguments.least:
                print(f"{seconds:8.1f}  {name}")
        print(f"{sum(found.values()):8.1f}  in all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
