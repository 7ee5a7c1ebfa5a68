"""Facts about stored states: their pieces, and reads by few keys."""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.cost.costing import PAGE_ROWS, CostModel, CpuMs

HELD = "held"
"""The name of the held change among stored pieces."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A base, a segment, or what some of them were merged into.

    Attributes:
        files, rows: their numbers.
        taken: rows that were merged into it; its own rows if it was written directly.
        segments: number of segments merged into it.
        order: the field that sorts each of its files; None if there is none.
    """

    files: int
    rows: int
    taken: int
    segments: int
    order: str | None = None


@dataclass(frozen=True, slots=True)
class KeyedRead:
    """A read of a state by few keys: the number of keys, and the field with their values."""

    field: str
    keys: float

    def saves(self, rows: float, model: CostModel) -> CpuMs:
        """CPU milliseconds that a look-up saves against reading a base of `rows` rows."""
        return CpuMs(model.load(rows) - model.load(min(rows, self.keys * PAGE_ROWS)))
