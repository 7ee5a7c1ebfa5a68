"""The interface of cost models, and the facts that they estimate from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NewType, Protocol, runtime_checkable

from tidemill.cost.changes import Change
from tidemill.cost.distinct import Distinct
from tidemill.cost.guesses import NEW_VALUE_SHARE, PART_ROW_BYTES, VALUES_PER_ROW
from tidemill.cost.kept import NOTHING_COUNTED, KeptRows
from tidemill.cost.moments import Moments
from tidemill.memo.memo import Memo
from tidemill.plan.change import SourceChange
from tidemill.plan.expr import Expr
from tidemill.plan.ops import HeldScan, Op, ResultScan, StateScan
from tidemill.plan.query import Query
from tidemill.tvr.form import FormKind, Time

RowCount = NewType("RowCount", float)
NO_ROWS = RowCount(0.0)
CpuMs = NewType("CpuMs", float)
"""Executor CPU milliseconds."""
BROADCAST_ROWS = 500_000
"""Largest estimated number of rows for which keys, and a change's partners in a join, are broadcast whatever their
width."""
BROADCAST_BYTES = 64 * 2**20
"""Largest estimated number of bytes for which more rows are: a driver of a gigabyte builds that."""
KEY_BYTES = 32
"""Bytes that a column of a key is taken to have, with its part of a hash table."""
SMALL_PART = 4
"""Least number of rows for each of more keys that are looked for. By the shipped constants that costs two thirds of
bringing all rows together then, and as much with half as many rows."""
LOOKED_UP_KEYS = 500
"""Largest number of keys for a look-up in an ordered state; with more keys, nearly every page has one of them."""
PAGE_ROWS = 1_000
"""Rows of one page of an ordered file: the amount read per key."""
RESULT_PAGE_ROWS = 4_000
"""Most rows of a page of a result file. With 1,000, writing takes a third longer and reading two thirds; with 4,000, a
thirtieth and an eighth, of four narrow columns that compress well."""
FEW_ROWS = 5_000
"""Most rows of a step that come to the driver: it keeps them in memory for later steps, and writes their file without a
Spark job."""
TOUCHED_FROM_ROWS = 50_000
"""Smallest estimated number of rows of a state for which it pays to find the touched keys first, which costs a job."""
LONG_DIGITS = 18
"""Largest precision of a decimal that is stored in a long."""


def is_broadcast(rows: float, row_bytes: float) -> bool:
    """True if rows of a change, or keys, are broadcast: they are few, or narrow.

    >>> is_broadcast(500_000, 1000), is_broadcast(1_000_000, 48), is_broadcast(1_000_000, 80)
    (True, True, False)
    """
    return rows <= BROADCAST_ROWS or rows * row_bytes <= BROADCAST_BYTES


def few_changed(rows: float, changed: float, columns: int) -> bool:
    """True if the keys of rows that are added to others can be broadcast: they are few, or a small and narrow part.

    `columns`: of a key.

    >>> few_changed(2e6, 500_000, columns=9), few_changed(15e6, 600_000, columns=1)
    (True, True)
    >>> few_changed(15e6, 600_000, columns=9), few_changed(2e6, 600_000, columns=1)
    (False, False)
    """
    return is_broadcast(changed, columns * KEY_BYTES) and (changed <= BROADCAST_ROWS or changed * SMALL_PART <= rows)


def few_touched(rows: float, changed: float, columns: int) -> bool:
    """True if the touched keys are worth finding first: the state is large, and few rows were added."""
    return rows >= TOUCHED_FROM_ROWS and few_changed(rows, changed, columns)


@dataclass(frozen=True, slots=True)
class Facts:
    """Known facts from which costs are estimated.

    Attributes:
        query: the query and its expressions.
        steps: sizes and change of each source, for each transition of the timeline.
        selectivity: of each join of the query, by its condition: output rows per product of input rows.
        kept: rows of states, of the content and of the held change.
        known: rows of groups that were measured or given, in place of an estimate.
        sizes: rows of each relation at each moment, and of its changes, the same for all ways to write it; None if
            nothing is known.
        distinct: distinct values of columns; None if nothing is known.
    """

    query: Query
    steps: tuple[Mapping[int, SourceChange], ...]
    selectivity: Mapping[tuple[Expr, ...], float]
    kept: KeptRows = NOTHING_COUNTED
    known: Mapping[int, RowCount] = field(default_factory=dict)
    sizes: Moments | None = None
    distinct: Distinct | None = None

    def groups(self, keys: Iterable[Expr], rows: float) -> float:
        """Expected number of distinct values of `keys` among `rows` rows."""
        if self.distinct is None:
            return rows * VALUES_PER_ROW
        return self.distinct.number({column for key in keys for column in self.query.columns_of(key)}, rows)

    def source_at(self, source: int, time: Time | None) -> SourceChange | None:
        """Facts about a source at a moment: those of the last transition before it, or of the first one after it.
        None for the moment: the last one."""
        found = self._transition(source, time)
        return None if found is None else self.steps[found][source]

    def _transition(self, source: int, time: Time | None) -> int | None:
        """The number of the transition that tells of a source at a moment."""
        told = [number for number, step in enumerate(self.steps) if source in step]
        before = [number for number in told if time is None or number < time]
        return before[-1] if before else (told[0] if told else None)

    def grown_after(self, source: int, time: Time | None) -> float:
        """Rows that a source gains between a moment and the later one of which `source_at` tells; 0 if unknown."""
        told = self._transition(source, time)
        if time is None or told is None or told < time:
            return 0.0
        inserts, deletes = self.change_over(source, time, told + 1) or (0.0, 0.0)
        return inserts - deletes

    def values_at(self, source: int, time: Time) -> Mapping[str, float]:
        """Distinct values of a source's fields at a moment, where they were counted."""
        known = self.source_at(source, time)
        if known is None or not known.rows or not known.values:
            return {} if known is None else known.values
        share = max(0.0, known.rows - self.grown_after(source, time)) / known.rows
        new = NEW_VALUE_SHARE * known.rows
        return {field: values * share if values > new else values for field, values in known.values.items()}

    def change_over(self, source: int, start: Time, end: Time) -> tuple[float, float] | None:
        """Rows inserted and deleted between two moments; None if they are unknown for one of the transitions."""
        inserts = deletes = 0.0
        for step in self.steps[start:end]:
            change = step.get(source)
            if change is None or (change.changed and (change.inserts is None or change.deletes is None)):
                return None
            if change.changed:
                inserts += change.inserts or 0.0
                deletes += change.deletes or 0.0
        return inserts, deletes

    def read_over(self, source: int, start: Time, end: Time) -> float:
        """Rows of the files that are read whole to find a change between two moments."""
        changes = (step[source] for step in self.steps[start:end] if source in step)
        return sum(change.read or 0.0 for change in changes if change.changed)

    def at(self, time: Time) -> Facts:
        """These facts with selectivities and distinct values as they are at a moment."""
        if self.sizes is None:
            return self
        moment = self.sizes.at(time)
        return replace(self, selectivity=moment.selectivity, distinct=moment.distinct)

    def size(self, relation: int, time: Time) -> float | None:
        """Rows of a relation at a moment; None if nothing is known."""
        return None if self.sizes is None else self.sizes.rows(relation, time)

    def change(self, relation: int, start: Time, end: Time) -> Change | None:
        """The change of a relation over (start, end]; None if nothing is known."""
        return None if self.sizes is None else self.sizes.change(relation, start, end)

    def segments(self, state: str) -> float:
        """Rows of a state's segments: all its pieces after the first."""
        return self.kept.state(state).segments

    def kept_rows(self, op: StateScan | ResultScan | HeldScan) -> float:
        """Rows that a scan of a state, the content or the held change reads."""
        return self.kept.read(op)


