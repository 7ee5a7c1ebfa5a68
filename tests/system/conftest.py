"""What the system tests share: small tables changed step by step, and the checks after each refresh."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from tests.conftest import difference, files_under, location_of, packs


@dataclass(frozen=True, slots=True)
class World:
    """A database whose tables change and whose views are checked against their queries."""

    spark: SparkSession
    queries: dict[str, str]

    def view(self, name: str, query: str, policy: str = "STRICT") -> None:
        """Creates a view and checks its first content."""
        self.spark.sql(f"CREATE INCREMENTAL VIEW {name} SCHEDULE (ON DEMAND) REFRESH POLICY {policy} AS {query}")
        self.queries[name] = query
        self.equal(name)

    def change(self, *statements: str) -> None:
        for statement in statements:
            self.spark.sql(statement)

    def refresh(self, name: str, kind: str = "INCREMENTAL") -> Row:
        """Refreshes, and checks content and kind."""
        rows = self.spark.sql(f"REFRESH INCREMENTAL VIEW {name}").collect()
        assert len(rows) == 1
        assert rows[0].kind == kind, rows[0]
        self.equal(name)
        return rows[0]

    def both(self, query: str) -> None:
        """The views `auto` and `strict` of one query, each of that policy; a test may also make one of them alone."""
        self.view("auto", query, "AUTO")
        self.view("strict", query, "STRICT")

    def made(self) -> list[str]:
        """Those of `auto` and `strict` that the test has made."""
        return [name for name in ("auto", "strict") if name in self.queries]

    def goes_full(self, reason: str, *tables: str) -> None:
        """AUTO recomputes for that reason; STRICT fails, changes nothing, and catches up when asked to.

        `tables`: those whose files changed behind this session's back.
        """
        for table in tables:
            self.spark.sql(f"REFRESH TABLE {table}")
        assert self.refresh("auto", kind="FULL").reason.startswith(reason)
        if "strict" in self.made():
            self.unmoved("strict", "TIDEMILL_NOT_INCREMENTAL", reason)
            assert self.spark.sql("REFRESH INCREMENTAL VIEW strict FULL").collect()[0].reason == "REQUESTED"
            self.equal("strict")

    def goes_on(self, inserts: int, deletes: int = 0) -> None:
        """They read this many change rows and nothing else."""
        for name in self.made():
            assert self.refresh(name).rows_in == Row(inserts=inserts, deletes=deletes)

    def nothing(self) -> None:
        """There is nothing to do."""
        for name in self.made():
            self.refresh(name, kind="NO_DATA")

    def unmoved(self, name: str, condition: str, *texts: str) -> None:
        """A refresh fails with that condition and these words, and leaves content, history and files as they were."""
        files, rows = files_under(location_of(self.spark, name)), self.rows(f"SELECT * FROM {name}")
        message = str(self.fails(f"REFRESH INCREMENTAL VIEW {name}", condition))
        assert all(text in message for text in texts), message
        assert files_under(location_of(self.spark, name)) == files
        assert self.rows(f"SELECT * FROM {name}") == rows

    def equal(self, name: str) -> None:
        """The view holds what its query gives: two-way, as bags."""
        missing, unexpected = difference(self.spark, name, self.queries[name])
        assert (missing, unexpected) == (0, 0), f"{name}: {missing} rows missing, {unexpected} unexpected"

    def rows(self, query: str) -> list[tuple[object, ...]]:
        """Rows of a query, sorted, NULLs as None."""
        return sorted((tuple(r) for r in self.spark.sql(query).collect()), key=repr)

    def fails(self, sql: str, condition: str) -> PySparkException:
        """The statement fails with that condition."""
        with pytest.raises(PySparkException) as caught:
            self.spark.sql(sql).collect()
        assert caught.value.getCondition() == condition, caught.value
        return caught.value


@pytest.fixture(scope="module")
def world(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[World]:
    """A database shared by the tests of a module, current while they run."""
    name = request.module.__name__.rsplit(".", 1)[-1] + "_db"
    spark.sql(f"DROP DATABASE IF EXISTS {name} CASCADE")
    spark.sql(f"CREATE DATABASE {name}")
    spark.sql(f"USE {name}")
    made = World(spark, {})
    yield made
    spark.sql("USE default")
    for row in spark.sql(f"SHOW INCREMENTAL VIEWS IN {name}").collect():
        spark.sql(f"DROP INCREMENTAL VIEW {name}.`{row.viewName}`")
    spark.sql(f"DROP DATABASE {name} CASCADE")


@pytest.fixture
def fresh(world: World, request: pytest.FixtureRequest) -> Iterator[World]:
    """The module's database without the tables and views of the test before.

    What sources tell is read as changes wherever they can tell it: of tables so small, reading all would cost less.
    """
    spark = world.spark
    world.queries.clear()
    spark.sql(f"USE {request.module.__name__.rsplit('.', 1)[-1]}_db")
    for row in spark.sql("SHOW INCREMENTAL VIEWS").collect():
        spark.sql(f"DROP INCREMENTAL VIEW `{row.viewName}`")
    for row in spark.sql("SHOW VIEWS").collect():
        if not row.isTemporary:
            spark.sql(f"DROP VIEW `{row.viewName}`")
    for row in spark.sql("SHOW TABLES").collect():
        if not row.isTemporary:
            spark.sql(f"DROP TABLE `{row.tableName}`")
    with packs(spark, prefer="delta"):
        yield world


Jobs = Callable[[Callable[[], object]], int]
