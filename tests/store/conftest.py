"""The store part of the bridge, called directly: no statement, no planner."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tidemill.runtime.storage.files import Files

Rows = Counter[tuple[Any, ...]]


class Store:
    """`Store` and `Sources` of the bridge for one session; also what `Files` needs of a Jvm."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._session = spark._jsparkSession
        assert spark._jvm is not None
        self._jvm = spark._jvm
        self._scala = self._jvm.org.apache.spark.sql.tidemill

    def invoke(self, method: str, request: Mapping[str, Any] | None = None) -> Any:
        answer = getattr(self._scala.bridge.Store, method)(self._session, self._json(request or {}))
        return json.loads(self._scala.base.Json.print(answer))

    def describe(self, name: str) -> dict[str, Any]:
        """The source entry of a table or path that can stand in FROM."""
        described: dict[str, Any] = json.loads(
            self._scala.base.Json.print(self._scala.source.Sources.describe(self._leaf(name)))
        )
        return described

    def pin(self, name: str, since: Any = None) -> tuple[Any, Any]:
        """The position of a source, and the JVM's summary since another."""
        answer = self.invoke("pin", {"sources": [self.describe(name)], "since": [since]})
        return answer["positions"][0], answer["changes"][0]

    def snapshot(self, name: str, fields: Sequence[str], at: Any) -> DataFrame:
        plan = self._scala.source.Sources.snapshot(
            self._session, self._leaf(name), self._seq(fields), self._json(at), False
        )
        return self._frame(plan)

    def changes(self, name: str, fields: Sequence[str], since: Any, to: Any) -> DataFrame:
        plan = self._scala.source.Sources.changes(
            self._session, self._leaf(name), self._seq(fields), self._json(since), self._json(to)
        )
        return self._frame(plan)

    def replay_tasks(self, name: str) -> int:
        """The tasks in which Delta has replayed the log of a table, up to its newest version."""
        snapshot = self._leaf(name).relation().location().getSnapshot()
        return int(snapshot.stateDF().rdd().getNumPartitions())

    def _leaf(self, name: str) -> Any:
        analysed = self.spark.sql(f"SELECT * FROM {name}")._jdf.queryExecution().analyzed()
        return analysed.collectLeaves().head()

    def _frame(self, plan: Any) -> DataFrame:
        frame = self._jvm.org.apache.spark.sql.classic.Dataset.ofRows(self._session, plan)
        return DataFrame(frame, self.spark)

    def _json(self, value: Any) -> Any:
        return self._scala.base.Json.parse(json.dumps(value))

    def _seq(self, values: Sequence[str]) -> Any:
        return self._jvm.PythonUtils.toSeq(list(values))


def bag(frame: DataFrame) -> Rows:
    """Rows with their numbers."""
    return Counter(tuple(row) for row in frame.collect())


def signed(frame: DataFrame) -> Rows:
    """Rows of a change set with their net counts, zeros left out; every single count is 1 or -1."""
    net: Rows = Counter()
    assert frame.columns[-1] == "_n"
    assert frame.schema["_n"].dataType.simpleString() == "bigint"
    for row in frame.collect():
        assert row["_n"] in (1, -1)
        net[tuple(row)[:-1]] += row["_n"]
    return Counter({row: n for row, n in net.items() if n})


@pytest.fixture
def store(spark: SparkSession) -> Store:
    return Store(spark)


@pytest.fixture
def files(store: Store) -> Files:
    return Files(store)


@pytest.fixture
def location(tmp_path: Path) -> str:
    """An empty folder, as Hadoop prints it."""
    return f"file:{tmp_path}"


@pytest.fixture
def table(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a table that does not exist yet; dropped afterwards."""
    name = "t_" + "".join(c if c.isalnum() else "_" for c in request.node.name).lower()[:50]
    spark.sql(f"DROP TABLE IF EXISTS {name}")
    yield name
    spark.sql(f"DROP TABLE IF EXISTS {name}")


class Jobs:
    """Counts Spark jobs between two moments."""

    def __init__(self, spark: SparkSession) -> None:
        self._scheduler = spark.sparkContext._jsc.sc().dagScheduler()
        self._start = self.number()

    def number(self) -> int:
        return int(self._scheduler.numTotalJobs())

    def since_start(self) -> int:
        return self.number() - self._start
