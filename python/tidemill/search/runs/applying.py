"""Handling of the rows that a run has computed: it writes them, and applies the view's change to its content.

The jobs that apply the change are those of the runtime's `apply`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from tidemill.cost.costing import CostModel, CpuMs
from tidemill.cost.guesses import FILE_ROW_BYTES
from tidemill.plan.grouping import is_plain
from tidemill.plan.ops import ResultScan
from tidemill.plan.query import Query
from tidemill.search.choose.settle import Handling
from tidemill.search.contract.stored import FEW_MARKED, MOST_FOUND, MOST_PLACED_FILES, SMALL_RESULT_BYTES, Layout
from tidemill.search.runs.explanation import Job
from tidemill.search.runs.inspect import view_keys
from tidemill.search.space.space import Followed, Space

LEAST_ROWS = 0.5
"""Estimated rows below which there are none."""
HALF = 0.5
"""Fraction of the rows of a change that leave, where nothing tells it: rows are replaced."""


@dataclass(frozen=True, slots=True)
class Content:
    """The content that a change is applied to.

    Attributes:
        rows: its number of rows.
        columns: types by name.
        layout: its files.
        keys: columns that are a key of the content before and after the change; None if it is a bag.
    """

    rows: float
    columns: Mapping[str, str]
    layout: Layout
    keys: Sequence[str] | None = None

    @staticmethod
    def of(rows: float, columns: Mapping[str, str], layout: Layout | None, keys: Sequence[str] | None) -> Content:
        """The content with a key that it had before (as `layout` tells) and has now; without layout, of one file."""
        if layout is None:
            return Content(rows, columns, Layout(1, rows * FILE_ROW_BYTES), keys)
        same = keys is not None and layout.keys is not None and set(keys) == set(layout.keys)
        return Content(rows, columns, layout, keys if same else None)

    @property
    def types(self) -> list[str]:
        """Types of all columns."""
        return [*self.columns.values()]

    @property
    def compared(self) -> list[str]:
        """Types of the columns by which rows that leave are found: those of a key of plain values, or all."""
        return [self.columns[name] for name in self.keys or ()] if self._keyed else self.types

    @property
    def _keyed(self) -> bool:
        return bool(self.keys) and all(is_plain(self.columns[name]) for name in self.keys or ())

    def applying(self, inserts: float, deletes: float, model: CostModel, *, placed: bool) -> Iterator[Job]:
        """The jobs that apply a change of so many rows; `placed`: its step tells where rows that leave are."""
        gone = min(deletes, self.rows)
        small = self.layout.bytes <= SMALL_RESULT_BYTES
        if gone >= LEAST_ROWS and (small or gone > MOST_FOUND):
            if not small:
                yield Job("find files with rows that leave", self.rows, model.searching(self.rows, self.compared, gone))
            rows, grouped = self.rows - gone + inserts, small and not self._keyed
            cost = model.rewriting(self.rows, rows, self.types, grouped=grouped)
            yield Job("write the content anew", rows, cost)
            return
        if gone >= LEAST_ROWS:
            if not placed or self.layout.files > MOST_PLACED_FILES:
                yield Job("find rows that leave", self.rows, model.searching(self.rows, self.compared, gone))
            if not self.layout.marks or FEW_MARKED * gone > self.rows:
                yield Job("cut rows that leave", self.rows, model.cutting(self.rows, self.types, gone))
        merged = self.rows * self.layout.merged / self.layout.bytes if self.layout.merged else 0.0
        if merged and inserts + gone >= LEAST_ROWS:
            cost = model.rewriting(merged, merged + inserts, self.types, grouped=False)
            yield Job("write rows that come, and small files anew", merged + inserts, cost)
        elif inserts >= LEAST_ROWS:
            yield Job("write rows that come", inserts, model.writing(inserts, self.types))


def content_of(query: Query, space: Space, layout: Layout | None) -> Content:
    """The view's content at a run; `layout`: its files, if they are known."""
    columns = {name: space.memo.columns.type(c) for c, name in query.output}
    return Content.of(space.facts.kept_rows(ResultScan(())), columns, layout, view_keys(query, space))


def handling(
    query: Query, space: Space, followed: Followed, layout: Layout | None, model: CostModel
) -> dict[int, Handling]:
    """By the group of the view's change and those written to states, what the run does with their rows.

    It counts in the choice of what computes them.
    """
    types = {c.name: [kind for _, _, kind in c.scan.columns] for c in space.candidates}
    found: dict[int, Handling] = {
        group: partial(model.writing, types=types[name]) for group, name in followed.written.items()
    }
    if space.changed:
        content, kept = content_of(query, space, layout), space.change in found
        found[space.change] = partial(_applied, content, model, leaving_share(space), kept)
    return found


def _applied(content: Content, model: CostModel, leaving: float, kept: bool, rows: float) -> CpuMs:
    """CPU milliseconds to write a change and to apply it; `leaving`: the fraction of its rows that leave, `kept`: it is
    also written to a state."""
    jobs = content.applying(rows * (1.0 - leaving), rows * leaving, model, placed=True)
    return CpuMs(model.writing(rows, content.types) * (2 if kept else 1) + sum(job.cost for job in jobs))


def leaving_share(space: Space) -> float:
    """The fraction of the signed rows of the view's change that leave."""
    change = space.facts.change(space.root, space.since.old, space.since.new)
    return HALF if change is None or not change.signed else (change.deletes + change.updates) / change.signed