_VALUE_BYTES = {"boolean": 1, "byte": 1, "short": 2, "integer": 4, "date": 4, "float": 4, "string": 20, "binary": 100}


def row_bytes(types: Iterable[str]) -> int:
    """Bytes of a row with columns of these types, as Spark estimates them; nested types count like its binary type.

    >>> row_bytes(["long", "integer", "decimal(7,2)", "decimal(38,2)", "string"])
    64
    """
    return 8 + sum(_value_bytes(kind) for kind in types)


def _value_bytes(kind: str) -> int:
    if kind.startswith("decimal(") and int(kind[len("decimal(") :].split(",")[0]) > LONG_DIGITS:
        return 16
    return 100 if kind.startswith("{") else _VALUE_BYTES.get(kind, 8)


@dataclass(frozen=True, slots=True)
class Read:
    """An input of an operator.

    Attributes:
        group: its number.
        rows: its estimated rows.
        form: its kind of form; None if it is no form of a relation.
        from_base: rows among these that come from a state's base, which has each key once: when other rows are merged
            with them, they need no exchange.
        row_bytes: bytes of a row, as Spark estimates them to decide on a broadcast.
    """

    group: int
    rows: RowCount
    form: FormKind | None
    from_base: RowCount = NO_ROWS
    row_bytes: int = PART_ROW_BYTES

    @property
    def is_broadcast(self) -> bool:
        """True if these rows are broadcast where they are keys, or of a change."""
        return is_broadcast(self.rows, self.row_bytes)


