"""Finds the rows of a result that leave: which files may hold them, and where in these files they are.

Where the delta is the difference of new rows and rows read from the content, the step that writes it observes the
places of those that leave (`placed`), and nothing is read twice. Otherwise it observes a few columns of the rows that
leave. Each result file tells its bounds of such columns, so most files are ruled out unopened. In the others, one job
looks for the rows by their keys, or by all columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidemill.cost.costing import LOOKED_UP_KEYS
from tidemill.plan.expr import ONE, ZERO, Col, Expr, Lit, fn
from tidemill.plan.grouping import identity, is_plain
from tidemill.runtime.content.jobs import SparkJobs
from tidemill.runtime.content.row_expressions import Ids, is_negative, observed_sum, observed_values
from tidemill.search.contract.stored import MOST_FOUND
from tidemill.wire import nodes
from tidemill.wire.nodes import WireNode

File = Mapping[str, Any]
OBSERVATION = "leaving"
"""The observation of the rows that leave, in the step that writes the delta."""
MOST_COLUMNS = 4
"""Most columns that are observed. Each costs three aggregates over the delta."""
BOUNDED = {"byte", "short", "integer", "long", "date", "string"}
"""Types of columns of which files tell bounds."""


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """A column of the view's data files, with its type as text."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Left:
    """The values of a column in the rows that leave. Dates are numbers of days since 1970.

    `values`: the different ones, None if there are too many; `low` and `high`: the least and the greatest; `nulls`:
    True if NULL is among them.
    """

    column: ResultColumn
    values: tuple[Any, ...] | None
    low: Any
    high: Any
    nulls: bool

    def meets(self, bounds: Sequence[Any]) -> bool:
        """Returns False if no value lies within these bounds of a file.

        >>> left = Left(ResultColumn("k", "long"), (1, 9), 1, 9, False)
        >>> left.meets([2, 8]), left.meets([9, 20])
        (False, True)
        """
        low, high = bounds
        if self.nulls:
            return True
        if self.values is not None:
            return any(low <= v <= high for v in self.values)
        return self.low is None or (self.low <= high and low <= self.high)


def compared_columns(columns: Sequence[ResultColumn], keys: Sequence[str] | None) -> list[ResultColumn]:
    """Returns the columns by which rows are the same: of the keys, if equal values of each are the same, or all."""
    usable = usable_keys(columns, keys)
    return [c for c in columns if usable is None or c.name in usable]


def usable_keys(columns: Sequence[ResultColumn], keys: Sequence[str] | None) -> tuple[str, ...] | None:
    """Returns the keys if there are any and equal values of each are the same; else None."""
    if not keys:
        return None
    types = {c.name: c.type for c in columns}
    return tuple(keys) if all(is_plain(types[k]) for k in keys) else None


def observed_columns(columns: Sequence[ResultColumn], keys: Sequence[str] | None) -> list[ResultColumn]:
    """Returns the columns to be observed in rows that leave: of the keys, or else of all, the first with bounds."""
    possible = [c for c in columns if c.type in BOUNDED and (not keys or c.name in keys)]
    return possible[:MOST_COLUMNS]


def metrics(columns: Sequence[tuple[int, ResultColumn]], count: int) -> list[tuple[str, Expr]]:
    """Returns the metrics of `observe` for these columns of a delta; `count`: its column of counts."""
    found: list[tuple[str, Expr]] = []
    for i, (column, c) in enumerate(columns):
        whole = c.type == "date"
        value = fn("unix_date", Col(column)) if whole else Col(column)
        gone = fn("if", is_negative(count), value, Lit(None, "integer" if whole else c.type))
        null = fn("if", fn("and", is_negative(count), fn("isnull", Col(column))), ONE, ZERO)
        found += [
            (f"values{i}", observed_values(gone, LOOKED_UP_KEYS)),
            (f"low{i}", fn("min", gone)),
            (f"high{i}", fn("max", gone)),
            (f"nulls{i}", observed_sum(null)),
        ]
    return found


def left_values(columns: Sequence[ResultColumn], observed: Mapping[str, Any]) -> tuple[Left, ...]:
    """Returns the values of these columns, from the observation of `metrics`."""
    found = []
    for i, column in enumerate(columns):
        if f"nulls{i}" in observed:
            values = observed[f"values{i}"]
            told = None if values is None else tuple(values)
            nulls = int(observed[f"nulls{i}"] or 0) > 0
            found.append(Left(column, told, observed[f"low{i}"], observed[f"high{i}"], nulls))
    return tuple(found)


