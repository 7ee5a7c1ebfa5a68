"""Operators of the plan IR: frozen payloads, children kept apart, so that tree and memo share them.

Two families. Those of queries come from the JVM. Those of the rewriter describe forms of time-varying relations;
`tidemill.search.lower` turns them into the former before anything is sent back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, assert_never

from tidemill.plan.expr import Expr
from tidemill.plan.kinds import JoinKind, StatePart

Named: TypeAlias = tuple[tuple[int, Expr], ...]
"""Columns with what computes them: ((column id, expression), ...)."""


@dataclass(frozen=True, slots=True)
class SortKey:
    """One element of an ORDER BY."""

    expr: Expr
    ascending: bool
    nulls_first: bool


# -- operators of queries ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Scan:
    """A source's fields as columns: ((column id, field), ...). `at`: the moment, once it is one; None in a query."""

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
    """A join; inner ones take any number of inputs, the others two. `exists` is the column of an existence join."""

    kind: JoinKind
    condition: tuple[Expr, ...]
    exists: int | None = None


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Grouping; each call is one pure aggregate. No keys: the global group, which exists over no input as well."""

    keys: Named
    calls: Named


@dataclass(frozen=True, slots=True)
class Union:
    """UNION ALL: column i of the result is column `branches[b][i]` of input b."""

    columns: tuple[int, ...]
    branches: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Sort:
    """An order without a limit; a bag has none, so planning drops it."""

    order: tuple[SortKey, ...]


@dataclass(frozen=True, slots=True)
class Limit:
    """The first rows in an order (any rows if the order is empty)."""

    limit: Expr
    offset: Expr | None
    order: tuple[SortKey, ...]


@dataclass(frozen=True, slots=True)
class RowWise:
    """An operator of the JVM that makes rows of each input row alone (grouping sets, generators); `text` says how."""

    name: str
    node: int
    columns: tuple[int, ...]
    text: str


@dataclass(frozen=True, slots=True)
class WindowCall:
    """A window function. `frame`: "partition" (all of it), "range" (peers alike) or "rows"; `floating`: over floats."""

    function: str
    frame: str
    floating: bool


@dataclass(frozen=True, slots=True)
class Window:
    """Window functions over partitions; the JVM holds the functions, of which `text` says what they compute."""

    node: int
    columns: tuple[int, ...]
    partition: tuple[Expr, ...]
    calls: tuple[WindowCall, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Opaque:
    """An operator that only the JVM understands; inputs are its children and the plans of its sub-queries."""

    name: str
    node: int
    reason: str
    columns: tuple[int, ...]
    children: int
    text: str


# -- operators of the rewriter ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Changes:
    """A source's signed change between two moments."""

    source: int
    columns: tuple[tuple[int, str], ...]
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Empty:
    """A relation without rows; signed if it stands for a delta."""

    columns: tuple[int, ...]
    signed: bool


@dataclass(frozen=True, slots=True)
class StateScan:
    """A kept state by name, or a part of it: its columns as (column id, field, type)."""

    name: str
    form: str
    columns: tuple[tuple[int, str, str], ...]
    part: StatePart = ""


@dataclass(frozen=True, slots=True)
class HeldScan:
    """The view's signed change since its content, as runs without output computed it: ((column, field, type), ...)."""

    columns: tuple[tuple[int, str, str], ...]


@dataclass(frozen=True, slots=True)
class ResultScan:
    """The view's present content: ((column id, field, type), ...)."""

    columns: tuple[tuple[int, str, str], ...]


@dataclass(frozen=True, slots=True)
class Sum:
    """Additive union of signed relations with the same columns (the merge operator +#)."""


@dataclass(frozen=True, slots=True)
class Negate:
    """All counts with the other sign; a plain bag counts as +1 per row."""


@dataclass(frozen=True, slots=True)
class Net:
    """One row per row value with the sum of its counts; values that cancel out are gone.

    `state`: the input is all there is of that state, and a value of its base that no later piece has may keep its rows.
    """

    columns: tuple[int, ...]
    state: str = ""


@dataclass(frozen=True, slots=True)
class Unsign:
    """A signed relation whose counts are not negative, as a plain bag."""

    columns: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Partial:
    """Attribute form: per key, the parts that merge by addition. Input plain or signed."""

    keys: Named
    calls: Named
    count: int
    parts: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Merge:
    """Adds up attribute forms of the same aggregate, key by key. Any number of inputs.

    `state`: the one input is all there is of that state.
    """

    partial: Partial
    state: str = ""