@dataclass(frozen=True, slots=True)
class OperatorWork:
    """The work of one operator of a plan at a run.

    Attributes:
        op, inputs: the operator and its inputs.
        cost: CPU milliseconds of executing it once.
        times: number of executions.
    """

    op: Op
    inputs: tuple[Read, ...]
    cost: CpuMs
    times: int


class CostModel(Protocol):
    """Estimates rows and CPU milliseconds, one operator at a time."""

    @property
    def name(self) -> str:
        """The value of spark.tidemill.cost.model that selects this model."""
        ...

    @property
    def noise(self) -> float:
        """The smallest meaningful difference of costs: below it two plans are equally good."""
        ...

    def rows(self, op: Op, inputs: Sequence[RowCount], facts: Facts) -> RowCount:
        """Estimated number of output rows of an operator, given the rows of its inputs."""
        ...

    def cost(self, op: Op, reads: Sequence[Read], output: RowCount, facts: Facts) -> CpuMs:
        """CPU milliseconds of the operator alone, without its inputs."""
        ...

    def reading(self, files: float, rows: float) -> CpuMs:
        """CPU milliseconds to read and merge `rows` rows of a state from `files` files."""
        ...

    def total(self, work: Sequence[OperatorWork]) -> CpuMs:
        """CPU milliseconds of all operators of a run together."""
        ...

    def counted(self, work: Sequence[OperatorWork]) -> Sequence[Read] | None:
        """The inputs whose rows make up the cost of a run, each as often as it counts; None if time is the unit."""
        ...

    def known(self, memo: Memo, facts: Facts) -> Mapping[int, RowCount]:
        """Rows of groups, where this model estimates them in another way than `Facts.size` and `Facts.change`."""
        ...

    def save(self, rows: float) -> CpuMs:
        """CPU milliseconds of a step that writes `rows` computed rows, for a later run or several readers."""
        ...

    def writing(self, rows: float, types: Sequence[str]) -> CpuMs:
        """CPU milliseconds of a step that writes `rows` computed rows, with columns of these types, for later runs."""
        ...

    def searching(self, rows: float, types: Sequence[str], wanted: float) -> CpuMs:
        """CPU milliseconds of a job that looks for `wanted` rows among `rows` rows of the content, by columns of these
        types."""
        ...

    def cutting(self, rows: float, types: Sequence[str], gone: float) -> CpuMs:
        """CPU milliseconds of a job that copies files with `rows` rows, with columns of these types, without `gone` of
        the rows."""
        ...

    def rewriting(self, rows: float, after: float, types: Sequence[str], *, grouped: bool) -> CpuMs:
        """CPU milliseconds of a job that reads `rows` rows of the content, with columns of these types, and writes the
        `after` rows that stay or come; `grouped`: it counts equal rows."""
        ...

    def load(self, rows: float) -> CpuMs:
        """CPU milliseconds to read `rows` rows that an earlier run or step wrote."""
        ...

    def merging(self, files: float, rows: float, merged: float) -> CpuMs:
        """CPU milliseconds of a step that reads `rows` rows of a state from `files` files and writes `merged` rows."""
        ...

    def ordering(self, rows: float) -> CpuMs:
        """Additional CPU milliseconds to write a base of `rows` rows in the order of a column, on small pages."""
        ...


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant of a cost model.

    Attributes:
        value, unit: milliseconds of executor CPU per something, unless the unit says otherwise.
        doc: what it is the cost of.
        measured: `tidemill calibrate` measures it. A file may give values of other constants too; without, they keep
            their shipped values.
    """

    name: str
    value: float
    unit: str
    doc: str
    measured: bool = True


@runtime_checkable
class Calibrated(CostModel, Protocol):
    """A cost model with constants that depend on the machine."""

    @property
    def constants(self) -> Sequence[Constant]:
        """The constants, with their values in this model."""
        ...

    def calibrated(self, values: Mapping[str, float]) -> CostModel:
        """The same model with other values for the constants named."""
        ...
