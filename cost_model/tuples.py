"""The cost model of the papers' running example: rows that arrive.

For each join, aggregate and DISTINCT of the query, the signed rows that arrive at it in a run. Rows of a stored or
re-read other side are not counted; a join that a method splits counts once: its semi and anti joins only where nothing
else of it is computed; merges, pads and other helpers count nothing; a part that is computed again counts all its input
rows, beside those that arrive. An inner join of several inputs is one join here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from tidemill.cost.costing import Constant, CpuMs, Facts, OperatorWork, Read, RowCount
from tidemill.plan.ops import Aggregate, Join, KeyFilter, LookUp, Op, Partial
from tidemill.tvr.form import DELTA

from .default import DefaultCostModel

HALVES = ("semi", "anti")
"""Joins that rules split others into."""


@dataclass(frozen=True, slots=True)
class TuplesCostModel(DefaultCostModel):
    """Costs are numbers of rows."""

    name: str = "tuples"
    noise: float = 0.0

    @property
    def constants(self) -> tuple[Constant, ...]:
        """None: rows are counted."""
        return ()

    def rows(self, op: Op, inputs: Sequence[RowCount], facts: Facts) -> RowCount:
        """As in the default model; a part that is computed again for some keys counts as if it were for all."""
        match op:
            case KeyFilter():
                return inputs[0]
            case LookUp(scan):
                return RowCount(facts.kept_rows(scan))
            case _:  # the default model knows all of them
                return DefaultCostModel.rows(self, op, inputs, facts)

    def cost(self, op: Op, reads: Sequence[Read], output: RowCount, facts: Facts) -> CpuMs:
        """Rows that arrive at one operator of many that may stand for one of the query; `total` counts those of all."""
        match op:
            case Aggregate() | Partial():
                return CpuMs(sum(read.rows for read in reads))
            case Join():
                arriving = [read for read in reads if read.form == DELTA] or reads
                return CpuMs(sum(read.rows for read in arriving))
            case _:  # the model counts what arrives at these alone
                return CpuMs(0.0)

    def total(self, work: Sequence[OperatorWork]) -> CpuMs:
        """Rows that arrive at the joins and aggregates of the query in a run."""
        aggregated: dict[object, RowCount] = {}
        joined: dict[object, dict[int, RowCount]] = defaultdict(dict)
        split: dict[object, dict[int, RowCount]] = defaultdict(dict)
        for w in work:
            match w.op:
                case Aggregate(keys, calls) | Partial(keys, calls):
                    aggregated |= {(keys, calls, read.group): read.rows for read in w.inputs}
                case Join(kind, condition):  # by its condition a join is known again where a method splits it
                    arriving = [read for read in w.inputs if read.form == DELTA]
                    of = split if kind in HALVES and not arriving else joined
                    of[condition] |= {read.group: read.rows for read in arriving or w.inputs}
        found = (joined.get(condition) or split[condition] for condition in joined.keys() | split.keys())
        return CpuMs(sum(aggregated.values()) + sum(sum(rows.values()) for rows in found))

    def reading(self, files: float, rows: float) -> CpuMs:
        """Nothing."""
        return CpuMs(0.0)

    def save(self, rows: float) -> CpuMs:
        """Nothing."""
        return CpuMs(0.0)

    def load(self, rows: float) -> CpuMs:
        """Nothing."""
        return CpuMs(0.0)

    def merging(self, files: float, rows: float, merged: float) -> CpuMs:
        """Nothing."""
        return CpuMs(0.0)

    def ordering(self, rows: float) -> CpuMs:
        """Nothing."""
        return CpuMs(0.0)


MODEL = TuplesCostModel()