@dataclass(frozen=True, slots=True)
class CallParts:
    """Where a call finds what it adds up, in a row that stands for several rows.

    `parts`: the columns of its parts, of a side of which every row is met as often as the columns `times`, multiplied,
    say. Without: it adds up the column `value`, or if there is none its own arguments, for all the rows.
    """

    parts: tuple[int, ...] = ()
    times: tuple[int, ...] = ()
    value: int | None = None


@dataclass(frozen=True, slots=True)
class Combine:
    """Parts of an aggregate from joined attribute forms of its inputs: a row stands for as many rows as the product of
    `counts`. `keys` compute the aggregate's keys from such a row; `given` has an element per call."""

    partial: Partial
    keys: Named
    counts: tuple[int, ...]
    given: tuple[CallParts, ...]


@dataclass(frozen=True, slots=True)
class Final:
    """An attribute snapshot as rows: groups of count 0 are dropped (the global group never)."""

    partial: Partial


@dataclass(frozen=True, slots=True)
class FinalChange:
    """From (old attribute snapshot, attribute delta) the net signed rows old -> new of the touched groups."""

    partial: Partial


@dataclass(frozen=True, slots=True)
class Gather:
    """Adds up parts that come at a finer grain: several rows per key, each as often as its count says if it has one."""

    partial: Partial


@dataclass(frozen=True, slots=True)
class Answer:
    """Rows of an aggregate from parts at a finer grain: those of `partial` are added up per key, and `calls` are worked
    out from the finer grain's own keys. What has a row count of 0 does not count.
    """

    partial: Partial
    calls: Named


@dataclass(frozen=True, slots=True)
class Pad:
    """Adds columns that are NULL: ((column id, type), ...)."""

    columns: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class Keys:
    """The distinct values of some expressions: ((new column id, expression), ...); several inputs are united."""

    columns: tuple[Named, ...]


@dataclass(frozen=True, slots=True)
class KeyFilter:
    """Rows of the first input whose key is among the second's rows: ((expression, column), ...).

    `nulls`: NULLs are equal; otherwise a row with a NULL in its key is not asked for.
    """

    on: tuple[tuple[Expr, int], ...]
    nulls: bool = True


@dataclass(frozen=True, slots=True)
class LookUp:
    """Rows of a state whose key is among the input's rows, as of a `KeyFilter`, found by the order of its base.

    The first of `on` is the column that the base is in the order of. The input has to be written.
    """

    scan: StateScan
    on: tuple[tuple[Expr, int], ...]
    nulls: bool = True


@dataclass(frozen=True, slots=True)
class Less:
    """A plain bag without a change that is in it: what was there before."""

    columns: tuple[int, ...]


QueryOp: TypeAlias = Scan | Filter | Project | Join | Aggregate | Union | Sort | Limit | RowWise | Window | Opaque
"""The operators of queries."""
FormOp: TypeAlias = (
    Changes
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
    | Less
)
"""The operators of the rewriter."""
Op: TypeAlias = QueryOp | FormOp
"""All operators. A `match` that must know each of them ends in `assert_never`: mypy names what it forgets."""


@dataclass(frozen=True, slots=True)
class Tree:
    """An operator of a query over its inputs."""

    op: QueryOp
    inputs: tuple[Tree, ...] = ()


def state_of(op: Op) -> str | None:
    """The name of the state that an operator reads; None if it reads none."""
    match op:
        case StateScan(name=name) | LookUp(StateScan(name=name)):
            return name
        case _:  # of all there are, these two read states
            return None


def columns_of(tree: Tree) -> tuple[int, ...]:
    """The column ids of a tree of a query, in order."""
    match tree.op:
        case Scan(_, columns, _):
            return tuple(c for c, _ in columns)
        case Project(columns):
            return tuple(c for c, _ in columns)
        case Aggregate(keys, calls):
            return tuple(c for c, _ in (*keys, *calls))
        case Union(ids, _) | RowWise(columns=ids) | Window(columns=ids) | Opaque(columns=ids):
            return ids
        case Join(kind="inner" | "left" | "right" | "full"):
            return tuple(c for i in tree.inputs for c in columns_of(i))
        case Join(kind="existence", exists=exists):
            assert exists is not None
            return (*columns_of(tree.inputs[0]), exists)
        case Join() | Filter() | Sort() | Limit():
            return columns_of(tree.inputs[0])
        case _:
            assert_never(tree.op)
