"""When the pieces of a state are put together (design 7: "compacted when reading costs more than merging").

A state is a base and, in order of writing, segments. Each run that follows the state adds a segment, so what a read
costs grows, by files and by rows whose keys came again. Pieces are merged from some piece on to the newest, by two
rules. What is merged was not made bigger for little: the pieces after the first one amount to a fixed share of it, so
a row is written again only into a piece that is bigger by that share, and n refreshes write O(n log n). And it pays: as
many reads as the pieces took to come save more than merging costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidemill.search.costing import CostModel, CpuMs

SHARE = 0.25
"""Rows of later pieces per row of the piece that they are merged into, at the least."""


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
class Compaction:
    """Pieces from number `first` on become one; `rows`: of all of them, `cost`: of doing so."""

    first: int
    rows: int
    cost: CpuMs


def due(pieces: Sequence[Piece], model: CostModel) -> Compaction | None:
    """The longest tail of a state's pieces that is worth merging now; None if none is.

    >>> from tidemill.cost_model.default import MODEL
    >>> due([Piece(1, 1000, 1000, 0), Piece(1, 10, 10, 1)], MODEL) is None
    True
    >>> due([Piece(1, 1000, 1000, 0), *[Piece(1, 10, 10, 1)] * 24], MODEL).first
    1
    >>> due([Piece(1, 1000, 1000, 0), *[Piece(1, 10, 10, 1)] * 25], MODEL).first
    0
    """
    for first in range(len(pieces) - 1):
        tail = pieces[first:]
        rows = sum(p.rows for p in tail)
        if rows - tail[0].rows < SHARE * tail[0].rows:
            continue
        files = sum(p.files for p in tail)
        merged = max(*(p.rows for p in tail), rows * _distinct(pieces))
        saved = model.reading(files, rows) - model.reading(1, merged)
        cost = model.merging(files, rows, merged)
        if sum(p.segments for p in tail[1:]) * saved >= cost:
            return Compaction(first, rows, cost)
    return None


def _distinct(pieces: Sequence[Piece]) -> float:
    """The share of rows that is left when pieces are merged, as it was at the last time; all before the first."""
    return next((p.rows / p.taken for p in reversed(pieces) if p.taken > p.rows), 1.0)
