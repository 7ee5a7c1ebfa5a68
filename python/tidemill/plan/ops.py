"""Operators of the plan IR: frozen payloads without their inputs, so that trees and the memo share them.

There are two families. The operators of queries come from the JVM. The operators of the rewriter describe forms of
time-varying relations; `tidemill.search.lower` turns them into operators of queries before a plan goes to the JVM.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tidemill.plan.expr import Expr
from tidemill.plan.kinds import WHOLE, JoinKind, StatePart, Whole

Named: TypeAlias = tuple[tuple[int, Expr], ...]
"""Named expressions: ((column id, expression), ...)."""


@dataclass(frozen=True, slots=True)
class SortKey:
    """One element of an ORDER BY."""

    expr: Expr
    ascending: bool
    nulls_first: bool


# -- operators of queries ---------------------------------------------------------------------------------------------


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


# -- operators of the rewriter ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Changes:
    """The signed change of a source between two moments."""

    source: int
    columns: tuple[tuple[int, str], ...]
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Crossing:
    """The signed change that the clock alone makes to a filter or projection between two moments.

    The input is a plain bag. Of a filter: rows that pass at the end only count +1, those that pass at the start only
    -1. Of a projection: rows of which a value differs leave with the old values and come with the new ones.
    """

    of: Filter | Project
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Empty:
    """A relation without rows; signed if it stands for a delta."""

    columns: tuple[int, ...]
    signed: bool


@dataclass(frozen=True, slots=True)
class StateScan:
    """Reads a kept state, or a part of it, by name; the columns are (column id, field, type)."""

    name: str
    form: str
    columns: tuple[tuple[int, str, str], ...]
    part: StatePart = ""


@dataclass(frozen=True, slots=True)
class HeldScan:
    """Reads the held change, the signed change since the content: ((column, field, type), ...)."""

    columns: tuple[tuple[int, str, str], ...]


@dataclass(frozen=True, slots=True)
class ResultScan:
    """Reads the view's present content; the columns are ((column id, field, type), ...)."""

    columns: tuple[tuple[int, str, str], ...]


@dataclass(frozen=True, slots=True)
class Sum:
    """Additive union of signed relations with the same columns (the merge operator +#)."""


@dataclass(frozen=True, slots=True)
class Negate:
    """Negates all counts; a plain row counts +1 before."""


@dataclass(frozen=True, slots=True)
class Net:
    """Adds up the counts of equal rows and drops rows whose counts cancel out.

    `state`: the input is the whole state of that name, and rows of its base that no later piece changes may stay as
    they are.
    """

    columns: tuple[int, ...]
    state: str = ""


@dataclass(frozen=True, slots=True)
class Unsign:
    """A signed relation without negative counts, as a plain bag."""

    columns: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Partial:
    """The attribute form of an aggregate: the additive parts per key. The input is plain or signed."""

    keys: Named
    calls: Named
    count: int
    parts: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Merge:
    """Adds up attribute forms of one aggregate per key. It takes any number of inputs.

    `state`: the only input is the whole state of that name.
    """

    partial: Partial
    state: str = ""


@dataclass(frozen=True, slots=True)
class CallParts:
    """The input of a call in a row that stands for several rows.

    `parts`: the columns with the call's parts for one side of a join; each row of that side occurs as often as the
    product of the columns `times`. Without `parts`, the call adds up the column `value`, or its own arguments if there
    is none, once for every row represented.
    """

    parts: tuple[int, ...] = ()
    times: tuple[int, ...] = ()
    value: int | None = None


@dataclass(frozen=True, slots=True)
class Combine:
    """Parts of an aggregate from joined attribute forms of its inputs.

    Each input row stands for as many rows as the product of `counts`. `keys` compute the aggregate's keys from such a
    row; `given` has one element per call.
    """

    partial: Partial
    keys: Named
    counts: tuple[int, ...]
    given: tuple[CallParts, ...]


@dataclass(frozen=True, slots=True)
class Final:
    """Final rows from an attribute snapshot; groups with count 0 are dropped, except the global group."""

    partial: Partial


@dataclass(frozen=True, slots=True)
class FinalChange:
    """The net signed change of the final rows of the touched groups, from (old attribute snapshot, attribute delta)."""

    partial: Partial


