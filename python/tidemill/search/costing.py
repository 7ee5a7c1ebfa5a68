"""What the search asks of a cost model, and the facts that it gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NewType, Protocol

from tidemill.plan.change import SourceChange
from tidemill.plan.expr import Expr
from tidemill.plan.ops import Op, ResultScan, StateScan
from tidemill.plan.query import Query

Rows = NewType("Rows", float)
CpuMs = NewType("CpuMs", float)
"""Executor CPU milliseconds."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known when costs are estimated.

    Attributes:
        query: the query and its expressions.
        sources: size and change of each source.
        selectivity: of each join of the query, by its condition: rows out per product of rows in.
        kept: rows of each kept state by name, and of the view's result under "".
    """

    query: Query
    sources: Mapping[int, SourceChange]
    selectivity: Mapping[tuple[Expr, ...], float]
    kept: Mapping[str, float]

    def kept_rows(self, op: StateScan | ResultScan) -> float:
        """Rows of what a scan of a state or of the result reads."""
        return self.kept.get(op.name if isinstance(op, StateScan) else "", 1.0)


class CostModel(Protocol):
    """Estimates rows and CPU time, one operator at a time."""

    @property
    def name(self) -> str:
        """The value of spark.tidemill.cost.model that asks for it."""
        ...

    def rows(self, op: Op, inputs: Sequence[Rows], facts: Facts) -> Rows:
        """Rows that an operator puts out, given those of its inputs."""
        ...

    def cost(self, op: Op, inputs: Sequence[Rows], output: Rows, facts: Facts) -> CpuMs:
        """CPU time of the operator alone."""
        ...

    def reading(self, files: float, rows: float) -> CpuMs:
        """CPU time to read and merge so many rows of a state, in so many files."""
        ...

    def merging(self, files: float, rows: float, merged: float) -> CpuMs:
        """CPU time of a step that reads so many rows of a state, in so many files, and writes `merged` ones."""
        ...
