"""The demo's session and data: a Spark of its own under build/demo, TPC-H at SF 0.1 as Delta tables."""

import shutil
from pathlib import Path

from pyspark.sql import SparkSession

import tidemill
from benchmarks.data import BUILD, load_delta, tpch_files

SCALE = 0.1
FOLDER = BUILD / "demo"


def session(folder: Path = FOLDER) -> SparkSession:
    """A local session whose warehouse is new and empty."""
    shutil.rmtree(folder, ignore_errors=True)
    builder = (
        SparkSession.builder.appName("tidemill demo")
        .master("local[2]")
        .config("spark.driver.memory", "2g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.sql.shuffle.partitions", "4")  # 200, Spark's default, is for clusters
        .config("spark.databricks.delta.snapshotPartitions", "2")
    )
    return tidemill.configure(builder, formats=["delta"]).getOrCreate()


def load(spark: SparkSession) -> None:
    """Create the TPC-H tables, and those of the papers' sales and returns example, as Delta tables."""
    load_delta(spark, tpch_files(SCALE))
    feed = "USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)"
    spark.sql(f"CREATE TABLE sales (o_id STRING, cat STRING, price BIGINT) {feed}")
    spark.sql(f"CREATE TABLE returns (o_id STRING, cost BIGINT) {feed}")