@dataclass(frozen=True, slots=True)
class Gather:
    """Adds up parts of a finer grain: several rows per key, each as often as its count says, if it has one."""

    partial: Partial


@dataclass(frozen=True, slots=True)
class Answer:
    """Final rows of an aggregate from parts of a finer grain.

    The parts of `partial` are added up per key; `calls` are computed from the keys of the finer grain. Rows with a row
    count of 0 are ignored.
    """

    partial: Partial
    calls: Named


@dataclass(frozen=True, slots=True)
class Pad:
    """Adds columns of NULLs: ((column id, type), ...)."""

    columns: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class Keys:
    """The distinct values of expressions: ((new column id, expression), ...); several inputs are united."""

    columns: tuple[Named, ...]


@dataclass(frozen=True, slots=True)
class KeyFilter:
    """Rows of the first input whose key occurs in the second input: ((expression, column), ...).

    `nulls`: NULLs are equal; otherwise rows with a NULL in the key are left out.
    """

    on: tuple[tuple[Expr, int], ...]
    nulls: bool = True


@dataclass(frozen=True, slots=True)
class LookUp:
    """Rows of a state whose key occurs in the input, like `KeyFilter`, found by the order of the base.

    The first element of `on` is the column that orders the base. The input must be written before.
    """

    scan: StateScan
    on: tuple[tuple[Expr, int], ...]
    nulls: bool = True


@dataclass(frozen=True, slots=True)
class Reach:
    """From which row on values of a window's rows may change, in each changed partition: one row per partition.

    The last input is the change. The first one has rows of the partitions; it is missing where nothing before the first
    changed row matters. A start is a value of the first element of `order`: that of the first row that it means; NULL
    if it means all rows. `reached` is the start of the rows whose values may change, `read` that of the rows that these
    are made from. Both are NULL where rows tie on the way, if that matters: what was computed of them may have followed
    another order.
    """

    partition: Named
    order: tuple[SortKey, ...]
    bounds: Bounds
    reached: int
    read: int


@dataclass(frozen=True, slots=True)
class FromStart:
    """Rows of the first input from the start of their partition on, which the second input has, a `Reach`.

    `on`: ((expression, column of the partition), ...), where NULLs are equal. `start`: the column of the start, about
    `rows` rows before the first changed row.
    """

    on: tuple[tuple[Expr, int], ...]
    order: SortKey
    start: int
    rows: int


@dataclass(frozen=True, slots=True)
class ReachedWindow:
    """A window over the rows of the first input from `read` on, but only its rows from `reached` on.

    The second input, a `Reach`, has these columns; `on` as in `FromStart`. Moving frames of rows before `reached` are
    not computed.
    """

    window: Window
    on: tuple[tuple[Expr, int], ...]
    read: int
    reached: int

    @property
    def bounds(self) -> Bounds:
        """Bounds of the window."""
        bounds = self.window.bounds
        assert bounds is not None, "a window whose functions have no bound has no rows that are reached"
        return bounds


@dataclass(frozen=True, slots=True)
class Less:
    """The old rows: a plain bag minus a change that is contained in it."""

    columns: tuple[int, ...]


QueryOp: TypeAlias = Scan | Filter | Project | Join | Aggregate | Union | Sort | Limit | RowWise | Window | Opaque
"""The operators of queries."""
FormOp: TypeAlias = (
    Changes
    | Crossing
    | Empty
    | StateScan
    | HeldScan
    | ResultScan
    | Sum
    | Negate
    | Net
    | Unsign
    | Partial
    | Merge
    | Combine
    | Final
    | FinalChange
    | Gather
    | Answer
    | Pad
    | Keys
    | KeyFilter
    | LookUp
    | Reach
    | FromStart
    | ReachedWindow
    | Less
)
"""The operators of the rewriter."""
Op: TypeAlias = QueryOp | FormOp
"""All operators. An exhaustive `match` ends in `assert_never`, so that mypy reports operators that it forgets."""


def state_of(op: Op) -> str | None:
    """The name of the state that an operator reads; None if it reads none."""
    match op:
        case StateScan(name=name) | LookUp(StateScan(name=name)):
            return name
        case _:  # no other operator reads a state
            return None
