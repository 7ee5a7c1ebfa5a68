"""The default cost model: the rows of `sizes`, and CPU milliseconds per row and operator.

Cost constants are milliseconds of executor CPU on one core. The shipped values are rounded from measurements of
`tidemill calibrate` with Spark 4.2 on the development machine; those of reading also from TPC-H at scale factor 1.
`tidemill calibrate` measures them on other machines too (docs/costs.md). Only their ratios matter for the choice of a
plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import assert_never

from tidemill.cost.costing import (
    FEW_ROWS,
    PAGE_ROWS,
    RESULT_PAGE_ROWS,
    Constant,
    CpuMs,
    Facts,
    OperatorWork,
    Read,
    RowCount,
    few_changed,
    is_broadcast,
)
from tidemill.memo.memo import Memo
from tidemill.plan.expr import Handle
from tidemill.plan.ops import (
    Aggregate,
    Answer,
    Changes,
    Combine,
    Crossing,
    Empty,
    Filter,
    Final,
    FinalChange,
    FromStart,
    Gather,
    HeldScan,
    Join,
    JoinChange,
    KeyFilter,
    Keys,
    Less,
    Limit,
    LookUp,
    Merge,
    Negate,
    Net,
    Op,
    Opaque,
    Pad,
    Partial,
    Project,
    Reach,
    ReachedWindow,
    ResultScan,
    RowWise,
    Scan,
    Sort,
    StateScan,
    Sum,
    Union,
    Unsign,
    Window,
)
from tidemill.plan.query import Query
from tidemill.tvr.form import FormKind

from . import sizes

CHANGE_FILES = {"delta": 6}
"""Number of snapshots whose opening (`source`) costs as much as opening a change, by kind of source; 1 for other kinds.
The change of a Delta table is in small files of several commits, which its log lists one by one."""
OFFSETS = frozenset({"lag", "lead"})
"""Window functions that read one row, however far from their own."""
SORT_PASSES = 2
"""Passes over a row (`row`) to keep the first rows of an order."""
MOVED = 0.4
"""The work to move an encoded value from a page that other rows leave, as a fraction of that to write it."""

USUAL = ("long", "integer", "decimal(12,2)", "double", "date", "string", "string")
"""Types of the columns of a row that is saved, where nobody knows them."""
PER_ROW = "ms/row"


def _constant(value: float, unit: str, doc: str, *, measured: bool = True) -> float:
    """A dataclass field for a constant: its shipped value, its unit, and what it is the cost of."""
    return field(default=value, metadata={"constant": Constant("", value, unit, doc, measured)})


@dataclass(frozen=True, slots=True)
class DefaultCostModel:
    """CPU milliseconds per row; see the module's docstring."""

    name: str = "default"
    scan: float = _constant(1.5e-5, PER_ROW, "a row of a source's snapshot is read, of one column")
    value: float = _constant(1e-5, PER_ROW, "one more column of it is read: a number, a date, a decimal")
    text: float = _constant(2.5e-5, PER_ROW, "one more column of it is read: a text, or anything nested")
    changes: float = _constant(1.2e-4, PER_ROW, "a row of a source's change is read, and its sign")
    row: float = _constant(2e-6, PER_ROW, "a row passes a filter, or values are computed of it")
    search: float = _constant(4e-4, PER_ROW, "a text of it is searched: LIKE and regular expressions")
    hash: float = _constant(2e-4, PER_ROW, "a row is put into a hash table: of groups, or of the small side of a join")
    cell: float = _constant(7e-5, PER_ROW, "one more column of a row that is grouped, and exchanged for that")
    frame: float = _constant(1e-5, PER_ROW, "a row is read in the frame of another one, of a window function")
    tree: float = _constant(4e-4, PER_ROW, "a value of a moving frame is computed from a tree over the partition")
    probe: float = _constant(1.5e-5, PER_ROW, "a row is looked up in a hash table that was broadcast")
    shuffle: float = _constant(2e-4, PER_ROW, "a row goes through an exchange")
    write: float = _constant(5e-5, PER_ROW, "a row is written, of one column")
    encode: float = _constant(5e-5, PER_ROW, "one more column of it is written: a number, a date, a decimal")
    encode_text: float = _constant(1e-4, PER_ROW, "one more column of it is written: a text, or anything nested")
    order: float = _constant(1e-3, PER_ROW, "a row of a state is written in the order of a column, on small pages")
    kept: float = _constant(1.4e-4, PER_ROW, "a row of a state, of the result or of what a run saved is read")
    file: float = _constant(1.0, "ms/file", "one more file of a state, or of a source's snapshot, is opened")
    step: float = _constant(30.0, "ms/step", "one more step, however little it reads and writes")
    job: float = _constant(10.0, "ms/job", "a step writes many rows, or one more job applies the view's change")
    exchange: float = _constant(8.0, "ms/exchange", "rows are exchanged once more within a step, however few")
    source: float = _constant(5.0, "ms/source", "one more snapshot of a source is opened")
    noise: float = _constant(100.0, "ms", "differences below the noise of a few jobs say nothing", measured=False)
    broadcast_bytes: float = _constant(
        10.0 * 2**20,
        "bytes",
        "up to so many the small side of a join is broadcast (`spark.sql.autoBroadcastJoinThreshold`)",
        measured=False,
    )

    @property
    def constants(self) -> tuple[Constant, ...]:
        """The constants, with their values in this model."""
        return tuple(
            replace(f.metadata["constant"], name=f.name, value=getattr(self, f.name))
            for f in fields(self)
            if "constant" in f.metadata
        )

    def calibrated(self, values: Mapping[str, float]) -> DefaultCostModel:
        """This model with other values for the constants named."""
        return replace(self, **values)  # type: ignore[arg-type]  # the names are those of constants

    def rows(self, op: Op, inputs: Sequence[RowCount], facts: Facts) -> RowCount:
        """Estimated number of output rows of one operator."""
        return sizes.rows(op, inputs, facts)

    def cost(self, op: Op, reads: Sequence[Read], output: RowCount, facts: Facts) -> CpuMs:
        """CPU milliseconds of one operator, without its inputs."""
        inputs = [read.rows for read in reads]
        total = float(sum(inputs))
        match op:
            case Scan(source, columns, time):
                known = facts.source_at(source, time)
                files = known.files or 1.0 if known is not None else 1.0
                opening = self.source + max(0.0, files - 1.0) * self.file
                return CpuMs(opening + output * (self.scan + self._values([c for c, _ in columns], facts.query)))
            case StateScan() | ResultScan() | HeldScan():
                return CpuMs(output * self.kept)
            case Changes(source, columns, start, end):
                files = CHANGE_FILES.get(facts.query.sources[source].kind, 1)
                telling = self._telling(facts.read_over(source, start, end), [c for c, _ in columns], facts.query)
                return CpuMs(files * self.source + telling + output * self.changes)
            case Join(kind="inner"):
                return CpuMs(self._joining(reads, output) + output * self.row)
            case JoinChange():
                return CpuMs(self._joining_at_once(op, reads, output) + output * self.row)
            case Join(kind):
                broadcast = kind != "full" and all(self._is_small(r.rows, r.row_bytes, r.form) for r in reads[1:])
                return CpuMs(self._matching(inputs, broadcast=broadcast) + output * self.row)
            case KeyFilter() | FromStart():
                return CpuMs(self._matching(inputs, broadcast=reads[1].is_broadcast) + output * self.row)
            case LookUp(scan):
                read = _looked_at(facts, scan, total)
                looking = self._matching([read, total], broadcast=reads[0].is_broadcast)
                return CpuMs(read * self.kept + looking + output * self.row)
            case Aggregate(keys, calls) | Partial(keys, calls):
                return self._grouping(total, output, len(keys) + len(calls))
            case Merge(partial, state):
                width = len(partial.keys) + len(partial.calls)
                if state:
                    return self._merging(total, facts.segments(state), output, len(partial.keys), width)
                return self._adding(total, reads, output, len(partial.keys), width)
            case Combine(partial) | Gather(partial) | Answer(partial):
                return self._grouping(total, output, len(partial.keys) + len(partial.calls))
            case Keys(columns):
                return self._grouping(total, output, len(columns[0]))
            case Net(columns, state) if state:
                return self._merging(total, facts.segments(state), output, len(columns), len(columns))
            case Net(columns):
                return self._adding(total, reads, max(output, total), len(columns), len(columns))
            case Window(columns=columns):
                return CpuMs(self._grouping(total, total, len(columns)) + self._framing(op, inputs[0], facts))
            case ReachedWindow(window):
                read = sizes.read_rows(op.bounds, inputs)
                finding = self._matching(inputs, broadcast=reads[1].is_broadcast)
                computing = self._grouping(read, read, len(window.columns))
                return CpuMs(finding + computing + self._framing(window, read, facts, reached=output))
            case Less(columns):
                return self._grouping(total, total, len(columns))
            case Reach(partition, order) if len(inputs) == 1:
                return self._grouping(inputs[0], output, len(partition) + len(order))
            case Reach(partition, order):
                finding = self._matching(inputs, broadcast=reads[1].is_broadcast)
                return CpuMs(finding + self._grouping(inputs[0], output, len(partition) + len(order)))
            case FinalChange():
                return CpuMs(self.exchange + inputs[0] * self.probe + inputs[1] * (self.hash + self.shuffle))
            case Filter(condition):
                searches = sum(1 for c in condition if _searches(facts.query, c))
                return CpuMs(total * (self.row + searches * self.search))
            case Crossing():
                return CpuMs(total * self.row + output * self.row)
            case Limit():
                return CpuMs(total * self.row * SORT_PASSES)
            case Project() | RowWise() | Union() | Sum() | Negate() | Unsign() | Final() | Pad():
                return CpuMs(total * self.row)
            case Empty() | Sort() | Opaque():
                return CpuMs(total * self.row)
            case _:
                assert_never(op)

    def _framing(self, op: Window, rows: float, facts: Facts, reached: float | None = None) -> float:
        """Milliseconds to compute functions over the frames of rows that move from row to row.

        Each value reads its frame, or little of a tree where the order of adding up does not matter (as
        `MovingFrames.scala` decides for the whole step). `reached`: only of so many of the rows, without a tree.
        """
        bounded = [(c, c.bounds) for c in op.calls if c.function not in OFFSETS]
        moving = [(c, (b.before, b.behind)) for c, b in bounded if b is not None and not (b.since or b.whole)]
        if not moving or not rows:
            return 0.0
        partition = rows / max(1.0, facts.groups(op.partition, rows)) if op.partition else rows
        reading = self.frame * sum(min(before + 1 + behind, partition) for _, (before, behind) in moving)
        in_trees = all(c.any_order for c, _ in moving)
        if reached is not None:
            return min(rows, reached) * reading
        return rows * (min(reading, self.tree * len(moving)) if in_trees else reading)

    def _telling(self, rows: float, columns: Sequence[int], query: Query) -> float:
        """Milliseconds to find a change from whole files: to read and compare all rows of files that came or went."""
        if not rows:
            return 0.0
        return rows * (self.scan + self._values(columns, query)) + self._grouping(rows, rows / 2, len(columns) + 2)

    def _values(self, columns: Sequence[int], query: Query) -> float:
        """Milliseconds per row to read its columns, without the first number."""
        return self._decoded([query.columns[c].type if c in query.columns else "long" for c in columns])

    def _decoded(self, types: Sequence[str]) -> float:
        """Milliseconds per row to read columns of these types, without the first number."""
        texts = _texts(types)
        return texts * self.text + max(0, len(types) - texts - 1) * self.value

    def _encoded(self, types: Sequence[str]) -> float:
        """Milliseconds per row to write columns of these types."""
        texts = _texts(types)
        return self.write + texts * self.encode_text + max(0, len(types) - texts - 1) * self.encode

    def _grouping(self, rows: float, groups: float, columns: int) -> CpuMs:
        """Milliseconds to bring rows together by key; each task combines its own rows first."""
        return CpuMs(
            self.exchange + rows * (self.hash + columns * self.cell) + groups * (self.shuffle + columns * self.cell)
        )

    def _merging(self, rows: float, changed: float, groups: float, keys: int, columns: int) -> CpuMs:
        """Milliseconds to add the changed rows to a base with one row per key; the other rows pass through."""
        if not few_changed(rows, changed, keys):
            return self._grouping(rows, groups, columns)
        return CpuMs(rows * (self.kept + 2 * columns * self.probe) + self._grouping(2 * changed, changed, columns))

    def _adding(self, rows: float, reads: Sequence[Read], groups: float, keys: int, columns: int) -> CpuMs:
        """Milliseconds to add other rows to those of a state while its pieces are merged."""
        changed = rows - max(read.from_base for read in reads)
        if changed == rows or not few_changed(rows, changed, keys):
            return self._grouping(rows, groups, columns)
        return self._grouping(2 * changed, changed, columns)

    def _is_small(self, rows: float, row_bytes: int, form: FormKind | None) -> bool:
        """True if the side of a join is broadcast: Spark goes by its bytes; of changes more are."""
        if form is not None and form.interval and is_broadcast(rows, row_bytes):
            return True
        return rows * row_bytes <= self.broadcast_bytes

    def _joining(self, reads: Sequence[Read], output: float) -> float:
        """Milliseconds of consecutive inner joins, the smallest inputs first; a small side is broadcast."""
        first, *others = sorted(reads, key=lambda read: read.rows)
        rows, row_bytes, cost = float(first.rows), first.row_bytes, 0.0
        for other in others:
            small, large = (rows, float(other.rows)) if rows <= other.rows else (float(other.rows), rows)
            side = (row_bytes, first.form) if rows <= other.rows else (other.row_bytes, other.form)
            cost += self.exchange
            if self._is_small(small, *side):
                cost += small * self.hash + large * self.probe
            else:
                cost += (small + large) * (self.shuffle + self.hash)
            rows = min(large, max(output, rows))
            row_bytes += other.row_bytes
        return cost

    def _joining_at_once(self, op: JoinChange, reads: Sequence[Read], output: float) -> float:
        """Milliseconds of a join of inputs that changed, each with its change.

        Where rows are picked by the changes, all others meet what is left. Without, all rows of the largest input meet
        the changed ones first.
        """
        sides = op.sides(reads)
        changes = [float(pair[1].rows) if mark is not None else 0.0 for mark, pair in sides]
        cost = 0.0
        for i in op.picked:
            others = [rows for j, rows in enumerate(changes) if j != i and rows]
            cost += sum(self.exchange + rows * self.hash + sides[i][1][0].rows * self.probe for rows in others)
        totals = [(mark, float(sum(read.rows for read in pair)), pair[0].row_bytes) for mark, pair in sides]
        led = max(range(len(totals)), key=lambda i: (i in op.picked, totals[i][1]))
        for mark, rows, row_bytes in totals[:led] + totals[led + 1 :]:
            through = totals[led][1] if mark is not None and not op.picked else min(totals[led][1], output)
            (small, width), (large, _) = sorted([(rows, row_bytes), (through, totals[led][2])])
            cost += self.exchange
            if mark is None or op.picked or is_broadcast(small, width):
                cost += small * self.hash + large * self.probe
            else:
                cost += (small + large) * (self.shuffle + self.hash)
        return cost

    def _matching(self, inputs: Sequence[float], *, broadcast: bool) -> float:
        """Milliseconds of a join that finds partners for its first input's rows; only the other side is broadcast."""
        of, among = inputs[0], sum(inputs[1:])
        if broadcast:
            return self.exchange + among * self.hash + of * self.probe
        return self.exchange + (of + among) * (self.shuffle + self.hash)

    def total(self, work: Sequence[OperatorWork]) -> CpuMs:
        """CPU milliseconds of all operators of a run."""
        return CpuMs(sum(w.cost * w.times for w in work))

    def counted(self, work: Sequence[OperatorWork]) -> Sequence[Read] | None:
        """None: the unit is time."""
        return None

    def known(self, memo: Memo, facts: Facts) -> Mapping[int, RowCount]:
        """Nothing."""
        return {}

    def reading(self, files: float, rows: float) -> CpuMs:
        """CPU milliseconds to read and merge `rows` rows of a state from `files` files."""
        return CpuMs(files * self.file + rows * (self.kept + self.hash))

    def save(self, rows: float) -> CpuMs:
        """CPU milliseconds to write `rows` rows in a step of their own."""
        return CpuMs(self.step + rows * self._encoded(USUAL))

    def writing(self, rows: float, types: Sequence[str]) -> CpuMs:
        """CPU milliseconds to write `rows` rows, with columns of these types; few need no job."""
        return CpuMs((self.job if rows > FEW_ROWS else 0.0) + rows * self._encoded(types))

    def searching(self, rows: float, types: Sequence[str], wanted: float) -> CpuMs:
        """CPU milliseconds of a job that finds `wanted` rows among `rows` rows by columns of these types."""
        reading = self.scan + self._decoded(types) + self.probe
        return CpuMs(self.job + self.exchange + rows * reading + wanted * self.hash)

    def cutting(self, rows: float, types: Sequence[str], gone: float) -> CpuMs:
        """CPU milliseconds of a job that copies files of `rows` rows without `gone` of them, each on another page."""
        return CpuMs(self.job + min(rows, gone * RESULT_PAGE_ROWS) * MOVED * self._encoded(types))

    def rewriting(self, rows: float, after: float, types: Sequence[str], *, grouped: bool) -> CpuMs:
        """CPU milliseconds of a job that reads `rows` rows, and writes those that stay or come."""
        reading = self.scan + self._decoded(types) + self.probe
        counting = self._grouping(rows, after, len(types)) if grouped else self.exchange
        return CpuMs(self.writing(after, types) + rows * reading + counting)

    def load(self, rows: float) -> CpuMs:
        """CPU milliseconds to read `rows` rows from one file."""
        return CpuMs(self.file + rows * self.kept)

    def merging(self, files: float, rows: float, merged: float) -> CpuMs:
        """CPU milliseconds of a step that reads `rows` rows of a state and writes `merged` rows."""
        return CpuMs(self.reading(files, rows) + self.save(merged))

    def ordering(self, rows: float) -> CpuMs:
        """Additional CPU milliseconds to write `rows` rows of a state in an order, on small pages."""
        return CpuMs(rows * self.order)


def _looked_at(facts: Facts, scan: StateScan, keys: float) -> float:
    """Rows that are read to look up `keys` keys in an ordered state; the segments have no order and are read whole."""
    rows = facts.kept_rows(scan)
    segments = min(rows, facts.segments(scan.name))
    return segments + min(rows - segments, keys * PAGE_ROWS)


def _texts(types: Sequence[str]) -> int:
    """The number of types whose values are texts, or nested."""
    return sum(1 for t in types if t.startswith(("string", "binary", "{")))


def _searches(query: Query, condition: object) -> bool:
    info = query.info(condition) if isinstance(condition, Handle) else None
    return info is not None and any(word in info.text.lower() for word in (" like ", "rlike(", "regexp"))


MODEL = DefaultCostModel()
