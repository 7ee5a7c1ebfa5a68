"""The Python API: incremental views as objects, over the same SQL statements."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from tidemill import notebook
from tidemill.plan.kinds import one_of
from tidemill.points import name_parts, on_demand
from tidemill.search.contract.run_kinds import POLICIES
from tidemill.sql.answers import REFRESH
from tidemill.sql.render import create_text, expect_text, name_text, schedule_text, string_text
from tidemill.sql.statements import ColumnClause, Create, Expectation, Point

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

    from tidemill.runtime.view.history import ChangeCounts, RunRow

__all__ = ["IncrementalView", "create_incremental_view", "refresh_incremental_views", "run_once"]


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
    state_budget: str | int | None = None,
    expect: Sequence[Expectation] = (),
    policy: str = "AUTO",
    deferred: bool = False,
    if_not_exists: bool = False,
    or_replace: bool = False,
) -> IncrementalView:
    """Runs CREATE INCREMENTAL VIEW and returns the view.

    `name` is SQL: possibly qualified, back-quoted where needed. `columns`: names, or pairs of name and comment.
    `schedule`: points made by `at`, `every`, `cron`, `on_change`, `at_progress` and `on_demand`; one of the last by
    default. `format`: 'parquet' (default) or 'delta'. `state_budget`: for what kept states take on storage, in bytes
    or as Spark writes sizes ('2GB'). `expect`: expectations made by `expected` and `complete`. `policy`: 'AUTO',
    'INCREMENTAL', 'STRICT' or 'FULL'. `deferred`: the first refresh loads the view, not CREATE.
    `or_replace`: a view of that name gets this query. Raises what the statement raises.
    """
    chosen = one_of(POLICIES, policy.upper(), "policy")
    parts = name_parts(name)
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
        state_budget=None if state_budget is None else str(state_budget),
        expect=tuple(expect),
        policy=chosen,
        deferred=deferred,
        if_not_exists=if_not_exists,
        or_replace=or_replace,
    )
    spark.sql(create_text(statement))
    return IncrementalView(spark, parts)


def refresh_incremental_views(
    spark: SparkSession, database: str | None = None, pattern: str | None = None
) -> builtins.list[Row]:
    """REFRESH INCREMENTAL VIEWS: refreshes the views of a database (the current one by default), upstream ones first.

    `pattern`: as in SHOW TABLES, such as 'sales*|returns'. Returns a row per view, with the columns of SHOW REFRESHES.
    Raises TIDEMILL_REFRESHES_FAILED, after all others were refreshed, if a view fails.
    """
    return spark.sql(f"REFRESH INCREMENTAL VIEWS{_which(database, pattern)}").collect()


def run_once(spark: SparkSession, views: Sequence[str] | None = None) -> builtins.list[Row]:
    """Fires what is due now of the schedules of all views of the catalog, or of those named, and returns.

    Each view is run at most once; points that were missed make one run. Returns the rows of SHOW REFRESHES that came
    of it, those of failed runs included. Raises TIDEMILL_NOT_FOUND for a name, and RuntimeError in a Spark Connect
    client.
    """
    from tidemill.driver.attach import jvm_of
    from tidemill.runtime.scheduler import service

    names = None if views is None else [name_parts(name) for name in views]
    for name in names or ():
        spark.sql(f"DESCRIBE INCREMENTAL VIEW {name_text(name)}")  # raises as Spark does
    return [_row_of(row) for row in service.run_once(jvm_of(spark), names)]


def _row_of(run: RunRow) -> Row:
    """Returns the row of a run as SHOW REFRESHES gives it."""
    from pyspark.sql import Row

    def counts(known: ChangeCounts | None) -> Row | None:
        return None if known is None else Row(inserts=known.inserts, deletes=known.deletes)

    cells = {
        **{name: getattr(run, name) for name, *_ in REFRESH},
        "methods": list(run.methods),
        "rows_in": counts(run.rows_in),
        "rows_out": counts(run.rows_out),
        "started_at": datetime.fromtimestamp(run.started_at / 1e6),
        "positions": dict(run.positions),
    }
    return Row(**cells)


def _which(database: str | None, pattern: str | None) -> str:
    """Returns the clauses that say which views of a database are meant."""
    where = f" IN {name_text(name_parts(database))}" if database is not None else ""
    return where + (f" LIKE {string_text(pattern)}" if pattern is not None else "")


class IncrementalView:
    """One incremental view. Each method runs the SQL statement of its name, in the session given.

    Methods raise what their statements raise. Rows and plans are shown as tables and text in notebooks.
    """

    def __init__(self, spark: SparkSession, name: tuple[str, ...]) -> None:
        """`forName` checks that the view exists; this does not."""
        self._spark = spark
        self._parts = name

    @classmethod
    def forName(cls, spark: SparkSession, name: str) -> IncrementalView:  # noqa: N802  # as DeltaTable.forName
        """Returns the view of that name. Raises TIDEMILL_NOT_FOUND or TIDEMILL_NOT_AN_INCREMENTAL_VIEW."""
        view = cls(spark, name_parts(name))
        spark.sql(f"DESCRIBE INCREMENTAL VIEW {view._name}")
        return view

    @classmethod
    def list(
        cls, spark: SparkSession, database: str | None = None, pattern: str | None = None
    ) -> builtins.list[IncrementalView]:
        """SHOW INCREMENTAL VIEWS: returns the views of a database (the current one by default), by name.

        `pattern`: as in SHOW TABLES, such as 'sales*|returns'.
        """
        rows = spark.sql(f"SHOW INCREMENTAL VIEWS{_which(database, pattern)}").collect()
        return [cls(spark, (row.namespace, row.viewName)) for row in rows]

    @property
    def _name(self) -> str:
        return name_text(self._parts)

    def __repr__(self) -> str:
        return f"IncrementalView({self._name})"

    def _repr_html_(self) -> str:
        """Shows name, columns and, if they can be read, status and newest run."""
        cells: builtins.list[tuple[str, object]] = [("view", self._name)]
        try:
            cells.append(("columns", ", ".join(f"{r.col_name} {r.data_type}" for r in self.describe().collect())))
            for run in self.history(1).collect():
                cells += [(name, run[name]) for name in ("run", "kind", "reason", "started_at", "duration_ms")]
        except Exception as error:  # a view that was dropped can be shown, too
            cells.append(("error", str(error).partition("\n")[0]))
        return notebook.table(cells)

    def refresh(
        self, point: int | None = None, *, full: bool = False, dry_run: bool = False, cascade: bool = False
    ) -> Row:
        """REFRESH: returns the row of the run, with the columns of SHOW REFRESHES.

        `point`: its number in the schedule, the last one by default. `full`: recompute the view. `dry_run`: plan only.
        `cascade`: refresh the views that it reads first.
        """
        clauses = [f"AT {point}"] if point is not None else []
        clauses += ["FULL"] if full else []
        clauses += ["DRY RUN"] if dry_run else []
        clauses += ["CASCADE"] if cascade else []
        return self._row(" ".join([f"REFRESH INCREMENTAL VIEW {self._name}", *clauses]))

    def verify(self) -> Row:
        """VERIFY: returns one row of matches, missing, unexpected."""
        return self._row(f"VERIFY INCREMENTAL VIEW {self._name}")

    def explain(self, mode: str = "PLAN") -> str:
        """EXPLAIN INCREMENTAL: returns the plan of the next run as text.

        `mode`: 'PLAN', 'COST', 'STATE', 'MEMO', 'JSON' or 'DOT'.
        """
        return notebook.Text(self._row(f"EXPLAIN INCREMENTAL {mode} VIEW {self._name}")[0])

    def history(self, limit: int | None = None) -> DataFrame:
        """SHOW REFRESHES: returns one row per run and per refresh that failed, newest first."""
        return self._spark.sql(f"SHOW REFRESHES IN {self._name}" + (f" LIMIT {limit}" if limit is not None else ""))

    def describe(self, extended: bool = False) -> DataFrame:
        """DESCRIBE INCREMENTAL VIEW: returns its rows."""
        return self._spark.sql(f"DESCRIBE INCREMENTAL VIEW {'EXTENDED ' if extended else ''}{self._name}")

    def showCreate(self) -> str:  # noqa: N802  # Spark's spelling of method names
        """SHOW CREATE INCREMENTAL VIEW: returns a statement that creates the view again."""
        return notebook.Text(self._row(f"SHOW CREATE INCREMENTAL VIEW {self._name}")[0])

    def toDF(self) -> DataFrame:  # noqa: N802  # as DeltaTable.toDF
        """Returns the content, as of now."""
        return self._spark.table(self._name)

    def files(self) -> builtins.list[str]:
        """Returns the Parquet files that hold the content of one run, as of now, for readers that do not use Spark.

        Local files have paths, others URIs. They stay until VACUUM finds them older than its retention. Each file has
        all columns of the view, partition columns too. Files of a view USING delta may also have rows that have left
        it, unless its property `delta.enableDeletionVectors` is false.
        """
        found = (urlsplit(name) for name in self.toDF().inputFiles())
        return sorted(unquote(f.path) if f.scheme == "file" else f.geturl() for f in found)

    def alter(
        self,
        query: str | None = None,
        *,
        schedule: Sequence[Point] | None = None,
        state_budget: str | int | None = None,
        expect: Sequence[Expectation] | None = None,
        policy: str | None = None,
        comment: str | None = None,
        properties: Mapping[str, str] | None = None,
        unset: Sequence[str] = (),
    ) -> None:
        """ALTER: changes what is given, by one statement each, in the order of the arguments.

        `query`: the view keeps its clauses and the states that the new query can use. `expect` replaces all earlier
        expectations; an empty sequence leaves everything to the history. `unset`: names of properties to remove.
        """
        if query is not None:
            self._alter(f"AS {query}")
        if schedule is not None:
            self._alter(f"SET SCHEDULE ({schedule_text(schedule)})")
        if state_budget is not None:
            self._alter(f"SET STATE BUDGET {string_text(str(state_budget))}")
        if expect is not None:
            self._alter(f"SET EXPECT ({expect_text(expect)})")
        if policy is not None:
            self._alter(f"SET REFRESH POLICY {one_of(POLICIES, policy.upper(), 'policy')}")
        if comment is not None:
            self._alter(f"SET COMMENT {string_text(comment)}")
        if properties:
            pairs = (f"{string_text(key)} = {string_text(value)}" for key, value in properties.items())
            self._alter(f"SET TBLPROPERTIES ({', '.join(pairs)})")
        if unset:
            self._alter(f"UNSET TBLPROPERTIES ({', '.join(map(string_text, unset))})")

    def expect(self, *expectations: Expectation) -> None:
        """ALTER ... SET EXPECT: replaces the expectations for all plans from the next one on.

        `expectations`: made by `tidemill.expected` and `tidemill.complete`. For tables that are not named, the view's
        own history counts.
        """
        self.alter(expect=expectations)

    def replace(
        self,
        sql: str,
        schedule: Sequence[Point] | None = None,
        *,
        columns: Sequence[str | tuple[str, str]] = (),
        comment: str | None = None,
        format: str | None = None,  # noqa: A002  # as DataFrameWriter.format
        partitioned_by: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        state_budget: str | int | None = None,
        expect: Sequence[Expectation] = (),
        policy: str = "AUTO",
    ) -> None:
        """CREATE OR REPLACE: gives the view another query and other clauses, in one commit.

        Arguments as those of `create_incremental_view`. Those that are left out have their defaults, not what the view
        had: `alter` keeps them.
        """
        create_incremental_view(
            self._spark,
            self._name,
            sql,
            schedule,
            columns=columns,
            comment=comment,
            format=format,
            partitioned_by=partitioned_by,
            properties=properties,
            state_budget=state_budget,
            expect=expect,
            policy=policy,
            or_replace=True,
        )

    def rename(self, name: str) -> None:
        """ALTER ... RENAME TO: gives the view, and this object, another name in the same database."""
        parts = name_parts(name)
        self._alter(f"RENAME TO {name_text(parts)}")
        self._parts = parts if len(parts) > 1 else (*self._parts[:-1], *parts)

    def suspend(self) -> None:
        """ALTER ... SUSPEND: schedules do not fire the view any more. It can still be refreshed by hand."""
        self._alter("SUSPEND")

    def resume(self) -> None:
        """ALTER ... RESUME: schedules fire the view again."""
        self._alter("RESUME")

    def vacuum(self, retain_hours: float | None = None, *, dry_run: bool = False) -> builtins.list[str]:
        """VACUUM: removes files that nothing needs any more, and returns their paths.

        `retain_hours`: for how long files of older runs stay, 168 by default. `dry_run`: remove nothing.
        """
        clauses = (f" RETAIN {retain_hours} HOURS" if retain_hours is not None else "") + " DRY RUN" * dry_run
        return [row.path for row in self._spark.sql(f"VACUUM INCREMENTAL VIEW {self._name}{clauses}").collect()]

    def drop(self, *, if_exists: bool = False) -> None:
        """DROP INCREMENTAL VIEW: removes the view, and its files unless it was created with a location."""
        self._spark.sql(f"DROP INCREMENTAL VIEW {'IF EXISTS ' * if_exists}{self._name}")

    def _alter(self, action: str) -> None:
        self._spark.sql(f"ALTER INCREMENTAL VIEW {self._name} {action}")

    def _row(self, sql: str) -> Row:
        row = self._spark.sql(sql).first()
        assert row is not None, f"{sql} answers one row"
        return notebook.answer(row)
