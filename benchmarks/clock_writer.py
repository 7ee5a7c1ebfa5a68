"""The other process of `bench clock`: python -m benchmarks.clock_writer FOLDER TABLE SECONDS.

Inserts rows into the Delta table at that path for so many seconds, one to four seconds apart.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

from tests.faults.processes import session


def main(folder: Path, table: Path, seconds: float) -> None:
    spark = session(folder, {"spark.master": "local[1]"})
    choose, number = random.Random(1), 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        number += 1
        spark.sql(f"INSERT INTO delta.`{table}` VALUES ({number}, {number % 10})")
        time.sleep(choose.uniform(1, 4))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]))
