"""An extractor's choices as lowering reads them: from one place that is computed."""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.cost.costing import RowCount
from tidemill.memo.memo import Expression
from tidemill.search.choose.extract import Extractor, PlaceAtLevel
from tidemill.search.choose.planned_run import PlannedRun
from tidemill.search.choose.settle import Choice, Place


@dataclass(frozen=True, slots=True)
class Chosen:
    """An extractor's choices, as seen from one place that is computed."""

    extractor: Extractor
    place: Place

    @staticmethod
    def making(extractor: Extractor, group: int, run: int = 0) -> Chosen:
        """The choices by which a group is computed, even if its readers load it."""
        return Chosen(extractor, extractor.place((group, run)))

    @property
    def runs(self) -> tuple[PlannedRun, ...]:
        """The runs planned."""
        return self.extractor.runs

    def _node(self, group: int, run: int) -> PlaceAtLevel:
        own = self.extractor.entry(self.place)
        if (group, run) == self.place:
            return own
        return (self.extractor.inputs_of(own), (group, run))

    def best(self, group: int, run: int = 0) -> Choice | None:
        """The choice for a group at a run; None if there is none."""
        return self.extractor.chosen(self._node(self._found(group), run))

    def rows(self, group: int, run: int = 0) -> RowCount:
        """Estimated rows of a group; 0 if nothing computes it."""
        best = self.best(group, run)
        return best.rows if best else RowCount(0.0)

    def weighed(self, group: int, e: Expression, run: int = 0) -> Choice | None:
        """The choice for a group by this expression, chosen or not; None if it is not allowed or lacks an input."""
        return self.extractor.weighed(self._node(self._found(group), run), e)

    def _found(self, group: int) -> int:
        return self.extractor.place((group, 0))[0]
