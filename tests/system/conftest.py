"""What the system tests share: small tables changed step by step, and the checks after each refresh."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from tests.conftest import difference


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


Jobs = Callable[[Callable[[], object]], int]
