"""Operators of the rewriter: they describe forms of time-varying relations.

`tidemill.search.lower` turns them into operators of queries before a plan goes to the JVM.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias, TypeVar

from tidemill.plan.expr import Expr
from tidemill.plan.kinds import StatePart
from tidemill.plan.ops.query import Bounds, Filter, Named, Project, SortKey, Window

Item = TypeVar("Item")
"""What is known of one input of an operator."""


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
class JoinChange:
    """The signed change of an inner join, from one join of the old rows of its inputs together with their changes.

    A changed input of the join is two inputs here: its old rows, and their signed change.

    Attributes:
        condition: the join's.
        marks: for each input of the join the column with the counts of its change, NULL for old rows; None for an input
            that does not change.
        picked: the inputs of the join that equalities link to all other changed ones. Of their old rows only those that
            meet a changed row are joined.
    """

    condition: tuple[Expr, ...]
    marks: tuple[int | None, ...]
    picked: tuple[int, ...]

    def sides(self, inputs: Sequence[Item]) -> list[tuple[int | None, tuple[Item, ...]]]:
        """The inputs of the join, each with its mark: its rows, or its old rows and its change."""
        left = iter(inputs)
        return [(mark, tuple(islice(left, 1 if mark is None else 2))) for mark in self.marks]


@dataclass(frozen=True, slots=True)
class Less:
    """The old rows: a plain bag minus a change that is contained in it."""

    columns: tuple[int, ...]


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
    | JoinChange
    | Less
)
"""The operators of the rewriter."""
