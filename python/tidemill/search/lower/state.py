"""Lowering of what reads a state: a base, and the segments that came since.

In the base each key has its rows once and for all. So only rows whose keys the segments have too are brought together
with them, and the others are passed on as they are: a scan and a look-up per row instead of a hash table of them all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tidemill.cost.costing import BROADCAST_ROWS
from tidemill.memo.memo import Expression
from tidemill.plan.expr import Cast, Col, Expr, fn
from tidemill.plan.grouping import groupable
from tidemill.plan.ops import Merge, Net, StateScan, Sum, Unsign
from tidemill.search.lower.lowered import Lowered
from tidemill.wire import nodes as wire

if TYPE_CHECKING:
    from tidemill.search.lower.lower import Lowerer


TOUCHED_FROM_ROWS = 50_000
"""Estimated rows of a state from which on it pays to look for the keys that something came to, which costs a job."""


def few_touched(rows: float, changed: float) -> bool:
    """Whether to look first for the keys that something came to: of a big state, where little came."""
    return rows >= TOUCHED_FROM_ROWS and changed <= BROADCAST_ROWS


class StateForm:
    """Lowers what merges a state's pieces, and maybe more, for a lowerer.

    Args:
        segments: rows of a state's pieces after the first, by its name.
    """

    def __init__(self, lowerer: Lowerer, segments: Callable[[str], float]) -> None:
        self._lowerer = lowerer
        self._segments = segments

    def merged(self, e: Expression) -> Lowered | None:
        """A merge, a net or the plain rows of a state; None if the expression is none of these."""
        match e.op:
            case Merge(_, state) if state:
                return self._merge(e.op, e.inputs[0], ())
            case Merge():
                for i in e.inputs:
                    if self._of_state(i, Merge):
                        (scan,) = self._inputs(i)
                        return self._merge(e.op, scan, [other for other in e.inputs if other != i])
            case Net(columns, state) if state:
                return self._net(columns, e.inputs[0], ())
            case Unsign(columns):
                return self._plain(columns, e.inputs[0])
        return None

    def _plain(self, columns: tuple[int, ...], group: int) -> Lowered | None:
        """Rows of a state and of changes to it: counted, so that no row needs to come once."""
        net = self._lowerer.chosen(group)
        if net is None or not isinstance(net.op, Net) or net.op.state:
            return None
        total = self._lowerer.chosen(net.inputs[0])
        if total is None or not isinstance(total.op, Sum):
            return None
        for i in total.inputs:
            old = self._lowerer.chosen(i)
            if old is not None and isinstance(old.op, Unsign) and self._of_state(old.inputs[0], Net):
                (scan,) = self._inputs(old.inputs[0])
                found = self._net(columns, scan, [other for other in total.inputs if other != i])
                return None if found is None else self._lowerer.unsign(columns, found)
        return None

    def _merge(self, op: Merge, scan: int, others: Sequence[int]) -> Lowered | None:
        keys = tuple(c for c, _ in op.partial.keys)
        types = self._lowerer.memo.columns.type

        def merged(pieces: Lowered) -> Lowered:
            found = self._lowerer.attribute.merge(op.partial, [pieces])
            cast = tuple((c, Col(c) if c in keys else Cast(Col(c), types(c))) for c in found.columns)
            return Lowered(wire.project(cast, found.node), found.columns, None)

        return self._together(scan, keys, others, self._lowerer.group, merged)

    def _net(self, columns: tuple[int, ...], scan: int, others: Sequence[int]) -> Lowered | None:
        def signed(group: int) -> Lowered:
            return self._lowerer.signed(self._lowerer.group(group))

        return self._together(scan, columns, others, signed, self._lowerer.net)

    def _together(
        self,
        scan: int,
        keys: tuple[int, ...],
        others: Sequence[int],
        lower: Callable[[int], Lowered],
        merged: Callable[[Lowered], Lowered],
    ) -> Lowered | None:
        """A state's pieces, and others like them, as `merged` brings the rows of a key together; None where that is
        no gain: the state is small, or too much came since its base."""
        leaf = self._lowerer.chosen(scan)
        if leaf is None or not isinstance(leaf.op, StateScan) or not keys:
            return None
        changed = self._segments(leaf.op.name) + sum(self._lowerer.extractor.rows(i) for i in others)
        if not few_touched(self._lowerer.extractor.rows(scan), changed):
            return None
        whole = self._lowerer.group(scan)
        columns = whole.columns
        base = Lowered({**whole.node, "end": 1}, columns, whole.count)
        segments = Lowered({**whole.node, "first": 1}, columns, whole.count)
        since = self._union([segments, *map(lower, others)])
        untouched, touched = (self.among(kind, base, keys, since) for kind in ("anti", "semi"))
        return self._union([untouched, merged(self._union([touched, since]))])

    def _union(self, parts: Sequence[Lowered]) -> Lowered:
        columns = parts[0].columns
        return parts[0] if len(parts) == 1 else self._lowerer.union(columns, [(columns, part) for part in parts])

    def among(self, kind: str, rows: Lowered, keys: tuple[int, ...], wanted: Lowered) -> Lowered:
        """Rows whose keys are ("semi"), or are not ("anti"), among those of a small relation; NULLs are equal."""
        types = {c: self._lowerer.memo.columns.type(c) for c in keys}
        names = [(c, self._lowerer.column(types[c], "touched")) for c in keys]
        node = wire.project(tuple((w, Col(c)) for c, w in names), wanted.node)
        condition = tuple(fn("<=>", groupable(c, types[c]), groupable(w, types[c])) for c, w in names)
        return Lowered(wire.join(kind, condition, rows.node, node, "right"), rows.columns, rows.count)

    def having(
        self, rows: Lowered, on: Sequence[tuple[Expr, int]], wanted: Lowered, nulls: bool, broadcast: bool
    ) -> Lowered:
        """Rows whose key is among those of a relation, which may have columns of the same number."""
        types = self._lowerer.memo.columns.type
        names = [(expr, c, self._lowerer.column(types(c), "wanted")) for expr, c in on]
        node = wire.project(tuple((w, Col(c)) for _, c, w in names), wanted.node)
        condition = tuple(fn("<=>" if nulls else "=", expr, Col(w)) for expr, _, w in names)
        return Lowered(
            wire.join("semi", condition, rows.node, node, "right" if broadcast else None), rows.columns, rows.count
        )

    # -- what was chosen ----------------------------------------------------------------------------------------------

    def _inputs(self, group: int) -> tuple[int, ...]:
        e = self._lowerer.chosen(group)
        return () if e is None else e.inputs

    def _of_state(self, group: int, kind: type[Merge] | type[Net]) -> bool:
        e = self._lowerer.chosen(group)
        return e is not None and isinstance(e.op, kind) and bool(e.op.state)
