"""A driver that takes up views where they lie, or makes them, lets their source grow and refreshes them once:
python -m tests.faults.identity_worker FOLDER NUMBER.

Prints the row of each refresh. What it leaves is the log of each view, below FOLDER.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.faults.processes import session


def queries(folder: Path) -> dict[str, str]:
    """The views: an aggregate, one over a self-join, a limit over groups."""
    events = f"parquet.`{folder}/events`"
    sums = f"SELECT k, sum(v) AS s, count(*) AS n, avg(v / 3.0D) AS a FROM {events} WHERE j > 0 AND v > 0 GROUP BY k"
    pairs = f"SELECT a.j, avg(b.v / 3.0D) AS m, count(*) AS n FROM {events} a JOIN {events} b ON a.k = b.j GROUP BY a.j"
    return {
        "sums": sums,
        "pairs": pairs,
        "top": f"SELECT k, s FROM ({sums}) ORDER BY s DESC, k LIMIT 3",
    }


def main(folder: Path, number: int) -> None:
    spark = session(folder, {"spark.master": "local[1]"})
    events = str(folder / "events")

    def grow(first: int, end: int) -> None:
        rows = spark.range(first, end).selectExpr("id % 50 AS k", "(id + 1) % 50 AS j", "id AS v")
        rows.coalesce(1).write.mode("append").parquet(events)

    if number == 0:
        grow(0, 2000)
    clauses = "SCHEDULE (ON DEMAND) REFRESH POLICY STRICT"
    for view, query in queries(folder).items():
        spark.sql(f"CREATE INCREMENTAL VIEW {view} LOCATION '{folder / view}' {clauses} AS {query}")
    grow(2000 + number, 2001 + number)
    found = {}
    for view in queries(folder):
        found[view] = spark.sql(f"REFRESH INCREMENTAL VIEW {view}").collect()[0].asDict(recursive=True)
        assert spark.sql(f"VERIFY INCREMENTAL VIEW {view}").collect()[0].matches, view
    print(json.dumps(found, default=str), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
