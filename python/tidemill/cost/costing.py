"""What the search asks of a cost model, and the facts that it gives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NewType, Protocol, runtime_checkable

from tidemill.cost.distinct import Distinct
from tidemill.cost.guesses import PART_ROW_BYTES, VALUES_PER_ROW
from tidemill.cost.kept import NOTHING_COUNTED, KeptRows
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
"""Estimated rows up to which keys, and what a change joins with, are broadcast, whatever Spark would guess."""
LOOKED_UP_KEYS = 500
"""Keys up to which they are looked up in a state that is in their order; of more, nearly every page has one."""
PAGE_ROWS = 1_000
"""Rows of a page of a file in order: what is read for a key."""
LONG_DIGITS = 18
"""Of a decimal that is kept in a long."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known when costs are estimated.

    Attributes:
        query: the query and its expressions.
        steps: size and change of each source, for each step of the timeline.
        selectivity: of each join of the query, by its condition: rows out per product of rows in.
        kept: rows of what is kept.
        known: rows of groups that were measured, or that are given, instead of being estimated.
        sizes: rows of each relation by number, once: they are the same in whichever way it is written.
        distinct: how many values columns have; None if nothing is known.
    """

    query: Query
    steps: tuple[Mapping[int, SourceChange], ...]
    selectivity: Mapping[tuple[Expr, ...], float]
    kept: KeptRows = NOTHING_COUNTED
    known: Mapping[int, RowCount] = field(default_factory=dict)
    sizes: Mapping[int, float] = field(default_factory=dict)
    distinct: Distinct | None = None

    def groups(self, keys: Iterable[Expr], rows: float) -> float:
        """How many different values keys have in so many rows."""
        if self.distinct is None:
            return rows * VALUES_PER_ROW
        return self.distinct.number({column for key in keys for column in self.query.columns_of(key)}, rows)

    def source_at(self, source: int, time: Time | None) -> SourceChange | None:
        """What is known of a source after the last step before a moment (None: the last); before all, of the first."""
        until = len(self.steps) if time is None else max(time, 1)
        return next((s[source] for s in reversed(self.steps[:until]) if source in s), None)

    def change_over(self, source: int, start: Time, end: Time) -> tuple[float, float] | None:
        """Rows inserted and deleted between two moments; None if one of the steps does not know."""
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
        """Rows of files that are read whole to tell a change between two moments."""
        changes = (step[source] for step in self.steps[start:end] if source in step)
        return sum(change.read or 0.0 for change in changes if change.changed)

    def segments(self, state: str) -> float:
        """Rows of a state's pieces after the first."""
        return self.kept.state(state).segments

    def kept_rows(self, op: StateScan | ResultScan | HeldScan) -> float:
        """Rows of what a scan of something kept reads."""
        return self.kept.read(op)


_VALUE_BYTES = {"boolean": 1, "byte": 1, "short": 2, "integer": 4, "date": 4, "float": 4, "string": 20, "binary": 100}


def row_bytes(types: Iterable[str]) -> int:
    """Bytes of a row with columns of these types, as Spark guesses them; nested ones count like its binary ones.

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
    """What an operator reads.

    Attributes:
        group: its number.
        rows: how many there are.
        form: the kind of form of a relation that it is; None if it is of none.
        from_base: rows of these that come from a state's base, where each key has its rows once and for all: to bring
            others together with them, they need not be brought together themselves.
        row_bytes: bytes of a row, as Spark counts them when it decides what to broadcast.
    """

    group: int
    rows: RowCount
    form: FormKind | None
    from_base: RowCount = NO_ROWS
    row_bytes: int = PART_ROW_BYTES


@dataclass(frozen=True, slots=True)
class OperatorWork:
    """An operator of a plan at a run.

    Attributes:
        op, inputs: the operator and what it reads.
        cost: of one time.
        times: how often it is carried out.
    """

    op: Op
    inputs: tuple[Read, ...]
    cost: CpuMs
    times: int


class CostModel(Protocol):
    """Estimates rows and CPU time, one operator at a time."""

    @property
    def name(self) -> str:
        """The value of spark.tidemill.cost.model that asks for it."""
        ...

    @property
    def noise(self) -> float:
        """Differences below this say nothing: a plan that costs less is good enough."""
        ...

    def rows(self, op: Op, inputs: Sequence[RowCount], facts: Facts) -> RowCount:
        """Rows that an operator puts out, given those of its inputs."""
        ...

    def cost(self, op: Op, reads: Sequence[Read], output: RowCount, facts: Facts) -> CpuMs:
        """CPU time of the operator alone."""
        ...

    def reading(self, files: float, rows: float) -> CpuMs:
        """CPU time to read and merge so many rows of a state, in so many files."""
        ...

    def total(self, work: Sequence[OperatorWork]) -> CpuMs:
        """CPU time of all operators of a run together."""
        ...

    def save(self, rows: float) -> CpuMs:
        """CPU time of a step that writes so many computed rows for a later run, or for several readers of its own."""
        ...

    def load(self, rows: float) -> CpuMs:
        """CPU time to read so many rows that an earlier run, or an earlier step, saved."""
        ...

    def merging(self, files: float, rows: float, merged: float) -> CpuMs:
        """CPU time of a step that reads so many rows of a state, in so many files, and writes `merged` ones."""
        ...

    def ordering(self, rows: float) -> CpuMs:
        """CPU time that a base of so many rows costs more to write in the order of a column, on small pages."""
        ...


@dataclass(frozen=True, slots=True)
class Constant:
    """A number that a cost model is made of.

    Attributes:
        value, unit: milliseconds of executor CPU per something, unless the unit says otherwise.
        doc: what it is the cost of.
        measured: whether `tidemill calibrate` measures it. A file may name others too; without, they are as shipped.
    """

    name: str
    value: float
    unit: str
    doc: str
    measured: bool = True


@runtime_checkable
class Calibrated(CostModel, Protocol):
    """A cost model whose constants depend on the machine."""

    @property
    def constants(self) -> Sequence[Constant]:
        """Its constants; those of the model that is shipped have the shipped values."""
        ...

    def calibrated(self, values: Mapping[str, float]) -> CostModel:
        """The same model with other values of constants, by name."""
        ...
