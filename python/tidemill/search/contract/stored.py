"""What is known of stored states: their pieces, and by how few keys runs ask for them."""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.cost.costing import PAGE_ROWS, CostModel, CpuMs

HELD = "held"
"""The name, among what is stored, of the view's change that is held back."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A base, a segment, or what some of them were merged into.

    Attributes:
        files, rows: how many it has.
        taken: rows that were merged into it; of a piece that was written as it is, its own.
        segments: how many segments went into it.
        order: the field that each of its files is in the order of; None if there is none.
    """

    files: int
    rows: int
    taken: int
    segments: int
    order: str | None = None


@dataclass(frozen=True, slots=True)
class KeyedRead:
    """What a plan asks a state for: rows of a few keys, so many of them, told by a field."""

    field: str
    keys: float

    def saves(self, rows: float, model: CostModel) -> CpuMs:
        """What a look-up saves of reading a base of so many rows."""
        return CpuMs(model.load(rows) - model.load(min(rows, self.keys * PAGE_ROWS)))
