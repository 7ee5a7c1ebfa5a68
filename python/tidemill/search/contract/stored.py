"""Facts about what is stored: the pieces of states and reads of them by few keys, and the files of the content."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from tidemill.cost.costing import PAGE_ROWS, CostModel, CpuMs

HELD = "held"
"""The name of the held change among stored pieces."""
SMALL_RESULT_BYTES = (1 << 20) // 4
"""Largest content that is rewritten whole when rows leave it. That is one job, as cheap as a search for these rows (two
jobs) and a copy without them (one): some 15,000 rows are grouped and encoded in the time that two more jobs take."""
MOST_FOUND = 50_000
"""Largest number of leaving rows whose places are collected; beyond, touched files are rewritten by a join."""
MOST_PLACED_FILES = 64
"""Largest number of files of a content whose rows get places: the plan names them, and each row is compared with the
names."""
FEW_MARKED = 10
"""Rows are marked if there are so many times as many in the content."""
CROWD = 8
"""A run merges small files of the content once there are this many."""
TARGET_FILE_BYTES = 32 << 20
"""Size of a full file of the content."""
FILE_ROWS = 1_000_000
"""Most rows of a file of the content. A run that takes one row out of a file copies the bytes of all others."""
MERGED_INTO = 4
"""Smallest number of times that a file grows by a merge."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A base, a segment, or what some of them were merged into.

    Attributes:
        files, rows: their numbers.
        taken: rows that were merged into it; its own rows if it was written directly.
        segments: number of segments merged into it.
        order: the field that sorts each of its files; None if there is none.
        bytes: of its files; 0 if they are unknown.
    """

    files: int
    rows: int
    taken: int
    segments: int
    order: str | None = None
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class KeyedRead:
    """A read of a state by few keys: the number of keys, and the field with their values."""

    field: str
    keys: float

    def saves(self, rows: float, model: CostModel) -> CpuMs:
        """CPU milliseconds that a look-up saves against reading a base of `rows` rows."""
        return CpuMs(model.load(rows) - model.load(min(rows, self.keys * PAGE_ROWS)))


@dataclass(frozen=True, slots=True)
class Layout:
    """The files of the view's content, which decide how a change is applied.

    Attributes:
        files, bytes: their number and size.
        keys: columns that are a key of the content; None if it is a bag.
        marks: rows that leave may be marked in deletion vectors.
        merged: bytes of the files that a run merges if it writes rows (`crowded`); where the content is partitioned, if
            it writes into all partitions.
    """

    files: int
    bytes: float
    keys: tuple[str, ...] | None = None
    marks: bool = False
    merged: float = 0.0


def crowded(sizes: Sequence[int], rows: Sequence[int], small: int = SMALL_RESULT_BYTES) -> tuple[int, ...]:
    """The files of a content, or of a partition, that are due to be merged: their places among sizes in bytes and rows.

    Of a content of up to `small` bytes these are all files. Of a bigger one they are the smallest files, as many as fit
    into one file with none bigger than a quarter of all of these together. So a row that is rewritten gets into a file
    of at least four times the size: n bytes cost O(n log n) of writing. Two files that are half full stay as they are,
    and so does a file of few bytes that has as many rows as a file may have.

    >>> sizes, few = lambda *mebibytes: [m << 20 for m in mebibytes], [1] * 9
    >>> crowded(sizes(100, 1, 2, 1, 1, 1, 1, 1, 1), few)
    (1, 3, 4, 5, 6, 7, 8, 2)
    >>> crowded(sizes(100, 1, 2, 1, 1, 1, 1, 1), few[:8])
    ()
    >>> crowded(sizes(12, 12, 1, 1, 1, 1, 1, 1, 1), few)
    ()
    >>> crowded(sizes(6, 6, 6, 6, 6, 1, 1, 1), [FILE_ROWS] * 5 + [1] * 3)
    ()
    """
    places = sorted(range(len(sizes)), key=sizes.__getitem__)
    sums = list(accumulate(sizes[i] for i in places))
    if not sums or sums[-1] <= small:
        return tuple(places) if len(places) >= CROWD else ()
    together = zip(places, sums, accumulate(rows[i] for i in places), strict=True)
    due = [
        n
        for n, (place, size, count) in enumerate(together, 1)
        if n >= CROWD and MERGED_INTO * sizes[place] <= size <= TARGET_FILE_BYTES and count <= FILE_ROWS
    ]
    return tuple(places[: max(due, default=0)])
