"""Compaction of states: pieces are merged where reading them costs more than merging.

A state is a base and segments in the order of writing. Each run that follows the state adds a segment, so the cost of a
read grows by files and by rows whose keys occur again. Compaction merges a tail of the pieces, under two conditions.
First, the pieces after the first one amount to a fixed fraction of it: a row is written again only into a piece that is
larger by that fraction, so n refreshes write O(n log n). Second, it pays: as many reads as the pieces took to
accumulate save more than merging costs.

If runs read few keys of a base that is not in their order, it is put in order once as many look-ups as it has segments
save more than that costs; together with a merge that is due anyway, or on its own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tidemill.cost.costing import LOOKED_UP_KEYS, CostModel, CpuMs
from tidemill.cost.models import cost_model
from tidemill.search.contract.request import PlanRequest
from tidemill.search.contract.stored import KeyedRead, Piece

SHARE = 0.25
"""Smallest number of rows of later pieces, per row of the piece that they are merged into."""
MOST_UNREAD = 32
"""Largest number of pieces of a state that no run reads before they are merged."""


@dataclass(frozen=True, slots=True)
class Compaction:
    """Pieces of a state that are merged into one.

    Attributes:
        first: the number of the first of them; it takes all later ones.
        rows: their number of rows.
        cost: CPU milliseconds of merging.
        order: the field that sorts the new piece; None if there is none.
    """

    first: int
    rows: int
    cost: CpuMs
    order: str | None = None


def due(pieces: Sequence[Piece], model: CostModel, asked: KeyedRead | None = None) -> Compaction | None:
    """The longest tail of a state's pieces that is worth merging now; None if none is.

    `asked`: the run's read of the state by few keys; later runs are expected to read the same.

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
    name: str,
    request: PlanRequest,
    model: CostModel,
    read: Collection[str],
    asked: Mapping[str, KeyedRead],
    *,
    grows: bool = False,
) -> Compaction | None:
    """The compaction of a state that a run follows; None if there is none.

    A state that the run reads is compacted where that pays; others only so that their pieces do not become too many;
    all of them where the view's budget is nearly spent.

    `read`: the states that the run reads; `asked`: its reads of states by few keys; `grows`: it adds a piece.
    """
    pieces = request.pieces.get(name, ())
    if request.tight and pieces and len(pieces) + grows > 1:
        return _whole(pieces, model)
    if not pieces or (name not in read and len(pieces) <= MOST_UNREAD):
        return None
    return due(pieces, model, asked.get(name))


def may_compact(request: PlanRequest, asked: Mapping[str, KeyedRead]) -> bool:
    """True if a run may compact a state; `asked`: its reads of states by few keys."""
    model = cost_model(request.settings.cost_model, request.settings.cost_constants)
    return request.tight or any(
        len(pieces) > MOST_UNREAD or due(pieces, model, asked.get(name)) is not None
        for name, pieces in request.pieces.items()
        if pieces
    )


def _whole(pieces: Sequence[Piece], model: CostModel) -> Compaction:
    """The merge of all pieces, whether it pays or not."""
    rows, files = sum(p.rows for p in pieces), sum(p.files for p in pieces)
    merged = max(*(p.rows for p in pieces), rows * _distinct(pieces))
    ordering = 0.0 if pieces[0].order is None else model.ordering(merged)
    return Compaction(0, rows, CpuMs(model.merging(files, rows, merged) + ordering), pieces[0].order)


def _gained(pieces: Sequence[Piece], model: CostModel, asked: KeyedRead | None) -> float:
    """CPU milliseconds that past runs would have saved if the base had been in the order of `asked`.

    It is 0 if the base has that order, or if the segments hold more rows than are worth looking up.
    """
    base, *later = pieces
    if asked is None or base.order == asked.field or sum(p.taken for p in later) > LOOKED_UP_KEYS * _runs(later):
        return 0.0
    return _runs(later) * asked.saves(base.rows, model)


def _runs(pieces: Sequence[Piece]) -> int:
    """The number of runs that wrote the segments in these pieces, merged ones included."""
    return sum(p.segments for p in pieces)


def _distinct(pieces: Sequence[Piece]) -> float:
    """The fraction of rows that is left after merging, as at the latest merge; 1 before the first."""
    return next((p.rows / p.taken for p in reversed(pieces) if p.taken > p.rows), 1.0)
