"""The default cost model: textbook cardinalities, and CPU milliseconds per row and operator.

Constants of cost are milliseconds of executor CPU on one core. The shipped ones were read off TPC-H at scale factor 1
with Spark 4.2 on the machine that Tidemill is developed on; `tidemill calibrate` measures them on another one
(docs/costs.md). Only their ratios matter for choosing a plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from math import prod

from tidemill.plan.expr import Handle
from tidemill.plan.ops import (
    Aggregate,
    Answer,
    Changes,
    Combine,
    Empty,
    Filter,
    Final,
    FinalChange,
    Gather,
    HeldScan,
    Join,
    KeyFilter,
    Keys,
    Limit,
    Merge,
    Net,
    Op,
    Partial,
    ResultScan,
    Scan,
    StateScan,
    Sum,
    Union,
    Window,
)
from tidemill.plan.query import Query
from tidemill.search.costing import Constant, CpuMs, Facts, Read, Rows, Work
from tidemill.tvr.form import Time

# Guesses, where nothing was measured and no statistics are there. They are about data, not about the machine.
UNKNOWN_ROWS = 1e6
"""Rows of a source without statistics."""
BYTES_PER_ROW = 50
"""Of a columnar file: rows of a source of which only the size is known."""
UNKNOWN_CHANGE = 0.01
"""Share of a source that is assumed to change per run."""
EQUALITY_SELECTIVITY = 0.05
"""Share of rows that a comparison of a column with a literal for equality leaves."""
OTHER_SELECTIVITY = 0.4
"""The same of any other condition."""
SEMI_SELECTIVITY = 0.5
"""Share of rows that a semi or anti join leaves where its other side is not given."""
LEAST_SEMI_SELECTIVITY = 0.1
"""Share that it leaves at the least."""
GROUP_SHARE = 0.2
"""Groups per input row of an aggregate with keys."""
ROWS_PER_KEY = 4
"""Rows that a filter by keys finds for each key."""
LEAST_KEY_SHARE = 0.0005
"""Share of rows that it leaves at the least."""
UNKNOWN_LIMIT = 100.0
"""Rows of a LIMIT that is no literal."""
SORT_PASSES = 2
"""Passes over a row (`row`) to keep the first ones of an order."""


PER_ROW = "ms/row"


def _constant(value: float, unit: str, doc: str, *, measured: bool = True) -> float:
    """A field that is a constant: its shipped value, its unit, and what it is the cost of."""
    return field(default=value, metadata={"constant": Constant("", value, unit, doc, measured)})


@dataclass(frozen=True, slots=True)
class DefaultCostModel:
    """CPU milliseconds per row; see the module's docstring."""

    name: str = "default"
    scan: float = _constant(4e-4, PER_ROW, "a row of a source's snapshot is read")
    changes: float = _constant(1.5e-3, PER_ROW, "a row of a source's change is read, and its sign")
    row: float = _constant(5e-5, PER_ROW, "a row passes a filter, or values are computed of it")
    hash: float = _constant(4e-4, PER_ROW, "a row is put into a hash table: of groups, or of the small side of a join")
    probe: float = _constant(2e-4, PER_ROW, "a row is looked up in a hash table that was broadcast")
    shuffle: float = _constant(6e-4, PER_ROW, "a row goes through an exchange")
    write: float = _constant(6e-4, PER_ROW, "a row of a state or of what a run saves is written")
    kept: float = _constant(8e-4, PER_ROW, "a row of a state, of the result or of what a run saved is read")
    file: float = _constant(0.5, "ms/file", "one more file of a state is opened")
    step: float = _constant(40.0, "ms/step", "one more step, however little it reads and writes")
    noise: float = _constant(100.0, "ms", "differences below the noise of a few jobs say nothing", measured=False)
    broadcast_rows: float = _constant(
        1e5,
        "rows",
        "up to so many rows the small side of a join is broadcast (Spark's 10 MB at 100 bytes a row)",
        measured=False,
    )

    @property
    def constants(self) -> tuple[Constant, ...]:
        """The constants, with the values that they have in this model."""
        return tuple(
            replace(f.metadata["constant"], name=f.name, value=getattr(self, f.name))
            for f in fields(self)
            if "constant" in f.metadata
        )

    def calibrated(self, values: Mapping[str, float]) -> DefaultCostModel:
        """This model with other values of constants, by name."""
        return replace(self, **values)  # type: ignore[arg-type]  # the names are those of constants

    def rows(self, op: Op, inputs: Sequence[Rows], facts: Facts) -> Rows:
        """Rows out of one operator."""
        match op:
            case Scan(source, _, time):
                return Rows(source_rows(facts, source, time))
            case Changes(source, _, start, end):
                return Rows(change_rows(facts, source, start, end))
            case Empty():
                return Rows(0.0)
            case Filter(condition):
                return Rows(inputs[0] * prod(_selectivity(facts.query, c) for c in condition))
            case Join(kind):
                return self._join_rows(op, kind, inputs, facts)
            case Aggregate(keys, _) | Partial(keys, _):
                return Rows(_groups(inputs[0]) if keys else 1.0)
            case Gather(partial) | Answer(partial):
                return Rows(_groups(sum(inputs)) if partial.keys else 1.0)
            case Keys():
                return Rows(_groups(sum(inputs)))
            case Combine(keys=keys):
                return Rows(_groups(inputs[0]) if keys else 1.0)
            case Merge():
                return Rows(max(inputs))
            case FinalChange():
                return Rows(2 * inputs[1])
            case KeyFilter():
                return Rows(min(inputs[0], max(inputs[1] * ROWS_PER_KEY, inputs[0] * LEAST_KEY_SHARE)))
            case Limit(limit=limit):
                return Rows(min(inputs[0], float(getattr(limit, "value", None) or UNKNOWN_LIMIT)))
            case Sum() | Union():
                return Rows(sum(inputs))
            case StateScan() | ResultScan() | HeldScan():
                return Rows(facts.kept_rows(op))
            case _:
                return Rows(max(inputs, default=1.0))

    def _join_rows(self, op: Join, kind: str, inputs: Sequence[Rows], facts: Facts) -> Rows:
        if kind in {"semi", "anti"}:
            if len(inputs) < 2:
                return Rows(inputs[0] * SEMI_SELECTIVITY)
            return Rows(min(inputs[0], max(inputs[1], inputs[0] * LEAST_SEMI_SELECTIVITY)))
        if kind == "existence":
            return inputs[0]
        share = facts.selectivity.get(op.condition)
        if share is None:
            share = 1.0 / max(*inputs, 1.0) if op.condition else 1.0
        inner = prod(inputs) * share
        return Rows(inner if kind == "inner" else max(inner, inputs[0]))

    def cost(self, op: Op, reads: Sequence[Read], output: Rows, facts: Facts) -> CpuMs:
        """CPU milliseconds of one operator."""
        inputs = [read.rows for read in reads]
        total = float(sum(inputs))
        match op:
            case Scan():
                return CpuMs(output * self.scan)
            case StateScan() | ResultScan() | HeldScan():
                return CpuMs(output * self.kept)
            case Changes():
                return CpuMs(output * self.changes)
            case Join() | KeyFilter():
                small = sorted(inputs)[:-1]
                if sum(small) <= self.broadcast_rows:
                    return CpuMs(sum(small) * self.hash + max(inputs) * self.probe + output * self.row)
                return CpuMs(total * (self.shuffle + self.hash) + output * self.row)
            case Aggregate() | Partial() | Merge() | Combine() | Keys() | Gather() | Answer():
                return CpuMs(total * self.hash + output * self.shuffle)
            case Net() | Window():
                return CpuMs(total * (self.hash + self.shuffle))
            case FinalChange():
                return CpuMs(inputs[0] * self.probe + inputs[1] * (self.hash + self.shuffle))
            case Final() | Filter():
                return CpuMs(total * self.row)
            case Limit():
                return CpuMs(total * self.row * SORT_PASSES)
            case _:
                return CpuMs(total * self.row)

    def total(self, work: Sequence[Work]) -> CpuMs:
        """CPU milliseconds of all operators of a run."""
        return CpuMs(sum(w.cost * w.times for w in work))

    def reading(self, files: float, rows: float) -> CpuMs:
        """CPU milliseconds to read and merge so many rows of a state, in so many files."""
        return CpuMs(files * self.file + rows * (self.kept + self.hash))

    def save(self, rows: float) -> CpuMs:
        """CPU milliseconds to write so many rows in a step of their own."""
        return CpuMs(self.step + rows * self.write)

    def load(self, rows: float) -> CpuMs:
        """CPU milliseconds to read so many rows of one file."""
        return CpuMs(self.file + rows * self.kept)

    def merging(self, files: float, rows: float, merged: float) -> CpuMs:
        """CPU milliseconds of a step that reads so many rows of a state and writes `merged` ones."""
        return CpuMs(self.step + self.reading(files, rows) + merged * self.write)


