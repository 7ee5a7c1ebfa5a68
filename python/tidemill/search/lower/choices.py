"""Answers the questions of lowering about the plan: the choice for a group, its rows, and the step that wrote it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from tidemill.cost.costing import is_broadcast, row_bytes
from tidemill.cost.guesses import PART_ROW_BYTES
from tidemill.memo.memo import Expression, Memo
from tidemill.plan.ops import KeyFilter, Keys, LookUp
from tidemill.search.choose.chosen import Chosen
from tidemill.search.lower.lowered import Staged


class NotComputableError(Exception):
    """No allowed expression computes a group; the message names it."""


@dataclass(frozen=True, slots=True)
class Choices:
    """The plan that is lowered.

    `chosen`: the choices of an extractor. `staged`: groups that earlier steps wrote. `base_rows`: rows of each relation
    before filters, for join orders. `segments`: rows of a state's pieces after the first, by its name.
    """

    memo: Memo
    chosen: Chosen
    staged: Mapping[int, Staged]
    base_rows: Mapping[int, float]
    segments: Callable[[str], float]

    @property
    def now(self) -> int:
        """The moment of the run."""
        return self.chosen.runs[0].moment

    def written(self, group: int) -> Staged | None:
        """The rows of a group as an earlier step wrote them; None if no step did."""
        return self.staged.get(self.memo.find(group))

    def expression(self, group: int) -> Expression | None:
        """The expression that computes a group; None if an earlier step wrote it, or if nothing computes it."""
        return None if self.memo.find(group) in self.staged else self._chosen(group)

    def rows(self, group: int) -> float:
        """Estimated rows of a group."""
        return self.chosen.rows(group)

    def is_small(self, group: int) -> bool:
        """True if a group may be broadcast."""
        return is_broadcast(self.rows(group), self.row_bytes(group))

    def row_bytes(self, group: int) -> float:
        """Bytes of a row of a group, as `settle` tells a cost model."""
        about, e = self.memo.group(group).about, self._chosen(group)
        if about is not None:
            return self._of_columns(self.memo.tvrs[about[0]].props.columns)
        if e is not None and isinstance(e.op, Keys):
            return self._of_columns(column for column, _ in e.op.columns[0])
        return PART_ROW_BYTES

    def _of_columns(self, columns: Iterable[int]) -> float:
        return row_bytes(self.memo.columns.type(column) for column in columns)

    def is_change(self, group: int) -> bool:
        """True if a group is a form over an interval."""
        about = self.memo.group(group).about
        return about is not None and about[1].kind.interval

    def is_picked(self, group: int) -> bool:
        """True if a group's rows are those of some keys, and few; whether or not an earlier step wrote them."""
        e = self._chosen(group)
        return e is not None and isinstance(e.op, KeyFilter | LookUp) and self.is_small(group)

    def _chosen(self, group: int) -> Expression | None:
        choice = self.chosen.best(self.memo.find(group))
        return choice.expression if choice is not None else None

    def rows_before_filters(self, group: int) -> float:
        """Rows of a group's relation before filters."""
        e = self._chosen(group)
        of = e.inputs[0] if e is not None and isinstance(e.op, KeyFilter) else group
        about = self.memo.group(of).about
        return self.base_rows.get(about[0], 1.0) if about else self.rows(group)
