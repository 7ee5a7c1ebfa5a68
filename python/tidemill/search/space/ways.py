"""Ways to compute a group: its expressions, with their estimates so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tidemill.cost.costing import CpuMs, RowCount
from tidemill.memo.memo import Expression, Memo
from tidemill.plan.ops import LookUp, Merge, Net, Sum, Unsign

Estimated: TypeAlias = dict[tuple[tuple[RowCount, RowCount], ...], tuple[RowCount, CpuMs]]
"""Output rows and own cost of an expression, by the rows of each input and those of them from the base of a state."""


@dataclass(slots=True)
class Way:
    """An expression of a group.

    Attributes:
        group, expression, inputs: as in the memo, with the numbers of groups after merges.
        distinct: its different inputs.
        unpreferred: a preferred pack has another way to compute the group.
        estimated: output rows and own cost, by the input rows.
        from_base: its rows come unchanged from the base of a state (see `Read`).
        passes_base: they do if those of an input do.
        looks_up: its inputs must be small and written by the run before.
    """

    group: int
    expression: Expression
    inputs: tuple[int, ...]
    distinct: frozenset[int]
    unpreferred: bool
    estimated: Estimated
    from_base: bool
    passes_base: bool
    looks_up: bool


class Ways:
    """All ways of a memo so far, shared by all extractors with the same model and facts."""

    def __init__(self) -> None:
        self._ways: dict[tuple[int, int, bool], Way] = {}  # it holds the expressions, so that no identity is reused

    def way(self, memo: Memo, group: int, e: Expression, *, unpreferred: bool) -> Way:
        """The way of an expression of a group; `unpreferred`: a preferred pack computes the group too."""
        key = (group, id(e), unpreferred)
        if key not in self._ways:
            twin = self._ways.get((group, id(e), not unpreferred))
            inputs = tuple(map(memo.find, e.inputs))
            from_base = isinstance(e.op, Net | Merge) and bool(e.op.state)
            passes_base, looks_up = isinstance(e.op, Unsign | Sum), isinstance(e.op, LookUp)
            estimated = {} if twin is None else twin.estimated
            self._ways[key] = Way(
                group, e, inputs, frozenset(inputs), unpreferred, estimated, from_base, passes_base, looks_up
            )
        return self._ways[key]
