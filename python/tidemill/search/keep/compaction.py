"""When the pieces of a state are put together: where reading them costs more than merging.

A state is a base and, in order of writing, segments. Each run that follows the state adds a segment, so what a read
costs grows, by files and by rows whose keys came again. Pieces are merged from some piece on to the newest, by two
rules. What is merged was not made bigger for little: the pieces after the first one amount to a fixed share of it, so
a row is written again only into a piece that is bigger by that share, and n refreshes write O(n log n). And it pays: as
many reads as the pieces took to come save more than merging costs.

Where runs ask for few keys of a base that is not in the order of them, it is put in order, if as many look-ups as
segments came to it save more than that costs; with a merge that is due anyway, or in one for that alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tidemill.cost.costing import LOOKED_UP_KEYS, CostModel, CpuMs
from tidemill.cost.models import cost_model
from tidemill.search.contract.request import PlanRequest
from tidemill.search.contract.stored import KeyedRead, Piece

SHARE = 0.25
"""Rows of later pieces per row of the piece that they are merged into, at the least."""
MOST_UNREAD = 32
"""Pieces that a state may have without a thought to merging them, as long as no run reads it."""


@dataclass(frozen=True, slots=True)
class Compaction:
    """Pieces of a state that become one.

    Attributes:
        first: the number of the first of them; all later ones are among them.
        rows: of all of them.
        cost: CPU milliseconds of doing so.
        order: the field in whose order the new piece is written; None if there is none.
    """

    first: int
    rows: int
    cost: CpuMs
    order: str | None = None


def due(pieces: Sequence[Piece], model: CostModel, asked: KeyedRead | None = None) -> Compaction | None:
    """The longest tail of a state's pieces that is worth merging now; None if none is.

    `asked`: what the run asks the state for by few keys, as runs like it do.

    >>> from tidemill.cost_model.default import MODEL
    >>> due([Piece(1, 1000, 1000, 0), Piece(1, 10, 10, 1)], MODEL) is None
    True
    >>> due([Piece(1, 1000, 1000, 0), *[Piece(1, 10, 10, 1)] * 24], MODEL).first
    1
    >>> due([Piece(1, 1000, 1000, 0), *[Piece(1, 10, 10, 1)] * 25], MODEL).first
    0
    """
    gained = _gained(pieces, model, asked)
    for first in range(len(pieces) - 1):
        tail = pieces[first:]
        rows, files = sum(p.rows for p in tail), sum(p.files for p in tail)
        merged = max(*(p.rows for p in tail), rows * _distinct(pieces))
        cost = model.merging(files, rows, merged)
        order, ordering = (None if first else pieces[0].order), model.ordering(merged)
        if first == 0 and asked is not None and gained > ordering:
            order = asked.field
            if gained > cost + ordering:
                return Compaction(first, rows, CpuMs(cost + ordering), order)
        if order is not None:
            cost = CpuMs(cost + ordering)
        if rows - tail[0].rows < SHARE * tail[0].rows:
            continue
        saved = model.reading(files, rows) - model.reading(1, merged)
        if _runs(tail[1:]) * saved >= cost:
            return Compaction(first, rows, cost, order)
    return None


def compaction_of(
    name: str, request: PlanRequest, model: CostModel, read: Collection[str], asked: Mapping[str, KeyedRead]
) -> Compaction | None:
    """What is put together of a state that a run follows: where the run reads it, and that pays for runs like it; of
    others, so that their files do not become too many.

    `read`: the states that the run reads; `asked`: what it asks states for by few keys.
    """
    pieces = request.pieces.get(name, ())
    if request.between:  # what came before the content and since then is still told apart
        return None
    if not pieces or (name not in read and len(pieces) <= MOST_UNREAD):
        return None
    return due(pieces, model, asked.get(name))


def may_compact(request: PlanRequest, asked: Mapping[str, KeyedRead]) -> bool:
    """True if a run may put pieces of a state together; `asked`: what it asks states for by few keys."""
    model = cost_model(request.settings.cost_model, request.settings.cost_constants)
    return any(
        len(pieces) > MOST_UNREAD or due(pieces, model, asked.get(name)) is not None
        for name, pieces in request.pieces.items()
        if pieces
    )


def _gained(pieces: Sequence[Piece], model: CostModel, asked: KeyedRead | None) -> float:
    """What the runs since a state's base was written would have gained by its being in the order of what is asked for;
    0 if it is, or if more came to it than is looked up."""
    base, *later = pieces
    if asked is None or base.order == asked.field or sum(p.taken for p in later) > LOOKED_UP_KEYS * _runs(later):
        return 0.0
    return _runs(later) * asked.saves(base.rows, model)


def _runs(pieces: Sequence[Piece]) -> int:
    """How many runs wrote pieces that are segments, or were merged from some."""
    return sum(p.segments for p in pieces)


def _distinct(pieces: Sequence[Piece]) -> float:
    """The share of rows that is left when pieces are merged, as it was at the last time; all before the first."""
    return next((p.rows / p.taken for p in reversed(pieces) if p.taken > p.rows), 1.0)
