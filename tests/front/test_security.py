"""What docs/security.md promises about the bridge, the settings and the files."""

from __future__ import annotations

import ast
import os
import re
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark import SparkContext
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from tests.conftest import location_of
from tests.front.servers import Server
from tidemill.settings import SETTINGS

ROOT = Path(__file__).parents[2]
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F"}  # as /proc/net/tcp and tcp6 print 127.0.0.1


LISTENS, CONNECTED = "0A", "01"


def sockets_of(pid: int, state: str) -> list[tuple[str, int, int]]:
    """Address (in the kernel's hexadecimal form), port and remote port of each socket of a process in that state."""
    inodes = set()
    for file in Path(f"/proc/{pid}/fd").iterdir():
        try:
            inodes |= set(re.findall(r"socket:\[(\d+)\]", os.readlink(file)))
        except FileNotFoundError:
            continue
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == state and fields[9] in inodes:
                address, port = fields[1].split(":")
                found.append((address, int(port, 16), int(fields[2].split(":")[1], 16)))
    return found


def answer(port: int, text: str) -> bytes:
    """What the first lines of a connection are answered with; nothing where it is closed."""
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        try:
            connection.sendall(text.encode())
            return connection.recv(4096)
        except (ConnectionResetError, BrokenPipeError):
            return b""


# py4j: a call of an object's method; a call of a static one; both behind a wrong token; lines without an end.
INTRUSIONS = [
    "c\np0\n__class__\ne\n",
    "c\nz:java.lang.System\nexit\ni1\ne\n",
    "A\nwrong\nc\np0\ncall\ne\n",
    "x" * 3000,
    "A\n" + "x" * 3000,
]


@pytest.mark.parametrize("text", INTRUSIONS)
def test_the_drivers_callback_server_wants_a_token(
    spark: SparkSession, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    gateway = SparkContext._gateway
    assert gateway is not None
    address, port = gateway.get_callback_server().server_socket.getsockname()
    assert address == "127.0.0.1"
    said = answer(port, text)
    assert b"y" not in said[:2], said  # !y... is py4j's answer to a call that was made
    assert spark.sql("SHOW INCREMENTAL VIEWS IN default").collect() == []


def test_callbacks_of_others_still_work(spark: SparkSession) -> None:
    """foreachBatch and the like use the same server."""
    seen: list[int] = []
    query = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", 3)
        .option("numPartitions", 1)
        .load()
        .writeStream.foreachBatch(lambda frame, _: seen.append(frame.count()))
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination(60)
    finally:
        query.stop()
    assert seen
    assert set(seen) == {3}


@pytest.mark.parametrize("setting", [s.name for s in SETTINGS if s.scope == "startup"])
def test_settings_of_the_start_cannot_be_set_later(spark: SparkSession, setting: str) -> None:
    with pytest.raises(AnalysisException, match="CANNOT_MODIFY_STATIC_CONFIG"):
        spark.conf.set(setting, "/tmp/evil")
    with pytest.raises(AnalysisException, match="CANNOT_MODIFY_STATIC_CONFIG"):
        spark.sql(f"SET {setting}=/tmp/evil")


def test_rule_paths_in_a_session_have_no_effect(spark: SparkSession, db: str, tmp_path: Path) -> None:
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    other = spark.newSession()
    other._jsparkSession.sessionState().conf().setConfString("spark.tidemill.rules.paths", str(tmp_path))
    other.sql("EXPLAIN INCREMENTAL SELECT 1 AS a").collect()
    assert not (tmp_path / "ran").exists()


def forbidden(tree: ast.AST) -> Iterator[str]:
    """Names in a module by which data could become code."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                found = {alias.name.split(".")[0] for alias in names}
            case ast.ImportFrom(module=str(module)):
                found = {module.split(".")[0]}
            case ast.Call(func=ast.Name(id=name)):
                found = {name}
            case _:
                continue
        yield from found & {"pickle", "cloudpickle", "marshal", "shelve", "eval", "exec", "compile", "__import__"}


def test_the_planner_makes_no_code_of_data() -> None:
    files = [f for folder in ("python/tidemill", "rules", "cost_model") for f in (ROOT / folder).rglob("*.py")]
    assert len(files) > 50
    found = {str(f.relative_to(ROOT)): [*forbidden(ast.parse(f.read_text(encoding="utf-8")))] for f in files}
    assert {file: names for file, names in found.items() if names} == {}


@pytest.mark.parametrize("text", ["import pickle", "from marshal import loads", "eval('1')", "x = exec('')"])
def test_that_is_noticed(text: str) -> None:
    assert [*forbidden(ast.parse(text))]


def modes(folder: Path) -> set[tuple[bool, str]]:
    """Kind (folder?) and permissions of all that lies in the folder."""
    return {(p.is_dir(), stat.filemode(p.stat().st_mode)[1:]) for p in folder.rglob("*")}


def make_files(sql: Callable[[str], object], location: Path) -> None:
    """A view at `location` with files of every kind, and beside it a table of Spark's own, `p`."""
    sql("CREATE TABLE t (a INT) USING parquet")
    sql("INSERT INTO t VALUES (1)")
    query = "SELECT a, count(*) AS n FROM t GROUP BY a"
    sql(f"CREATE INCREMENTAL VIEW v PARTITIONED BY (a) SCHEDULE (ON DEMAND) LOCATION '{location}' AS {query}")
    sql("CREATE INCREMENTAL VIEW above SCHEDULE (ON DEMAND) AS SELECT n FROM v")
    sql("INSERT INTO t VALUES (1), (2)")
    sql("REFRESH INCREMENTAL VIEW above CASCADE")
    sql("ALTER INCREMENTAL VIEW v SUSPEND")
    sql("ALTER INCREMENTAL VIEW v AS SELECT a, count(*) AS n, max(a) AS m FROM t GROUP BY a")
    sql("VACUUM INCREMENTAL VIEW v RETAIN 0 HOURS")
    assert {f.name for f in (location / "_tidemill").iterdir()} >= {"log", "leases", "definition", "amendments"}
    sql("CREATE TABLE p (a INT, b INT) USING parquet PARTITIONED BY (b)")
    sql("INSERT INTO p VALUES (1, 2)")


def test_files_have_the_permissions_of_sparks_own(spark: SparkSession, db: str, tmp_path: Path) -> None:
    location = tmp_path / "v"
    location.mkdir(0o750)
    location.chmod(0o750)
    make_files(spark.sql, location)
    assert stat.S_IMODE(location.stat().st_mode) == 0o750
    assert modes(location) == modes(location_of(spark, "p"))


def test_files_under_a_umask_that_only_hadoop_knows(spark: SparkSession, db: str, tmp_path: Path) -> None:
    """In a session of its own, whose file systems are its own too."""
    other = spark.newSession()
    other.conf.set("fs.file.impl.disable.cache", "true")
    other.conf.set("fs.permissions.umask-mode", "077")
    other.sql(f"USE {db}")
    location = tmp_path / "v"
    make_files(other.sql, location)
    assert modes(location_of(spark, "p")) == {(True, "rwx------"), (False, "rw-------")}
    assert modes(location) == modes(location_of(spark, "p"))
    assert stat.S_IMODE(location.stat().st_mode) == 0o700


SECRET = "S3cret-of-ours"


@pytest.mark.parametrize(
    "options", [f"password '{SECRET}'", f"fs.s3a.secret.key '{SECRET}', url 'jdbc:x://me:{SECRET}@there'"]
)
def test_options_that_spark_would_not_show_are_not_stored(
    spark: SparkSession, db: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], options: str
) -> None:
    """They are in none of the view's files, in nothing shown, in no error and no log; other options are stored."""
    spark.sql(f"CREATE TABLE t (a INT, b STRING) USING csv OPTIONS (sep ';', {options}, pathGlobFilter '*.csv')")
    folder = location_of(spark, "t")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "1.csv").write_text("1;x\n2;y\n")
    (folder / "not.txt").write_text("3;z\n")
    spark.sql("CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS SELECT a, 10 / a AS q, b FROM t")
    (folder / "2.csv").write_text("0;z\n")
    with pytest.raises(PySparkException, match="DIVIDE_BY_ZERO") as caught:
        spark.sql("REFRESH INCREMENTAL VIEW v").collect()
    said = [str(caught.value), caplog.text]
    (folder / "2.csv").write_text("5;z\n")
    spark.sql("REFRESH INCREMENTAL VIEW v").collect()
    assert spark.table("v").count() == 3
    for statement in (
        "SHOW CREATE INCREMENTAL VIEW v",
        "SHOW REFRESHES IN v",
        "SHOW INCREMENTAL VIEWS",
        "DESCRIBE INCREMENTAL VIEW v",
        "DESCRIBE EXTENDED v",
        "SHOW TBLPROPERTIES v",
        "VERIFY INCREMENTAL VIEW v",
        *(f"EXPLAIN INCREMENTAL {mode} VIEW v" for mode in ("PLAN", "COST", "STATE", "MEMO", "JSON", "DOT")),
    ):
        said.append(str(spark.sql(statement).collect()))
    said += [caplog.text, *capfd.readouterr()]
    files = [file for file in location_of(spark, "v").rglob("*") if file.is_file()]
    assert any(file.name == "view.json" and "pathglobfilter" in file.read_text().lower() for file in files)
    assert [text for text in said if SECRET in text] == []
    assert [file for file in files if SECRET.encode() in file.read_bytes()] == []


