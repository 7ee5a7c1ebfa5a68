"""Views that read the clock: rows come in by the data and leave by the clock, under INCREMENTAL and STRICT too."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from tests.conftest import Oracle, early_work
from tidemill.sources.clock_source import ClockSource

Refresh = Callable[..., Row]
QUERIES = {
    "recent": "SELECT k, d, v FROM log WHERE d > current_date() - 7",
    "hours": """SELECT k, sum(v) AS s, count(*) AS n FROM log
                WHERE ts BETWEEN now() - INTERVAL 2 HOURS AND current_timestamp() AND v > 0 GROUP BY k""",
    "highest": """SELECT k, max(v) AS m FROM log
                  WHERE d >= date_sub(current_date(), 3) AND d < current_date() GROUP BY k""",
    "lately": "SELECT k, max(d) AS d FROM log GROUP BY k HAVING max(d) > date_add(current_date(), -5)",
    "flagged": """SELECT k, d, CASE WHEN d < current_date() THEN 'overdue' WHEN d IS NULL THEN 'none' ELSE 'open' END
                  AS s FROM log""",
    "counted": """SELECT d > current_date() - make_interval(0, 0, 0, 4) AS late, count(*) AS n,
                         count(*) FILTER (WHERE ts < now()) AS past, max(IF(d > current_date(), v, NULL)) AS ahead
                  FROM log GROUP BY d > current_date() - make_interval(0, 0, 0, 4)""",
    "padded": """SELECT a.k, a.d, b.v FROM log a LEFT JOIN (SELECT k, sum(v) AS v FROM log GROUP BY k) b
                 ON a.k = b.k AND a.d > current_date() - 2 AND b.v > 3""",
    "spread": "SELECT a.k, a.v, b.d FROM log a JOIN log b ON a.k = b.k AND a.d + b.v > current_date()",
    "ranked": """SELECT k, v, row_number() OVER (PARTITION BY k, d > current_date() - 4 ORDER BY v, d, ts) AS r
                 FROM log WHERE d <= current_date() + INTERVAL 1 DAY""",
    "words": """SELECT k, d FROM log WHERE d = CAST('yesterday' AS DATE)
                OR d IN (current_date(), CAST('tomorrow' AS DATE)) OR unix_timestamp(ts) > unix_timestamp() - 3600""",
    "local": "SELECT DISTINCT k FROM log WHERE CAST(ts AS TIMESTAMP_NTZ) >= localtimestamp() - INTERVAL 3 HOURS",
    "matched": """SELECT k, d FROM log a WHERE EXISTS (SELECT 1 FROM log b WHERE b.k = a.k AND b.d > current_date() - 3)
                  AND v > (SELECT min(v) FROM log WHERE d >= current_date())""",
    "first": "SELECT k, d, v FROM log WHERE d > current_date() - 9 ORDER BY d, v, k LIMIT 3",
    "since": "SELECT k, v FROM log WHERE current_date() > DATE '2026-03-04'",
}


class Clock:
    """The clock of all runs, set by hand; and queries as they are at what it shows."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(ClockSource, "now", lambda: self.micros)
        self.set("2026-03-01 12:00:00")

    def set(self, text: str) -> None:
        self.text = text
        self.micros = round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1_000_000

    def at(self, query: str) -> str:
        """The query with what it reads of the clock as literals."""
        query = re.sub(r"current_date\(\)", f"DATE'{self.text[:10]}'", query)
        query = re.sub(r"CAST\('(yesterday|tomorrow)' AS DATE\)", self._day, query)
        query = query.replace("localtimestamp()", f"TIMESTAMP_NTZ'{self.text}'")
        query = query.replace("unix_timestamp()", f"unix_timestamp(TIMESTAMP'{self.text}')")
        return re.sub(r"(current_timestamp|now)\(\)", f"TIMESTAMP'{self.text}'", query)

    def _day(self, word: re.Match[str]) -> str:
        return f"DATE'{self.text[:10]}' {'-' if word[1] == 'yesterday' else '+'} INTERVAL 1 DAY"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
def log(spark: SparkSession, db: str) -> str:
    spark.sql("CREATE TABLE log (k INT, d DATE, ts TIMESTAMP, v INT) USING delta")
    spark.sql(
        """INSERT INTO log SELECT id % 3, DATE'2026-02-20' + CAST(id AS INT),
                  TIMESTAMP'2026-03-01 08:00:00' + make_interval(0, 0, 0, 0, 0, 30 * id), id - 2 FROM range(20)"""
    )
    spark.sql("INSERT INTO log VALUES (NULL, NULL, NULL, 7), (1, NULL, TIMESTAMP'2026-03-01 11:00:00', NULL)")
    return db


def test_rows_come_by_the_data_and_leave_by_the_clock(
    spark: SparkSession, log: str, clock: Clock, oracle: Oracle, refresh: Refresh
) -> None:
    maintained(spark, clock, oracle, refresh, ("recent", "counted"))


