"""Many sessions at once, each with settings of its own: nothing mixes, nothing changes."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pyspark.sql import SparkSession

from tests.conftest import location_of

SESSIONS = 8
ZONES = ("UTC", "Asia/Tokyo", "America/New_York", "Europe/Berlin")


class Worker:
    """A session with settings of its own, its database and its view."""

    def __init__(self, spark: SparkSession, db: str, number: int) -> None:
        self.number = number
        self.database = f"{db}_{number}"
        spark.sql(f"CREATE DATABASE {self.database}")
        self.session = spark.newSession()
        self.settings = {
            "spark.sql.session.timeZone": ZONES[number % 4],
            "spark.sql.ansi.enabled": str(number % 2 == 0).lower(),
            "spark.sql.shuffle.partitions": str(3 + number),
            "spark.tidemill.method.delta.enabled": str(number < 4).lower(),
        }
        for name, value in self.settings.items():
            self.session.conf.set(name, value)
        self.session.sql(f"USE {self.database}")
        self.session.sql("CREATE TABLE t (a INT, at TIMESTAMP) USING parquet")

    def work(self, together: threading.Barrier) -> tuple[list[str], str]:
        together.wait(60)
        sql = self.session.sql
        sql("INSERT INTO t VALUES (1, TIMESTAMP '2026-01-01 23:00:00 UTC')")
        cast = "try_cast" if self.number % 2 == 0 else "CAST"
        sql(
            f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) AS SELECT CAST(at AS DATE) AS day,"
            f" {self.number} AS number, count({cast}('x' AS INT)) AS n, sum(a) AS s FROM t GROUP BY CAST(at AS DATE)"
        )
        sql("INSERT INTO t VALUES (1, TIMESTAMP '2026-01-01 23:00:00 UTC')")
        plan = sql("EXPLAIN INCREMENTAL JSON VIEW v").collect()[0][0]
        (run,) = sql("REFRESH INCREMENTAL VIEW v").collect()
        assert run.view == f"spark_catalog.{self.database}.v"
        assert json.loads(plan)["methods"] == run.methods
        (row,) = sql("SELECT * FROM v").collect()
        assert (row.number, row.n, row.s) == (self.number, 0, 2)
        return run.methods, str(row.day)


def test_sessions_at_once(spark: SparkSession, db: str) -> None:
    workers = [Worker(spark, db, number) for number in range(SESSIONS)]
    try:
        together = threading.Barrier(SESSIONS)
        with ThreadPoolExecutor(SESSIONS) as pool:
            found = list(pool.map(lambda worker: worker.work(together), workers))
        for worker, (methods, day) in zip(workers, found, strict=True):
            assert ("delta" in methods) == (worker.number < 4)
            assert day == ("2026-01-01" if worker.number % 4 in (0, 2) else "2026-01-02")
            for name, value in worker.settings.items():
                assert worker.session.conf.get(name) == value
            assert worker.session.catalog.currentDatabase() == worker.database
            location: Path = location_of(worker.session, f"{worker.database}.v")
            captured = json.loads((location / "_tidemill" / "view.json").read_text())
            assert captured["settings"]["spark.sql.session.timeZone"] == worker.settings["spark.sql.session.timeZone"]
            assert captured["settings"]["spark.sql.ansi.enabled"] == worker.settings["spark.sql.ansi.enabled"]
            assert captured["namespace"] == [worker.database]
    finally:
        for worker in workers:
            spark.sql(f"DROP INCREMENTAL VIEW IF EXISTS {worker.database}.v")
            spark.sql(f"DROP DATABASE {worker.database} CASCADE")
