"""A year of refreshes every five minutes: what a run does with the log does not grow with the log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest
from pyspark.sql import SparkSession

from tests.conftest import Oracle, location_of
from tests.log_of_a_year import grow
from tidemill.bridge.jvm import Jvm

pytestmark = pytest.mark.slow

YEAR = 365 * 24 * 12
EARLY = 1_000
BY_KEY = "SELECT k, sum(v) AS s, count(*) AS n FROM events GROUP BY k"


@contextmanager
def calls() -> Iterator[Counter[str]]:
    """What the planner asks of the JVM meanwhile, and how many characters come back."""
    asked: Counter[str] = Counter()
    invoke = Jvm.invoke

    def counted(self: Jvm, method: str, request: Mapping[str, Any] | None = None) -> Any:
        answer = invoke(self, method, request)
        asked[f"{method} {(request or {}).get('do', '')}".strip()] += 1
        asked["characters"] += len(repr(answer))
        return answer

    with mock.patch.object(Jvm, "invoke", counted):
        yield asked


def test_run_105120_asks_for_no_more_than_run_1000(spark: SparkSession, events: str, oracle: Oracle) -> None:
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {BY_KEY}")
    location = str(location_of(spark, "v"))
    asked: dict[int, Counter[str]] = {}
    for runs in (EARLY, YEAR):
        grow(location, runs, vacuumed=True)
        spark.sql("VACUUM INCREMENTAL VIEW v RETAIN 0 HOURS")
        spark.sql("INSERT INTO events VALUES (1, 1, 'z')")
        with calls() as asked[runs]:
            row = spark.sql("REFRESH INCREMENTAL VIEW v").collect()[0]
            spark.sql("REFRESH INCREMENTAL VIEW v")
            spark.sql("SHOW REFRESHES IN v LIMIT 10").collect()
            spark.sql("SHOW INCREMENTAL VIEWS").collect()
        assert (row.run, row.kind) == (runs, "INCREMENTAL")
        oracle("v", BY_KEY)
    assert asked[YEAR].pop("characters") < 2 * asked[EARLY].pop("characters")
    assert asked[YEAR] <= asked[EARLY]
    rows = spark.sql("SHOW REFRESHES IN v LIMIT 2000").collect()  # into the checkpoints
    assert [r.run for r in rows] == list(range(YEAR, YEAR - 2000, -1))
