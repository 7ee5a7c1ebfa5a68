"""A foreign process with plain Spark that reads a view's location: python -m tests.faults.plain_reader FORMAT LOCATION
STOP COLUMN...

It says so after each read, ends after a last one when the file STOP is there, and prints the digest of each content
that it saw.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from tests.conftest import delta_jars
from tests.faults.contents import read_by_spark
from tidemill.driver.attach import CATALOG, DELTA_CATALOG, DELTA_EXTENSION


def main(format_: str, location: str, stop: Path, columns: Sequence[str]) -> list[str]:
    builder = (
        SparkSession.builder.master("local[1]")
        .config("spark.driver.memory", "700m")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
    )
    if format_ == "delta":
        builder = (
            builder.config("spark.driver.extraClassPath", os.pathsep.join(map(str, delta_jars())))
            .config("spark.sql.extensions", DELTA_EXTENSION)
            .config(CATALOG, DELTA_CATALOG)
            .config("spark.databricks.delta.snapshotPartitions", "1")
        )
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    seen: list[str] = []
    last = False
    while not last:
        last = stop.exists()
        seen.append(read_by_spark(spark.read.format(format_).load(location), columns))
        print("read", flush=True)
    return seen


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4:])), flush=True)
