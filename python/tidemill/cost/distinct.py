"""Distinct values of columns, which Spark's tables do not report.

A view's first run counts those of the columns by which its query partitions and groups. Of the others, equated columns
have as many values as the smallest table among those that they are read from has rows: equalities are assumed to join
foreign keys with keys, and the other columns of that table to depend on its key. A column that the query groups by is
assumed to have few values until they are counted; other columns have a fixed fraction of the rows. Among r rows drawn
from n values, n (1 - e^(-r/n)) distinct ones are expected (Cardenas, CACM 1975).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import exp, inf, prod

from tidemill.cost.guesses import GROUPED_VALUES, VALUES_PER_ROW
from tidemill.memo.memo import Memo
from tidemill.plan.expr import Col
from tidemill.plan.ops import Aggregate, Filter, Join, Op, Project, Scan, Union
from tidemill.plan.tree import Tree


def met(values: float, rows: float) -> float:
    """Expected number of distinct values among `rows` draws from `values`.

    >>> round(met(100.0, 5.0)), round(met(100.0, 1000.0)), met(0.0, 5.0)
    (5, 100, 0.0)
    """
    if rows >= 40 * values:
        return values
    return rows if values > 1e6 * rows else values * (1.0 - exp(-rows / values))


class Distinct:
    """Estimates the distinct values of the columns of a memo's query.

    Args:
        memo: its relations say where columns come from, and which are equated.
        rows: rows of each relation that is a scan.
        measured: rows of aggregates by relation, as measured: the number of distinct values of their keys.
        counted: distinct values of fields that were counted, by source.
    """

    def __init__(
        self,
        memo: Memo,
        rows: Mapping[int, float],
        measured: Mapping[int, float],
        counted: Mapping[int, Mapping[str, float]],
    ) -> None:
        self._memo = memo
        self._rows = rows
        self._same: dict[int, int] = {}
        """Maps a column to an equated one, on the way to the representative of all columns equated with it."""
        self._scans: dict[int, frozenset[int]] = {}
        """Maps a representative to the scans that its columns are read by."""
        self._made: dict[int, tuple[frozenset[int], ...]] = {}
        """Maps a computed column to the columns that it is computed from, one set per branch of a union."""
        self._groups: dict[frozenset[int], float] = {}
        self._found: dict[frozenset[int], float] = {}
        for tvr in memo.tvrs:
            op, inputs = tvr.expressions[0]
            self._read(tvr.number, op, inputs)
        for tvr in memo.tvrs:
            self._read_again(tvr.expressions)
        self._grouped = frozenset(map(self._root, self._keys_below(memo.query.root)))
        for tvr in memo.tvrs:
            op, _ = tvr.expressions[0]
            if isinstance(op, Scan):
                self._count(op, counted.get(op.source, {}))
        for tvr in memo.tvrs:
            op, _ = tvr.expressions[0]
            if isinstance(op, Aggregate) and tvr.number in measured:
                keys = self._columns(e for _, e in op.keys)
                self._groups[frozenset(map(self._root, keys))] = measured[tvr.number]

    def number(self, columns: Iterable[int], rows: float = inf) -> float:
        """Expected number of distinct combinations of values of `columns` among `rows` rows."""
        roots = frozenset(map(self._root, columns))
        if roots not in self._found:
            self._found[roots] = inf  # for a column that is equated with one that it is computed from
            self._found[roots] = self._groups[roots] if roots in self._groups else self._at_most(roots)
        values = self._found[roots]
        if rows == inf:
            return values
        return rows * VALUES_PER_ROW if values == inf else met(values, rows)

    def equated(self, a: frozenset[int], b: frozenset[int]) -> float | None:
        """Distinct values of two equated columns; None if one side is several columns, or is read by no scan."""
        if len(a) != 1 or len(b) != 1:
            return None
        scans = self._scans.get(self._root(*a), frozenset())
        return self._smallest(scans)[1] if len(scans) > 1 else None

    def _count(self, scan: Scan, values: Mapping[str, float]) -> None:
        """Notes counted values. Of equated columns the smallest number holds: only values of all of them meet."""
        for column, field in scan.columns:
            if field in values:
                root = frozenset({self._root(column)})
                self._groups[root] = min(max(1.0, values[field]), self._groups.get(root, inf))

    def _at_most(self, roots: frozenset[int]) -> float:
        """Estimated distinct values, bounded by the counts of column sets that contain these columns."""
        return min([self._number(roots), *(n for grouped, n in self._groups.items() if roots <= grouped)])

    def _number(self, roots: frozenset[int]) -> float:
        values: dict[int, float] = {}  # distinct values of the columns of each scan together
        keyed = set()
        for root in roots:
            scans = self._scans.get(root, frozenset())
            if len(scans) > 1:
                scan, number = self._smallest(scans)
                values[scan] = number
                keyed.add(scan)
        others = 1.0
        for root in roots:
            scans = self._scans.get(root, frozenset())
            if len(scans) == 1 and not scans <= keyed:
                (scan,) = scans
                most = max(1.0, VALUES_PER_ROW * self._rows[scan])
                counted = self._groups.get(frozenset({root}))
                each = counted or (GROUPED_VALUES if root in self._grouped else most)
                values[scan] = min(max(most, counted or 0.0), values.get(scan, 1.0) * each)
            elif not scans and root in self._made:
                branches = {frozenset(map(self._root, columns)) for columns in self._made[root]}
                others *= max(1.0, sum(self._share(columns) for columns in branches))
            elif not scans:
                return inf
        return prod(values.values()) * others

    def _share(self, columns: frozenset[int]) -> float:
        """Distinct values of an expression over `columns`."""
        return min(GROUPED_VALUES, self.number(columns)) if columns else 1.0

    def _smallest(self, scans: frozenset[int]) -> tuple[int, float]:
        scan = min(scans, key=lambda s: (self._rows[s], s))
        return scan, max(1.0, self._rows[scan])

    def _read(self, number: int, op: Op, inputs: tuple[int, ...]) -> None:
        match op:
            case Scan(_, columns):
                self._scans.update({column: frozenset({number}) for column, _ in columns})
            case Project(columns):
                for column, expr in columns:
                    if isinstance(expr, Col):
                        self._unite(column, expr.id)
                    else:
                        self._made[column] = (self._memo.query.columns_of(expr),)
            case Aggregate(keys, calls):
                self._read(number, Project(keys), inputs)
                grouped = self._columns(e for _, e in keys)
                self._made.update({column: (grouped,) for column, _ in calls})
            case Union(columns, branches):
                self._made.update(
                    {column: tuple(frozenset({b[i]}) for b in branches) for i, column in enumerate(columns)}
                )
            case Join(condition=condition) | Filter(condition):
                for info in map(self._memo.query.info, condition):
                    if info is not None and info.equal is not None:
                        sides = [self._memo.query.columns_of(e) for e in (info.equal.left, info.equal.right)]
                        if all(len(side) == 1 for side in sides):
                            self._unite(*(column for side in sides for column in side))
            case _:
                pass

    def _read_again(self, ways: Sequence[tuple[Op, tuple[int, ...]]]) -> None:
        """Notes that a scan which takes its columns from another scan of the same source has the same values."""
        if not isinstance(ways[0][0], Scan):
            return
        for op, (other,) in ways[1:]:
            assert isinstance(op, Project)
            for column, expr in op.columns:
                if isinstance(expr, Col) and self._scans.get(expr.id) == frozenset({other}):
                    del self._scans[expr.id]
                    self._same[expr.id] = self._root(column)

    def _keys_below(self, tree: Tree) -> Iterator[int]:
        if isinstance(tree.op, Aggregate):
            yield from self._columns(e for _, e in tree.op.keys)
        for below in tree.inputs:
            yield from self._keys_below(below)

    def _columns(self, exprs: Iterable[object]) -> frozenset[int]:
        return frozenset().union(*(self._memo.query.columns_of(e) for e in exprs))  # type: ignore[arg-type]

    def _unite(self, a: int, b: int) -> None:
        a, b = self._root(a), self._root(b)
        if a == b:
            return
        self._same[a] = b
        self._scans[b] = self._scans.pop(a, frozenset()) | self._scans.get(b, frozenset())
        if a in self._made:
            self._made.setdefault(b, self._made.pop(a))

    def _root(self, column: int) -> int:
        while column in self._same:
            column = self._same[column]
        return column
