"""Handling of the rows that a run has computed: it writes them, and applies the view's change to its content.

The jobs that apply the change are those of the runtime's `apply`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from tidemill.cost.costing import CostModel, CpuMs, Facts
from tidemill.cost.guesses import FILE_ROW_BYTES
from tidemill.memo.memo import Expression, Memo
from tidemill.plan.grouping import is_plain
from tidemill.plan.ops import Changes, Crossing, FinalChange, HeldScan, Join, Negate, Net, ResultScan, Sum, Union
from tidemill.plan.query import Query
from tidemill.search.choose.settle import Handling
from tidemill.search.contract.stored import FEW_MARKED, MOST_FOUND, MOST_PLACED_FILES, SMALL_RESULT_BYTES, Layout
from tidemill.search.runs.explanation import Job, Used
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

    It counts in the choice of what computes them. The choice does not know yet which rows leave.
    """
    types = {c.name: [kind for _, _, kind in c.scan.columns] for c in space.candidates}
    found: dict[int, Handling] = {
        group: partial(model.writing, types=types[name]) for group, name in followed.written.items()
    }
    if space.changed:
        found[space.change] = partial(_applied, content_of(query, space, layout), model, space.change in found)
    return found


def _applied(content: Content, model: CostModel, kept: bool, rows: float) -> CpuMs:
    """CPU milliseconds to write a change and to apply it; `kept`: it is also written to a state."""
    jobs = content.applying(rows * HALF, rows * HALF, model, placed=True)
    return CpuMs(model.writing(rows, content.types) * (2 if kept else 1) + sum(job.cost for job in jobs))


def leaving_share(group: int, used: Mapping[int, Used], memo: Memo, facts: Facts) -> float:
    """The fraction of a change's rows that leave, by the signs of what it is computed from.

    `used`: the expressions that compute groups.
    """

    found: dict[int, float] = {}

    def share(group: int) -> float:
        number = memo.find(group)
        if number not in found:
            about, known = memo.group(number).about, used.get(number)
            found[number] = HALF if about is None or about[1].kind.interval else 0.0
            if known is not None:
                found[number] = of(known.expression)
        return found[number]

    def of(e: Expression) -> float:
        match e.op:
            case Changes(source, _, start, end):
                inserts, deletes = facts.change_over(source, start, end) or (1.0, 1.0)
                return deletes / (inserts + deletes) if inserts + deletes else 0.0
            case Crossing() | FinalChange() | HeldScan():
                return HALF
            case Negate():
                return 1.0 - share(e.inputs[0])
            case Join("inner"):
                negative = 0.0
                for own in map(share, e.inputs):
                    negative = negative * (1.0 - own) + (1.0 - negative) * own
                return negative
            case Sum() | Union() | Net():
                return _weighted([(share(i), _rows(used.get(memo.find(i)))) for i in e.inputs])
            case _:
                return share(e.inputs[0]) if e.inputs else 0.0

    return share(group)


def _rows(known: Used | None) -> float:
    return 1.0 if known is None else float(known.rows)


def _weighted(shares: Sequence[tuple[float, float]]) -> float:
    total = sum(rows for _, rows in shares)
    return sum(share * rows for share, rows in shares) / total if total else 0.0
