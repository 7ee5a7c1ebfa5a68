"""The papers' running example: sales and returns, refreshed at two times of a day.

Expected after t1: c1 280, c2 150; after t2: c1 265, c2 500.  o2 and o6 come back at t2, so that their sales, already
counted or not, turn into costs.
"""

from pyspark.sql import Row, SparkSession
from rich.console import Console

from examples.demo import report

VIEW = """
CREATE INCREMENTAL VIEW summary
SCHEDULE (AT '14:00' COST 0.2, AT '24:00' COST 1)
REFRESH POLICY INCREMENTAL
INITIALIZE DEFERRED
AS SELECT cat, SUM(IF(cost IS NULL, price, -cost)) AS gross
   FROM sales LEFT OUTER JOIN returns USING (o_id)
   GROUP BY cat
"""
ARRIVALS = (
    (
        "INSERT INTO sales VALUES ('o1', 'c1', 100), ('o2', 'c2', 150), ('o3', 'c1', 120), ('o4', 'c1', 170)",
        "INSERT INTO returns VALUES ('o1', 10)",
    ),
    (
        "INSERT INTO sales VALUES ('o5', 'c2', 300), ('o6', 'c1', 150), ('o7', 'c2', 220)",
        "INSERT INTO returns VALUES ('o2', 20), ('o6', 15)",
    ),
)
EXPECTED = ([("c1", 280), ("c2", 150)], [("c1", 265), ("c2", 500)])


def run(spark: SparkSession, out: Console) -> bool:
    """Create the view, let the two batches arrive, refresh at both times; whether all is as expected."""
    report.heading(out, "Sales and returns", "An outer join whose NULL rows turn into matches when goods come back.")
    out.print(VIEW.strip(), style="cyan", markup=False)
    spark.sql(VIEW)
    right = True
    for point, (arrivals, expected) in enumerate(zip(ARRIVALS, EXPECTED, strict=True), start=1):
        for statement in arrivals:
            report.statement(out, statement)
            spark.sql(statement)
        refresh = f"REFRESH INCREMENTAL VIEW summary AT {point}"
        report.statement(out, refresh)
        refreshed: Row = spark.sql(refresh).collect()[0]
        verified: Row = spark.sql("VERIFY INCREMENTAL VIEW summary").collect()[0]
        report.refreshes(out, {"summary": refreshed}, {"summary": verified}, {})
        report.statement(out, "SELECT * FROM summary ORDER BY cat")
        content = [tuple(row) for row in spark.sql("SELECT * FROM summary ORDER BY cat").collect()]
        report.rows(out, ("cat", "gross"), content)
        right = right and verified.matches and content == expected
    return right