def may_hold(file: File, left: Sequence[Left]) -> bool:
    """Returns False if the file's bounds rule out each row that leaves."""
    bounds = file.get("bounds") or {}
    return all(x.meets(bounds[x.column.name]) for x in left if x.column.name in bounds)


@dataclass(frozen=True, slots=True)
class Found:
    """The places of rows that leave: numbers of rows by file. `missing`: rows of the delta that no file holds."""

    rows: Mapping[str, tuple[int, ...]]
    missing: int


@dataclass(frozen=True, slots=True)
class Search:
    """A search for the rows that leave.

    `compared`: the columns by which rows are the same; `delta`: the files of the signed delta, `count`: the name of
    their column of counts, `deletes`: the rows that leave; `left`: what is known of their values.
    """

    compared: Sequence[ResultColumn]
    delta: Sequence[File]
    count: str
    deletes: int
    left: Sequence[Left] = ()


def find(execution: SparkJobs, search: Search, files: Sequence[File]) -> Found | None:
    """Returns the places of the rows that leave, in `files`; None if too many rows come into question. Runs one job,
    or none if too many leave.

    Of several rows that are the same, any are taken, as many as the delta says.
    """
    if search.deletes > MOST_FOUND:
        return None
    ids, compared = Ids(), search.compared
    held, gone = ids.fresh(len(compared)), ids.fresh(len(compared))
    path, row, source, number, count = ids.fresh(5)
    rows = nodes.files(files, _stored(held, compared), path, row)
    probe = _probe(search.left, {c.name: i for i, c in zip(held, compared, strict=True)})
    if probe is not None:
        rows = nodes.where([probe], rows)
    counted = [*_stored(gone, compared), (count, search.count, "long")]
    leaving = nodes.where([is_negative(count)], nodes.files(search.delta, counted, source, number))
    plan = nodes.join("inner", same_values(held, gone, compared), rows, leaving, broadcast="right")
    named = [(path, "path"), (row, "row"), (source, "source"), (number, "number"), (count, "count")]
    execution.fit((*files, *search.delta))
    found = execution.few_rows(plan, named, step="find rows that leave", most=MOST_FOUND)
    return None if found is None else _places(found, search.deletes)


def _places(found: Sequence[Sequence[Any]], deletes: int) -> Found:
    """Chooses places among all `found`: (file, row, file of the delta, row of the delta, its count).

    >>> rows = [["a", 0, "d", 0, -1], ["a", 1, "d", 0, -1], ["b", 0, "d", 1, -2]]
    >>> _places(rows, 4)
    Found(rows={'a': (0,), 'b': (0,)}, missing=2)
    """
    wanted: dict[tuple[str, int], int] = {}
    taken: dict[str, list[int]] = {}
    for path, row, source, number, count in found:
        more = wanted.setdefault((source, number), -count)
        if more > 0:
            wanted[source, number] = more - 1
            taken.setdefault(path, []).append(row)
    missing = deletes - sum(map(len, taken.values()))
    return Found({path: tuple(sorted(rows)) for path, rows in taken.items()}, missing)


def _probe(left: Sequence[Left], ids: Mapping[str, int]) -> Expr | None:
    """Returns the condition that a column has a value that leaves, of the column with the most values; None if no
    column has few enough. Parquet skips pages by it."""
    usable = [x for x in left if x.values and not x.nulls and x.column.name in ids and x.column.type != "date"]
    if not usable:
        return None
    best = max(usable, key=lambda x: len(x.values or ()))
    return fn("in", Col(ids[best.column.name]), *(Lit(v, best.column.type) for v in best.values or ()))


def same_values(left: Sequence[int], right: Sequence[int], columns: Sequence[ResultColumn]) -> list[Expr]:
    """Returns the condition that two rows are the same in all of these columns."""
    return [fn("<=>", identity(a, c.type), identity(b, c.type)) for a, b, c in zip(left, right, columns, strict=True)]


def _stored(ids: Sequence[int], columns: Sequence[ResultColumn]) -> list[tuple[int, str, str]]:
    return [(i, c.name, c.type) for i, c in zip(ids, columns, strict=True)]


def without(file: File, gone: Sequence[int], columns: Sequence[tuple[int, str, str]], row: int) -> WireNode:
    """Returns the rows of a file except those with these numbers; `row`: a fresh column for the number of a row."""
    rows = nodes.files([file], columns, row_column=row)
    return nodes.where([fn("not", fn("in", Col(row), *(Lit(n, "long") for n in gone)))], rows)
