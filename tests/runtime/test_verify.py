"""VERIFY of a query that ends in LIMIT: rows before the cut must be there, of those tied at the cut any."""

from __future__ import annotations

import pytest
from pyspark.sql import Row, SparkSession

from tests.conftest import files_under, location_of
from tidemill.runtime.judge.compare import Verdict
from tidemill.runtime.statements import verify

LIMITS = ["ORDER BY v LIMIT 2", "ORDER BY v LIMIT 2 OFFSET 1", "ORDER BY v DESC, k LIMIT 3", "LIMIT 2", "LIMIT 9"]


def verified(spark: SparkSession) -> Row | None:
    return spark.sql("VERIFY INCREMENTAL VIEW v").first()


@pytest.mark.parametrize("limit", LIMITS)
def test_any_of_the_rows_tied_at_the_cut_is_right(
    spark: SparkSession, events: str, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    """The plain comparison finds a difference, as when Spark takes other rows of those tied."""
    spark.sql("INSERT INTO events VALUES (3, 10, 'c'), (4, 10, NULL)")
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS SELECT s, k FROM events {limit}")
    monkeypatch.setattr(verify, "compare", lambda *_: Verdict(1, 1))
    assert verified(spark) == Row(matches=True, missing=0, unexpected=0)


@pytest.mark.parametrize(
    ("limit", "missing", "unexpected"),
    [("ORDER BY v LIMIT 2", 1, 2), ("ORDER BY v LIMIT 9", 3, 2), ("LIMIT 2", 0, 2), ("LIMIT 3", 1, 2)],
)
def test_rows_that_no_answer_has_are_counted(
    spark: SparkSession, events: str, limit: str, missing: int, unexpected: int
) -> None:
    """Somebody has put (9, 9) and (8, 8) in place of the content."""
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS SELECT k, v FROM events {limit}")
    location = location_of(spark, "v")
    (data,) = (f for f in files_under(location) if f.startswith("part-") and f.endswith(".parquet"))
    spark.createDataFrame([(9, 9), (8, 8)], "k INT, v BIGINT").coalesce(1).write.parquet(f"{location}_other")
    (other,) = location.with_name(f"{location.name}_other").glob("*.parquet")
    (location / data).with_name(f".{data}.crc").unlink(missing_ok=True)
    (location / data).write_bytes(other.read_bytes())
    assert verified(spark) == Row(matches=False, missing=missing, unexpected=unexpected)
