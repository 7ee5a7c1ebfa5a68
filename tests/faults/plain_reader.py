"""A foreign process with plain Spark that reads a view's location: python -m tests.faults.plain_reader LOCATION STOP.

Each read must be that of a whole run; it ends when the file STOP is there, and prints how many reads it made.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession


def main(location: str, stop: Path) -> dict[str, list[int]]:
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.driver.memory", "700m")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    seen: list[int] = []
    while not stop.exists():
        balance, rows, last = spark.read.parquet(location).selectExpr("sum(v)", "count(*)", "max(n)").collect()[0]
        assert balance == 0, (balance, rows, last)
        assert rows == 2 * (last + 1), (balance, rows, last)
        seen.append(last)
        if len(seen) == 1:
            print("reads", flush=True)
    return {"seen": seen}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], Path(sys.argv[2]))), flush=True)
