"""The `tidemill` command, as far as it needs no Spark session; spark-sql itself is driven in the README's test."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tidemill
from tidemill import cli
from tidemill.driver.attach import EXTENSION
from tidemill.driver.jar import jar_path
from tidemill.version import __version__


@pytest.fixture(autouse=True)
def _no_exec(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that would become spark-sql fails the test instead of ending it."""
    monkeypatch.delattr("os.execve")


def settings_of(options: list[str]) -> dict[str, str]:
    pairs = zip(options[::2], options[1::2], strict=False)
    return dict(value.split("=", 1) for option, value in pairs if option == "--conf")


def test_jar_prints_the_path(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["jar"]) == 0
    assert capsys.readouterr().out.strip() == str(jar_path())


def test_options_of_spark_sql_are_passed_on() -> None:
    options = cli.spark_sql_options([], ["-e", "SELECT 1", "--conf", "spark.x=a=b", "--master", "local[1]"])
    assert options[-4:] == ["-e", "SELECT 1", "--master", "local[1]"]
    assert settings_of(options)["spark.x"] == "a=b"


def test_lists_are_added_to() -> None:
    given = ["--jars", "/a.jar", "--packages=g:a:1", "--conf", "spark.sql.extensions=a.B"]
    settings = settings_of(cli.spark_sql_options(["delta"], given))
    assert settings["spark.jars"] == f"/a.jar,{jar_path()}"
    assert settings["spark.jars.packages"].startswith("g:a:1,io.delta:delta-spark_")
    assert settings["spark.sql.extensions"].split(",")[0] == "a.B"
    assert settings["spark.sql.extensions"].split(",")[-1] == EXTENSION


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(SystemExit, match="cannot set up the format avro"):
        cli.main(["sql", "--formats", "avro"])


def test_calibrate_takes_settings_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []

    def run(*given: object) -> int:
        calls.append(given)
        return 0

    monkeypatch.setattr(cli, "run_calibration", run)
    assert cli.main(["calibrate", "--output", "a.json", "--conf", "spark.master=local[1]"]) == 0
    assert calls == [(Path("a.json"), 5, {"spark.master": "local[1]"})]
    for refused in (["--rounds", "0"], ["--rounds", "x"], ["-e", "SELECT 1"]):
        with pytest.raises(SystemExit):
            cli.main(["calibrate", *refused])
    assert len(calls) == 1


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["--version"])
    assert (ended.value.code, capsys.readouterr().out) == (0, f"tidemill {__version__}\n")


@pytest.mark.parametrize("dashes", [[], ["--"]])
def test_a_file_of_statements_is_run(monkeypatch: pytest.MonkeyPatch, dashes: list[str]) -> None:
    commands: list[list[str]] = []

    def become(program: str, command: list[str], environment: dict[str, str]) -> None:
        commands.append(command)
        raise SystemExit

    monkeypatch.setattr("os.execve", become, raising=False)
    with pytest.raises(SystemExit):
        cli.main(["sql", *dashes, "-f", "x.sql"])
    assert commands[0][-2:] == ["-f", "x.sql"]
    assert "--" not in commands[0]
    assert settings_of(commands[0][1:]).items() >= cli.SHELL.items()
    with pytest.raises(SystemExit):
        cli.main(["sql", "--conf", "spark.tidemill.answers=columns"])
    assert settings_of(commands[1][1:])["spark.tidemill.answers"] == "columns"


@pytest.mark.parametrize("home", [None, "/nowhere"])
def test_without_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, home: str | None) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    if home is not None:
        monkeypatch.setenv("JAVA_HOME", home)
    with pytest.raises(SystemExit, match="Spark needs Java 17 or later, but") as ended:
        cli.main(["sql"])
    assert (home or "PATH") in str(ended.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"nofile\.sql: No such file"):
        cli.main(["explain", str(tmp_path / "nofile.sql")])
    (tmp_path / "binary.sql").write_bytes(b"\xff\xfe")
    with pytest.raises(SystemExit, match="not UTF-8"):
        cli.main(["explain", str(tmp_path / "binary.sql")])


@pytest.mark.parametrize(
    ("others", "said"),
    [([], "not complete: .* is missing.*build.sh jar"), (["tidemill-spark_3.5_2.13.jar"], "is for PySpark 3.5, but")],
)
def test_without_the_jar(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, others: list[str], said: str) -> None:
    (tmp_path / "jars").mkdir()
    for name in others:
        (tmp_path / "jars" / name).touch()
    monkeypatch.setattr("tidemill.driver.jar.__file__", str(tmp_path / "driver" / "jar.py"))
    with pytest.raises(SystemExit, match=f"tidemill: .*{said}"):
        cli.main(["jar"])
    with pytest.raises(FileNotFoundError, match=said):
        tidemill.configure(SparkSession.Builder())
    with pytest.raises(SystemExit, match=said):
        cli.main(["sql"])


def test_explain_needs_a_statement(tmp_path: Path) -> None:
    (tmp_path / "empty.sql").write_text("-- nothing\n")
    with pytest.raises(SystemExit, match="holds no statement"):
        cli.main(["explain", str(tmp_path / "empty.sql")])