@pytest.mark.slow
def test_conditions_of_any_form_move(
    spark: SparkSession, log: str, clock: Clock, oracle: Oracle, refresh: Refresh
) -> None:
    maintained(spark, clock, oracle, refresh, tuple(QUERIES))


def maintained(spark: SparkSession, clock: Clock, oracle: Oracle, refresh: Refresh, names: tuple[str, ...]) -> None:
    views = {name: QUERIES[name] for name in names}
    for i, (name, query) in enumerate(views.items()):
        policy = ("INCREMENTAL", "STRICT")[i % 2]
        spark.sql(f"CREATE INCREMENTAL VIEW {name} SCHEDULE (ON DEMAND) REFRESH POLICY {policy} AS {query}")

    def step(time: str, change: str = "") -> dict[str, Row]:
        clock.set(time)
        if change:
            spark.sql(change)
        rows = {name: refresh(name) for name in views}
        for name, query in views.items():
            oracle(name, clock.at(query))
        return rows

    rows = step("2026-03-03 09:30:00")
    assert {row.kind for row in rows.values()} == {"INCREMENTAL"}
    assert rows["recent"].rows_out == Row(inserts=0, deletes=2)
    step(
        "2026-03-02 23:00:00",
        "MERGE INTO log USING (SELECT DATE'2026-03-06' AS d) u ON log.d = u.d WHEN MATCHED THEN DELETE",
    )
    clock.set("2026-03-09 00:00:00")  # VERIFY asks the recorded clock
    for name in views:
        assert spark.sql(f"VERIFY INCREMENTAL VIEW {name}").first().matches  # type: ignore[union-attr]  # a row


def test_nothing_is_due_until_the_clock_shows_something_else(
    spark: SparkSession, log: str, clock: Clock, jobs: Callable[[Callable[[], Any]], int], refresh: Refresh
) -> None:
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        spark.sql(f"CREATE INCREMENTAL VIEW recent SCHEDULE (ON DEMAND) AS {QUERIES['recent']}")
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    clock.set("2026-03-01 14:59:59")
    assert refresh("recent").kind == "NO_DATA"
    assert jobs(lambda: refresh("recent")) == 0
    clock.set("2026-03-01 15:00:00")  # midnight in the time zone of CREATE
    assert refresh("recent").rows_out == Row(inserts=0, deletes=1)
    shown = {r.col_name: r.comment for r in spark.sql("DESCRIBE INCREMENTAL VIEW EXTENDED recent").collect()}
    assert shown["clock()"] == "2026-03-01 15:00:00.000000+00:00"
    spark.sql("CREATE INCREMENTAL VIEW fixed SCHEDULE (ON DEMAND) AS SELECT current_date() AS today, v FROM log")
    assert refresh("fixed").kind == "NO_DATA"
    clock.set("2026-03-02 00:00:00")
    row = refresh("fixed")
    assert (row.kind, row.reason) == ("FULL", "TIME_DEPENDENT: current_date()")


@pytest.mark.slow
def test_the_bounds_prune_partitions(
    spark: SparkSession, db: str, clock: Clock, refresh: Refresh, oracle: Oracle
) -> None:
    spark.sql("CREATE TABLE days (v BIGINT, d DATE) USING parquet PARTITIONED BY (d)")
    spark.sql("INSERT INTO days SELECT id, DATE'2026-02-01' + CAST(id % 40 AS INT) FROM range(80)")
    query = "SELECT d, v FROM days WHERE d > current_date() - 7 AND d <= current_date()"
    spark.sql(f"CREATE INCREMENTAL VIEW week SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {query}")
    clock.set("2026-03-03 12:00:00")
    row = refresh("week")
    assert row.rows_out == Row(inserts=4, deletes=4)
    oracle("week", clock.at(query))


def test_early_runs_see_the_clock_of_their_time(
    spark: SparkSession, log: str, clock: Clock, oracle: Oracle, refresh: Refresh
) -> None:
    query = "SELECT k, sum(v) AS s FROM log WHERE d > current_date() - 7 GROUP BY k"
    schedule = "ON DEMAND COST 0.01 NO OUTPUT, ON DEMAND"
    spark.sql(f"CREATE INCREMENTAL VIEW sums SCHEDULE ({schedule}) REFRESH POLICY STRICT AS {query}")
    with early_work() as done:
        clock.set("2026-03-02 12:00:00")
        spark.sql("INSERT INTO log VALUES (2, DATE'2026-03-02', NULL, 9)")
        assert refresh("sums", "AT 1").kind == "PARTIAL"
        clock.set("2026-03-03 12:00:00")
        assert refresh("sums", "AT 1").kind == "PARTIAL"
    assert sum(done)
    clock.set("2026-03-05 12:00:00")
    assert refresh("sums").kind == "INCREMENTAL"
    oracle("sums", clock.at(query))
