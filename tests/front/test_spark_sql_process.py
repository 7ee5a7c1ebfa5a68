"""The real `spark-sql`, whose JVM starts the planner's process: with -e, with -f and at the prompt."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pyspark
import pytest

from tests.front.traps import lay_traps
from tidemill.driver.attach import EXTENSION
from tidemill.driver.jar import jar_path

pytestmark = pytest.mark.jvm

HOME = str(Path(pyspark.__file__).parent)
"""As `tidemill sql` sets it. Without it, Spark's own script starts a Python to find it."""
DOUBLE = Path(__file__).with_name("planner_double.py")


def command_of(folder: Path, python: Path) -> list[str]:
    """The command that starts spark-sql with its warehouse in a folder."""
    settings = {
        "spark.sql.extensions": EXTENSION,
        "spark.tidemill.python": str(python),
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.catalogImplementation": "in-memory",  # a Derby metastore takes seconds to set up
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    command = [str(Path(sys.executable).with_name("spark-sql")), "--master", "local[2]", "--jars", str(jar_path())]
    return command + [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", **more}


def spark_sql(
    folder: Path, python: Path, *arguments: str, text: str = "", **variables: str
) -> subprocess.CompletedProcess[str]:
    """Runs spark-sql in a folder of its own."""
    command = [*command_of(folder, python), *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment(**variables), input=text, capture_output=True, text=True, timeout=300
    )


@pytest.fixture
def double(tmp_path: Path) -> Path:
    """An interpreter that runs the planner's double, whatever it is told to run."""
    return interpreter(tmp_path, DOUBLE)


def interpreter(folder: Path, program: Path) -> Path:
    """An interpreter that runs this program, whatever it is told to run."""
    script = folder / "python"
    root = DOUBLE.parents[2]
    script.write_text(f"#!/bin/sh\nPYTHONPATH='{root}:{root / 'python'}' exec '{sys.executable}' '{program}'\n")
    script.chmod(0o755)
    return script


def process_of(line: str) -> int:
    """The second column: the number of the planner's process."""
    return int(line.split("\t")[1])


def test_statements_on_the_command_line(tmp_path: Path, double: Path) -> None:
    sql = "REFRESH INCREMENTAL VIEW a; -- c ; x\nSELECT 'a; b'; refresh incremental\n view b;"
    done = spark_sql(tmp_path, double, "-e", sql)
    assert done.returncode == 0, done.stderr
    first, plain, second = done.stdout.splitlines()
    assert plain == "a; b"
    planner = process_of(first)
    assert process_of(second) == planner
    assert "a warning of the planner" in done.stderr
    with pytest.raises(ProcessLookupError):  # it ended with the shell
        os.kill(planner, 0)


def test_prompt_survives_errors_and_a_dead_planner(tmp_path: Path, double: Path) -> None:
    lines = [
        "REFRESH INCREMENTAL VIEW a;",
        "REFRESH INCREMENTAL",
        "  VIEW refused ';' x;",
        "REFRESH INCREMENTAL VIEW b /* die */;",
        "REFRESH INCREMENTAL VIEW c;",
    ]
    done = spark_sql(tmp_path, double, text="\n".join(lines) + "\n")
    answers = [line for line in done.stdout.splitlines() if "\t" in line]
    assert len(answers) == 2, done.stderr
    assert process_of(answers[0]) != process_of(answers[1])
    assert "(line 2, pos 7)\n\n== SQL ==\nREFRESH INCREMENTAL\n  VIEW refused ';' x\n-------^^^" in done.stderr
    assert "[TIDEMILL_PLANNER_FAILED] The planner failed: its process does not answer" in done.stderr


def test_an_interpreter_without_tidemill(tmp_path: Path) -> None:
    """It is told the token by its standard input, and the token stands nowhere else."""
    script = tmp_path / "python"
    script.write_text(
        "#!/bin/sh\nread port token\necho $token > token\nenv > environment\necho $@ > arguments\n"
        "echo No module named tidemill\nexit 1\n"
    )
    script.chmod(0o755)
    log = ("--conf", f"spark.eventLog.dir={tmp_path}", "--conf", "spark.eventLog.enabled=true")
    done = spark_sql(tmp_path, script, *log, "-e", "SHOW INCREMENTAL VIEWS; SET -v; SHOW INCREMENTAL VIEWS")
    assert done.returncode == 1
    assert f"cannot be started with {script}" in done.stderr
    assert "No module named tidemill" in done.stderr
    assert "spark.tidemill.python" in done.stderr
    token = (tmp_path / "token").read_text().strip()
    assert len(token) > 40
    assert "tidemill.driver.process" in (tmp_path / "arguments").read_text()
    assert token not in done.stdout + done.stderr
    files = {file for file in tmp_path.rglob("*") if file.is_file() and token.encode() in file.read_bytes()}
    assert files == {tmp_path / "token"}, "neither arguments nor environment nor event log"


def test_a_view_from_a_file_of_statements(tmp_path: Path) -> None:
    """Needs all parts of Tidemill. The folder is one that others may write to."""
    seen = lay_traps(tmp_path)
    file = tmp_path / "statements.sql"
    file.write_text(
        "CREATE TABLE t (a INT, b INT) USING parquet;\n"
        "INSERT INTO t VALUES (1, 2), (1, 3);\n"
        "CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS SELECT a, sum(b) AS s FROM t GROUP BY a;\n"
        "INSERT INTO t VALUES (1, 5), (2, 7);\n"
        "REFRESH INCREMENTAL VIEW v;\n"
        "CREATE INCREMENTAL VIEW above AS SELECT s FROM v WHERE s > 8;\n"
        "INSERT INTO t VALUES (1, 0);\n"
        "SET spark.tidemill.answers=text;\n"
        "REFRESH INCREMENTAL VIEWS LIKE '*';\n"
        "SELECT * FROM v ORDER BY a;\n"
    )
    done = spark_sql(tmp_path, Path(sys.executable), "-f", str(file), PYTHONPATH=":.", SPARK_HOME=HOME)
    assert done.returncode == 0, done.stderr
    *_, head, first, second, one, two = done.stdout.splitlines()
    assert [one, two] == ["1\t10", "2\t7"]
    assert head.split()[:4] == ["view", "run", "kind", "reason"]
    assert first.split()[:3] == ["spark_catalog.default.v", "2", "INCREMENTAL"]
    assert second.split()[0] == "spark_catalog.default.above"
    assert not seen.exists(), seen.read_text()


@pytest.mark.slow
def test_a_metastore_of_derby_is_opened_again(tmp_path: Path) -> None:
    """Another process goes on where the first one ended: the same views, runs and states, another name for one."""
    hive = ("--conf", "spark.sql.catalogImplementation=hive")
    first = (
        "CREATE DATABASE kept; USE kept; CREATE TABLE t (a INT, b INT) USING parquet;"
        "INSERT INTO t VALUES (1, 2), (1, 3);"
        "CREATE INCREMENTAL VIEW w COMMENT 'a sum' SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS"
        " SELECT a, sum(b) AS s FROM t GROUP BY a;"
        "ALTER INCREMENTAL VIEW w RENAME TO v; INSERT INTO t VALUES (1, 5)"
    )
    then = (
        "USE kept; REFRESH INCREMENTAL VIEW v; INSERT INTO t VALUES (2, 7); REFRESH INCREMENTAL VIEW v;"
        "VACUUM INCREMENTAL VIEW v; SELECT * FROM v ORDER BY a; SHOW INCREMENTAL VIEWS"
    )
    answers = []
    for text in (first, then):
        done = spark_sql(tmp_path, Path(sys.executable), *hive, "-e", text)
        assert done.returncode == 0, done.stderr
        answers.append([line.split("\t") for line in done.stdout.splitlines()])
    first_run, second_run, *rows, view = answers[1]
    assert [run[0] for run in (first_run, second_run)] == ["1", "2"]
    assert all("INCREMENTAL" in run for run in (first_run, second_run))
    assert rows[-2:] == [["1", "10"], ["2", "7"]]
    assert {"kept", "v"} <= set(view)


def test_what_a_refresh_tells(tmp_path: Path) -> None:
    """Steps that take long in the terminal, a line for each run in Spark's log, and health over HTTP meanwhile."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = {"spark.ui.showConsoleProgress": "true", "spark.tidemill.monitor.port": str(port)}
    options = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    slow = "java_method('java.lang.Thread', 'sleep', 1500L)"
    text = (
        "CREATE TABLE t (a INT) USING parquet; INSERT INTO t VALUES (1);\n"
        f"CREATE INCREMENTAL VIEW v REFRESH POLICY FULL AS SELECT a, {slow} AS s FROM t;\n"
    )
    arguments = [*command_of(tmp_path, Path(sys.executable)), *options]
    variables = environment(PYTHONPATH=":.", SPARK_HOME=HOME, TIDEMILL_LOG="json")
    pipe = subprocess.PIPE
    with subprocess.Popen(
        arguments, cwd=tmp_path, env=variables, text=True, stdin=pipe, stdout=subprocess.DEVNULL, stderr=pipe
    ) as shell:
        assert shell.stdin is not None
        assert shell.stderr is not None
        shell.stdin.write(text)
        shell.stdin.flush()
        lines: list[str] = []
        health = None
        for line in shell.stderr:
            lines.append(line)
            if '"run": 0' in line:
                with urlopen(f"http://127.0.0.1:{port}/health", timeout=30) as answer:
                    health = json.load(answer)
                shell.stdin.write("DROP INCREMENTAL VIEW v;\n")
                shell.stdin.close()
    told = "".join(lines)
    view = "spark_catalog.default.v"
    assert f"tidemill: step 1 of 1, {view}: result (run 0)" in told, told
    (run,) = [json.loads(line.partition("INFO tidemill: ")[2]) for line in lines if '"run": 0' in line]
    assert (run["view"], run["kind"], run["trigger"], run["inserted"]) == (view, "FULL", "CREATE", 1)
    assert health is not None
    assert health["ok"]
    assert health["views"][view]["kind"] == "FULL"
