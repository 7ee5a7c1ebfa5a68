"""./build.sh bench NAME [--scale N] [--queries 1,3] [--rounds N] [--policy AUTO] [--only TESTS] [--rows 100000,1000000]
  [--small] [--no-report]

Runs benchmarks/bench_NAME.py under pytest-benchmark, keeps its figures as JSON under build/bench/, and writes them as a
table into docs/benchmarks.md.
"""

import argparse
import os
import shlex
import sys
from pathlib import Path

import pytest

from benchmarks import report
from benchmarks.data import BUILD

HERE = Path(__file__).resolve().parent
NAMES = tuple(sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py")))


def main() -> int:
    parser = argparse.ArgumentParser(prog="./build.sh bench", description="Benchmarks.")
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--scale", type=float, default=1, help="scale factor of the data")
    parser.add_argument("--queries", default="", help="numbers, separated by commas; default: all that have a text")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each kind of change; the table has medians")
    parser.add_argument(
        "--policy",
        choices=("AUTO", "STRICT"),
        default="STRICT",
        help="refresh policy of the views of tpch, tpcds and pipeline",
    )
    parser.add_argument(
        "--only", default="", help="tests whose names pytest -k selects by this; the rest of the page stays"
    )
    parser.add_argument(
        "--rows", default="", help="sizes of the tables of floor and decisions, separated by commas; default: theirs"
    )
    parser.add_argument("--small", action="store_true", help="fewer views and changes of decisions")
    parser.add_argument("--no-report", action="store_true", help="leave docs/benchmarks.md as it is")
    arguments = parser.parse_args()

    # pytest imports the benchmark: what it runs with goes through the environment.
    os.environ["TIDEMILL_BENCH_SCALE"] = f"{arguments.scale:g}"
    os.environ["TIDEMILL_BENCH_QUERIES"] = arguments.queries
    os.environ["TIDEMILL_BENCH_ROUNDS"] = str(arguments.rounds)
    os.environ["TIDEMILL_BENCH_POLICY"] = arguments.policy
    os.environ["TIDEMILL_BENCH_ROWS"] = arguments.rows
    os.environ["TIDEMILL_BENCH_SMALL"] = str(arguments.small).lower()
    policy = "" if arguments.policy == "STRICT" else f"-{arguments.policy.lower()}"
    figures = BUILD / "bench" / arguments.only / f"{arguments.name}-{arguments.scale:g}{policy}.json"
    figures.parent.mkdir(parents=True, exist_ok=True)
    options = [
        "--benchmark-enable",
        "--benchmark-columns=median,rounds",
        "--benchmark-sort=name",
        "-p",
        "no:cacheprovider",
    ]
    if arguments.only:
        options += ["-k", arguments.only]
    status = pytest.main([str(HERE / f"bench_{arguments.name}.py"), *options, f"--benchmark-json={figures}"])
    if status == pytest.ExitCode.OK and not arguments.no_report:
        report.write(figures, f"./build.sh bench {shlex.join(sys.argv[1:])}")
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