def source_rows(facts: Facts, source: int, time: Time | None = None) -> float:
    """Rows of a source's snapshot at a moment; the last, unless given."""
    known = facts.source_at(source, time)
    if known is None:
        return UNKNOWN_ROWS
    if known.rows is None:
        return known.bytes / BYTES_PER_ROW if known.bytes else UNKNOWN_ROWS
    return known.rows


def change_rows(facts: Facts, source: int, start: Time, end: Time) -> float:
    """Rows of a source's change between two moments: an update counts as a delete and an insert."""
    change = facts.change_over(source, start, end)
    if change is None:
        return max(1.0, source_rows(facts, source, end) * UNKNOWN_CHANGE)
    return sum(change)


def _groups(rows: float) -> float:
    return max(1.0, rows * GROUP_SHARE) if rows > 0 else 0.0


def _selectivity(query: Query, condition: object) -> float:
    info = query.info(condition) if isinstance(condition, Handle) else None
    if info is None:
        return OTHER_SELECTIVITY
    if info.text.startswith("(isnotnull") or info.text.startswith("isnotnull"):
        return 1.0
    if info.compare is not None and info.compare.get("op") in {"=", "<=>"}:
        return EQUALITY_SELECTIVITY
    return OTHER_SELECTIVITY


MODEL = DefaultCostModel()
