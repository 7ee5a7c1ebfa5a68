"""Operators of queries, as they come from the JVM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tidemill.plan.expr import Expr
from tidemill.plan.kinds import WHOLE, JoinKind, Whole

Named: TypeAlias = tuple[tuple[int, Expr], ...]
"""Named expressions: ((column id, expression), ...)."""


@dataclass(frozen=True, slots=True)
class SortKey:
    """One element of an ORDER BY."""

    expr: Expr
    ascending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class Scan:
    """Reads fields of a source: ((column id, field), ...). `at`: the moment of the snapshot; None in a query."""

    source: int
    columns: tuple[tuple[int, str], ...]
    at: int | None = None


@dataclass(frozen=True, slots=True)
class Filter:
    """Rows for which every conjunct is true."""

    condition: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Project:
    """Exactly these columns."""

    columns: Named


@dataclass(frozen=True, slots=True)
class Join:
    """A join; inner joins take any number of inputs, others two. `exists` is the column of an existence join."""

    kind: JoinKind
    condition: tuple[Expr, ...]
    exists: int | None = None


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Grouping; each call is one pure aggregate. Without keys: the global group, which exists over no rows too."""

    keys: Named
    calls: Named


@dataclass(frozen=True, slots=True)
class Union:
    """UNION ALL: column i of the result is column `branches[b][i]` of input b."""

    columns: tuple[int, ...]
    branches: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Sort:
    """A sort without a limit; a bag has no order, so planning drops it."""

    order: tuple[SortKey, ...]


@dataclass(frozen=True, slots=True)
class Limit:
    """The first rows in an order (any rows if the order is empty)."""

    limit: Expr
    offset: Expr | None
    order: tuple[SortKey, ...]


@dataclass(frozen=True, slots=True)
class RowWise:
    """A JVM operator that turns each input row alone into rows (grouping sets, generators); `text` describes it."""

    name: str
    node: int
    columns: tuple[int, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of the rows that the values of a row are made from, in the order of its partition.

    `before`, `behind`: the most rows before it, and behind it, for functions that count rows. `since`: for functions
    that read the last row before it in which this is not NULL. `whole`: whether functions read all rows before it, and
    whether their order matters where they tie.
    """

    before: int
    behind: int
    since: tuple[Expr, ...] = ()
    whole: Whole = ""

    @property
    def nothing_before(self) -> bool:
        """True if the first changed row alone tells where to start, whatever lies before it."""
        return not (self.before or self.behind or self.since or self.whole == "in order")


@dataclass(frozen=True, slots=True)
class WindowCall:
    """A window function. `frame`: "partition" (all of it), "range" (peers alike) or "rows"; `floating`: over floats.

    `rows`: the most rows before a row, and behind it, that its value is made from; None without a bound behind it, and
    None for the first if all rows before may be read. `since`: of the rows before, it reads the last one in which this
    is not NULL, besides those that `rows` counts.
    """

    function: str
    frame: str
    floating: bool
    rows: tuple[int | None, int] | None = None
    since: Expr | None = None

    @property
    def any_order(self) -> bool:
        """True if all rows up to a row give the same value in whichever order they come."""
        additive = self.function in {"sum", "avg"} and not self.floating
        return additive or self.function in {"count", "min", "max", "row_number", "rank", "dense_rank"}

    @property
    def bounds(self) -> Bounds | None:
        """Bounds of the rows that a value is made from; None without one behind."""
        if self.rows is None:
            return None
        before, behind = self.rows
        if before is None:
            return Bounds(0, behind, whole="any order" if self.any_order else "in order")
        return Bounds(before, behind, () if self.since is None else (self.since,))


@dataclass(frozen=True, slots=True)
class Window:
    """Window functions over partitions. The functions stay in the JVM; `text` describes what they compute.

    `order`: that of the rows of a partition, if each function reads a bounded number of rows behind a row; else empty.
    """

    node: int
    columns: tuple[int, ...]
    partition: tuple[Expr, ...]
    calls: tuple[WindowCall, ...]
    text: str
    order: tuple[SortKey, ...] = ()

    @property
    def bounds(self) -> Bounds | None:
        """Bounds for all functions together; None if one has none behind a row."""
        each = [bounds for call in self.calls if (bounds := call.bounds) is not None]
        if not self.order or len(each) < len(self.calls):
            return None
        since = dict.fromkeys(e for bounds in each for e in bounds.since)
        whole: Whole = max(("", *(bounds.whole for bounds in each)), key=WHOLE.index)
        return Bounds(max(b.before for b in each), max(b.behind for b in each), tuple(since), whole)


@dataclass(frozen=True, slots=True)
class Opaque:
    """An operator that only the JVM understands; its inputs are its children and then the plans of its sub-queries."""

    name: str
    node: int
    reason: str
    columns: tuple[int, ...]
    children: int
    text: str


QueryOp: TypeAlias = Scan | Filter | Project | Join | Aggregate | Union | Sort | Limit | RowWise | Window | Opaque
"""The operators of queries."""
