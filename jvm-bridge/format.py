"""Formats the Scala sources with the scalafmt that `.scalafmt.conf` names; its jars come from Maven Central.

Usage: python jvm-bridge/format.py [--check]      with --check nothing is written: exit code 1 if a file would change
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

from dependencies import jars_of, java_program

HERE = Path(__file__).resolve().parent
CONF = HERE / ".scalafmt.conf"
# A short run: what the second compiler would gain it would also cost.
JAVA = ["-Xss8m", "-Xmx1g", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]


def scalafmt() -> tuple[str, str, str]:
    """The formatter's module. The command line of another version than the configuration's would download that."""
    found = re.search(r'^version = "(.+)"$', CONF.read_text(), re.MULTILINE)
    if found is None:
        sys.exit(f"jvm-bridge: no version in {CONF}")
    return ("org.scalameta", "scalafmt-cli_2.13", found[1])


def main() -> None:
    parser = argparse.ArgumentParser(description="Format the Scala sources.")
    parser.add_argument("--check", action="store_true", help="only say which files are not formatted")
    check = parser.parse_args().check
    classpath = os.pathsep.join(str(p) for p in jars_of(scalafmt()))
    mode = ["--list"] if check else ["--quiet"]
    command = [java_program(), *JAVA, "-cp", classpath, "org.scalafmt.cli.Cli", "--config", str(CONF)]
    done = subprocess.run(
        [*command, "--non-interactive", *mode, str(HERE / "src")], stdout=subprocess.PIPE, text=True, check=False
    )
    for line in done.stdout.splitlines():
        print(f"jvm-bridge: not formatted: {line}" if check else line, file=sys.stderr)
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
