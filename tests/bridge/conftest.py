"""What the plan codec's tests share: a bridge call, TPC-H and TPC-DS tables with their query texts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession

from benchmarks.texts import standard
from tests.bridge.codec import Call


@pytest.fixture(scope="session")
def call(spark: SparkSession) -> Call:
    """One bridge call in a clone of the session: `call("analyze", sql=...)` gives the answer; RuntimeError if it fails.

    `confs` are set in the clone.
    """
    assert spark._jvm is not None
    bridge = spark._jvm.org.apache.spark.sql.tidemill.bridge.Bridge

    def invoke(method: str, confs: dict[str, str] | None = None, **request: Any) -> Any:
        session = bridge.cloneSession(spark._jsparkSession, json.dumps(confs or {}))
        answer = json.loads(getattr(bridge, method)(session, json.dumps(request)))
        if "failure" in answer:
            raise RuntimeError(f"{answer['class']}: {answer['message']}")
        return {**answer["ok"], "jobs": answer.get("jobs", 0)} if method == "run" else answer["ok"]

    return invoke


@pytest.fixture(scope="session")
def tpch(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The 22 query texts by name, over Parquet tables of database `tpch` at scale 0.01."""
    folder = tmp_path_factory.mktemp("tpch")
    tool = Path(sys.executable).with_name("tpchgen-cli")
    subprocess.run([tool, "parquet", "-s", "0.01", f"--output-dir={folder}"], check=True, capture_output=True)
    spark.sql("CREATE DATABASE IF NOT EXISTS tpch")
    for file in sorted(folder.glob("*.parquet")):
        place = folder / file.stem
        place.mkdir()  # a table is a folder
        file.rename(place / file.name)
        spark.sql(f"CREATE TABLE tpch.{file.stem} USING parquet LOCATION '{place}'")
    return standard("tpch")


@pytest.fixture(scope="session")
def tpcds(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The 99 query texts by name, over Parquet tables of database `tpcds` at scale 0.01."""
    folder = tmp_path_factory.mktemp("tpcds")
    connection = duckdb.connect()
    texts = standard("tpcds")
    connection.execute("CALL dsdgen(sf=0.01)")
    spark.sql("CREATE DATABASE IF NOT EXISTS tpcds")
    for (name,) in connection.execute("SELECT table_name FROM information_schema.tables").fetchall():
        (folder / name).mkdir()
        connection.execute(f"COPY {name} TO '{folder / name / 'part-0.parquet'}' (FORMAT PARQUET)")
        spark.sql(f"CREATE TABLE tpcds.{name} USING parquet LOCATION '{folder / name}'")
    return texts
