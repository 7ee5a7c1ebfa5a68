"""A foreign process with plain Spark that reads a view's location: python -m tests.faults.plain_reader LOCATION STOP
COLUMN...

It ends after a last read when the file STOP is there, and prints the digest of each content that it saw.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from tests.faults.contents import read_by_spark


def main(location: str, stop: Path, columns: Sequence[str]) -> list[str]:
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.driver.memory", "700m")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    seen: list[str] = []
    last = False
    while not last:
        last = stop.exists()
        seen.append(read_by_spark(spark.read.parquet(location), columns))
        if len(seen) == 1:
            print("reads", flush=True)
    return seen


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])), flush=True)
