"""The cost model of the papers' running example: the number of arriving rows.

For each join, aggregate and DISTINCT of the query, it counts the signed rows that arrive there in a run. Rows of a
stored or re-read other side do not count. A join that a method splits counts once; its semi and anti joins count only
if no other part of it is computed. Merges, pads and other helpers cost nothing. An operator that is recomputed counts
all its input rows beside the arriving ones. An inner join of several inputs is one join here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidemill.cost.costing import Constant, CpuMs, Facts, OperatorWork, Read, RowCount
from tidemill.memo.memo import Memo
from tidemill.plan.ops import Aggregate, Join, JoinChange, KeyFilter, LookUp, Op, Partial
from tidemill.tvr.form import DELTA

from .default import DefaultCostModel
from .whole import known_rows

HALVES = ("semi", "anti")
"""Kinds of joins that rules split other joins into."""


@dataclass(frozen=True, slots=True)
class TuplesCostModel(DefaultCostModel):
    """A cost model whose costs are numbers of rows."""

    name: str = "tuples"
    noise: float = 0.0

    @property
    def constants(self) -> tuple[Constant, ...]:
        """No constants: this model counts rows."""
        return ()

    def rows(self, op: Op, inputs: Sequence[RowCount], facts: Facts) -> RowCount:
        """Rows as in the default model; a recomputation for some keys counts as if it were for all keys."""
        match op:
            case KeyFilter():
                return inputs[0]
            case LookUp(scan):
                return RowCount(facts.kept_rows(scan))
            case _:  # the default model handles all others
                return DefaultCostModel.rows(self, op, inputs, facts)

    def cost(self, op: Op, reads: Sequence[Read], output: RowCount, facts: Facts) -> CpuMs:
        """Rows that arrive at one operator; several may stand for one operator of the query, see `total`."""
        match op:
            case Aggregate() | Partial():
                return CpuMs(sum(read.rows for read in reads))
            case Join() | JoinChange():
                arriving = [read for read in reads if read.form == DELTA] or reads
                return CpuMs(sum(read.rows for read in arriving))
            case _:  # only arrivals at these operators count
                return CpuMs(0.0)

    def total(self, work: Sequence[OperatorWork]) -> CpuMs:
        """Rows that arrive at the joins and aggregates of the query in a run."""
        return CpuMs(sum(read.rows for read in self.counted(work)))

    def counted(self, work: Sequence[OperatorWork]) -> Sequence[Read]:
        """The inputs that arrive at the joins and aggregates of the query in a run."""
        aggregated: dict[object, Read] = {}
        joined: dict[object, dict[int, Read]] = defaultdict(dict)
        split: dict[object, dict[int, Read]] = defaultdict(dict)
        for w in work:
            match w.op:
                case Aggregate(keys, calls) | Partial(keys, calls):
                    aggregated |= {(keys, calls, read.group): read for read in w.inputs}
                case Join(kind, condition):  # the condition identifies a join that a method splits
                    arriving = [read for read in w.inputs if read.form == DELTA]
                    of = split if kind in HALVES and not arriving else joined
                    of[condition] |= {read.group: read for read in arriving or w.inputs}
                case JoinChange(condition):
                    joined[condition] |= {read.group: read for read in w.inputs if read.form == DELTA}
        found = (joined.get(condition) or split[condition] for condition in joined.keys() | split.keys())
        return [*aggregated.values(), *(read for reads in found for read in reads.values())]

    def known(self, memo: Memo, facts: Facts) -> Mapping[int, RowCount]:
        """Whole rows."""
        return known_rows(memo, self.rows, facts)

    def reading(self, files: float, rows: float) -> CpuMs:
        """Zero: not counted."""
        return CpuMs(0.0)

    def save(self, rows: float) -> CpuMs:
        """Zero: not counted."""
        return CpuMs(0.0)

    def writing(self, rows: float, types: Sequence[str]) -> CpuMs:
        """Zero: not counted."""
        return CpuMs(0.0)

    def searching(self, rows: float, types: Sequence[str], wanted: float) -> CpuMs:
        """Zero: not counted."""
        return CpuMs(0.0)

    def cutting(self, rows: float, types: Sequence[str], gone: float) -> CpuMs:
        """Zero: not counted."""
        return CpuMs(0.0)

    def rewriting(self, rows: float, after: float, types: Sequence[str], *, grouped: bool) -> CpuMs:
        """Zero: not counted."""
        return CpuMs(0.0)

    def load(self, rows: float) -> CpuMs:
        """Zero: not counted."""
        return CpuMs(0.0)

    def merging(self, files: float, rows: float, merged: float) -> CpuMs:
        """Zero: not counted."""
        return CpuMs(0.0)

    def ordering(self, rows: float) -> CpuMs:
        """Zero: not counted."""
        return CpuMs(0.0)


MODEL = TuplesCostModel()
