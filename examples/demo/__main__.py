"""The demo: incremental views over changing Delta tables, refreshed, verified, and compared with recomputing.

Ends with status 1 if any view is not exactly what its query gives.
"""

import sys
import time
from collections.abc import Callable

from pyspark.sql import Row, SparkSession
from rich.console import Console

from benchmarks import changes, texts
from examples.demo import day, report, running_example, world
from tidemill.calibrate.measure import Measure, Measured

QUERIES = {name: texts.standard("tpch")[name] for name in ("q01", "q03", "q05", "q10")}
SHARE = 0.01
Change = Callable[[int, float], tuple[str, ...]]
ROUNDS: tuple[tuple[str, str, Change | None], ...] = (
    ("Insert", "1 % new orders with their line items", changes.inserts),
    ("Delete", "1 % of the orders with their line items", changes.deletes),
    ("Update", "1 % of the orders and their line items", changes.updates),
    ("Merge", "1 %: 60 % new, 20 % deleted, 20 % updated", changes.merges),
    (
        "All kinds in one refresh",
        "1 % of orders and their line items: 60 % new, 20 % deleted, 20 % updated",
        changes.change_f,
    ),
    ("Nothing", "no source has changed: no Spark job runs", None),
)


def main() -> int:
    out = report.console()
    started = time.perf_counter()
    spark = world.session()
    try:
        report.heading(out, "Load", f"TPC-H, scale {world.SCALE:g}, as Delta tables with change data feed.")
        world.load(spark)
        right = running_example.run(spark, out)
        right = day.run(spark, out) and right
        create_views(spark, out)
        for number, (title, detail, change) in enumerate(ROUNDS, start=1):
            report.heading(out, f"Round {number}: {title}", detail)
            right = run_round(spark, out, change(number, SHARE) if change else ()) and right
    finally:
        spark.stop()
    out.print()
    out.print(f"{'All views verified' if right else 'SOME VIEW IS WRONG'}, in {time.perf_counter() - started:.0f} s.")
    return 0 if right else 1


def create_views(spark: SparkSession, out: Console) -> None:
    """Create and fill one view per query."""
    report.heading(out, "Incremental views", "Created and filled; CREATE is run 0 of each.")
    filled = {}
    for name, query in QUERIES.items():
        spark.sql(f"CREATE INCREMENTAL VIEW {name} SCHEDULE (ON DEMAND) AS {query}")
        report.statement(out, f"CREATE INCREMENTAL VIEW {name} SCHEDULE (ON DEMAND) AS {query}")
        filled[name] = spark.sql(f"SHOW REFRESHES IN {name}").collect()[0]
    content = [(v, r.kind, f"{r.rows_out.inserts:,}", r.jobs, f"{r.cpu_ms:,}") for v, r in filled.items()]
    report.rows(out, ("view", "kind", "rows", "jobs", "CPU ms"), content)


def run_round(spark: SparkSession, out: Console, statements: tuple[str, ...]) -> bool:
    """Change the tables, refresh and verify each view, recompute each query for comparison; whether all agree."""
    for statement in statements:
        report.statement(out, statement)
    changes.apply(spark, statements)
    runs: dict[str, Row] = {v: spark.sql(f"REFRESH INCREMENTAL VIEW {v}").collect()[0] for v in QUERIES}
    verified: dict[str, Row] = {v: spark.sql(f"VERIFY INCREMENTAL VIEW {v}").collect()[0] for v in QUERIES}
    recomputed = {name: recompute(spark, name) for name in QUERIES}
    report.refreshes(out, runs, verified, recomputed)
    return all(row.matches for row in verified.values())


def recompute(spark: SparkSession, name: str) -> Measured:
    """What the same answer costs without Tidemill: run the query again and write its result."""
    with Measure(spark) as measured:
        spark.sql(QUERIES[name]).write.mode("overwrite").parquet(str(world.FOLDER / "recomputed" / name))
    return measured


if __name__ == "__main__":
    sys.exit(main())
