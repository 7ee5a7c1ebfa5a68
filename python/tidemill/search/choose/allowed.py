"""Which expressions the plans of a run may use."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from tidemill.memo.memo import Expression, Memo
from tidemill.plan.ops import Changes, LookUp, Op, ResultScan, Scan, StateScan, state_of
from tidemill.search.space.seed import RECOMPUTE, owed_to
from tidemill.tvr.form import OLD


@dataclass(frozen=True, slots=True)
class AllBut:
    """All groups but these."""

    groups: Container[int] = frozenset()

    def __contains__(self, group: object) -> bool:
        return group not in self.groups


EVERYWHERE = AllBut()


@dataclass(frozen=True, slots=True)
class Allowed:
    """Which expressions of a memo a plan may use.

    Attributes:
        barred: operators that no plan may compute a group with, as (group, operator): see `answered_from_sources`.
        past: whether it may read what only an incremental run may.
        packs: those that it may use; None: all.
        states: names of the states that it may read; None: all.
        recompute: the groups that `recompute` may compute, if it is one of the packs.
    """

    memo: Memo
    barred: Container[tuple[int, type]] = frozenset()
    past: bool = True
    packs: Container[str] | None = None
    states: Container[str] | None = None
    recompute: Container[int] = EVERYWHERE

    def allows(self, group: int, e: Expression) -> bool:
        """True if the plan may compute a group by an expression."""
        if (group, type(e.op)) in self.barred or (not self.past and reads_the_past(e.op)):
            return False
        if self.packs is not None or e.pack == RECOMPUTE:
            pack = owed_to(self.memo, group, e)
            if self.packs is not None and pack not in self.packs:
                return False
            if pack == RECOMPUTE and group not in self.recompute:
                return False
        state = None if self.states is None else state_of(e.op)
        return state is None or self.states is None or state in self.states


def reads_the_past(op: Op) -> bool:
    """True for what only an incremental run may read: changes, states, the result, old snapshots."""
    return isinstance(op, Changes | StateScan | LookUp | ResultScan) or (isinstance(op, Scan) and op.at == OLD)