@pytest.mark.slow
def test_files_under_a_umask_that_keeps_others_out(spark: SparkSession, server: Server, tmp_path: Path) -> None:
    """The server was started with one, and told Hadoop of it, which has one of its own for what jobs write."""
    connection = server.connection(spark)
    connection.sql("CREATE DATABASE private")
    connection.sql("USE private")
    location = tmp_path / "v"
    make_files(connection.sql, location)
    closed = {(True, "rwx------"), (False, "rw-------")}
    assert modes(server.folder / "warehouse" / "private.db" / "p") == closed
    assert modes(location) == closed
    assert stat.S_IMODE(location.stat().st_mode) == 0o700
    for view in ("above", "v"):
        connection.sql(f"DROP INCREMENTAL VIEW {view}")
    connection.sql("DROP DATABASE private CASCADE")
    connection.close()


@pytest.mark.slow
def test_the_planners_process(spark: SparkSession, server: Server) -> None:
    """Loopback only; closed to who does not have the token. Where it stands: test_spark_sql_process.py."""
    connection = server.connection(spark)
    connection.sql("SHOW INCREMENTAL VIEWS")
    (planner,) = server.planners()
    environment = Path(f"/proc/{planner}/environ").read_bytes()
    assert b"TIDEMILL_GATEWAY" not in environment
    sockets = {port: at for pid in (planner, server.process.pid) for at, port, _ in sockets_of(pid, LISTENS)}
    ports = [port for _, port, _ in sockets_of(planner, LISTENS)]
    assert len(ports) == 1
    (gateway,) = {remote for _, port, remote in sockets_of(planner, CONNECTED) if port not in ports}
    for port in (gateway, *ports):
        assert sockets[port] in LOOPBACK
        for text in INTRUSIONS:
            assert b"y" not in answer(port, text)[:2]
    assert server.process.poll() is None
    connection.close()
