"""The Python API: incremental views as objects, over the same SQL statements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from tidemill.plan.kinds import one_of
from tidemill.search.contract.run_kinds import POLICIES
from tidemill.sql.cursor import Cursor
from tidemill.sql.render import create_text, expect_text, name_text
from tidemill.sql.schedule import second_of_day
from tidemill.sql.statements import AtTime, ColumnClause, Create, Expectation, OnDemand, Point

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

__all__ = ["IncrementalView", "at", "complete", "create_incremental_view", "expected", "on_demand"]


def at(time: str, cost: float = 1.0, output: bool = True) -> Point:
    """Returns a point every day at `time` ('HH:MM[:SS]'; '24:00' ends the day). `cost`: price of a unit of work."""
    return Point(AtTime(second_of_day(time)), float(cost), output)


def on_demand(cost: float = 1.0, output: bool = True) -> Point:
    """Returns a point that only REFRESH fires."""
    return Point(OnDemand(), float(cost), output)


def expected(table: str, rows: int, *, per: str = "CYCLE", deletes: float = 0.0) -> Expectation:
    """Returns the expectation of `rows` changed rows of `table` per 'CYCLE' or 'DAY'; 0: none at all.

    `deletes`: how many per cent of them are deletes.
    """
    if rows < 0 or rows >= 10**18:
        raise ValueError(f"rows must be a number from 0 on, of at most 18 digits, not {rows}")
    if per.upper() not in ("CYCLE", "DAY"):
        raise ValueError(f"per must be CYCLE or DAY, not {per!r}")
    if not 0 <= deletes <= 100:
        raise ValueError(f"deletes is a percentage from 0 to 100, not {deletes}")
    return Expectation(_parts(table), int(rows), per.upper(), float(deletes))


def complete(table: str) -> Expectation:
    """Returns the expectation that `table` gets no more data in this cycle."""
    return Expectation(_parts(table))


def create_incremental_view(
    spark: SparkSession,
    name: str,
    sql: str,
    schedule: Sequence[Point] | None = None,
    *,
    columns: Sequence[str | tuple[str, str]] = (),
    comment: str | None = None,
    format: str | None = None,  # noqa: A002  # as DataFrameWriter.format
    partitioned_by: Sequence[str] = (),
    location: str | None = None,
    properties: Mapping[str, str] | None = None,
    expect: Sequence[Expectation] = (),
    policy: str = "AUTO",
    deferred: bool = False,
    if_not_exists: bool = False,
) -> IncrementalView:
    """Runs CREATE INCREMENTAL VIEW and returns the view.

    `name` is SQL: possibly qualified, back-quoted where needed. `columns`: names, or pairs of name and comment.
    `schedule`: one ON DEMAND point by default. `format`: 'parquet' (default) or 'delta'. `expect`: see `expected` and
    `complete`.
    Raises what the statement raises.
    """
    chosen = one_of(POLICIES, policy.upper(), "policy")
    parts = _parts(name)
    statement = Create(
        name=parts,
        schedule=tuple(schedule) if schedule is not None else (on_demand(),),
        query=sql,
        columns=tuple(ColumnClause(c) if isinstance(c, str) else ColumnClause(*c) for c in columns),
        comment=comment,
        format=format,
        partitioned_by=tuple(partitioned_by),
        location=location,
        properties=tuple((properties or {}).items()),
        expect=tuple(expect),
        policy=chosen,
        deferred=deferred,
        if_not_exists=if_not_exists,
    )
    spark.sql(create_text(statement))
    return IncrementalView(spark, parts)


def _parts(name: str) -> tuple[str, ...]:
    """Returns the parts of a name as SQL writes it."""
    cursor = Cursor(name)
    parts = cursor.names()
    cursor.end()
    return parts


class IncrementalView:
    """One incremental view. Each method runs the SQL statement of its name, in the session given."""

    def __init__(self, spark: SparkSession, name: tuple[str, ...]) -> None:
        self._spark = spark
        self._name = name_text(name)

    @classmethod
    def forName(cls, spark: SparkSession, name: str) -> IncrementalView:  # noqa: N802  # as DeltaTable.forName
        """Returns the view of that name. Raises TIDEMILL_NOT_FOUND or TIDEMILL_NOT_AN_INCREMENTAL_VIEW."""
        view = cls(spark, _parts(name))
        spark.sql(f"DESCRIBE INCREMENTAL VIEW {view._name}")
        return view

    def __repr__(self) -> str:
        return f"IncrementalView({self._name})"

    def refresh(
        self, point: int | None = None, *, full: bool = False, dry_run: bool = False, cascade: bool = False
    ) -> Row:
        """REFRESH: returns the row of the run."""
        clauses = [f"AT {point}"] if point is not None else []
        clauses += ["FULL"] if full else []
        clauses += ["DRY RUN"] if dry_run else []
        clauses += ["CASCADE"] if cascade else []
        return self._row(" ".join([f"REFRESH INCREMENTAL VIEW {self._name}", *clauses]))

    def verify(self) -> Row:
        """VERIFY: returns one row of matches, missing, unexpected."""
        return self._row(f"VERIFY INCREMENTAL VIEW {self._name}")

    def explain(self, mode: str = "PLAN") -> str:
        """EXPLAIN INCREMENTAL: returns the plan of the next run, as text or (mode 'JSON') as JSON text."""
        return str(self._row(f"EXPLAIN INCREMENTAL {mode} VIEW {self._name}")[0])

    def expect(self, *expectations: Expectation) -> None:
        """ALTER ... SET EXPECT: replaces the expectations for all plans from the next one on.

        `expectations`: made by `tidemill.expected` and `tidemill.complete`. For tables that are not named, the view's
        own history counts.
        """
        self._spark.sql(f"ALTER INCREMENTAL VIEW {self._name} SET EXPECT ({expect_text(expectations)})")

    def history(self, limit: int | None = None) -> DataFrame:
        """SHOW REFRESHES: returns one row per run, newest first."""
        return self._spark.sql(f"SHOW REFRESHES IN {self._name}" + (f" LIMIT {limit}" if limit is not None else ""))

    def describe(self, extended: bool = False) -> DataFrame:
        """DESCRIBE INCREMENTAL VIEW: returns its rows."""
        return self._spark.sql(f"DESCRIBE INCREMENTAL VIEW {'EXTENDED ' if extended else ''}{self._name}")

    def showCreate(self) -> str:  # noqa: N802  # Spark's spelling of method names
        """SHOW CREATE INCREMENTAL VIEW: returns a statement that creates the view again."""
        return str(self._row(f"SHOW CREATE INCREMENTAL VIEW {self._name}")[0])

    def toDF(self) -> DataFrame:  # noqa: N802  # as DeltaTable.toDF
        """Returns the content, as of now."""
        return self._spark.table(self._name)

    def files(self) -> list[str]:
        """Returns the Parquet files that hold the content of one run, as of now, for readers that do not use Spark.

        Local files have paths, others URIs. They stay until VACUUM finds them older than its retention. Each file has
        all columns of the view, partition columns too.
        """
        found = (urlsplit(name) for name in self.toDF().inputFiles())
        return sorted(unquote(f.path) if f.scheme == "file" else f.geturl() for f in found)

    def drop(self) -> None:
        """DROP INCREMENTAL VIEW."""
        self._spark.sql(f"DROP INCREMENTAL VIEW {self._name}")

    def _row(self, sql: str) -> Row:
        row = self._spark.sql(sql).first()
        assert row is not None, f"{sql} answers one row"
        return row
