"""What is in Python tables at each moment since a view's content, and what led from one to the next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from typing import TypeAlias

from tests.model.scalars import Row
from tests.model.semantics import Record
from tidemill.plan.change import SourceChange

Tables: TypeAlias = Mapping[int, Sequence[Record]]
Changes: TypeAlias = Mapping[int, Sequence[tuple[Record, int]]]
STATISTICS = 1e6
"""Rows that every source claims to have, so that plans from the change look cheap."""


class Moments:
    """The moments of a view's tables; the first is that of its content.

    Attributes:
        line: the tables at each moment.
        feeds: what led from each moment to the next.
        standing: the moments at which states stand that runs without output have brought forward.
        held_until: the moment up to which the view's change is held back.
    """

    def __init__(self, tables: Tables) -> None:
        self.line: list[Tables] = [tables]
        self.feeds: list[Changes] = []
        self.standing: dict[str, int] = {}
        self.held_until = 0

    @property
    def tables(self) -> Tables:
        """As they are now."""
        return self.line[-1]

    @property
    def changed(self) -> set[int]:
        return {n for feed in self.feeds for n in feed}

    def after(self, changes: Changes) -> Tables:
        """What the tables hold once these changes came."""
        after = {n: list(rows) for n, rows in self.tables.items()}
        for number, feed in changes.items():
            net: Counter[Row] = Counter()
            for record, n in feed:
                net[tuple(record.items())] += n
            bag = Counter(tuple(r.items()) for r in self.tables[number])
            bag.update(net)
            assert min(bag.values(), default=0) >= 0, "the feed deletes what is not there"
            after[number] = [dict(r) for r in bag.elements()]
        return after

    def change(self, changes: Changes) -> None:
        """A new moment. Those between the first and the last at which nothing stands are none any more."""
        self.line.append(self.after(changes))
        self.feeds.append(changes)
        for moment in reversed(range(1, len(self.line) - 1)):
            if moment in {*self.standing.values(), self.held_until}:
                continue
            first, second = self.feeds[moment - 1], self.feeds[moment]
            self.feeds[moment - 1 : moment + 1] = [
                {n: [*first.get(n, ()), *second.get(n, ())] for n in first.keys() | second.keys()}
            ]
            del self.line[moment]
            self.standing = {n: t - (t > moment) for n, t in self.standing.items()}
            self.held_until -= self.held_until > moment

    def begin_anew(self) -> None:
        """What is there now is the first moment from here on."""
        self.line, self.feeds = [self.tables], []
        self.standing, self.held_until = {}, 0

    def sources(
        self, feeds: Sequence[Changes] | None = None, *, readable: bool = True, telling: Collection[int] | None = None
    ) -> dict[int, SourceChange]:
        """What happened to the sources, over all moments unless told otherwise.

        `readable`: whether what they held can be read; `telling`: those that tell their changes, all unless given.
        """
        feeds = self.feeds if feeds is None else feeds

        def source(n: int) -> SourceChange:
            feed = [record for changes in feeds for record in changes.get(n, ())]
            return SourceChange(
                changed=any(n in changes for changes in feeds),
                old_readable=readable,
                rows=STATISTICS,
                inserts=float(sum(c > 0 for _, c in feed)),
                deletes=float(sum(c < 0 for _, c in feed)),
                direct=self._is_direct(n, [f for f in feeds if n in f]),
                reason=None if telling is None or n in telling else "FILES_REWRITTEN",
            )

        return {n: source(n) for n in self.tables}

    def _is_direct(self, source: int, feeds: Sequence[Changes]) -> bool:
        """Whether one feed says it all, and deletes only what was there before."""
        if len(feeds) != 1:
            return False
        moment = next((i for i, feed in enumerate(self.feeds) if feed is feeds[0]), -1)
        there, deleted = Counter(tuple(r.items()) for r in self.line[moment][source]), Counter[Row]()
        for record, n in feeds[0][source]:
            deleted[tuple(record.items())] += max(0, -n)
        return deleted <= there

    def snapshots(self, *, readable: bool = True, clock: int | None = None) -> dict[tuple[int, int], Sequence[Record]]:
        """The rows of each source at each moment that can be read; what the `clock` was is always known."""
        now = max(1, len(self.feeds))
        found = {(n, now): rows for n, rows in self.tables.items()}
        past = list(enumerate(self.line[:-1])) or [(0, self.tables)]
        found |= {(n, t): rows for t, tables in past for n, rows in tables.items() if readable or n == clock}
        return found

    def told(self, telling: Collection[int] | None = None) -> dict[tuple[int, int, int], list[tuple[Record, int]]]:
        """What each of the telling sources tells of the time between two moments."""
        return {
            (n, start, end): [record for feed in self.feeds[start:end] for record in feed.get(n, ())]
            for n in self.tables
            if telling is None or n in telling
            for start, end in combinations(range(max(1, len(self.feeds)) + 1), 2)
        }
