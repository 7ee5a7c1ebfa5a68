"""What the tests that need Spark share: one session per test run, a database per test, the sign oracle."""

from __future__ import annotations

import fcntl
import json
import os
import random
import re
import runpy
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DoubleType,
    FloatType,
    MapType,
    StringType,
    StructType,
    VariantType,
)

import tidemill
from cost_model.default import MODEL
from tests import durations
from tidemill.cost.costing import CostModel
from tidemill.cost.models import text
from tidemill.runtime.statements import dispatch
from tidemill.search.choose.extract import Extractor
from tidemill.search.keep.weighing import Scenario
from tidemill.search.runs import early
from tidemill.search.space.orders import orders

Oracle = Callable[[str, str], None]
ROOT = Path(__file__).resolve().parents[1]
JAVA = (
    "-XX:+UseParallelGC -XX:ReservedCodeCacheSize=512m -XX:Tier4InvocationThreshold=20000"
    " -XX:Tier4MinInvocationThreshold=2400 -XX:Tier4CompileThreshold=40000 -XX:Tier4BackEdgeThreshold=160000"
)
"""Nothing collected beside the program, room for all compiled code, and the second compiler, which took two fifths of
all CPU time, for less of it: each about a tenth less time on two cores."""
OPTIONS = "JDK_JAVA_OPTIONS"
COSTS = "spark.tidemill.cost.constants"


