"""How a working session is fitted to a step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from tests.conftest import Oracle
from tidemill.runtime.before import sessions

MEBIBYTE = 1 << 20


class Conf(dict[str, str]):
    def set(self, key: str, value: str) -> None:
        self[key] = value


class Double:
    """Stands for a `Jvm` of two cores."""

    def __init__(self) -> None:
        self.settings = Conf({"spark.sql.shuffle.partitions": "200"})

    @property
    def session(self) -> Any:
        return self

    def conf(self) -> Conf:
        return self.settings

    @property
    def cores(self) -> int:
        return 2


@pytest.mark.parametrize(
    ("source_bytes", "rows", "read", "joins", "expected"),
    [
        (0.0, 10.0, 20_000.0, 0, {"partitions": "1", "adaptive": "false", "compiled": "false"}),
        (0.0, 10.0, 20_001.0, 0, {"partitions": "1", "adaptive": "false", "compiled": "true"}),
        (0.0, 5_001.0, 10.0, 0, {"partitions": "1", "adaptive": "false", "compiled": "true"}),
        (0.0, 1e5 + 1, 10.0, 3, {"partitions": "2", "adaptive": "false", "compiled": "true"}),
        (1.0 * MEBIBYTE, 10.0, 10.0, 32, {"partitions": "1", "adaptive": "false", "compiled": "true"}),
        (1.0 * MEBIBYTE, 10.0, 10.0, 33, {"partitions": "1", "adaptive": "true", "compiled": "true"}),
        (320.0 * MEBIBYTE, 1e9, 10.0, 0, {"partitions": "11", "adaptive": "true", "compiled": "true"}),
        (None, 1e9, 10.0, 0, {"partitions": "200", "adaptive": "true", "compiled": "true"}),
        (None, inf, inf, 0, {"partitions": "200", "adaptive": "true", "compiled": "true"}),
    ],
)
def test_a_session_is_fitted_to_a_step(
    source_bytes: float | None, rows: float, read: float, joins: int, expected: Mapping[str, str]
) -> None:
    jvm = Double()
    settings = sessions.fit(jvm, source_bytes, rows, read, joins)  # type: ignore[arg-type]
    assert settings["spark.sql.shuffle.partitions"] == expected["partitions"]
    assert settings["spark.sql.adaptive.enabled"] == expected["adaptive"]
    assert settings["spark.sql.codegen.wholeStage"] == expected["compiled"]


@pytest.mark.parametrize(
    ("source_bytes", "scanned", "joins", "expected"),
    [
        (320.0 * MEBIBYTE, 19_990.0, 3, {"adaptive": "false", "compiled": "false"}),
        (320.0 * MEBIBYTE, 19_991.0, 3, {"adaptive": "true", "compiled": "true"}),
        (320.0 * MEBIBYTE, 100.0, 33, {"adaptive": "true", "compiled": "false"}),
        (1.0 * MEBIBYTE, 100.0, 3, {"adaptive": "false", "compiled": "false"}),
        (None, 100.0, 3, {"adaptive": "false", "compiled": "false"}),
        (None, inf, 3, {"adaptive": "true", "compiled": "true"}),
        (0.0, inf, 3, {"adaptive": "false", "compiled": "false"}),
    ],
)
def test_a_step_is_fitted_to_the_sources_that_it_scans(
    source_bytes: float | None, scanned: float, joins: int, expected: Mapping[str, str]
) -> None:
    """Other sources of the query may be as large as they like."""
    settings = sessions.fit(Double(), source_bytes, 10.0, 10.0, joins, scanned)  # type: ignore[arg-type]
    assert settings["spark.sql.adaptive.enabled"] == expected["adaptive"]
    assert settings["spark.sql.codegen.wholeStage"] == expected["compiled"]


def test_a_large_change_is_read_by_compiled_code(
    spark: SparkSession, db: str, oracle: Oracle, refresh: Callable[..., Row], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However few of its rows a join with something small leaves to shuffle."""
    spark.sql("CREATE TABLE sales (k INT, v BIGINT) USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    spark.sql("INSERT INTO sales SELECT id, id FROM range(100000)")
    spark.sql("CREATE TABLE kinds (k INT, name STRING) USING delta")
    spark.sql("INSERT INTO kinds VALUES (1, 'one'), (2, 'two')")
    query = "SELECT name, sum(v) AS s FROM sales JOIN kinds USING (k) GROUP BY name"
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {query}")
    spark.sql("INSERT INTO sales SELECT id, id FROM range(30000)")
    seen: list[float] = []
    fit = sessions.fit

    def noted(jvm: Any, source_bytes: float | None, rows: float, read: float, *rest: Any) -> dict[str, str]:
        seen.append(read)
        return fit(jvm, source_bytes, rows, read, *rest)

    monkeypatch.setattr(sessions, "fit", noted)
    assert refresh("v").kind == "INCREMENTAL"
    assert 30_000 in seen
    oracle("v", query)


def test_a_small_table_is_scanned_by_interpreted_code(
    spark: SparkSession, db: str, oracle: Oracle, refresh: Callable[..., Row], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as it is small, however large what it is joined with."""
    spark.sql("CREATE TABLE sales (k INT, v BIGINT) USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    spark.sql("INSERT INTO sales SELECT id % 100, id FROM range(100000)")
    spark.sql("CREATE TABLE kinds (k INT, name STRING) USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    spark.sql("INSERT INTO kinds SELECT id, concat('kind', id) FROM range(100)")
    query = "SELECT v, name FROM sales JOIN kinds USING (k)"
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {query}")
    seen: list[tuple[float, str]] = []
    fit = sessions.fit

    def noted(*given: Any) -> dict[str, str]:
        settings = fit(*given)
        if len(given) == 6:
            seen.append((given[-1], settings["spark.sql.codegen.wholeStage"]))
        return settings

    monkeypatch.setattr(sessions, "fit", noted)
    spark.sql("INSERT INTO sales VALUES (7, -1)")
    assert refresh("v").kind == "INCREMENTAL"
    assert (100.0, "false") in seen
    oracle("v", query)
    spark.sql("INSERT INTO kinds SELECT id, 'more' FROM range(1000, 31000)")
    assert refresh("v").kind == "INCREMENTAL"
    spark.sql("INSERT INTO sales VALUES (8, -2)")
    seen.clear()
    assert refresh("v").kind == "INCREMENTAL"
    assert (30_100.0, "true") in seen
    oracle("v", query)


def test_a_small_refresh_runs_few_jobs(spark: SparkSession, db: str) -> None:
    spark.sql("CREATE TABLE t (g INT, x DECIMAL(32, 4)) USING delta")
    spark.sql("INSERT INTO t SELECT id % 10, id FROM range(1000)")
    spark.sql(
        "CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) REFRESH POLICY STRICT "
        "AS SELECT g, sum(x) AS s, avg(x) AS a FROM t GROUP BY g"
    )
    spark.sql("INSERT INTO t VALUES (1, 1), (11, 11)")
    row = spark.sql("REFRESH INCREMENTAL VIEW v").collect()[0]
    assert row.kind == "INCREMENTAL"
    # A segment, the delta, the keys to replace, the result.
    assert row.jobs <= 4
    assert spark.sql("VERIFY INCREMENTAL VIEW v").collect()[0].matches


def test_rows_in_memory_are_broadcast_without_a_job(
    spark: SparkSession, db: str, oracle: Oracle, refresh: Callable[..., Row]
) -> None:
    """Also where the code of the step is compiled, since its other side is a table."""
    spark.sql("CREATE TABLE sales (k INT, g INT) USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    spark.sql("INSERT INTO sales SELECT id, id % 100 FROM range(100000)")
    query = "SELECT g, count(*) AS n, bit_xor(k) AS m FROM sales GROUP BY g"
    spark.sql(f"CREATE INCREMENTAL VIEW v SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {query}")
    for key in (-1, -2):
        spark.sql(f"INSERT INTO sales VALUES ({key}, 7)")
        row = refresh("v")
        assert row.kind == "INCREMENTAL"
        oracle("v", query)
    # The touched groups and the delta: a job each. None for what the delta broadcasts, and none for the result.
    assert row.jobs == 2


def test_how_a_session_writes_its_own_output_does_not_reach_the_view(
    spark: SparkSession, db: str, oracle: Oracle
) -> None:
    query = "SELECT at, count(*) AS n FROM visits GROUP BY at"
    micros = "(TIMESTAMP '2026-01-01 00:00:00.123456'), (TIMESTAMP '2026-01-01 00:00:00.123457')"
    spark.sql("CREATE TABLE visits (at TIMESTAMP) USING delta")
    spark.sql(f"INSERT INTO visits VALUES {micros}")
    other = spark.newSession()
    other.sql(f"USE {db}")
    other.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MILLIS")
    for view, creator, refresher in (("v", other, spark), ("w", spark, other)):
        creator.sql(f"CREATE INCREMENTAL VIEW {view} SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS {query}")
        oracle(view, query)
        spark.sql(f"INSERT INTO visits VALUES {micros}")
        refresher.sql(f"REFRESH INCREMENTAL VIEW {view}")
        spark.catalog.refreshTable(view)  # each session keeps listings of its own
        oracle(view, query)
