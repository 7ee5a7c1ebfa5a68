"""The `tidemill` command.

tidemill sql [--formats delta] ...   run spark-sql with Tidemill set up; further options are spark-sql's own
tidemill explain FILE                show the plan of the CREATE INCREMENTAL VIEW, or the query, at the end of a file
tidemill run [--once] ...             fire the schedules of views, as a service or once (docs/schedules.md)
tidemill calibrate [--output FILE]   measure the cost model's constants on this machine (docs/costs.md)
tidemill debug COMMAND ...           show the optimiser's work, step by step, without Spark (docs/debugging.md)
tidemill jar                         print the path of the jar, for spark-submit --jars
tidemill --version                   print the version
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from tidemill.version import __version__

PYTHON = "spark.tidemill.python"
SHELL = {"spark.sql.cli.print.header": "true", "spark.tidemill.answers": "text"}
"""Settings of `tidemill sql`, for people, unless other ones are given."""
PROGRESS = "spark.ui.showConsoleProgress"
# spark-submit's own options for what the builder knows as settings.
OPTIONS = {"--jars": "spark.jars", "--packages": "spark.jars.packages"}
# ... and more of them in programs that have no options of Spark's.
OWN_OPTIONS = {**OPTIONS, "--master": "spark.master"}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command. Returns its exit status, or becomes spark-sql and never returns."""
    parser = argparse.ArgumentParser(
        prog="tidemill", description="Incremental views for Spark SQL.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"tidemill {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    sql = commands.add_parser(
        "sql", help="spark-sql with everything set; other options are its own", allow_abbrev=False
    )
    explain = commands.add_parser("explain", help="how a statement in a file would be maintained", allow_abbrev=False)
    explain.add_argument("file", type=Path, help="SQL statements; the last is a CREATE INCREMENTAL VIEW or a query")
    explain.add_argument("--json", action="store_true", help="the plan as one JSON document")
    run = commands.add_parser("run", help="fire the schedules of views, as a service or once", allow_abbrev=False)
    _add_run_options(run)
    for command in (sql, explain, run):
        command.add_argument(
            "--formats", default="", help="table formats to fetch from Maven, separated by commas: delta"
        )
    calibrate = commands.add_parser(
        "calibrate", help="measure the constants of the cost model on this machine", allow_abbrev=False
    )
    calibrate.add_argument("--output", type=Path, default=Path("tidemill-costs.json"), help="the file to write")
    calibrate.add_argument("--rounds", type=_positive, default=5, help="how often each benchmark is measured")
    commands.add_parser("debug", help="what the optimiser does, without Spark", add_help=False, allow_abbrev=False)
    commands.add_parser("jar", help="print the path of the jar")
    arguments, rest = parser.parse_known_args(argv)
    if "--" in rest[:1]:
        rest = rest[1:]  # as in `tidemill sql -- -f statements.sql`; spark-sql would take all behind it for nothing

    if arguments.command == "sql":
        spark_sql(arguments.formats, rest, {**SHELL, PROGRESS: str(sys.stderr.isatty()).lower()})
    if arguments.command == "explain":
        try:
            statements = arguments.file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            sys.exit(
                f"tidemill explain: {arguments.file}: {getattr(error, 'strerror', None) or 'it is not UTF-8 text'}"
            )
        text = explain_text(statements, "JSON" if arguments.json else "PLAN")
        spark_sql(arguments.formats, [*rest, "-S", "-e", text])
    if arguments.command == "debug":
        from tidemill.debug.commands import debug

        return debug(rest)
    if arguments.command in ("calibrate", "run"):
        given, rest = _settings(rest, OWN_OPTIONS)
    if rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if arguments.command == "calibrate":
        return run_calibration(arguments.output, arguments.rounds, given)
    if arguments.command == "run":
        return run_schedules(arguments, given)
    from tidemill.driver.jar import jar_path

    try:
        print(jar_path())
    except FileNotFoundError as error:
        sys.exit(f"tidemill: {error}")
    return 0


def _positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise ValueError(text)
    return number


def _add_run_options(run: argparse.ArgumentParser) -> None:
    run.add_argument("--thrift", type=_port, metavar="PORT", help="serve JDBC sessions at this port of this machine")
    run.add_argument("--connect", type=_port, metavar="PORT", help="serve sessions of Spark Connect at this port")
    run.add_argument("--once", action="store_true", help="fire what is due now, and end; 1 if a run failed")
    run.add_argument("--view", action="append", default=[], metavar="NAME", help="only this view; may be repeated")
    run.add_argument("--clock", metavar="TIME", help="a simulated clock that begins at this time: 2026-03-28T22:00")
    run.add_argument("--speed", type=_speed, metavar="N", help="seconds of that clock in one; without it, it jumps")
    run.add_argument("--until", metavar="TIME", help="the time of that clock at which the service ends")


def _port(text: str) -> int:
    if not (text.isdecimal() and 0 < int(text) < 65536):
        raise argparse.ArgumentTypeError(f"{text} is no port, which is a number from 1 to 65535")
    return int(text)


def _speed(text: str) -> float:
    if not 0 < (number := float(text)) < float("inf"):
        raise ValueError(text)
    return number


def run_schedules(arguments: argparse.Namespace, given: Mapping[str, str]) -> int:
    """Fires schedules in a session of this process, which is local unless `given` says otherwise."""
    from tidemill.driver.doors import Doors
    from tidemill.driver.serve import Wanted, serve

    if (missing := no_java()) is not None:
        sys.exit(f"tidemill: {missing}")
    wanted = Wanted(
        formats=arguments.formats.split(",") if arguments.formats else (),
        settings={"spark.master": "local[*]", **given},
        views=arguments.view,
        once=arguments.once,
        clock=arguments.clock,
        speed=arguments.speed,
        until=arguments.until,
        doors=Doors(arguments.thrift, arguments.connect) if arguments.thrift or arguments.connect else None,
    )
    return serve(wanted)


def run_calibration(output: Path, rounds: int, given: Mapping[str, str]) -> int:
    """Calibrates in a session of this process, which is local unless `given` says otherwise."""
    from pyspark.sql import SparkSession

    from tidemill.calibrate.command import calibrate
    from tidemill.driver.attach import own_session

    quiet = {"spark.ui.enabled": "false", PROGRESS: "false"}
    builder = SparkSession.Builder().appName("tidemill calibrate")
    spark = own_session(builder, {"spark.master": "local[*]", **quiet, **given})
    try:
        calibrate(spark, output, rounds)
    except OSError as error:
        print(f"tidemill calibrate: {output}: {error.strerror or error}", file=sys.stderr)
        return 1
    finally:
        spark.stop()
    return 0


def spark_sql(formats: str, options: Sequence[str], defaults: Mapping[str, str] | None = None) -> NoReturn:
    """Becomes PySpark's spark-sql with Tidemill's settings and `defaults` added to those in `options`."""
    import pyspark

    if (missing := no_java()) is not None:
        sys.exit(f"tidemill: {missing}")
    home = Path(pyspark.__file__).parent
    try:
        command = [
            str(home / "bin" / "spark-sql"),
            *spark_sql_options(formats.split(",") if formats else [], options, defaults),
        ]
    except (ValueError, FileNotFoundError) as error:
        sys.exit(f"tidemill: {error}")
    # The jar is for exactly this Spark, whatever other one SPARK_HOME may name.
    os.execve(command[0], command, {**os.environ, "SPARK_HOME": str(home)})


def no_java() -> str | None:
    """Returns what to do if there is no Java that spark-sql would start; None if there is one."""
    home = os.environ.get("JAVA_HOME")
    if shutil.which(str(Path(home, "bin", "java")) if home else "java") is not None:
        return None
    found = f"JAVA_HOME is {home}, and there is no bin/java in it" if home else "there is no java on the PATH"
    return f"Spark needs Java 17 or later, but {found}. Install one, or set JAVA_HOME to it"


def spark_sql_options(
    formats: Sequence[str], options: Sequence[str], defaults: Mapping[str, str] | None = None
) -> list[str]:
    """Returns the options with Tidemill's settings added as `tidemill.configure` adds them.

    Lists of jars, packages and extensions in `options` are added to, not replaced. `defaults` are settings for what
    `options` does not set.
    """
    from pyspark.sql import SparkSession

    from tidemill.driver.attach import configure

    builder = SparkSession.Builder()
    given, others = _settings(options)
    for name, value in given.items():
        builder.config(name, value)
    configure(builder, formats)
    settings: dict[str, str] = {PYTHON: sys.executable, **(defaults or {}), **builder._options}
    return [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")] + others


def _settings(options: Sequence[str], known: Mapping[str, str] = OPTIONS) -> tuple[Mapping[str, str], list[str]]:
    """Returns the settings within spark-sql's options, and the other options."""
    given: dict[str, str] = {}
    others: list[str] = []
    rest: Iterator[str] = iter(options)
    for option in rest:
        name, equals, value = option.partition("=")
        if name not in ("--conf", "-c", *known):
            others.append(option)
            continue
        if not equals:
            value = next(rest, "")
        if name in known:
            given[known[name]] = value
        else:
            setting, _, value = value.partition("=")
            given[setting] = value
    return given, others


def explain_text(text: str, mode: str) -> str:
    """Returns the statements of a file, the last of them behind EXPLAIN INCREMENTAL.

    >>> explain_text("USE sales; SELECT 1;", "PLAN")
    'USE sales;\\nEXPLAIN INCREMENTAL PLAN SELECT 1;'
    """
    import sqlparse

    statements = [s.strip().rstrip(";") for s in sqlparse.split(text)]
    statements = [s for s in statements if sqlparse.format(s, strip_comments=True).strip()]
    if not statements:
        raise SystemExit("tidemill explain: the file holds no statement")
    statements[-1] = f"EXPLAIN INCREMENTAL {mode} {statements[-1]}"
    return "".join(s + ";\n" for s in statements).rstrip("\n")


if __name__ == "__main__":
    sys.exit(main())