VARIANTS = int(os.environ.get("TIDEMILL_VARIANTS", "1"))
"""One of so many variants of each slow test is run; all of a test that is marked `whole`."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks what needs a JVM; files that take longest first, lest one process end long after the other; of slow tests'
    variants as many as are asked for."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("jvm")
    seconds = durations.of_files(durations.KEPT)
    items.sort(key=lambda item: -seconds.get(item.nodeid.partition("::")[0], 0.0))
    if left := without(items, VARIANTS):
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in left]


SCRATCH = TemporaryDirectory(prefix="tidemill-tests-")


@cache
def free(*names: str) -> str:
    """A file of constants (`COSTS`) in which these are next to nothing; without exchanges, few rows are handled like
    many."""
    path = Path(SCRATCH.name) / f"free {' '.join(names)}.json"
    constants = [replace(c, value=c.value * 1e-4) if c.name in names else c for c in MODEL.constants]
    path.write_text(text(MODEL.name, constants, {}))
    return str(path)


def ordered(scenarios: Sequence[Scenario], kept: Collection[str], _: CostModel) -> dict[str, str]:
    """In place of `worth_ordering`: each state in the order of a column by which its rows are asked for."""
    space = scenarios[0].space
    return {name: field for name, field in orders(space.memo, space.facts).items() if name in kept}


def without(items: Iterable[pytest.Item], one_of: int) -> set[pytest.Item]:
    """Variants of slow tests that are left out when one of so many is run: the same ones each time, chosen by the
    test's name, so that tests with the same parameters need not leave out the same ones."""
    variants: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("slow") is not None and item.get_closest_marker("whole") is None:
            variants.setdefault(item.nodeid.partition("[")[0], []).append(item)
    left = set[pytest.Item]()
    for test, found in variants.items():
        left.update(random.Random(test).sample(found, len(found) - -(-len(found) // one_of)))
    return left


def pytest_configure(config: pytest.Config) -> None:
    """Programs that tests start live for seconds: not worth the second compiler, nor threads that collect."""
    os.environ[OPTIONS] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Failures(config))
        config.pluginmanager.register(durations.Recorder())


class Failures:
    """Names each failure when it happens: of a suite that is stopped, the closing summary never comes."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and terminal is not None:
            terminal.ensure_newline()
            terminal.write_line(f"FAILED {report.nodeid}")
            terminal.write_line("\n".join(line for line in report.longreprtext.splitlines() if line.startswith("E ")))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session of all tests: local, small, in-memory catalog, Delta beside Tidemill."""
    warehouse = tmp_path_factory.mktemp("warehouse")
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("tidemill tests")
        .config("spark.driver.memory", "4g")
        .config("spark.driver.extraJavaOptions", f'"-Dderby.system.home={warehouse}" {JAVA}')
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.databricks.delta.snapshotPartitions", "2")
        .config("spark.sql.sources.parallelPartitionDiscovery.parallelism", "2")  # VACUUM of Delta: 40 s with 10000
        .config("spark.sql.warehouse.dir", str(warehouse))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.tidemill.search.processes", "0")  # what a test puts in place of something is in this one only
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
    )
    (ROOT / "build").mkdir(exist_ok=True)
    with mock.patch.dict(os.environ), (ROOT / "build/session.lock").open("w") as lock:
        del os.environ[OPTIONS]
        fcntl.flock(lock, fcntl.LOCK_EX)  # Ivy's cache, which may be empty yet, bears one process that fetches
        session = tidemill.configure(builder, formats=["delta"]).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture
def db(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    """A database of its own for each test, current while it runs; dropped with its files."""
    name = re.sub(r"\W+", "_", request.node.name).strip("_").lower()[:60]
    spark.sql(f"DROP DATABASE IF EXISTS {name} CASCADE")
    spark.sql(f"CREATE DATABASE {name}")
    spark.sql(f"USE {name}")
    yield name
    spark.sql("USE default")
    for view in [r.viewName for r in spark.sql(f"SHOW INCREMENTAL VIEWS IN {name}").collect()]:
        spark.sql(f"DROP INCREMENTAL VIEW {name}.`{view}`")
    spark.sql(f"DROP DATABASE {name} CASCADE")
    for table in spark.catalog.listTables("default"):
        if table.isTemporary:
            spark.catalog.dropTempView(table.name)


def comparable(value: str, kind: DataType, depth: int = 0) -> str:
    """SQL for a value that `GROUP BY` takes for the same exactly if it is the same, whatever the type."""
    x = f"x{depth}"
    match kind:
        case DoubleType() | FloatType():
            return f"if({value} IS NULL, NULL, format_string('%.8e', CAST({value} AS DOUBLE) + 0.0D))"
        case StringType():
            return f"collate({value}, 'UTF8_BINARY')" if kind.collation != "UTF8_BINARY" else value
        case VariantType():
            return f"to_json({value})"
        case ArrayType():
            return f"transform({value}, {x} -> {comparable(x, kind.elementType, depth + 1)})"
        case StructType():
            parts = [comparable(f"{value}.`{f.name}`", f.dataType, depth) for f in kind.fields]
            return f"if({value} IS NULL, NULL, struct({', '.join(parts)}))"
        case MapType():
            key, held = (
                comparable(f"{x}.key", kind.keyType, depth + 1),
                comparable(f"{x}.value", kind.valueType, depth + 1),
            )
            return f"sort_array(transform(map_entries({value}), {x} -> struct({key} AS k, {held} AS v)))"
    return value


def difference(spark: SparkSession, view: str, query: str) -> tuple[int, int]:
    """Rows of `query` that `view` lacks, and rows of `view` that `query` does not give; one job.

    Two-way bag comparison by signs. Doubles and floats are compared by nine significant digits, all else exactly.
    """
    fields = spark.table(view).schema.fields
    columns = [comparable(f"`{f.name}`", f.dataType) for f in fields]
    names = ", ".join(f"{c} AS c{i}" for i, c in enumerate(columns))
    renamed = ", ".join(f"`{f.name}`" for f in fields)
    keys = ", ".join(f"c{i}" for i in range(len(columns)))
    row = spark.sql(
        f"""SELECT coalesce(sum(if(n > 0, n, 0)), 0) AS missing, coalesce(sum(if(n < 0, -n, 0)), 0) AS unexpected
            FROM (SELECT {keys}, sum(sign) AS n
                  FROM (SELECT {names}, 1 AS sign FROM ({query}) AS q({renamed})
                        UNION ALL SELECT {names}, -1 FROM {view})
                  GROUP BY {keys} HAVING sum(sign) <> 0)"""
    ).first()
    assert row is not None
    return int(row.missing), int(row.unexpected)


@pytest.fixture
def oracle(spark: SparkSession) -> Oracle:
    """`oracle(view, query)`: the view holds exactly what its query gives now."""

    def check(view: str, query: str) -> None:
        missing, unexpected = difference(spark, view, query)
        assert (missing, unexpected) == (0, 0), (
            f"{view}: {missing} rows missing, {unexpected} unexpected\nview: {spark.table(view).collect()}\n"
            f"query: {spark.sql(query).collect()}"
        )

    return check


@pytest.fixture
def refresh(spark: SparkSession) -> Callable[..., Row]:
    """`refresh(view, clauses="")`: one refresh, and its row."""

    def run(view: str, clauses: str = "") -> Row:
        rows = spark.sql(f"REFRESH INCREMENTAL VIEW {view} {clauses}").collect()
        assert len(rows) == 1
        return rows[0]

    return run


@pytest.fixture
def jobs(spark: SparkSession) -> Callable[[Callable[[], Any]], int]:
    """`jobs(action)`: how many Spark jobs `action` started, counted by Spark's scheduler."""

    def count(action: Callable[[], Any]) -> int:
        scheduler = spark.sparkContext._jsc.sc().dagScheduler()
        before = int(scheduler.numTotalJobs())
        action()
        return int(scheduler.numTotalJobs()) - before

    return count


@pytest.fixture
def warned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The warnings of all statements from here on, as they go to Spark's log."""
    found: list[str] = []

    def executing(*args: Any) -> dict[str, Any]:
        answer = original(*args)
        found.extend(answer["warnings"])
        return answer

    original = dispatch.execute
    monkeypatch.setattr(dispatch, "execute", executing)
    return found


MOST_EARLY = 6
"""Things that a run without output does early at most, in tests."""


@contextmanager
def early_work() -> Iterator[list[int]]:
    """Runs without output do what they can for the next one with output, whatever it costs; how much each did.

    The query's own states and the view's change have the lowest numbers; of what methods add, the last few are taken.
    """
    done: list[int] = []

    def everything(extractor: Extractor, demands: object, savable: Collection[int]) -> list[int]:
        possible = [group for group in sorted(savable) if extractor.best(group) is not None]
        wanted = possible if len(possible) <= MOST_EARLY else [*possible[: MOST_EARLY - 2], *possible[-2:]]
        done.append(len(wanted))
        return wanted

    with mock.patch.object(early, "worth_saving", everything):
        yield done


@contextmanager
def confs(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Settings of the session, put back afterwards."""
    before = {name: spark.conf.get(name, None) for name in values}
    for name, value in values.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            spark.conf.unset(name)
            if old is not None:
                spark.conf.set(name, old)


@contextmanager
def packs(spark: SparkSession, prefer: str | None = None, disabled: Iterable[str] = ()) -> Iterator[None]:
    """The session's settings of methods, put back afterwards."""
    chosen = {f"spark.tidemill.method.{p}.enabled": "false" for p in disabled}
    if prefer is not None:
        chosen["spark.tidemill.method.prefer"] = prefer
    with confs(spark, chosen):
        yield


def files_under(path: str | Path) -> list[str]:
    """All files below `path`, checksums left out, relative and sorted; empty if it does not exist."""
    root = Path(str(path).removeprefix("file:"))
    return sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file() and not p.name.endswith(".crc"))


def newest_entry(location: Path) -> dict[str, Any]:
    """The newest entry of the log of the view that lies there."""
    newest = max((location / "_tidemill" / "log").glob("*[0-9].json"))
    found: dict[str, Any] = json.loads(newest.read_text())
    return found


def delta_jars() -> list[Path]:
    """Delta's jars, for processes that get them on their class path: quicker than to have Spark resolve them."""
    jars: list[Path] = runpy.run_path(str(ROOT / "jvm-bridge" / "dependencies.py"))["delta_classpath"]()
    return jars


def location_of(spark: SparkSession, table: str) -> Path:
    """The directory of a table or an incremental view."""
    for row in spark.sql(f"DESCRIBE TABLE EXTENDED {table}").collect():
        if row.col_name == "Location":
            return Path(re.sub(r"^file:/*", "/", row.data_type))
    raise AssertionError(f"{table} has no location")
