"""Tables that the tests of the runtime share: the papers' sales and returns, as Delta and as Parquet."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidemill.runtime.content.jobs import SparkJobs

SUMMARY = """SELECT cat, SUM(IF(cost IS NULL, price, -cost)) AS gross, COUNT(*) AS n
             FROM sales LEFT OUTER JOIN returns ON sales.o_id = returns.o_id GROUP BY cat"""


@pytest.fixture
def sales(spark: SparkSession, db: str) -> str:
    """Delta tables `sales(o_id, cat, price)` and `returns(o_id, cost)` as the papers have them first; the database."""
    spark.sql("CREATE TABLE sales (o_id STRING, cat STRING, price BIGINT) USING delta")
    spark.sql("CREATE TABLE returns (o_id STRING, cost BIGINT) USING delta")
    spark.sql("INSERT INTO sales VALUES ('o1','c1',100), ('o2','c2',150), ('o3','c1',120), ('o4','c1',170)")
    spark.sql("INSERT INTO returns VALUES ('o1', 10)")
    return db


@pytest.fixture
def events(spark: SparkSession, db: str) -> str:
    """A Parquet table `events(k, v, s)` with duplicates and NULLs; the database."""
    spark.sql("CREATE TABLE events (k INT, v BIGINT, s STRING) USING parquet")
    spark.sql("INSERT INTO events VALUES (1, 10, 'a'), (1, 10, 'a'), (2, 20, NULL), (NULL, 5, 'b')")
    return db


@pytest.fixture
def fails(spark: SparkSession) -> Callable[[str, str], PySparkException]:
    """`fails(sql, condition)`: the statement fails with that condition; the exception."""

    def check(sql: str, condition: str) -> PySparkException:
        with pytest.raises(PySparkException) as caught:
            spark.sql(sql).collect()
        assert caught.value.getCondition() == condition, caught.value
        return caught.value

    return check


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The bound plans of the jobs that are run meanwhile."""
    plans: list[dict[str, Any]] = []
    run = SparkJobs._run

    def noted(self: SparkJobs, plan: dict[str, Any], *rest: Any) -> Mapping[str, Any]:
        plans.append(plan)
        return run(self, plan, *rest)

    monkeypatch.setattr(SparkJobs, "_run", noted)
    return plans
